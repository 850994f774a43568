package live

import (
	"slices"
	"time"

	"github.com/norn-scheduler/norn/api"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/state"
)

// maxCourse bounds the stretches of a job that are remembered.
const maxCourse = 64

// Course is how a job stood from when to when, as far as it is remembered: it waits, runs
// somewhere, leaves. Times are since the origin of the log.
type Course []stretch

// stretch is a time in which a job stood in one way.
type stretch struct {
	from, to time.Duration // to -1: it goes on
	state    api.State
	gpus     float64
	on       string
}

// Note takes in how a job stands after an event.
func (c *Course) Note(at time.Duration, s *state.State, id job.ID, names Names) {
	r := s.Record(id)
	now := stretch{from: at, to: -1, state: stateOf(r.Phase)}
	if a := s.Alloc(id); a != nil && r.Phase.HasDevices() {
		now.gpus, now.on = float64(s.Cluster.GPUMilli(a))/1000, On(s, id, names)
	}
	n := len(*c)
	if n == 0 && r.Since < at {
		now.from = r.Since // the log begins later
	}
	if n > 0 {
		last := &(*c)[n-1]
		if last.state == now.state && last.on == now.on && last.gpus == now.gpus {
			return
		}
		if last.to < 0 {
			last.to = at
		}
		if last.to <= last.from { // it was an instant
			*c = (*c)[:n-1]
		}
	}
	if r.Phase.Over() {
		return
	}
	if len(*c) >= maxCourse { // the beginning and what came last tell most
		*c = slices.Delete(*c, maxCourse/4, maxCourse/4+1)
	}
	*c = append(*c, now)
}

// tell is a course as the API has it.
func (c Course) tell(wall func(time.Duration) time.Time) []api.Stretch {
	var out []api.Stretch
	for _, x := range c {
		out = append(out, api.Stretch{From: wall(x.from), To: wall(x.to), State: x.state, GPUs: x.gpus, On: x.on})
	}
	return out
}
