package lucid

import (
	"time"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/internal/published/backlog"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/sched"
	"github.com/norn-scheduler/norn/state/dense"
)

// order is by what a line is sorted.
type order uint8

const (
	bySubmit order = iota
	byDuration
	byPriority
)

// line is fifo, sjf and qssf: in each virtual cluster the pending jobs are
// sorted and start in that order until one has no room.
//
// qssf asks for predictions only once a job has to wait: jobs that come to an
// empty line are sorted by size alone, and only what is still there a second
// later is sorted by prediction, and tried again.
type line struct {
	order   order
	pending []dense.List // by pool
	dirty   dense.Set    // pools in which something happened
	fresh   dense.Set    // pools in which something is left of jobs that came to an empty line
	room    cluster.Alloc
}

func newLine(pools int, o order) *line { return &line{order: o, pending: make([]dense.List, pools)} }

// Decide implements sched.Policy.
func (l *line) Decide(v *sched.View, p *sched.Plan) {
	for pool := range l.fresh.All() {
		l.rank(v, pool)
	}
	l.fresh.Clear()
	for _, ch := range v.Changes() {
		l.dirty.Add(int(v.Job(ch.Job).Pool()))
	}
	empty := dense.Set{}
	if l.order == byPriority {
		for pool := range l.dirty.All() {
			if l.pending[pool].Len() == 0 {
				empty.Add(pool)
			}
		}
	}
	for _, ch := range v.Changes() {
		if ch.Kind == sched.Arrived {
			j := v.Job(ch.Job)
			l.pending[j.Pool()].Insert(l.item(j, empty.Has(int(j.Pool()))))
		}
	}
	for pool := range l.dirty.All() {
		l.serve(cluster.PoolID(pool), v, p)
		if empty.Has(pool) && l.pending[pool].Len() > 0 {
			l.fresh.Add(pool)
		}
	}
	l.dirty.Clear()
}

// item is the place of a job in its line.
func (l *line) item(j sched.Job, fresh bool) dense.Item {
	it := dense.Item{ID: int32(j.ID)}
	switch {
	case l.order == byDuration:
		d, _ := j.Estimate()
		it.A = int64(d)
	case l.order == byPriority:
		it.B = int64(j.GPUs())
		if !fresh {
			it.A = backlog.FloatKey(j.Spec().Hints.Rank)
		}
	}
	return it
}

// rank sorts what is left of a fresh line by prediction.
func (l *line) rank(v *sched.View, pool int) {
	var ids []int32
	l.pending[pool].Each(func(it dense.Item) bool {
		ids = append(ids, it.ID)
		return true
	})
	l.pending[pool].Clear()
	for _, id := range ids {
		l.pending[pool].Insert(l.item(v.Job(job.ID(id)), false))
	}
	l.dirty.Add(pool)
}

// serve starts the jobs of a line until one has no room.
func (l *line) serve(pool cluster.PoolID, v *sched.View, p *sched.Plan) {
	for {
		it, ok := l.pending[pool].Min()
		if !ok || !consolidate(v.Cluster(), pool, v.Job(job.ID(it.ID)).GPUs(), &l.room) {
			return
		}
		p.StartOn(job.ID(it.ID), &l.room)
		l.pending[pool].Remove(it)
	}
}

// NextWake implements sched.Waker.
func (l *line) NextWake(v *sched.View) time.Duration {
	if l.fresh.Len() > 0 {
		return v.Now + time.Second
	}
	return unit.Never
}
