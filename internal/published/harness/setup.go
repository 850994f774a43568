package harness

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/engine"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/sched"
	"github.com/norn-scheduler/norn/sim"
	"github.com/norn-scheduler/norn/state"
	"github.com/norn-scheduler/norn/trace"
)

// MaxSeconds bounds every time that is read from a file, about 95 years, so
// that no sum of times of a run can overflow.
const MaxSeconds = 3_000_000_000

// Jobs are the jobs of a trace. Submit and Truth.Work are the simulator's.
type Jobs []trace.Entry

// Sort puts the jobs in order of submission, ties in the order of the file, and
// numbers them. It returns the place in the file of each.
func (jobs Jobs) Sort() (lines []int32) {
	lines = make([]int32, len(jobs))
	for i := range jobs {
		jobs[i].Job.ID = job.ID(i)
	}
	bySubmit := func(a, b trace.Entry) int { return cmp.Compare(a.Job.Submit, b.Job.Submit) }
	if !slices.IsSortedFunc(jobs, bySubmit) {
		slices.SortStableFunc(jobs, bySubmit)
	}
	for i := range jobs {
		lines[i] = int32(jobs[i].Job.ID)
		jobs[i].Job.ID = job.ID(i)
	}
	return lines
}

// Source hands out the jobs, which must be sorted.
func (jobs Jobs) Source() trace.Source { return trace.FromMemory(jobs) }

// World is a simulated world, which must be shown the state of the run before it
// begins.
type World interface {
	engine.World
	Attach(*state.State) error
}

// Setup is a run under the conditions of a published simulator.
type Setup struct {
	Cluster *cluster.Cluster
	Policy  sched.Policy
	World   sim.Config
	// Around wraps the simulated world, for simulators in which a transition does
	// what no cost model can tell; nil: not wrapped.
	Around func(*sim.Sim) World
	Sinks  []engine.Sink
}

// Run carries the run out and returns what has become of the jobs. The policy
// is shown true run times.
func (s *Setup) Run(ctx context.Context) (*state.State, error) {
	simulated := sim.New(s.World)
	var world World = simulated
	if s.Around != nil {
		world = s.Around(simulated)
	}
	e := engine.New(engine.Config{
		Cluster: s.Cluster, Policy: s.Policy, PolicyName: fmt.Sprintf("%T", s.Policy),
		Estimator: simulated.Oracle(), Costs: &s.World.Costs, Sinks: s.Sinks,
	}, world)
	if err := world.Attach(e.State()); err != nil {
		return nil, err
	}
	if err := e.Run(ctx); err != nil {
		return nil, err
	}
	return e.State(), nil
}

// EndlessIfZero is the world of simulators in which a job of no duration never
// ends: they look for jobs that end now before they start jobs, and never look
// at this moment again. Every other job runs at speed 1.
type EndlessIfZero struct {
	// Jobs are all jobs of the run, by number.
	Jobs Jobs
}

// Speed implements perf.Model.
func (m EndlessIfZero) Speed(j *job.Job, _ *cluster.Cluster, _ *cluster.Alloc) float64 {
	if m.Jobs[j.ID].Truth.Work == 0 {
		return 0
	}
	return 1
}

var _ perf.Model = EndlessIfZero{}

// Seconds is a whole number of seconds as a duration.
func Seconds(n int64) time.Duration { return time.Duration(n) * time.Second }
