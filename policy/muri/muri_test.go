package muri

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/policy/shortest"
	"github.com/norn-scheduler/norn/sched"
	"github.com/norn-scheduler/norn/sim"
	"github.com/norn-scheduler/norn/sim/simtest"
)

// profiles are iteration and stages on 8 GPUs, in milliseconds [spec, 2.4].
var profiles = map[string][4]float64{
	"vgg16": {214, 82, 75, 66}, "resnet18": {1010, 784, 117, 77}, "bert": {192, 0.5, 167, 59},
	"gpt2": {437, 0.6, 419, 49}, "a2c": {555, 502, 14, 0.4}, "dqn": {509, 435, 8, 0.5},
}

func member(id int, model string) Member {
	p := profiles[model]
	return Member{
		Job: job.ID(id), GPUs: 8, Class: 8, Stages: perf.Stages{p[1] / 1000, p[2] / 1000, p[3] / 1000}, Iteration: p[0] * 1.015 / 1000, Key: float64(id),
	}
}

// together lists who is with whom.
func together(groups []Group) (out []string) {
	for _, g := range groups {
		var ids []job.ID
		for _, m := range g.Members {
			ids = append(ids, m.Job)
		}
		slices.Sort(ids)
		out = append(out, fmt.Sprint(ids))
	}
	return out
}

// Acceptance C: on 8 GPUs, jobs of 8 GPUs go together where that is faster than
// one after the other, and are taken apart where it is not.
func TestWorthwhile(t *testing.T) {
	for _, c := range []struct {
		models []string
		want   string
	}{
		{[]string{"gpt2", "a2c"}, "[[0 1]]"},
		{[]string{"gpt2", "bert"}, "[[0] [1]]"},
		{[]string{"bert", "dqn"}, "[[0 1]]"},
		{[]string{"vgg16", "resnet18"}, "[[0] [1]]"},
		{[]string{"gpt2", "a2c", "vgg16", "bert"}, "[[0 1 2 3]]"},
	} {
		g := Grouping{Most: 4, Model: perf.Interleave{Overhead: perf.PublishedOverhead()}}
		var all []Member
		for i, m := range c.models {
			all = append(all, member(i, m))
		}
		if got := fmt.Sprint(together(g.Groups(all, 8))); got != c.want {
			t.Errorf("%v: %s, want %s", c.models, got, c.want)
		}
	}
}

// Jobs are put together only as far as GPUs are short, those first that use the
// resources best.
func TestAsFarAsNeeded(t *testing.T) {
	all := []Member{member(0, "gpt2"), member(1, "bert"), member(2, "a2c"), member(3, "dqn")}
	g := Grouping{Most: 4}
	if got := fmt.Sprint(together(g.Groups(all, 32))); got != "[[0] [1] [2] [3]]" {
		t.Errorf("with room for all: %s", got)
	}
	if got := fmt.Sprint(together(g.Groups(all, 24))); got != "[[0 2] [1] [3]]" {
		t.Errorf("with one place too few: %s", got)
	}
	if got := fmt.Sprint(together(g.Groups(all, 16))); got != "[[0 2] [1 3]]" {
		t.Errorf("with half of the places: %s", got)
	}
}

// Acceptance E: groups hold jobs of one class, at most so many; every candidate is
// in one; none is slower than its members one after the other; and they need no
// more GPUs than without.
func TestGroups(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ms := rapid.Float64Range(0, 1)
		n := rapid.IntRange(0, 24).Draw(t, "jobs")
		var all []Member
		need := 0
		for i := range n {
			size := rapid.SampledFrom([]int{1, 2, 4}).Draw(t, "GPUs")
			s := perf.Stages{ms.Draw(t, "load"), ms.Draw(t, "compute") + 0.001, ms.Draw(t, "network")}
			all = append(all, Member{Job: job.ID(i), GPUs: size, Class: int32(size), Stages: s, Iteration: s.Sum(), Key: float64(i)})
			need += size
		}
		g := Grouping{Most: rapid.IntRange(1, 4).Draw(t, "most"), InOrder: rapid.Bool().Draw(t, "in order"), Unmatched: rapid.Bool().Draw(t, "unmatched")}
		gpus := rapid.IntRange(1, 48).Draw(t, "room")
		seen := map[job.ID]bool{}
		got := 0
		last := -1.0
		for _, group := range g.Groups(all, gpus) {
			alone := 0.0
			for _, m := range group.Members {
				if seen[m.Job] || m.Class != group.Members[0].Class {
					t.Fatalf("job %d is in two groups, or in one of others", m.Job)
				}
				seen[m.Job] = true
				alone += m.Iteration
			}
			if len(group.Members) > g.Most || group.Time > alone*(1+1e-9) || group.Key < last {
				t.Fatalf("%d jobs at %v, %v one after the other, key %v behind %v", len(group.Members), group.Time, alone, group.Key, last)
			}
			got, last = got+group.GPUs(), group.Key
		}
		if len(seen) != n || got > need || need <= gpus && got != need {
			t.Fatalf("%d of %d jobs on %d GPUs, alone %d, room %d", len(seen), n, got, need, gpus)
		}
		again := Grouping{Most: g.Most, InOrder: g.InOrder, Unmatched: g.Unmatched}
		want := fmt.Sprint(again.Groups(all, gpus))
		again.Groups(all[:n/2], gpus/2)
		if got := fmt.Sprint(again.Groups(all, gpus)); got != want {
			t.Fatalf("asked again after others: %s, first %s", got, want)
		}
	})
}

