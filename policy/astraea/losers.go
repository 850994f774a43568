package astraea

import (
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/sched"
	"github.com/norn-scheduler/norn/state"
)

// Losers is the part of the jobs, 0 to 1, that had less than 95 % of their fair GPU
// time by their end: those with a sharing loss (section 5.3 of the paper).
func Losers(st *state.State) float64 {
	v := sched.NewView(st, nil, false)
	var b books
	b.follow(&v)
	lost := 0
	for i := range st.Jobs() {
		if ratio(st.Record(job.ID(i)).Service, b.jobs[i].fair) < 0.95 {
			lost++
		}
	}
	return float64(lost) / float64(st.Jobs())
}
