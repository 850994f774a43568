package chronus

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/sched"
	"github.com/norn-scheduler/norn/sim/simtest"
	"github.com/norn-scheduler/norn/solve"
	"github.com/norn-scheduler/norn/solve/highs"
)

const s = time.Second

// gang is a job of so many GPUs with a deadline; 0: none.
func gang(key string, at, run, deadline float64, gpus int) simtest.Job {
	return simtest.Job{Key: key, At: at, Run: run, GPUs: gpus, Spec: func(j *job.Job) { j.Deadline = time.Duration(deadline * float64(s)) }}
}

func world(nodes, gpus int, change func(*Config)) simtest.Config {
	return simtest.Config{Cluster: simtest.Nodes(nodes, gpus), Seed: 1, Make: func() (sched.Policy, error) {
		c := NewConfig()
		c.Lease = 10 * s
		if change != nil {
			change(c)
		}
		return c.Policy()
	}}
}

// TestPack has the latest leases of each, large jobs first.
func TestPack(t *testing.T) {
	free := []int{4, 4, 4, 4}
	wants := []Want{{1, 2, 3}, {4, 1, 3}, {3, 2, 4}}
	got, ok := Pack(free, wants)
	if want := "[[0 1] [2] [1 3]]"; !ok || fmt.Sprint(got) != want || free[2] != 4 {
		t.Errorf("%v, %v, want %s", got, ok, want)
	}
	if got, ok := Pack(free, append(wants, Want{4, 1, 2})); ok {
		t.Errorf("%v, though the first two leases are short of GPUs", got)
	}
}

// legal fails where leases are not what was asked for.
func legal(t *rapid.T, free []int, wants []Want, leases [][]int) {
	left := slices.Clone(free)
	for i, w := range wants {
		if len(leases[i]) != w.Leases || !slices.IsSorted(leases[i]) || len(slices.Compact(slices.Clone(leases[i]))) != w.Leases {
			t.Fatalf("job %d has leases %v of %+v", i, leases[i], w)
		}
		for _, at := range leases[i] {
			if left[at] -= w.GPUs; at >= w.Window || left[at] < 0 {
				t.Fatalf("job %d cannot have lease %d: %v", i, at, leases)
			}
		}
	}
}

// TestSearch finds leases where HiGHS finds some for the program of the paper, and only there.
// The leases that packing finds are right, too.
func TestSearch(t *testing.T) {
	engine := highs.Shared()
	rapid.Check(t, func(t *rapid.T) {
		free := rapid.SliceOfN(rapid.IntRange(0, 4), 1, 6).Draw(t, "free")
		var wants []Want
		for range rapid.IntRange(1, 6).Draw(t, "jobs") {
			w := Want{GPUs: rapid.IntRange(1, 4).Draw(t, "gpus"), Window: rapid.IntRange(1, len(free)).Draw(t, "window")}
			w.Leases = rapid.IntRange(1, w.Window).Draw(t, "leases")
			wants = append(wants, w)
		}
		m := solve.NewModel("leases", solve.Maximize)
		rows := make([][]solve.Term, len(free))
		for _, w := range wants {
			var all []solve.Term
			for at := range w.Window {
				x := m.Bool(0)
				all, rows[at] = append(all, x.Times(1)), append(rows[at], x.Times(float64(w.GPUs)))
			}
			m.Equal(float64(w.Leases), all...)
		}
		for at, row := range rows {
			if len(row) > 0 {
				m.AtMost(float64(free[at]), row...)
			}
		}
		var none *solve.Error
		_, err := engine.Solve(m, solve.Options{})
		if err != nil && !(errors.As(err, &none) && none.Reason == solve.Infeasible) {
			t.Fatal(err)
		}
		leases, ok, sure := Search(free, wants, 1_000_000)
		if !sure || ok != (err == nil) {
			t.Fatalf("found: %v (sure: %v), HiGHS: %v", ok, sure, err)
		}
		if ok {
			legal(t, free, wants, leases)
		}
		if packed, fits := Pack(free, wants); fits {
			legal(t, free, wants, packed)
			if !ok {
				t.Fatal("packing finds what is not there")
			}
		}
	})
}

// TestFill has as many GPUs as any choice.
func TestFill(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		spare, gpus := rapid.IntRange(-1, 12).Draw(t, "spare"), rapid.SliceOfN(rapid.IntRange(0, 6), 0, 8).Draw(t, "gpus")
		best, got := 0, 0
		for set := range 1 << len(gpus) {
			sum := 0
			for i, n := range gpus {
				sum += n * (set >> i & 1)
			}
			if sum <= spare {
				best = max(best, sum)
			}
		}
		for i, yes := range Fill(spare, gpus) {
			if yes {
				got += gpus[i]
			}
		}
		if got != best {
			t.Fatalf("%d GPUs, want %d", got, best)
		}
	})
}