func staged(model string) func(*job.Job) {
	p := profiles[model]
	return func(j *job.Job) {
		d := func(v float64) time.Duration { return time.Duration(v * float64(time.Millisecond)) }
		j.Hints = &job.Hints{Iteration: d(p[0]), Stages: [3]time.Duration{d(p[1]), d(p[2]), d(p[3])}}
	}
}

// eventful is the policy that makes groups at every arrival and completion.
func eventful() (sched.Policy, error) {
	cfg := NewShort()
	cfg.Round = 0
	return cfg.Policy()
}

// Acceptance D: while all jobs find room, nobody shares, and all is as under SRSF.
func TestNoContention(t *testing.T) {
	var jobs []simtest.Job
	for i, m := range []string{"gpt2", "a2c", "bert", "dqn", "vgg16", "resnet18"} {
		jobs = append(jobs, simtest.Job{Key: m, At: float64(10 * i), GPUs: 1 + i%2, Run: float64(20 + 7*i), Spec: staged(m)})
	}
	run := func(mk func() (sched.Policy, error)) []string {
		return simtest.Go(t, simtest.Config{Cluster: simtest.Nodes(2, 8), Make: mk, Shared: true}, jobs...).Log
	}
	ours := run(eventful)
	srsf := run(func() (sched.Policy, error) {
		cfg := shortest.NewSRSF()
		cfg.Place = NewShort().Place
		return cfg.Policy()
	})
	if !slices.Equal(ours, srsf) {
		t.Errorf("%v\nunder SRSF\n%v", ours, srsf)
	}
}

// Two jobs that use different resources share one GPU and both run at the pace of
// the pair; when one ends, the other is alone again. Under the simulator, which
// knows how they interleave.
func TestShares(t *testing.T) {
	run := simtest.Go(t, simtest.Config{
		Cluster: simtest.Nodes(1, 1), Make: eventful, Shared: true,
		World: func(c *sim.Config) { c.Sharing = perf.Interleave{} },
	}, simtest.Job{Key: "gpt2", GPUs: 1, Run: 43.7, Spec: staged("gpt2")}, simtest.Job{Key: "a2c", GPUs: 1, Run: 100, Spec: staged("a2c")})
	// An iteration of the pair takes 516.4 ms: gpt2 runs at 437/516.4, a2c as if alone.
	if got, want := run.End("gpt2"), 43.7*516.4/437; got < want-0.01 || got > want+0.01 {
		t.Errorf("gpt2 ends at %v, want %v\n%v", got, want, run.Log)
	}
	if got := run.End("a2c"); got < 99.99 || got > 100.01 {
		t.Errorf("a2c ends at %v, want 100", got)
	}
	if r := run.Record("a2c"); r.Preemptions != 0 {
		t.Errorf("it was preempted %d times", r.Preemptions)
	}
}

// Acceptance A: of four jobs of two stages on two GPUs those run together that leave
// nothing idle, A with B and C with D, and nobody is slower than alone.
func TestMatching(t *testing.T) {
	var all []Member
	for i, s := range []perf.Stages{{2, 1}, {1, 2}, {3, 1}, {1, 3}} {
		all = append(all, Member{Job: job.ID(i), GPUs: 1, Class: 1, Stages: s, Iteration: s.Sum(), Key: float64(i)})
	}
	g := Grouping{Most: 2}
	groups := g.Groups(all, 2)
	if got := fmt.Sprint(together(groups)); got != "[[0 1] [2 3]]" || groups[0].Time != 3 || groups[1].Time != 4 {
		t.Errorf("%s, iterations of %v and %v", got, groups[0].Time, groups[1].Time)
	}
}

// TestBlocks: of many groups each is in at most one pair, and all blocks together take no
// more time than as many groups as are matched at once.
func TestBlocks(t *testing.T) {
	for n := 1; n <= 4096; n++ {
		size := block(n)
		if n <= mostExact && size != n || size > n {
			t.Fatalf("%d groups are matched in blocks of %d", n, size)
		}
		if work := n * size * size; n <= 2048 && work > mostExact*mostExact*mostExact {
			t.Fatalf("%d groups in blocks of %d take %d", n, size, work)
		}
	}
	models := []string{"vgg16", "resnet18", "bert", "gpt2", "a2c", "dqn"}
	var all []Member
	for i := range 1000 {
		all = append(all, member(i, models[i%len(models)]))
	}
	g := Grouping{Most: 4}
	seen := map[job.ID]bool{}
	groups := g.Groups(all, 8)
	for i := range groups {
		for _, m := range groups[i].Members {
			if seen[m.Job] {
				t.Fatalf("job %d is in two groups", m.Job)
			}
			seen[m.Job] = true
		}
	}
	if len(seen) != len(all) || len(groups) > 550 {
		t.Errorf("%d jobs of %d are in %d groups", len(seen), len(all), len(groups))
	}
}
