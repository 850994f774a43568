package report

import (
	"bufio"
	"io"
	"slices"
	"strconv"
	"time"

	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/eventlog"
	"github.com/norn-scheduler/norn/internal/grid"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/state"
)

// Kinded is the figures of the jobs of one kind (job.Kind). Times without devices count for all
// jobs that ever had any, those of services included.
type Kinded struct {
	Kind     string   `json:"kind"`
	Jobs     int      `json:"jobs"`
	Started  int      `json:"started"`
	JCT      Stats    `json:"jct_s"`  // of jobs that ended and are no services that never stop
	Wait     Stats    `json:"wait_s"` // of jobs that started
	GPUHours float64  `json:"gpu_hours"`
	Work     float64  `json:"work_gpu_hours"`    // progress that counts in the end, in the reference configuration, times the GPUs asked for
	Latency  *Latency `json:"latency,omitempty"` // nil: no job has a target
}

// Latency is how services kept their targets (job.Hints.Latency).
type Latency struct {
	Services int     `json:"services"`     // that have a target
	Hours    float64 `json:"hours"`        // from submission to the end, of all of them
	Kept     float64 `json:"kept_share"`   // of that time: within the target
	Waited   float64 `json:"waited_share"` // of that time: without devices
	Worst    float64 `json:"worst_share"`  // the least part of its time that one service was within its target
}

// latencies follows whether services are within their targets.
type latencies map[job.ID]*latency

// latency is one service.
type latency struct {
	since  time.Duration // up to which kept is counted
	within bool          // from then on, or from ready
	ready  time.Duration
	kept   time.Duration
}

// event takes in an event that the state has folded in.
func (l latencies) event(ev *eventlog.Event, s *state.State) {
	if ev.Job < 0 || !s.Known(ev.Job) {
		return
	}
	r := s.Record(ev.Job)
	if r.Job.Hints == nil || r.Job.Hints.Latency <= 0 {
		return
	}
	one := l[ev.Job]
	if one == nil {
		one = &latency{since: s.Now}
		l[ev.Job] = one
	}
	one.upTo(s.Now)
	one.within, one.ready = r.Phase == job.Running && r.Speed*r.Job.Hints.Latency >= 1-1e-9, r.Ready
}

func (l *latency) upTo(now time.Duration) {
	if l.within {
		l.kept += max(0, now-max(l.since, l.ready))
	}
	l.since = max(l.since, now)
}

// copy is what is known now.
func (l latencies) copy() latencies {
	out := make(latencies, len(l))
	for id, one := range l {
		so := *one
		out[id] = &so
	}
	return out
}

// share is the part of its time that a service was within its target; known is false for a job
// without one, or without any time.
func (l latencies) share(r *job.Record, now time.Duration) (kept, life time.Duration, known bool) {
	one := l[r.Job.ID]
	if r.Phase.Over() {
		now = r.End
	}
	if life = now - r.Job.Submit; one == nil || life <= 0 {
		return 0, 0, false
	}
	so := *one
	so.upTo(now)
	return so.kept, life, true
}

// kinded counts jobs by kind.
type kinded struct {
	of        [5]Kinded
	jct, wait [5][]time.Duration
	kept      [5]time.Duration // within targets
	waited    [5]time.Duration // of services with targets
	life      [5]time.Duration // of those
}

// job counts one job.
func (n *kinded) job(r *job.Record, gpuSeconds float64, s *state.State, l latencies) {
	now, k := s.Now, int(r.Job.Kind)
	of := &n.of[k]
	of.Jobs++
	of.GPUHours += gpuSeconds / 3600
	of.Work += r.ProgressAt(now).Hours() * float64(s.Class(r.Class).Amount.GPU) / 1000
	if r.FirstStart >= 0 {
		of.Started++
		n.wait[k] = append(n.wait[k], r.WaitAt(now))
		if r.Phase.Over() && !endless(r.Job) {
			n.jct[k] = append(n.jct[k], r.End-r.Job.Submit)
		}
	}
	kept, life, known := l.share(r, now)
	if !known {
		return
	}
	if of.Latency == nil {
		of.Latency = &Latency{Worst: 1}
	}
	of.Latency.Services++
	of.Latency.Worst = min(of.Latency.Worst, kept.Seconds()/life.Seconds())
	n.kept[k] += kept
	n.life[k] += life
	n.waited[k] += r.WaitAt(now)
}

