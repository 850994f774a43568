package rmixer_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/norn-scheduler/norn/internal/longtest"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/policy/rmixer"
	"github.com/norn-scheduler/norn/sim"
	"github.com/norn-scheduler/norn/sim/simtest"
	"github.com/norn-scheduler/norn/trace"
	"github.com/norn-scheduler/norn/trace/gen"
)

// believing is the makespan of jobs under a job policy that believes something of how
// they disturb each other.
func believing(t testing.TB, jobs []trace.Entry, by rmixer.JobPolicy, truth, belief perf.Sharing) float64 {
	t.Helper()
	r := simtest.Go(t, simtest.Config{
		Cluster: node(t, 1, 1, 16160, false), Shared: true, Unchecked: true, Sharing: belief,
		Make:  config(func(c *rmixer.Config) { c.Jobs = by }),
		World: func(c *sim.Config) { c.Source, c.Sharing = trace.FromMemory(slices.Clone(jobs)), truth },
	})
	last := 0.0
	for i := range jobs {
		last = max(last, r.End(jobs[i].Job.Key))
	}
	return last
}

// dyPair takes the job that disturbs least and is disturbed least, of those that it looks
// at; the first where all are alike.
func TestPairByHand(t *testing.T) {
	demand := job.GPUs(1)
	batch := func() []trace.Entry {
		var out []trace.Entry
		for i, model := range []string{"a", "b", "c", "a"} {
			j := job.Job{ID: job.ID(i), Key: fmt.Sprint(i), Model: model, Demand: &demand, Hints: &job.Hints{GPUUse: 0.5 - 0.1*float64(i)}}
			out = append(out, trace.Entry{Job: j, Truth: trace.Truth{Work: 100e9}})
		}
		return out
	}
	belief := perf.Pairs{Speed: map[perf.Pair]float64{{Job: "a", Beside: "b"}: 0.5, {Job: "c", Beside: "a"}: 0.9, {Job: "a", Beside: "a"}: 0.9}}
	for _, x := range []struct {
		look   int
		belief perf.Sharing
		want   string // who begins at once beside 0
	}{{32, belief, "2"}, {1, belief, "1"}, {2, belief, "3"}, {32, perf.Alone{}, "1"}} {
		r := simtest.Go(t, simtest.Config{
			Cluster: node(t, 1, 1, 16160, false), Shared: true, Sharing: x.belief,
			Make:  config(func(c *rmixer.Config) { c.Jobs, c.GPUWorkers, c.Look, c.Window = rmixer.DyPair, 2, x.look, 0 }),
			World: func(c *sim.Config) { c.Source = trace.FromMemory(batch()) },
		})
		for _, key := range []string{"1", "2", "3"} {
			if first := r.Start(key) == 0; first != (key == x.want) {
				t.Errorf("looking at %d: %s starts at %v, want %s to start at once", x.look, key, r.Start(key), x.want)
			}
		}
	}
}

// TestBeliefTable prints what docs/policies/rmixer.md shows, in hours: 480 jobs
// of the balance list on one GPU. Pairs of models disturb each other at random,
// or by what they demand. The policies are choice by class, and dyPair with the
// truth known, believed wrongly, and learnt. To learn is better than not to.
func TestBeliefTable(t *testing.T) {
	longtest.Skip(t)
	truths := []struct {
		name string
		m    perf.Sharing
	}{{"pairs from 0.75 to 1", randomPairs(3)}, {"pairs from 0.3 to 1", spread(randomPairs(3), 0.3)}, {"demands x 1.5", perf.Demands{Switch: 0.03, Of: demands(1.5)}}}
	for _, x := range truths {
		sum := map[string]float64{}
		const seeds = 2
		for seed := range uint64(seeds) {
			jobs := list(t, gen.BalanceList, 480, 0, seed)
			wrong := perf.Mistaken{Of: x.m, Size: 0.4, Seed: seed}
			for name, belief := range map[string]perf.Sharing{
				"truth": x.m, "nothing": nil, "nothing, learnt": &perf.Learner{}, "wrong": wrong, "wrong, learnt": &perf.Learner{First: wrong},
			} {
				sum[name] += believing(t, jobs, rmixer.DyPair, x.m, belief) / 3600 / seeds
			}
			sum["class"] += believing(t, jobs, rmixer.DyMix, x.m, nil) / 3600 / seeds
		}
		line := x.name + ":"
		for _, name := range []string{"class", "truth", "nothing", "nothing, learnt", "wrong", "wrong, learnt"} {
			line += fmt.Sprintf("  %s %.3f h", name, sum[name])
		}
		t.Log(line)
		if sum["nothing, learnt"] >= sum["nothing"] || sum["wrong, learnt"] >= sum["wrong"] || sum["truth"] >= sum["wrong"] {
			t.Errorf("%s: what is learnt is worth nothing: %v", x.name, sum)
		}
	}
}

// spread stretches the speeds of a table of pairs from 0.75 to 1 so that they begin at
// another least.
func spread(m perf.Pairs, least float64) perf.Pairs {
	out := perf.Pairs{Speed: map[perf.Pair]float64{}}
	for p, s := range m.Speed {
		out.Speed[p] = least + (s-0.75)/0.25*(1-least)
	}
	return out
}

// demands multiplies what jobs demand.
func demands(by float64) func(*job.Job) perf.Demand {
	return func(j *job.Job) perf.Demand {
		d, _ := perf.Hinted(j)
		for i := range d {
			d[i] *= by
		}
		return d
	}
}
