package local

import (
	"fmt"
	"time"

	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
)

func human(d time.Duration) string { return unit.Human(d) }

// stopText tells what a preemption of a job would do, and what it would cost
// now.
func (d *Daemon) stopText(l *entry, r *job.Record) string {
	done := r.ProgressAt(max(d.Loop.Now(), d.State().Now))
	grace := human(l.Spec.Stop.Grace.Duration())
	switch r.Job.Stop {
	case job.Checkpoint:
		how := "is told by SIG" + l.Spec.Stop.Signal
		switch {
		case l.Spec.Stop.CRIU:
			how = "is saved by CRIU"
		case len(l.Spec.Stop.Command) > 0:
			how = "is told by its own command"
		}
		text := fmt.Sprintf("checkpoint: it %s, has %s to save its state, and goes on from there later", how, grace)
		if mean := d.Costs().Base.Checkpoint.Round(time.Millisecond); mean > 0 {
			text += fmt.Sprintf("; checkpoints have taken %s on average", human(mean))
		}
		return text
	case job.Freeze:
		return "freeze: it is stopped in memory and goes on where it was, on the same devices; nothing is lost"
	case job.Restart:
		return fmt.Sprintf("restart: it is ended and begins anew; now that would cost %s of work", human(done.Round(time.Second)))
	case job.LastSave:
		return fmt.Sprintf("last-save: it is ended, and goes on from the checkpoint that it last reported; now that would cost %s of work", human((done - min(done, l.savedProgress())).Round(time.Second)))
	}
	return "never: it is not preempted"
}
