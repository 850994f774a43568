package iadeep

import (
	"cmp"
	"math"
	"slices"
	"testing"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
)

// tuned is a world in which whoever shares a GPU has, at once and at every moment, those
// batches with which the sum of all PDs there is least: what no tuning can be better at.
type tuned struct {
	perf.Rebatched
	best map[perf.Crowd][]float64 // speeds of the jobs of a crowd, in order of sorts
}

// Beside implements perf.Sharing.
func (w *tuned) Beside(j *job.Job, others []*job.Job, t cluster.GPUType) float64 {
	if len(others) == 0 {
		return 1
	}
	all := append([]*job.Job{j}, others...)
	slices.SortFunc(all, func(a, b *job.Job) int {
		return cmp.Or(cmp.Compare(perf.SortOf(a), perf.SortOf(b)), cmp.Compare(a.ID, b.ID))
	})
	var sorts []string
	for _, o := range all {
		sorts = append(sorts, perf.SortOf(o))
	}
	name := perf.NewCrowd(sorts)
	if w.best[name] == nil {
		w.best[name] = w.search(all, t)
	}
	return w.best[name][slices.Index(all, j)]
}

// Among implements perf.Portioned, in which Rebatched would answer else.
func (w *tuned) Among(s perf.Sharer, others []perf.Sharer, t cluster.GPUType) float64 {
	var jobs []*job.Job
	for _, o := range others {
		jobs = append(jobs, o.Job)
	}
	return w.Beside(s.Job, jobs, t)
}

// search finds the batches of a crowd with the least sum of PDs, and returns the speeds
// with them: it tries all batches of each two of the jobs at once until nothing gets better.
func (w *tuned) search(all []*job.Job, t cluster.GPUType) []float64 {
	n := len(all)
	slow, batches, at := make([]float64, n), make([][]int, n), make([]int, n)
	for i, j := range all {
		slow[i] = 1/w.Of.Beside(j, slices.Concat(all[:i:i], all[i+1:]), t) - 1
		batches[i] = Candidates(j.Batch, func(b int) bool { return j.Hints.GPUMemory+w.Steps(j).Grows(b) <= j.Demand.Roles[0].GPUMemory })
		at[i] = slices.Index(batches[i], j.Batch)
	}
	speeds := make([]float64, n)
	sum := func() (pds float64) {
		size := 1.0
		for i, j := range all {
			size *= float64(batches[i][at[i]]) / float64(j.Batch)
		}
		for i, j := range all {
			speeds[i] = w.Steps(j).Rate(batches[i][at[i]]) / (1 + slow[i]*math.Sqrt(size))
			pds += 1 / speeds[i]
		}
		return pds
	}
	least := sum()
	for again := true; again; {
		again = false
		for i := range n {
			for j := range i {
				best := [2]int{at[i], at[j]}
				for at[i] = range batches[i] {
					for at[j] = range batches[j] {
						if x := sum(); x < least-1e-12 {
							least, best, again = x, [2]int{at[i], at[j]}, true
						}
					}
				}
				at[i], at[j] = best[0], best[1]
			}
		}
	}
	sum()
	return speeds
}

// The tuner against one that knows everything: trials cost nothing, all who share are
// tuned at once whenever somebody comes or goes, and the best of all batches is found. So
// it is seen what tuning can gain under the spec's model, of which the policy gains the
// larger part.
func TestOracle(t *testing.T) {
	truth := world(t)
	best := &tuned{truth, map[perf.Crowd][]float64{}}
	untuned := func(c *Config) { c.Tune = false }
	known, _ := play(t, 0, best, untuned)
	none, _ := play(t, 0, truth, untuned)
	ours, _ := play(t, 0, truth, nil)
	t.Logf("untuned %.0f s, tuned %.0f s, at best %.0f s", none, ours, known)
	if !(known < ours && none-ours > (none-known)/2) {
		t.Errorf("untuned %v, tuned %v, at best %v", none, ours, known)
	}
}

// BenchmarkWorkload are the figures of the page: the mean JCT and makespan in seconds, of
// three seeds.
func BenchmarkWorkload(b *testing.B) {
	truth := world(b)
	best := &tuned{truth, map[perf.Crowd][]float64{}}
	for _, x := range []struct {
		name   string
		of     perf.Sharing
		change func(*Config)
	}{
		{"iadeep", truth, nil},
		{"choose=cluster", truth, func(c *Config) { c.Choice = InCluster }},
		{"jobs=3", truth, func(c *Config) { c.Most = 3 }},
		{"jobs=3,tune=false", truth, func(c *Config) { c.Most, c.Tune = 3, false }},
		{"tune=false", truth, func(c *Config) { c.Tune = false }},
		{"choose=first-fit,tune=false", truth, func(c *Config) { c.Choice, c.Tune = FirstFit, false }},
		{"jobs=1", truth, func(c *Config) { c.Most = 1 }},
		{"the best batches", best, func(c *Config) { c.Tune = false }},
		{"jobs=3, the best batches", best, func(c *Config) { c.Most, c.Tune = 3, false }},
	} {
		b.Run(x.name, func(b *testing.B) {
			for b.Loop() {
				var jct, makespan float64
				for seed := range uint64(3) {
					mean, last := play(b, seed, x.of, x.change)
					jct, makespan = jct+mean/3, makespan+last/3
				}
				b.ReportMetric(jct, "jct")
				b.ReportMetric(makespan, "makespan")
			}
		})
	}
}
