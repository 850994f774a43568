package experiment

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/eventlog"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/policy/need"
	"github.com/norn-scheduler/norn/state"
)

// rests notes in the result what it rests on: where the policy had run times from, and
// what it lives on that the run does not have. truth is how jobs that share a device
// really disturb each other.
func (o *Outcome) rests(x *Experiment, truth perf.Sharing) {
	o.facts = func() need.Set {
		return need.Look(o.State, need.Beliefs{Speeds: x.speeds(), Sharing: truth, Variability: cmp.Or(x.toldVariability(), x.Variability), Sockets: x.Sockets})
	}
	if len(o.needs) == 0 {
		return
	}
	if o.needs.Has(need.RunTimes) {
		o.Result.Estimates = x.Estimate.String()
	}
	if o.learns {
		o.Result.Estimates = LearntBeliefs.String()
	}
	o.Result.ToldBeliefs = o.told
	o.lacks = o.needs.Lacks(o.facts())
	for _, l := range o.lacks {
		o.Result.Lacks = append(o.Result.Lacks, l.String())
	}
}

// Lacks lists what the policy lives on and the run does not have.
func (o *Outcome) Lacks() []need.Lack { return o.lacks }

// freely counts how often a policy preempted and resized jobs, in a run in which that costs
// nothing.
type freely struct{ preempted, resized int }

// Event implements engine.Sink.
func (f *freely) Event(ev *eventlog.Event, _ *state.State) {
	switch ev.Kind {
	case eventlog.Preempt:
		f.preempted++
	case eventlog.Resize:
		f.resized++
	}
}

// remark says what was free; it is empty where the policy did nothing of the kind.
func (f *freely) remark() string {
	if f == nil {
		return ""
	}
	var parts []string
	for _, did := range []struct {
		times int
		what  string
	}{{f.preempted, "preempted"}, {f.resized, "resized"}} {
		if did.times > 0 {
			parts = append(parts, did.what+" jobs "+unit.Count(did.times, "time"))
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return fmt.Sprintf("%s at no cost (--cost says what transitions take)", strings.Join(parts, ", "))
}
