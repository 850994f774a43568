package sleep_test

import (
	"testing"
	"time"

	"github.com/norn-scheduler/norn/engine"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/place"
	"github.com/norn-scheduler/norn/policy/sleep"
	"github.com/norn-scheduler/norn/sched"
	"github.com/norn-scheduler/norn/sim"
	"github.com/norn-scheduler/norn/sim/simtest"
)

// hourly is a policy that decides at full hours alone, as those do that divide GPUs by rounds.
type hourly struct{}

func (hourly) Decide(v *sched.View, p *sched.Plan) {
	for j := range v.Waiting() {
		if v.Now%time.Hour == 0 && p.Start(j.ID, place.Pack) {
			continue
		}
		p.Wait(j.ID, job.Reason{Code: job.Because, Job: job.None, Text: "the next decision is at the full hour"})
	}
}

func (hourly) NextWake(v *sched.View) time.Duration { return v.Now.Truncate(time.Hour) + time.Hour }

// TestAwakeUntilDecided: nodes that a job needs are awake when its policy decides the next time, however many
// steps later that is. Those that nobody needs sleep meanwhile.
func TestAwakeUntilDecided(t *testing.T) {
	seen := awake{}
	c := sleep.NewVanilla()
	c.Period = time.Minute
	r := simtest.Go(t, simtest.Config{
		Cluster: simtest.Nodes(4, 4), Sleep: c, Sinks: []engine.Sink{seen},
		Make:  func() (sched.Policy, error) { return hourly{}, nil },
		World: func(w *sim.Config) { w.Boot = sim.DefaultBoot },
	},
		simtest.Job{Key: "beside", At: 0, GPUs: 1, Run: 7200},
		simtest.Job{Key: "fits", At: 600, GPUs: 3, Run: 100},
		simtest.Job{Key: "wide", At: 601, GPUs: 8, Run: 100},
	)
	for at, n := range seen {
		if at > 601*time.Second && at < time.Hour && n != 3 {
			t.Errorf("at %v %d nodes are awake or boot, want the one in use, on which one job fits, and two for the other job", at, n)
		}
	}
	if seen[0] != 1 || seen[601*time.Second] != 3 {
		t.Errorf("at first %d nodes are awake, then %d", seen[0], seen[601*time.Second])
	}
	if r.Start("fits") != 3600 || r.Start("wide") != 3600 {
		t.Errorf("the jobs start at %v and %v s, want 3600", r.Start("fits"), r.Start("wide"))
	}
}
