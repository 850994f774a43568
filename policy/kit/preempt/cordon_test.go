package preempt_test

import (
	"testing"
	"time"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/eventlog"
	"github.com/norn-scheduler/norn/policy/shortest"
	"github.com/norn-scheduler/norn/sched"
	"github.com/norn-scheduler/norn/sim"
	"github.com/norn-scheduler/norn/sim/simtest"
)

// TestJobsOnCordonedNodesAreLeftAlone: a job on a cordoned node goes on, even
// if it is the last in the order, because stopping it would make no room. Once
// the node takes jobs again, the job may be preempted like any other. The
// choice is kept by repair (srtf) and by walking (srsf).
func TestJobsOnCordonedNodesAreLeftAlone(t *testing.T) {
	health := func(at time.Duration, h cluster.Health) eventlog.Event {
		return eventlog.Event{Time: at * time.Second, Kind: eventlog.NodeSet, Node: 1, Health: h}
	}
	for name, make := range map[string]func() (sched.Policy, error){"srtf": shortest.NewSRTF().Policy, "srsf": shortest.NewSRSF().Policy} {
		run := simtest.Go(t, simtest.Config{
			Cluster: simtest.Nodes(2, 4), Make: make,
			World: func(c *sim.Config) {
				c.Script = []eventlog.Event{health(10, cluster.Cordoned), health(60, cluster.Up)}
			},
		},
			simtest.Job{Key: "a", GPUs: 4, Run: 200},
			simtest.Job{Key: "b", GPUs: 4, Run: 300},
			simtest.Job{Key: "c", At: 20, GPUs: 4, Run: 30}, // stops a, not b
			simtest.Job{Key: "d", At: 70, GPUs: 4, Run: 30}, // stops b
		)
		for key, want := range map[string]float64{"a": 230, "b": 330, "c": 50, "d": 100} {
			if got := run.End(key); got != want {
				t.Errorf("%s: %s ends at %v, want %v\n%v", name, key, got, want, run.Log)
			}
		}
	}
}

// TestWhatIsLeftAloneIsTaken: usable GPUs of a job that is left alone are not
// free for others. Job a is half on a cordoned node and keeps two of the four
// GPUs, so c must stop b.
func TestWhatIsLeftAloneIsTaken(t *testing.T) {
	for name, make := range map[string]func() (sched.Policy, error){"srtf": shortest.NewSRTF().Policy, "srsf": shortest.NewSRSF().Policy} {
		for _, restart := range []bool{false, true} {
			run := simtest.Go(t, simtest.Config{
				Cluster: simtest.Nodes(2, 4), Make: make, Restart: restart,
				World: func(c *sim.Config) {
					c.Script = []eventlog.Event{{Time: 10 * time.Second, Kind: eventlog.NodeSet, Node: 0, Health: cluster.Cordoned}}
				},
			},
				simtest.Job{Key: "a", GPUs: 6, Run: 200},
				simtest.Job{Key: "b", GPUs: 1, Run: 2000},
				simtest.Job{Key: "c", At: 20, GPUs: 2, Run: 30},  // stops b
				simtest.Job{Key: "d", At: 210, GPUs: 3, Run: 10}, // beside b, now that a has ended
			)
			for key, want := range map[string]float64{"a": 200, "b": 2030, "c": 50, "d": 220} {
				if got := run.End(key); got != want {
					t.Errorf("%s, restart %v: %s ends at %v, want %v\n%v", name, restart, key, got, want, run.Log)
				}
			}
		}
	}
}
