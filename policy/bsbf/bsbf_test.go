package bsbf

import (
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/sched"
	"github.com/norn-scheduler/norn/sim"
	"github.com/norn-scheduler/norn/sim/simtest"
)

// Acceptance 1 and 2: who shares, and what the pair's mean completion is.
func TestPair(t *testing.T) {
	for _, c := range []struct {
		pair            Pair
		together, other float64
	}{
		{Pair{400, 1000, 1.5, 1.2}, 850, 1200},
		{Pair{400, 300, 1.9, 1.9}, 620, 500},
		{Pair{400, 300, 1.3, 1.3}, 440, 500},
		{Pair{1000, 200, 1.9, 2.5}, 868.42, 700},
	} {
		if got := c.pair.Together(); math.Abs(got-c.together) > 0.01 {
			t.Errorf("%+v: together %v, want %v", c.pair, got, c.together)
		}
		if got := c.pair.InTurn(); got != c.other || c.pair.Worthwhile() != (c.together < c.other) {
			t.Errorf("%+v: in turn %v, want %v; worthwhile %v", c.pair, got, c.other, c.pair.Worthwhile())
		}
	}
}

// Theorem 1: to start at some time before the partner ends is never better than
// both to start now and to wait for its end. The times are counted out here.
func TestPairTheorem(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := Pair{
			A: rapid.Float64Range(1, 1000).Draw(t, "a"), B: rapid.Float64Range(1, 1000).Draw(t, "b"),
			SlowerA: rapid.Float64Range(1, 4).Draw(t, "slower a"), SlowerB: rapid.Float64Range(1, 4).Draw(t, "slower b"),
		}
		mean := func(wait float64) float64 {
			a, b := p.A, p.B-wait
			both := min(a*p.SlowerA, b*p.SlowerB)
			a, b = a-both/p.SlowerA, b-both/p.SlowerB
			return ((wait + both + a) + (wait + both + b)) / 2
		}
		if got := mean(0); math.Abs(got-p.Together()) > 1e-6*got {
			t.Fatalf("%+v: together %v, counted %v", p, p.Together(), got)
		}
		wait := rapid.Float64Range(0, 1).Draw(t, "wait") * p.B
		if best := min(p.Together(), p.InTurn()); mean(wait) < best-1e-6*best {
			t.Fatalf("%+v: waiting %v gives %v, better than %v", p, wait, mean(wait), best)
		}
	})
}

// Acceptance 5: when nobody slows anybody down, sharing is always worthwhile; where both
// are twice as slow or more and A is the longer, it never is, by (xi (1 - 1/(2 xi)) - 1) t_B.
func TestPairBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := rapid.Float64Range(1, 1000).Draw(t, "a"), rapid.Float64Range(1, 1000).Draw(t, "b")
		if p := (Pair{a, b, 1, 1}); !p.Worthwhile() {
			t.Fatalf("%+v is refused: %v, in turn %v", p, p.Together(), p.InTurn())
		}
		xi := rapid.Float64Range(2, 4).Draw(t, "slower")
		p := Pair{max(a, b), min(a, b), xi, xi}
		if loss := (xi*(1-1/(2*xi)) - 1) * p.B; p.Worthwhile() || math.Abs(p.Together()-p.InTurn()-loss) > 1e-9*p.InTurn() {
			t.Fatalf("%+v: together %v, in turn %v, want %v more", p, p.Together(), p.InTurn(), loss)
		}
	})
}

// pairs tells by how much a job is slower beside another one, by their names.
type pairs map[[2]string]float64

func (m pairs) Beside(j *job.Job, others []*job.Job, _ cluster.GPUType) float64 {
	f := 1.0
	for _, o := range others {
		if s, ok := m[[2]string{j.Name, o.Name}]; ok {
			f /= s
		}
	}
	return f
}

func setup(gpus int, m pairs) simtest.Config {
	return simtest.Config{
		Cluster: simtest.Nodes(1, gpus), Make: func() (sched.Policy, error) { return NewConfig().Policy() }, Shared: true, Sharing: m,
		World: func(c *sim.Config) { c.Sharing = m },
	}
}

func at(t *testing.T, run *simtest.Run, want map[string]float64) {
	t.Helper()
	for key, end := range want {
		if got := run.End(key); math.Abs(got-end) > 1e-6 {
			t.Errorf("%s ends at %v, want %v", key, got, end)
		}
	}
	if t.Failed() {
		t.Log("\n" + strings.Join(run.Log, "\n"))
	}
}

