package gimbal

import (
	"math"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/sched"
	"github.com/norn-scheduler/norn/sim"
	"github.com/norn-scheduler/norn/sim/simtest"
)

func busy(u float64) *job.Job {
	return &job.Job{Demand: &job.Demand{}, Hints: &job.Hints{GPUUse: u}}
}

// surplus is the case of acceptance 1: J1 (2 workers, u = 0.6) on GPUs 0 and 1, J2 (1
// worker, u = 0.9) on GPU 0, half each.
func surplus(worth1, worth2, least1 float64) *Local {
	half := func(d cluster.DeviceID) cluster.Share { return cluster.Share{Device: d, Milli: 500} }
	one, two := busy(0.6), busy(0.9)
	return &Local{
		Sharing: perf.Calibrated{}, Step: 100,
		Gangs: []Gang{{Job: one, Worth: worth1, Least: least1, Seats: []int{0, 1}}, {Job: two, Worth: worth2, Seats: []int{2}}},
		Seats: []Seat{{0, 0, one, half(0)}, {0, 1, one, cluster.Share{Device: 1, Milli: 1000}}, {1, 0, two, half(0)}},
		Spots: []Spot{{Seats: []int{0, 2}, Open: true}, {Seats: []int{1}, Open: true}},
	}
}

func near(t *testing.T, what string, got, want float64) {
	t.Helper()
	if math.Abs(got-want) > 1e-3 {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

// Acceptance 1: with half each U = 0.833 + 0.556; 60/40 gives 1.444 and is
// chosen; 70/30 would give 1.333. A job that is alone on a GPU keeps it.
func TestSurplus(t *testing.T) {
	l := surplus(1, 1, 0)
	near(t, "J1", l.GangRate(0), 0.833)
	near(t, "J2", l.GangRate(1), 0.556)
	near(t, "U", l.Utility(), 1.389)
	for part, want := range map[int32]float64{600: 1.444, 700: 1.333} {
		o := surplus(1, 1, 0)
		o.Seats[0].Share.Milli, o.Seats[2].Share.Milli = part, 1000-part
		near(t, "U", o.Utility(), want)
	}
	if l.Settle(); l.Seats[0].Share.Milli != 600 || l.Seats[2].Share.Milli != 400 || l.Seats[1].Share.Milli != 1000 {
		t.Errorf("%+v", l.Seats)
	}
	near(t, "U", l.Utility(), 1.444)
}

// Acceptance 2: with J2 worth three times as much, it is given 90 %.
func TestWorth(t *testing.T) {
	l := surplus(1, 3, 0)
	near(t, "U", l.Utility(), 2.5)
	if l.Settle(); l.Seats[0].Share.Milli != 100 || l.Seats[2].Share.Milli != 900 {
		t.Errorf("%+v", l.Seats)
	}
	near(t, "U", l.Utility(), 3.167)
}

// Acceptance 3: as long as J1 is protected, it has 60 %, however much J2 is worth.
func TestProtected(t *testing.T) {
	l := surplus(1, 1000, 0.95)
	if l.Settle(); l.Seats[0].Share.Milli != 600 {
		t.Errorf("%+v", l.Seats)
	}
}

// Section 3b: two that need no more than the whole GPU together take turns where traffic
// on the memory would cost them more than that.
func TestYields(t *testing.T) {
	l := surplus(1, 1, 0)
	for i, u := range []float64{0.5, 0.5, 0.4} {
		j := busy(u)
		j.Hints.MemoryUse = 0.9
		l.Seats[i].Job = j
	}
	l.Settle()
	near(t, "J1", l.GangRate(0), 1/1.05)
	near(t, "J2", l.GangRate(1), 1/1.05)
	if (l.Seats[0].Share.Milli == 0) == (l.Seats[2].Share.Milli == 0) {
		t.Errorf("%+v", l.Seats)
	}
}

// Acceptance 4: calibration ends within three sweeps, never makes what all is worth less,
// and never books more than there is.
func TestSettles(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := &Local{Sharing: perf.Calibrated{}, Step: 100}
		gangs, spots := rapid.IntRange(1, 4).Draw(t, "gangs"), rapid.IntRange(1, 6).Draw(t, "GPUs")
		for range gangs {
			j := busy(rapid.Float64Range(0.05, 1).Draw(t, "use"))
			j.Hints.MemoryUse = rapid.Float64Range(0, 1).Draw(t, "bandwidth")
			l.Gangs = append(l.Gangs, Gang{Job: j, Worth: rapid.Float64Range(0.01, 10).Draw(t, "worth")})
		}
		for d := range spots {
			spot := Spot{Open: rapid.Bool().Draw(t, "open")}
			all := rapid.Permutation([]int{0, 1, 2, 3}[:gangs]).Draw(t, "who")
			for _, g := range all[:min(len(all), rapid.IntRange(1, 2).Draw(t, "workers"))] {
				l.Gangs[g].Seats = append(l.Gangs[g].Seats, len(l.Seats))
				spot.Seats = append(spot.Seats, len(l.Seats))
				l.Seats = append(l.Seats, Seat{g, d, l.Gangs[g].Job, cluster.Share{Device: cluster.DeviceID(d), Milli: 500}})
			}
			l.Spots = append(l.Spots, spot)
		}
		for g := range l.Gangs {
			if len(l.Gangs[g].Seats) == 0 {
				l.Gangs[g].Worth = 0
				l.Gangs[g].Seats = append(l.Gangs[g].Seats, 0)
			}
		}
		before := l.Utility()
		n := l.Settle()
		if after := l.Utility(); n > 3 || after < before-1e-9 {
			t.Fatalf("%d sweeps, from %v to %v", n, before, after)
		}
		for _, s := range l.Spots {
			sum := int32(0)
			for _, seat := range s.Seats {
				sum += l.Seats[seat].Share.Milli
			}
			if sum > 1000 {
				t.Fatalf("%+v", l.Seats)
			}
		}
	})
}

