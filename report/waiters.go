package report

import (
	"cmp"
	"slices"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/eventlog"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/place"
	"github.com/norn-scheduler/norn/state"
	"github.com/norn-scheduler/norn/state/dense"
)

// tried is how many of the demands of waiting jobs are tried on the idle GPUs of a moment,
// the smallest first. Traces in which each job has a demand of its own, down to its cores,
// would otherwise be slow to follow.
const tried = 64

// waiters is what the jobs that wait, and can run, ask for. Jobs on hold are not among them.
type waiters struct {
	jobs    int
	asked   unit.Milli // GPUs
	classes []int32    // of waiting jobs that ask for GPUs, the smallest demand first
	count   map[int32]int
	fits    int32         // the class that fitted last
	now     room          // what the idle GPUs are good for
	request place.Request // scratch
}

func newWaiters() *waiters { return &waiters{count: map[int32]int{}} }

// add takes in so many jobs of a class, or takes them out.
func (w *waiters) add(class int32, n int, s *state.State) {
	gpu := s.Class(class).Amount.GPU
	w.jobs += n
	w.asked += unit.Milli(n) * gpu
	if gpu == 0 {
		return
	}
	was := w.count[class]
	if w.count[class] = was + n; was > 0 && was+n > 0 {
		return
	}
	at, found := slices.BinarySearchFunc(w.classes, class, func(a, b int32) int {
		return cmp.Or(cmp.Compare(s.Class(a).Amount.GPU, s.Class(b).Amount.GPU), cmp.Compare(a, b))
	})
	switch {
	case was+n == 0 && found:
		delete(w.count, class)
		w.classes = slices.Delete(w.classes, at, at+1)
	case !found:
		w.classes = slices.Insert(w.classes, at, class)
	}
}

// room is what idle GPUs are good for while jobs wait.
type room uint8

const (
	calm      room = iota // no job waits for GPUs
	roomy                 // one fits on as few nodes as it needs
	scattered             // those that fit would be spread over more nodes than they need
	tight                 // none fits, on whatever nodes
)

// event finds anew what the idle GPUs are good for, unless the event can only confirm it.
func (w *waiters) event(kind eventlog.Kind, s *state.State, idle unit.Milli) {
	switch kind {
	case eventlog.Start, eventlog.Assign:
		if w.now == tight && len(w.classes) > 0 {
			return
		}
	case eventlog.Submit, eventlog.End, eventlog.Fail, eventlog.Evict, eventlog.Preempt, eventlog.Gone, eventlog.Free:
		if w.now == roomy && w.count[w.fits] > 0 {
			return
		}
	}
	w.now = w.room(s, idle)
}

// room tries the waiting jobs on the idle GPUs, each by itself, at the least size that it may
// have. Only free devices count, also where jobs may share them.
func (w *waiters) room(s *state.State, idle unit.Milli) room {
	switch {
	case len(w.classes) == 0:
		return calm
	case w.count[w.fits] > 0 && w.try(w.fits, s, idle, place.Consolidated):
		return roomy
	}
	best := tight
	for i, class := range w.classes {
		if i == tried {
			break
		}
		if w.try(class, s, idle, place.Consolidated) {
			w.fits = class
			return roomy
		}
		if best == tight && w.try(class, s, idle, place.Pack) {
			best = scattered
		}
	}
	return best
}

// try tells whether a job of a class fits on what is idle now.
func (w *waiters) try(class int32, s *state.State, idle unit.Milli, how place.Strategy) bool {
	k, r := s.Class(class), &w.request
	least, _ := k.Demand.Roles[0].Range()
	if k.Demand.Milli(least) > idle {
		return false
	}
	r.Cluster, r.Demand, r.Tasks, r.Pool, r.Mask, r.Slots = s.Cluster, k.Demand, least, k.Scope, k.Mask, k.Slots
	_, ok := place.Gang(r, how)
	return ok
}

// detail is what a Collector tells of a job in jobs.csv, beside its record.
type detail struct {
	rho   float64          // 0: not known
	types cluster.TypeMask // of the GPUs that it had last; 0: it had none
	class int32            // under which it counts among the waiters
	first job.ReasonCode   // why it first waited; NoReason: it did not, before it started
	held  unit.Milli       // devices that it has
}

// details are those of all jobs, by number.
type details struct{ dense.Rows[detail] }

func (d *details) of(id job.ID) *detail {
	for d.Len() <= int(id) {
		d.Add()
	}
	return d.At(int(id))
}

// detail follows a job that came from one mode into another.
func (c *Collector) detail(r *job.Record, t *track, was mode, kind eventlog.Kind, s *state.State) {
	d, is := c.details.of(r.Job.ID), t.mode
	held := unit.Milli(0)
	if is == running || is == stopping {
		held = r.Milli
	}
	c.holders[t.size] += held - d.held
	d.held = held
	if was != is && asks(was) {
		c.waiters.add(d.class, -1, s)
	}
	if was != is && asks(is) {
		d.class = r.Class
		c.waiters.add(d.class, 1, s)
	}
	if d.first == job.NoReason && r.FirstStart < 0 && is >= waiting && is < assigned {
		d.first = job.ReasonCode(is - waiting)
	}
	if a := s.Alloc(r.Job.ID); is == running && a != nil {
		d.types = 0
		for i := range a.Shares {
			d.types |= 1 << s.Cluster.TypeOf(a.Shares[i].Device)
		}
	}
	c.waiters.event(kind, s, c.idle())
}

// asks tells of a mode that a job in it waits, and can run.
func asks(m mode) bool { return m >= waiting && m < assigned && active[m] }

// idle is the GPUs that are there and that no job has.
func (c *Collector) idle() unit.Milli { return max(0, c.supply.total-c.flow.allocated) }

// level is what holds now, for the series.
func (c *Collector) level() level {
	idle := float64(c.idle()) / float64(unit.One)
	v := level{used: c.used(), queue: float64(c.queue), lacked: c.lacked}
	for i, held := range c.holders {
		v.held[i] = float64(held) / float64(unit.One)
	}
	v.there, v.idle, v.asked = float64(c.supply.total)/float64(unit.One), idle, float64(c.waiters.asked)/float64(unit.One)
	if c.waiters.jobs > 0 {
		v.beside = idle
		switch c.waiters.now {
		case scattered:
			v.scattered = idle
		case tight:
			v.unfit = idle
		}
	}
	return v
}
