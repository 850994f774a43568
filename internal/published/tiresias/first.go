package tiresias

import (
	"github.com/norn-scheduler/norn/internal/published/backlog"
	"github.com/norn-scheduler/norn/internal/published/yarn"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/sched"
)

// scheme is how jobs are placed.
type scheme interface {
	// Fit places a job that only Empty takes off again.
	Fit(gpus int) bool
	Empty()
	// Place places a job that Release takes off again.
	Place(id int32, gpus int) bool
	Release(id int32)
	Free() int
}

func newScheme(spec yarn.Spec, tellNodes bool) scheme {
	if tellNodes {
		return yarn.New(spec)
	}
	return &count{total: spec.Total(), free: spec.Total()}
}

// count compares numbers of GPUs.
type count struct {
	total, free int
	holds       []int32 // by job
}

func (c *count) Free() int { return c.free }
func (c *count) Empty()    { c.free = c.total }

func (c *count) Fit(gpus int) bool {
	if gpus > c.free {
		return false
	}
	c.free -= gpus
	return true
}

func (c *count) Place(id int32, gpus int) bool {
	if !c.Fit(gpus) {
		return false
	}
	for int(id) >= len(c.holds) {
		c.holds = append(c.holds, make([]int32, max(256, int(id)+1-len(c.holds), len(c.holds)))...)
	}
	c.holds[id] = int32(gpus)
	return true
}

func (c *count) Release(id int32) {
	c.free += int(c.holds[id])
	c.holds[id] = 0
}

// line is fifo: pending jobs start in the order in which they came until one
// does not fit. With skip it is lpjf, which was meant to serve the job that has
// waited longest. All waits stay zero there, so the order is that of fifo. A
// job that starts is taken out of the list that is being walked, so the job
// behind it is overlooked until the next event.
type line struct {
	place   scheme
	skip    bool
	hold    yarn.Holdings
	pending []pending
}

type pending struct{ id, gpus int32 }

// Decide implements sched.Policy.
func (l *line) Decide(v *sched.View, p *sched.Plan) {
	for _, ch := range v.Changes() {
		switch ch.Kind {
		case sched.Ended:
			l.place.Release(int32(ch.Job))
		case sched.Arrived:
			l.pending = append(l.pending, pending{int32(ch.Job), int32(v.Job(ch.Job).GPUs())})
		}
	}
	if !l.skip && l.place.Free() <= 0 {
		return
	}
	kept := l.pending[:0]
	for i := 0; i < len(l.pending); i++ {
		j := l.pending[i]
		if !l.place.Place(j.id, int(j.gpus)) {
			kept = append(kept, l.pending[i:]...)
			break
		}
		p.StartOn(job.ID(j.id), l.hold.Of(int(j.gpus)))
		if l.skip && i+1 < len(l.pending) {
			i++
			kept = append(kept, l.pending[i])
		}
	}
	l.pending = kept
}

// firstFit is fjf: every pending job that fits starts, in the order in which
// they came.
type firstFit struct {
	place   scheme
	hold    yarn.Holdings
	pending backlog.List
}

// Decide implements sched.Policy.
func (f *firstFit) Decide(v *sched.View, p *sched.Plan) {
	for _, ch := range v.Changes() {
		switch ch.Kind {
		case sched.Ended:
			f.place.Release(int32(ch.Job))
		case sched.Arrived:
			f.pending.Add(int32(ch.Job), v.Job(ch.Job).GPUs(), 0, f.pending.Back())
		}
	}
	if f.place.Free() <= 0 {
		return
	}
	_, starts := f.pending.Scan(f.place.Place)
	for _, id := range starts {
		p.StartOn(job.ID(id), f.hold.Of(int(f.pending.GPUs(id))))
		f.pending.Remove(id)
	}
}