// TestPromises admits nobody who then misses the deadline. Jobs come at random, run times are
// known, and each start may cost some time. A policy that starts anew decides the same.
func TestPromises(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		nodes, gpus := rapid.IntRange(1, 3).Draw(t, "nodes"), rapid.SampledFrom([]int{1, 2, 4}).Draw(t, "gpus")
		costs := perf.Cost{Start: time.Duration(rapid.IntRange(0, 4).Draw(t, "start")) * s, Restore: time.Duration(rapid.IntRange(0, 4).Draw(t, "restore")) * s}
		objective := rapid.SampledFrom([]Objective{Adaptive, Maximise, Minimise}).Draw(t, "objective")
		at, jobs := 0.0, []simtest.Job(nil)
		for i := range rapid.IntRange(1, 14).Draw(t, "jobs") {
			at += float64(rapid.IntRange(0, 25).Draw(t, "gap"))
			run, deadline := float64(rapid.IntRange(1, 80).Draw(t, "run")), 0.0
			if rapid.IntRange(0, 3).Draw(t, "best effort") > 0 {
				deadline = at + 10 + run*float64(rapid.IntRange(100, 400).Draw(t, "slack"))/100
			}
			jobs = append(jobs, gang(fmt.Sprint("j", i), at, run, deadline, rapid.IntRange(1, nodes*gpus).Draw(t, "size")))
		}
		try := func(again bool) *simtest.Run {
			cfg := world(nodes, gpus, func(c *Config) { c.Objective, c.Refused = objective, Drop })
			cfg.Costs.Base, cfg.Restart = costs, again
			run, err := simtest.Try(cfg, jobs...)
			if err != nil {
				t.Fatal(err)
			}
			return run
		}
		run := try(false)
		for i := range run.State.Jobs() {
			r := run.State.Record(job.ID(i))
			ended := r.Phase == job.Done && (r.Job.Deadline == 0 || r.End <= r.Job.Deadline)
			if !ended && r.Reason.Code != job.Refused {
				t.Fatalf("job %s is %s at %v, due %v\n%s", r.Job.Key, r.Phase, r.End, r.Job.Deadline, strings.Join(run.Log, "\n"))
			}
		}
		simtest.SameDecisions(t, "a policy that starts anew", run.Log, try(true).Log)
	})
}

// TestLeases has a job that must run now stop another, refuses one for which there is no lease,
// and gives best effort what is left.
func TestLeases(t *testing.T) {
	drop := func(c *Config) { c.Refused = Drop }
	run := simtest.Go(t, world(1, 2, drop),
		gang("far", 0, 30, 200, 2), gang("near", 2, 20, 45, 2), gang("none", 3, 20, 35, 2), gang("free", 4, 5, 0, 1))
	if run.End("near") > 45 || run.End("far") > 200 || run.Record("none").Reason.Code != job.Refused || run.End("free") < 0 {
		t.Errorf("ends %v %v %v\n%s", run.End("near"), run.End("far"), run.End("free"), strings.Join(run.Log, "\n"))
	}
	if want := "wait none: was refused: its deadline is in 32s, before which it does not find 2 leases of 10s"; !strings.Contains(strings.Join(run.Log, "\n"), want) {
		t.Errorf("no %q in\n%s", want, strings.Join(run.Log, "\n"))
	}
	run = simtest.Go(t, world(1, 2, nil), gang("far", 0, 30, 200, 2), gang("near", 2, 20, 45, 2), gang("none", 3, 20, 35, 2))
	if run.End("near") > 45 || run.End("far") > 200 || run.End("none") < 0 {
		t.Errorf("ends %v %v %v", run.End("near"), run.End("far"), run.End("none"))
	}
}

// TestWorth promises the first of several deadlines that can be met.
func TestWorth(t *testing.T) {
	soft := gang("soft", 0, 20, 25, 2)
	soft.Spec = func(j *job.Job) {
		j.Deadline, j.Soft = 25*s, true
		j.Hints = &job.Hints{Worth: [4]job.Worth{{By: 25 * s, Value: 10}, {By: 65 * s, Value: 8}}}
	}
	run := simtest.Go(t, world(1, 2, nil), gang("strict", 0, 20, 25, 2), soft)
	if run.End("strict") > 25 || run.End("soft") <= 25 || run.End("soft") > 65 {
		t.Errorf("ends %v and %v", run.End("strict"), run.End("soft"))
	}
}

// TestNoteFields keeps a note as it is.
func TestNoteFields(t *testing.T) {
	n := note{state: promised, by: 70 * s, leases: []span{{3, 5}, {9, 10}}}
	got := recall(simtest.Noted(t, &n))
	if got.state != n.state || got.by != n.by || !slices.Equal(got.leases, n.leases) || !slices.Equal(got.after(4), []int{0, 5}) {
		t.Errorf("%+v", got)
	}
}
