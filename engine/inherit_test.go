package engine_test

import (
	"testing"
	"time"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/engine"
	"github.com/norn-scheduler/norn/eventlog"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/policy/fifo"
	"github.com/norn-scheduler/norn/sim"
	"github.com/norn-scheduler/norn/sim/simtest"
	"github.com/norn-scheduler/norn/state"
	"github.com/norn-scheduler/norn/tenant"
	"github.com/norn-scheduler/norn/trace"
)

// given keeps what a job was given last.
type given struct{ alloc cluster.Alloc }

// Event implements engine.Sink.
func (g *given) Event(_ *eventlog.Event, s *state.State) {
	if a := s.Alloc(0); a != nil {
		g.alloc.CopyFrom(a)
	}
}

// TestRestoresDemand: after a change of policy, a job is no longer throttled, and begins its iterations when it likes.
func TestRestoresDemand(t *testing.T) {
	s := state.New(simtest.Nodes(2, 1), tenant.NewTree(0))
	d := job.GPUs(2)
	if err := s.Submit(&job.Job{Key: "a", Demand: &d}, -1); err != nil {
		t.Fatal(err)
	}
	a := &cluster.Alloc{
		Pieces: []cluster.Piece{{Tasks: 1, Shares: 1}, {Node: 1, Tasks: 1, Shares: 1}},
		Shares: []cluster.Share{{Milli: 1000, Throttle: 500}, {Device: 1, Milli: 1000}},
		Beat:   cluster.Beat{Period: time.Second, Shift: time.Millisecond},
	}
	if err := s.Begin(0, a, 0); err != nil {
		t.Fatal(err)
	}
	p, err := fifo.NewConfig().Policy()
	if err != nil {
		t.Fatal(err)
	}
	world := sim.New(sim.Config{Source: trace.FromMemory([]trace.Entry{{Job: job.Job{ID: 1, Key: "b", Submit: time.Second, Demand: &d}}})})
	g := &given{}
	e := engine.New(engine.Config{Sinks: []engine.Sink{g}, Cluster: s.Cluster, Tenants: s.Tenants, Policy: p, PolicyName: "test", Costs: &perf.Costs{}, Exclusive: true, Seed: 1}, world)
	e.Resume(s)
	e.RestoreDemand()
	if err := world.Attach(s); err != nil {
		t.Fatal(err)
	}
	world.Resume(func(*job.Record) time.Duration { return time.Minute })
	if err := e.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := g.alloc; s.Record(0).Phase != job.Done || len(got.Shares) != 2 || got.Beat != (cluster.Beat{}) || got.Shares[0].Throttle != 0 {
		t.Errorf("it is %v and had %+v", s.Record(0).Phase, got)
	}
}