// packed is a run on nodes whose GPUs have 16 GiB, in a world of calibrated sharing.
func packed(nodes, gpus int, set map[string]string) simtest.Config {
	c := cluster.New()
	typ, err := c.AddType(cluster.GPUType{Name: "V100", Memory: 16 * unit.GiB})
	for range nodes {
		if err == nil {
			_, err = c.AddNode(cluster.NodeSpec{GPUs: []cluster.GPUs{{Type: typ, Count: gpus}}})
		}
	}
	if err != nil {
		panic(err)
	}
	return simtest.Config{
		Cluster: c, Shared: true, Sharing: perf.Calibrated{}, World: func(c *sim.Config) { c.Sharing, c.Measure = perf.Calibrated{}, true },
		Make: func() (sched.Policy, error) {
			c := NewConfig()
			for k, v := range set {
				if err := c.Params().Set(k, v); err != nil {
					return nil, err
				}
			}
			return c.Policy()
		},
	}
}

func uses(u float64, gib int) func(*job.Job) {
	return func(j *job.Job) { j.Hints = &job.Hints{GPUUse: u, GPUMemory: unit.Bytes(gib) * unit.GiB} }
}

func text(run *simtest.Run) string { return "\n" + strings.Join(run.Log, "\n") }

// Gangs of unlike sizes share, which a pair of equal size could not: a of two workers and
// b of one on one node of two GPUs. With the objective makespan and equal work the worths are
// about equal, and the parts those of acceptance 1.
func TestUnequal(t *testing.T) {
	jobs := []simtest.Job{{Key: "a", GPUs: 2, Run: 1000, Spec: uses(0.6, 4)}, {Key: "b", At: 1, GPUs: 1, Run: 1000, Spec: uses(0.9, 4)}}
	run := simtest.Go(t, packed(1, 2, map[string]string{"objective": "makespan"}), jobs...)
	if run.Start("b") != 1 || run.End("a") > 1010 || !strings.Contains(text(run), "x0.4") {
		t.Error(text(run))
	}
	run = simtest.Go(t, packed(1, 2, map[string]string{"objective": "makespan", "pack": "equal"}), jobs...)
	if run.Start("b") != 1000 {
		t.Error(text(run))
	}
}

// Acceptance 4: gangs whose memory would fill more than 95 % of a GPU do not share.
func TestMemory(t *testing.T) {
	for gib, shares := range map[int]bool{7: true, 8: false} {
		run := simtest.Go(t, packed(1, 1, nil), simtest.Job{Key: "a", GPUs: 1, Run: 1000, Spec: uses(0.3, 8)}, simtest.Job{Key: "b", At: 1, GPUs: 1, Run: 100, Spec: uses(0.3, gib)})
		if (run.Start("b") == 1) != shares {
			t.Errorf("%d GiB%s", gib, text(run))
		}
	}
}

// Acceptance 4: a worker that is paused for 30 s has its gang leave; it shares nothing for
// a minute. Here b is paused by hand, so to speak, once it runs.
func TestEvicts(t *testing.T) {
	cfg := packed(1, 1, nil)
	made := cfg.Make
	cfg.Make = func() (sched.Policy, error) {
		p, err := made()
		made, _ := p.(*policy)
		return &pauser{policy: made}, err
	}
	run := simtest.Go(t, cfg, simtest.Job{Key: "a", GPUs: 1, Run: 85, Spec: uses(0.5, 4)}, simtest.Job{Key: "b", At: 10, GPUs: 1, Run: 1000, Spec: uses(0.5, 4)})
	if r := run.Record("b"); r.Preemptions != 1 || !strings.Contains(text(run), "40 preempt b") || !strings.Contains(text(run), "85 start b") {
		t.Error(text(run))
	}
}

// Section 2, swaps: p comes to a worker of j, which is worth more to it than to j, so that
// this becomes a straggler; it changes places with k, which needs little.
func TestSwaps(t *testing.T) {
	run := simtest.Go(t, packed(1, 3, map[string]string{"objective": "makespan", "order": "fifo"}),
		simtest.Job{Key: "j", GPUs: 2, Run: 1000, Spec: uses(1, 4)}, simtest.Job{Key: "k", GPUs: 1, Run: 1000, Spec: uses(0.2, 4)},
		simtest.Job{Key: "p", At: 1, GPUs: 1, Run: 1000, Spec: uses(0.9, 4)})
	if j, k := run.Record("j"), run.Record("k"); j.Migrations != 1 || k.Migrations != 1 || run.End("j") > 1010 || run.End("k") > 1010 || run.Start("p") != 1 {
		t.Error(text(run))
	}
}

// pauser pauses b beside a.
type pauser struct{ *policy }

func (m *pauser) Decide(v *sched.View, p *sched.Plan) {
	m.policy.Decide(v, p)
	if v.Now < 40*time.Second && v.Jobs() == 2 && p.Alloc(1) != nil && v.Alloc(1) != nil {
		p.Adjust(1, func(a *cluster.Alloc) { a.Shares[0].Throttle = 1000 })
		m.policy.paused(v, p)
	}
}