// Acceptance 1, through engine and simulator: A shares B's GPU, and both end when
// the theory says; nobody is preempted or moved.
func TestShares(t *testing.T) {
	m := pairs{{"A", "B"}: 1.5, {"B", "A"}: 1.2}
	run := simtest.Go(t, setup(1, m), simtest.Job{Key: "B", GPUs: 1, Run: 1000}, simtest.Job{Key: "A", At: 0.000001, GPUs: 1, Run: 400})
	at(t, run, map[string]float64{"A": 600.000001, "B": 1100})
	if b := run.Record("B"); b.Preemptions+b.Migrations+b.Resizes != 0 {
		t.Errorf("%+v", b)
	}
}

// Acceptance 2: where the pair would end later, A waits.
func TestWaits(t *testing.T) {
	m := pairs{{"A", "B"}: 1.9, {"B", "A"}: 1.9}
	run := simtest.Go(t, setup(1, m), simtest.Job{Key: "B", GPUs: 1, Run: 300}, simtest.Job{Key: "A", At: 1, GPUs: 1, Run: 400})
	at(t, run, map[string]float64{"B": 300, "A": 700})
}

// Acceptance 3: of two partners the one with the greater benefit is chosen.
func TestBestFirst(t *testing.T) {
	m := pairs{{"A", "B1"}: 1.5, {"B1", "A"}: 1.2, {"A", "B2"}: 1.3, {"B2", "A"}: 1.3}
	run := simtest.Go(t, setup(2, m), simtest.Job{Key: "B1", GPUs: 1, Run: 1000}, simtest.Job{Key: "B2", GPUs: 1, Run: 300},
		simtest.Job{Key: "A", At: 0.000001, GPUs: 1, Run: 400})
	if start := run.Start("A"); start > 0.001 {
		t.Fatalf("A starts at %v", start)
	}
	at(t, run, map[string]float64{"B1": 1000, "B2": 390})
}

// Acceptance 4: a gang takes the free GPU and a shared one; where the pair should
// not share it waits, and a smaller job behind it takes the free one.
func TestGang(t *testing.T) {
	good := pairs{{"A", "B"}: 1.3, {"B", "A"}: 1.3}
	run := simtest.Go(t, setup(2, good), simtest.Job{Key: "B", GPUs: 1, Run: 300}, simtest.Job{Key: "A", At: 1, GPUs: 2, Run: 200})
	if run.Start("A") != 1 {
		t.Errorf("A starts at %v\n%s", run.Start("A"), strings.Join(run.Log, "\n"))
	}
	bad := pairs{{"A", "B"}: 2.5, {"B", "A"}: 2.5}
	run = simtest.Go(t, setup(2, bad), simtest.Job{Key: "B", GPUs: 1, Run: 300}, simtest.Job{Key: "A", At: 1, GPUs: 2, Run: 200},
		simtest.Job{Key: "C", At: 1, GPUs: 1, Run: 250})
	if run.Start("A") < 300 || run.Start("C") != 1 {
		t.Errorf("A starts at %v, C at %v\n%s", run.Start("A"), run.Start("C"), strings.Join(run.Log, "\n"))
	}
}

// Acceptance 5: no GPU ever holds three jobs, and no running job loses its GPUs.
func TestNeverThree(t *testing.T) {
	for name, slower := range map[string]float64{"free": 1, "dear": 2} {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				var jobs []simtest.Job
				m := even(slower)
				for i := range rapid.IntRange(1, 12).Draw(t, "jobs") {
					jobs = append(jobs, simtest.Job{
						Key: string(rune('a' + i)), At: float64(i), GPUs: rapid.IntRange(1, 4).Draw(t, "GPUs"), Run: float64(rapid.IntRange(1, 60).Draw(t, "run")),
					})
				}
				cfg := simtest.Config{
					Cluster: simtest.Nodes(2, 3), Make: func() (sched.Policy, error) { return NewConfig().Policy() }, Shared: true, Sharing: m,
					World: func(c *sim.Config) { c.Sharing = m },
				}
				watch := &simtest.Crowd{}
				cfg.Sinks = append(cfg.Sinks, watch)
				run, err := simtest.Try(cfg, jobs...)
				if err != nil {
					t.Fatalf("%v\n%s", err, strings.Join(run.Log, "\n"))
				}
				if watch.Most > 2 || run.Preemptions() > 0 || len(run.State.Ended()) != len(jobs) {
					t.Fatalf("%d jobs on a GPU, %d preemptions, %d of %d ended", watch.Most, run.Preemptions(), len(run.State.Ended()), len(jobs))
				}
			})
		})
	}
}

// even slows everybody down alike.
type even float64

func (m even) Beside(_ *job.Job, others []*job.Job, _ cluster.GPUType) float64 {
	return 1 / math.Pow(float64(m), float64(len(others)))
}

var _ perf.Sharing = even(1)
