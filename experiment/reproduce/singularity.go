package reproduce

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/norn-scheduler/norn/experiment"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/sim"
	"github.com/norn-scheduler/norn/trace"
)

// The world of Singularity: no trace of it is published. Jobs of 1 to 16 workers come by a Poisson process to
// 8x8 GPUs, 30 % of them premium, 40 % standard and 30 % basic, and run for two hours on average.

// stopAndRestart is the policy whose jobs are stopped at once and begin again from their last
// checkpoint, one every half hour.
const stopAndRestart = "singularity(splice=false)"

// tiersWorld is 400 jobs that ask for so many times as much as there is.
func tiersWorld(load float64, seed uint64) World {
	return World{Needs: nil, Make: func(_ string, c experiment.Choice) (*experiment.Experiment, trace.Source, error) {
		x, err := plain("8x8")
		if err != nil {
			return nil, nil, err
		}
		x.Costs = &perf.Costs{Base: perf.Cost{Restore: 30 * time.Second, Resize: 30 * time.Second, Migrate: 30 * time.Second}}
		sizes := []int{1, 2, 4, 4, 8, 16}
		mean := 0.0
		for _, n := range sizes {
			mean += float64(n) / float64(len(sizes))
		}
		r := rand.New(rand.NewPCG(seed, 1))
		var jobs experiment.Jobs
		at, between := 0.0, mean*7200/(64*load)
		for i := range 400 {
			at += r.ExpFloat64() * between
			workers := sizes[r.IntN(len(sizes))]
			d := job.GPUs(workers)
			d.Roles[0].Min, d.Roles[0].Max = 1, int32(workers)
			tier := []job.Tier{job.Premium, job.Standard, job.Basic}[draw(r.Float64(), 0.3, 0.7)]
			e := trace.Entry{
				Job:   job.Job{ID: job.ID(i), Key: fmt.Sprint(i), Tier: tier, Demand: &d, Resize: job.TimeSliced, Submit: time.Duration(at * float64(time.Second))},
				Truth: trace.Truth{Work: time.Duration((600 + r.ExpFloat64()*6600) * float64(time.Second))},
			}
			if c.String() == stopAndRestart {
				e.Job.Stop, e.Job.Resize = job.LastSave, job.ByRestart
			}
			jobs = append(jobs, e)
		}
		x.World = func(w *sim.Config) { w.Snapshot = 30 * time.Minute }
		return x, jobs.Source(), nil
	}}
}

// draw is how many of the bounds a number is at or above.
func draw(x float64, bounds ...float64) (n int) {
	for _, b := range bounds {
		if x >= b {
			n++
		}
	}
	return n
}

// singularity: no figures of a cluster are published; the specification asks for more promises kept
// than with stop and restart at 90 to 110 % load.
func singularity() []Study {
	s := Study{
		System: "singularity", Name: "tiers", CPU: 8, Policy: "singularity",
		About: "400 jobs of 1 to 16 workers in three tiers at 90, 100 and 110 % of what 8x8 GPUs can do, 30 s for a restart; stop and restart (splice=false) from a checkpoint of every half hour",
		Claims: []Claim{
			{Baseline: stopAndRestart, Metric: promises(job.Standard), Published: better(), Place: "specification, acceptance 6"},
			{Baseline: stopAndRestart, Metric: promises(job.Premium), Published: better(), Place: "specification, acceptance 6"},
			{Baseline: stopAndRestart, Metric: makespan(), Published: better(), Place: "specification, acceptance 6: less is idle or done again"},
		},
	}
	for i, load := range []float64{0.9, 1, 1.1} {
		s.Worlds = append(s.Worlds, tiersWorld(load, uint64(i+1)), tiersWorld(load, uint64(i+11)))
	}
	return []Study{s}
}
