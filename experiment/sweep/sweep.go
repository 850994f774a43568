// Package sweep runs many simulations and says what their figures are worth: policies
// and their parameters, times seeds, loads, traces, clusters, and any other flag of norn
// sim that is given several values. It is norn sweep as a library.
//
// Nouns:
//   - A Plan is what is varied. Read reads one from YAML.
//   - A World is all of a simulation but its policy: one value of everything that is varied,
//     and a seed, from which everything random in it is drawn.
//   - A Lab opens worlds. The command has one that takes the flags of norn sim.
//   - A Run is a world under a policy, with its figures, which are those of report.Measures.
//   - A Store keeps runs in a folder, each under a key of all that it was made from.
//   - A Group is the runs that differ in seed and policy alone. Its policies are compared
//     over the seeds.
//
// Statistics: a figure of a policy is told as its mean over the seeds, with the interval of
// Student's t around it. Policies had the same seeds, so the same jobs, and failures and
// errors that were drawn alike. They are compared seed by seed, by a paired t-test and by
// Wilcoxon's signed-rank test.
//
// Times are in seconds and shares are parts of one, as in package report.
package sweep

import (
	"context"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/norn-scheduler/norn/eventlog"
	"github.com/norn-scheduler/norn/experiment"
	"github.com/norn-scheduler/norn/trace"
)

// Setting is a flag, or what else is varied, and a value of it as a user writes it.
type Setting = eventlog.Setting

// Trace is a trace, or how one is made.
type Trace struct {
	Name   string        // by which results call it
	File   string        // as experiment.OpenTrace takes it; empty: see Like
	Like   []Setting     // flags of norn trace generate, by which each seed has a trace of its own; nil, and no File: the built-in trace
	Window time.Duration // each seed has a stretch of the trace that is so long; 0: the whole trace
}

// Axis is something that is varied, and its values, in order.
type Axis struct {
	Name   string
	Values []string
}

// The axes that are columns of all results.
const (
	AxisCluster = "cluster"
	AxisLoad    = "load"
)

// Plan is what is varied. Worlds are all combinations of trace, values of axes, and seed.
type Plan struct {
	Traces   []Trace  // nil: the built-in one
	Axes     []Axis   // each with one value or more
	Seeds    []uint64 // one or more
	Policies []experiment.Choice
	Baseline int // with which the others are compared, among Policies
}

// World is all of a simulation but its policy.
type World struct {
	Trace    Trace
	Settings []Setting // one for each axis
	Seed     uint64
}

// Value is that of an axis; empty where there is no such axis.
func (w *World) Value(axis string) string {
	for _, s := range w.Settings {
		if s.Name == axis {
			return s.Value
		}
	}
	return ""
}

// Worlds are all worlds of the plan: those that differ in the seed alone come one after
// the other.
func (p *Plan) Worlds() []*World {
	traces := p.Traces
	if len(traces) == 0 {
		traces = []Trace{{Name: "built-in sample"}}
	}
	var out []*World
	for _, t := range traces {
		for _, settings := range cross(p.Axes) {
			for _, seed := range p.Seeds {
				out = append(out, &World{t, settings, seed})
			}
		}
	}
	return out
}

// cross is all combinations of values; the last axis changes fastest.
func cross(axes []Axis) [][]Setting {
	out := [][]Setting{nil}
	for _, a := range axes {
		var next [][]Setting
		for _, before := range out {
			for _, v := range a.Values {
				next = append(next, append(slices.Clip(before), Setting{Name: a.Name, Value: v}))
			}
		}
		out = next
	}
	return out
}

// Varied are the names of the axes with several values, but for the cluster and the load.
func (p *Plan) Varied() []string {
	var out []string
	for _, a := range p.Axes {
		if len(a.Values) > 1 && a.Name != AxisCluster && a.Name != AxisLoad {
			out = append(out, a.Name)
		}
	}
	return out
}

// Identity is what a world is, told by content.
type Identity struct {
	Cluster string          // on which it is, where the plan names none
	Made    json.RawMessage // all that its figures depend on, and the build of the program
}

// Lab opens worlds. It is asked for several at once.
type Lab interface {
	// Identity tells what a world is made from. Errors are for the user.
	Identity(*World) (Identity, error)
	// Open makes the experiment of a world, and opens its trace.
	Open(context.Context, *World) (*Opened, error)
}

// Opened is a world that is open.
type Opened struct {
	Experiment *experiment.Experiment
	Jobs       trace.Source    // it is closed, where it is an io.Closer, when it has been read
	Remarks    func() []string // on the trace, when it has been read; nil: none
}

// Run is a world under a policy.
type Run struct {
	World   *World
	Cluster string
	Choice  experiment.Choice
	Figures map[string]float64 // by report.Measure.Field; those that are not known are missing
	Seconds float64            // that the simulation took
	Kept    bool               // it comes from the Store
	Remarks []string           // what a reader of the figures has to know of the policy; see experiment.Outcome
	Notes   []string           // the same of the world: what was made of its trace
}

// load is that of the run, for the column of it: 1 where it is as in the trace.
func (r *Run) load() float64 { return loadOf(r.World.Value(AxisLoad)) }

func loadOf(text string) float64 {
	v, err := strconv.ParseFloat(text, 64)
	if err != nil || v == 0 { // the lab accepted it, or there is no such axis
		return 1
	}
	return v
}

// params are the settings of its policy.
func (r *Run) params() string {
	parts := make([]string, len(r.Choice.Settings))
	for i, s := range r.Choice.Settings {
		parts[i] = s.String()
	}
	return strings.Join(parts, ",")
}

func seedText(s uint64) string { return strconv.FormatUint(s, 10) }
