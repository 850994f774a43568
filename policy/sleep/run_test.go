package sleep_test

import (
	"testing"
	"time"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/engine"
	"github.com/norn-scheduler/norn/eventlog"
	"github.com/norn-scheduler/norn/policy/fifo"
	"github.com/norn-scheduler/norn/policy/sleep"
	"github.com/norn-scheduler/norn/sched"
	"github.com/norn-scheduler/norn/sim"
	"github.com/norn-scheduler/norn/sim/simtest"
	"github.com/norn-scheduler/norn/state"
)

// awake notes how many nodes are awake or boot after each moment.
type awake map[time.Duration]int

func (a awake) Event(_ *eventlog.Event, s *state.State) {
	n := 0
	for id := range cluster.NodeID(s.Cluster.Nodes()) {
		if s.Cluster.Power(id) != cluster.Asleep {
			n++
		}
	}
	a[s.Now] = n
}

// run runs jobs under FIFO on ten nodes of four GPUs that need five minutes to wake up.
func run(t *testing.T, c sleep.Config, jobs ...simtest.Job) (*simtest.Run, awake) {
	t.Helper()
	seen := awake{}
	return simtest.Go(t, simtest.Config{
		Cluster: simtest.Nodes(10, 4), Sleep: c, Sinks: []engine.Sink{seen},
		Make:  func() (sched.Policy, error) { return fifo.NewConfig().Policy() },
		World: func(w *sim.Config) { w.Boot = sim.DefaultBoot },
	}, jobs...), seen
}

// TestWake: when jobs need more nodes than are awake, these and a buffer are woken at once, and the
// jobs wait for no longer than the boot (specification of Helios, sections 3b and 7.4).
func TestWake(t *testing.T) {
	c := sleep.NewCES()
	c.Buffer = 2
	r, awake := run(t, c,
		simtest.Job{Key: "small", At: 0, GPUs: 1, Run: 10_000},
		simtest.Job{Key: "large", At: 4000, GPUs: 16, Run: 1000},
		simtest.Job{Key: "late", At: 4100, GPUs: 2, Run: 100},
	)
	if awake[0] != 3 {
		t.Errorf("%d nodes are awake at first, want the one in use and a buffer of two", awake[0])
	}
	if awake[4000*time.Second] != 7 {
		t.Errorf("%d nodes are awake when five are needed, want these and a buffer of two", awake[4000*time.Second])
	}
	if r.Start("small") != 0 || r.Start("large") != 4300 || r.Start("late") != 4300 {
		t.Errorf("the jobs start at %v, %v and %v s", r.Start("small"), r.Start("large"), r.Start("late"))
	}
}

// TestVanilla: every idle node sleeps at the end of a step, and one is woken for each job.
func TestVanilla(t *testing.T) {
	r, awake := run(t, sleep.NewVanilla(),
		simtest.Job{Key: "a", At: 0, GPUs: 4, Run: 100},
		simtest.Job{Key: "b", At: 1000, GPUs: 4, Run: 100},
		simtest.Job{Key: "c", At: 1350, GPUs: 4, Run: 100},
	)
	if awake[0] != 1 || awake[600*time.Second] != 0 || awake[1000*time.Second] != 1 {
		t.Errorf("%d, %d and %d nodes are awake", awake[0], awake[600*time.Second], awake[1000*time.Second])
	}
	if r.Start("a") != 0 || r.Start("b") != 1300 || r.Start("c") != 1400 { // where b was, before the node that is woken for it
		t.Errorf("the jobs start at %v, %v and %v s", r.Start("a"), r.Start("b"), r.Start("c"))
	}
}
