package live

import (
	"time"

	"github.com/norn-scheduler/norn/api"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/state"
)

// Cheapest chooses n of some places that are to be vacated, by their numbers: one after the other that which adds least
// to what is lost. jobs are those that have anything at each place; a job leaves as a whole. What a job loses is the time
// of stopping and starting it, and the work that it falls back by, which is that since it saved its state last where
// it is killed; each by its GPUs. Where nothing else decides, it is the first place.
func Cheapest(st *state.State, costs *perf.Costs, jobs [][]job.ID, n int, killed bool) (chosen []int) {
	leaves, taken := map[job.ID]bool{}, make([]bool, len(jobs))
	for len(chosen) < min(n, len(jobs)) {
		best, least := -1, 0.0
		for i := range jobs {
			if taken[i] {
				continue
			}
			price := 0.0
			for _, id := range jobs[i] {
				if !leaves[id] {
					price += loss(st, costs, id, killed)
				}
			}
			if best < 0 || price < least {
				best, least = i, price
			}
		}
		for _, id := range jobs[best] {
			leaves[id] = true
		}
		taken[best], chosen = true, append(chosen, best)
	}
	return chosen
}

// Enough refuses an order that wants more of some places than there are: of those that are taken back to lend them, of
// those in use to take them back.
func Enough(there int, z *api.Reclaim) error {
	switch {
	case there >= z.Count:
		return nil
	case z.Lend:
		return api.Refuse(api.Conflict, "only %d of these are taken back, not %d", there, z.Count)
	}
	return api.Refuse(api.Conflict, "only %d of these are in use or free, not %d", there, z.Count)
}

// loss is what a job loses that leaves now, in GPU-seconds. One without a GPU counts as one with a hundredth.
func loss(st *state.State, costs *perf.Costs, id job.ID, killed bool) float64 {
	r, a := st.Record(id), st.Alloc(id)
	switch {
	case r.Phase == job.Running:
	case st.PinnedPlace(id) != nil: // its frozen processes end
		a, killed = st.PinnedPlace(id), true
	default:
		return 0 // it leaves already
	}
	gpus := 0.01
	if a != nil {
		gpus = max(gpus, float64(st.Cluster.GPUMilli(a))/1000)
	}
	price := costs.Of(int(gpus))
	lost := price.Checkpoint + price.Restore + time.Second // a job that is asked to go is more than none
	switch stop := r.Job.Stop; {
	case stop == job.Restart || stop == job.Pinned:
		lost += r.ProgressAt(st.Now)
	case stop != job.Checkpoint || killed:
		lost += r.ProgressAt(st.Now) - r.SavedAt(st.Now)
	}
	return lost.Seconds() * gpus
}