// result is the figures by kind; none where all jobs are of one kind and none has a target.
func (n *kinded) result() (out []Kinded) {
	targets := false
	for k, of := range n.of {
		if of.Jobs == 0 {
			continue
		}
		of.Kind, of.JCT, of.Wait = job.Kind(k).String(), describe(n.jct[k]), describe(n.wait[k])
		if l := of.Latency; l != nil {
			targets = true
			l.Hours, l.Kept, l.Waited = n.life[k].Hours(), n.kept[k].Seconds()/n.life[k].Seconds(), n.waited[k].Seconds()/n.life[k].Seconds()
		}
		out = append(out, of)
	}
	if len(out) < 2 && !targets {
		return nil
	}
	return out
}

// kindRow is a kind in a run as a reader sees it.
type kindRow struct{ Run, Kind, Jobs, JCT, P99, Wait, WaitP99, Hours, Work, Kept, Waited, Worst string }

// kindRows are the kinds of all runs, kind by kind, so that runs can be compared.
func kindRows(runs []Named) (out []kindRow) {
	for k := range job.Graph + 1 {
		for _, run := range runs {
			at := slices.IndexFunc(run.Result.Kinds, func(of Kinded) bool { return of.Kind == k.String() })
			if at < 0 || run.Result.Told {
				continue
			}
			of := &run.Result.Kinds[at]
			row := kindRow{Run: run.Name, Kind: of.Kind, Jobs: strconv.Itoa(of.Jobs), Hours: brief(of.GPUHours), Work: brief(of.Work)}
			if of.JCT.N > 0 {
				row.JCT, row.P99 = unit.Human(of.JCT.Mean), unit.Human(of.JCT.P99)
			}
			if of.Wait.N > 0 {
				row.Wait, row.WaitP99 = unit.Human(of.Wait.Mean), unit.Human(of.Wait.P99)
			}
			if l := of.Latency; l != nil {
				row.Kept, row.Waited, row.Worst = percent(l.Kept), percent(l.Waited), percent(l.Worst)
			}
			out = append(out, row)
		}
	}
	return out
}

// shortKinds has the names of runs as the page shows them.
func shortKinds(rows []kindRow) []kindRow {
	for i := range rows {
		rows[i].Run = short(rows[i].Run)
	}
	return rows
}

// WriteKinds writes the figures by kind for a terminal; nothing where no run has several kinds.
func WriteKinds(w io.Writer, runs []Named, width int) error {
	rows := kindRows(runs)
	if len(rows) == 0 {
		return nil
	}
	right := func(title string, rank int) grid.Column {
		return grid.Column{Title: title, Right: true, Rank: rank, Bare: true}
	}
	t := grid.Table{Cols: []grid.Column{
		{Title: "kind"}, {Title: "policy", Least: minName}, right("jobs", 1), right("mean JCT", 0), right("JCT p99", 3), right("mean wait", 0), right("wait p99", 4),
		right("GPU hours", 2), right("work done", 0), right("within target", 0), right("waiting", 5), right("worst service", 6),
	}}
	for _, r := range rows {
		t.Add(r.Kind, r.Run, r.Jobs, r.JCT, r.P99, r.Wait, r.WaitP99, r.Hours, r.Work, r.Kept, r.Waited, r.Worst)
	}
	out := bufio.NewWriter(w)
	out.WriteByte('\n')
	if err := t.Write(out, width); err != nil {
		return err
	}
	return out.Flush()
}
