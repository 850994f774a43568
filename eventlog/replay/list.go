package replay

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/eventlog"
	"github.com/norn-scheduler/norn/job"
)

// List is the jobs of a log, those that waited longest first.
type List struct {
	Jobs []Brief
	Torn bool // the log breaks off
	Gaps int  // logs that break off before another one goes on
}

// Brief is one job in a List. Times are durations since the start of the run.
type Brief struct {
	Job         string // its key
	ID          job.ID
	Tenant      string
	GPUs        int
	Submit      time.Duration
	Wait        time.Duration // without devices, up to its end or that of the log
	Run         time.Duration // with devices
	Preemptions int
	State       string
}

// Jobs folds a log and lists its jobs. A log that breaks off is listed as far as
// it goes.
func Jobs(r *eventlog.Reader) (*List, error) {
	s, parts, err := FoldParts(r)
	l := &List{Torn: errors.Is(err, eventlog.ErrTorn)}
	if err != nil && !l.Torn {
		return nil, err
	}
	for i := range parts {
		if parts[i].Torn != nil {
			l.Gaps++
		}
	}
	for id := range job.ID(s.Jobs()) {
		r := s.Record(id)
		if r.Past {
			continue
		}
		end := s.Now
		if r.Phase.Over() {
			end = r.End
		}
		l.Jobs = append(l.Jobs, Brief{
			Job: r.Job.Key, ID: id, Tenant: r.Job.Tenant, GPUs: r.Job.Demand.GPUs(), Submit: r.Job.Submit,
			Wait: r.WaitAt(end), Run: r.AllocatedAt(end), Preemptions: int(r.Preemptions), State: r.Phase.String(),
		})
	}
	slices.SortStableFunc(l.Jobs, func(a, b Brief) int { return cmp.Compare(b.Wait, a.Wait) })
	return l, nil
}

// Write lists the first so many jobs for a reader; all of them for 0.
func (l *List) Write(w io.Writer, most int) error {
	if most <= 0 || most > len(l.Jobs) {
		most = len(l.Jobs)
	}
	t := tabwriter.NewWriter(w, 0, 0, 3, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "JOB\tTENANT\tGPUS\tSUBMITTED\tWAITED\tRAN\tPREEMPTED\tSTATE\t")
	for _, b := range l.Jobs[:most] {
		tenant := b.Tenant
		if tenant == "" {
			tenant = "-"
		}
		fmt.Fprintf(t, "%s\t%s\t%d\t%s\t%s\t%s\t%d\t%s\t\n", b.Job, tenant, b.GPUs, unit.Human(b.Submit), unit.Human(b.Wait), unit.Human(b.Run), b.Preemptions, b.State)
	}
	return t.Flush()
}
