package ymir

import (
	"strings"
	"testing"

	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/sched"
	"github.com/norn-scheduler/norn/sim/simtest"
)

// titan makes the policy with settings.
func titan(t testing.TB, set ...string) func() (sched.Policy, error) {
	t.Helper()
	return func() (sched.Policy, error) {
		c := NewTitan()
		for _, s := range set {
			k, v, _ := strings.Cut(s, "=")
			if err := c.Params().Set(k, v); err != nil {
				return nil, err
			}
		}
		return c.Policy()
	}
}

func titanRun(t *testing.T, gpus int, set []string, jobs ...simtest.Job) *simtest.Run {
	t.Helper()
	return simtest.Go(t, simtest.Config{Cluster: simtest.Nodes(1, gpus), Shared: true, Model: linear, Speeds: linear, Make: titan(t, set...)}, jobs...)
}

// TestTitanLeastSum: with linear speeds on four GPUs, two of each is the least sum of
// remaining times over those at the fair share, 2 and 2. A job that can use but one GPU
// leaves the others to the other one. One that has no more left than an interval on one GPU
// gains nothing by a second, which the other one has then.
func TestTitanLeastSum(t *testing.T) {
	a, b := tune("a", 0, 4000, "vit", "a", 4), tune("b", 0, 4000, "vit", "b", 4)
	run := titanRun(t, 4, nil, a, b)
	near(t, "a with two", run.End("a"), 2000)
	near(t, "b with two", run.End("b"), 2000)
	run = titanRun(t, 4, nil, a, tune("b", 0, 3000, "vit", "b", 1))
	near(t, "a with three", run.End("a"), 4000./3)
	near(t, "b with one", run.End("b"), 3000)
	run = titanRun(t, 4, nil, a, tune("b", 0, 110, "vit", "b", 4))
	near(t, "a short job with one", run.End("b"), 110)
	line(t, run, "0 start a on n0[0-2]")
}

// TestTitanShortest: only as many jobs have GPUs as there are, those with the least left, and
// each has one.
func TestTitanShortest(t *testing.T) {
	run := titanRun(t, 2, nil, tune("a", 0, 960, "vit", "a", 2), tune("b", 0, 840, "vit", "b", 2), tune("c", 0, 600, "vit", "c", 2), tune("d", 0, 480, "vit", "d", 2))
	for key, want := range map[string]float64{"d": 0, "c": 0, "b": 480, "a": 600} {
		near(t, "start of "+key, run.Start(key), want)
	}
	near(t, "end of the second", run.End("b"), 480+840)
}

// TestTitanMerges: two jobs of 300 and 200 s on two GPUs are trained as one where that is 1.1
// times as good as one after the other, which takes 700 s by the sum of both times. Together in
// 300 s it is 1.17 times as good, in 320 s 1.09 times. One that has begun is merged with
// nobody, and neither is one that is not among as many as there are GPUs.
func TestTitanMerges(t *testing.T) {
	run := func(gpus int, together, later float64, set ...string) *simtest.Run {
		world := learn(gain("a", "b", 1, 600/together), gain("b", "a", 1, 600/together))
		return simtest.Go(t, simtest.Config{Cluster: simtest.Nodes(1, gpus), Shared: true, Model: linear, Speeds: linear, World: world, Make: titan(t, set...)},
			tune("a", 0, 600, "vit", "a", gpus), tune("b", later, 400, "vit", "b", gpus))
	}
	r := run(2, 300, 0)
	near(t, "a, together", r.End("a"), 300)
	near(t, "b, together", r.End("b"), 300)
	if rec := r.Record("a"); rec.Merged != job.Together {
		t.Errorf("a is trained %v", rec.Merged)
	}
	for name, apart := range map[string]*simtest.Run{"too little gain": run(2, 320, 0), "no merging": run(2, 300, 0, "merge=false")} {
		near(t, name+": a", apart.End("a"), 600)
		near(t, name+": b", apart.End("b"), 400)
	}
	for name, apart := range map[string]*simtest.Run{"a has begun": run(2, 300, 60), "one GPU": run(1, 300, 0)} {
		if rec := apart.Record("b"); rec.Merged != job.Apart {
			t.Errorf("%s: b is trained %v", name, rec.Merged)
		}
	}
}

// TestTitanRefuses: an interval that no division could go by.
func TestTitanRefuses(t *testing.T) {
	for _, set := range []string{"interval=0s", "interval=48h"} {
		if _, err := titan(t, set)(); err == nil || !strings.Contains(err.Error(), "interval must be above 0 and a day at most") {
			t.Errorf("%s: %v", set, err)
		}
	}
}
