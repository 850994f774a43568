package experiment

import (
	"bufio"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/internal/fileio"
	"github.com/norn-scheduler/norn/state"
)

// Decision is how long a decision of a policy took.
type Decision struct {
	At      time.Duration // since the start of the run
	Took    time.Duration // on the machine that simulates
	Waiting int           // jobs that waited when it was over, as before: nothing of it was carried out
	Running int           // jobs that had devices
}

// timing is what the engine tells of decisions; nil where they are not timed.
func (o *Outcome) timing(wanted bool) func(time.Duration, *state.State) {
	if !wanted {
		return nil
	}
	return o.decided
}

// decided notes a decision.
func (o *Outcome) decided(took time.Duration, s *state.State) {
	d := Decision{At: s.Now, Took: took}
	for p := range cluster.PoolID(s.Cluster.Pools()) {
		d.Waiting += s.Waiting(p).Len()
		d.Running += s.Running(p).Len()
	}
	o.Decisions = append(o.Decisions, d)
}

// WriteDecisions writes the decisions of a run as CSV, in its folder.
func (f *Folder) WriteDecisions(name string, all []Decision) error {
	if err := os.MkdirAll(f.Of(name), 0o777); err != nil {
		return err
	}
	return fileio.CreateWhole(filepath.Join(f.Of(name), decisionsName), func(w io.Writer) error {
		out := bufio.NewWriter(w)
		out.WriteString("t_s,decision_us,waiting_jobs,running_jobs\n")
		var line []byte
		for _, d := range all {
			line = append(unit.AppendSeconds(line[:0], d.At), ',')
			line = append(strconv.AppendFloat(line, float64(d.Took)/1e3, 'f', -1, 64), ',')
			line = append(strconv.AppendInt(line, int64(d.Waiting), 10), ',')
			line = append(strconv.AppendInt(line, int64(d.Running), 10), '\n')
			out.Write(line)
		}
		return out.Flush()
	})
}
