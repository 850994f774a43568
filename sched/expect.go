package sched

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/place"
	"github.com/norn-scheduler/norn/state"
	"github.com/norn-scheduler/norn/state/dense"
)

// ending is a job that has devices, with the moment at which it is expected
// to leave them.
type ending struct {
	id job.ID
	at time.Duration
}

// Booking is devices that are kept for a waiting job for the time in which it is expected to
// run there.
type Booking struct {
	Job      job.ID
	From, To time.Duration // To is unit.Never for a job without an estimate
	On       cluster.Alloc
}

// Expect is the earliest moment at which a waiting job would fit, and the
// devices on which it would. It assumes that each job with devices in the pool
// leaves them when its estimate says, and that no other job starts. Jobs that
// this plan starts are among them. Jobs without an estimate are taken to run
// for ever; ok is false when the job would then never fit. Nothing is given to the
// job that is booked for another at a time at which it would run. The Alloc is valid
// until the next call.
func (p *Plan) Expect(id job.ID, where place.Strategy, booked ...Booking) (at time.Duration, on *cluster.Alloc, ok bool) {
	if !p.known(id, "place") {
		return 0, nil, false
	}
	r, c := p.state.Record(id), p.state.Cluster
	tasks := int(r.Job.Demand.Roles[0].Tasks)
	mark, used := c.Mark(), p.used
	defer func() {
		c.Undo(mark)
		p.used = used
	}()
	left := p.view.Job(id).TimeLeft()
	fits := func() bool {
		return p.Beside(booked, at, unit.Later(at, left), func() (ok bool) { _, ok = p.find(id, tasks, where); return ok })
	}
	if at = p.view.Now; fits() {
		return at, &p.req.Out, true
	}
	ends := p.endings(r.Pool)
	for end, more := ends.next(); ; {
		if at = nextEnd(booked, at); more {
			at = min(at, max(end.at, p.view.Now))
		}
		if at == unit.Never {
			return at, nil, false
		}
		for ; more && end.at <= at; end, more = ends.next() {
			c.Release(p.Alloc(end.id))
		}
		if enough(p.state, r, booked, at) && fits() {
			return at, &p.req.Out, true
		}
	}
}

// nextEnd is the first moment after another one at which what is booked becomes free.
func nextEnd(booked []Booking, after time.Duration) time.Duration {
	next := unit.Never
	for i := range booked {
		if to := booked[i].To; to > after {
			next = min(next, to)
		}
	}
	return next
}

// enough tells whether as many GPUs as a job needs would be free at a moment, wherever they are. It
// leaves out parts of GPUs that are booked.
func enough(s *state.State, r *job.Record, booked []Booking, at time.Duration) bool {
	if !r.Job.Demand.Plain() {
		return true
	}
	c, scope := s.Cluster, s.Class(r.Class).Scope
	mask := cmp.Or(r.Mask, c.GPUMask())
	free := c.FreeGPUs(scope, mask) - r.Job.Demand.GPUs()
	for i := range booked {
		b := &booked[i]
		if b.From > at || b.To <= at {
			continue // its devices may not be free yet, or are free again
		}
		for _, on := range b.On.Shares {
			if unit.Milli(on.Milli) == unit.One && mask.Has(c.TypeOf(on.Device)) && c.In(c.NodeOf(on.Device), scope) {
				free--
			}
		}
	}
	return free >= 0
}

// Beside runs f while what is booked for some time between two moments is available to no job, as far
// as it is free now. It returns whether f has planned something, as f says.
func (p *Plan) Beside(booked []Booking, from, to time.Duration, f func() bool) bool {
	c := p.state.Cluster
	mark, used := c.Mark(), p.used
	var run func(i int) bool
	run = func(i int) (ok bool) {
		for ; i < len(booked); i++ {
			if b := &booked[i]; b.From < to && from < b.To {
				p.Without(&b.On, func() { ok = run(i + 1) })
				return ok
			}
		}
		return f()
	}
	if run(0) {
		c.Keep(mark)
		return true
	}
	c.Undo(mark)
	p.used = used // nothing remembers the Allocs of what is booked any more
	return false
}

// endings goes through the jobs that have devices in a pool as the plan stands and are
// expected to end, by when they are, ties by number. Most of them stand in order in the
// state already.
type endings struct {
	plan *Plan
	own  []ending    // in order: those that the plan changes, and those that should have ended before now
	list *dense.List // of all others, and of those that the plan stops or changes
	from dense.Item  // the place in the list from which on none was looked at
}

func (p *Plan) endings(pool cluster.PoolID) endings {
	p.ends = p.ends[:0]
	add := func(id job.ID, at time.Duration, ok bool) {
		if ok && at < unit.Never {
			p.ends = append(p.ends, ending{id, at})
		}
	}
	for i := range p.ops {
		op := &p.ops[i]
		if op.Now == nil || p.state.Record(op.Job).Pool != pool {
			continue
		}
		j := p.view.Job(op.Job)
		if op.Was == nil {
			left, ok := j.Remaining()
			add(op.Job, p.view.Now+left, ok)
		} else {
			at, ok := j.ExpectedEnd()
			add(op.Job, at, ok)
		}
	}
	list := p.state.Lists().Endings(pool)
	at := dense.Item{A: math.MinInt64, ID: math.MinInt32}
	it, more := list.From(at)
	for ; more && it.A <= int64(p.view.Now); it, more = list.From(at) {
		if at = it; p.opOf[it.ID] == 0 {
			add(job.ID(it.ID), p.view.Now, true)
		}
		at.ID++
	}
	slices.SortFunc(p.ends, func(a, b ending) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.id, b.id)) })
	return endings{p, p.ends, list, at}
}

// next is the next to end; ok is false after the last.
func (e *endings) next() (end ending, ok bool) {
	it, more := e.list.From(e.from)
	for more && e.plan.opOf[it.ID] != 0 {
		e.from = it
		e.from.ID++
		it, more = e.list.From(e.from)
	}
	listed := ending{job.ID(it.ID), time.Duration(it.A)}
	if len(e.own) > 0 && (!more || e.own[0].before(&listed)) {
		end, e.own = e.own[0], e.own[1:]
		return end, true
	}
	e.from = it
	e.from.ID++
	return listed, more
}

func (a *ending) before(b *ending) bool { return a.at < b.at || a.at == b.at && a.id < b.id }

// Without runs f while the free part of the devices in a is available to no
// job.
func (p *Plan) Without(a *cluster.Alloc, f func()) {
	kept := p.newAlloc()
	shares := a.Shares
	for _, piece := range a.Pieces {
		q := cluster.Piece{Node: piece.Node, Role: piece.Role, Tasks: piece.Tasks}
		for _, s := range shares[:piece.Shares] {
			if s.Milli = min(s.Milli, int32(p.state.Cluster.DeviceFree(s.Device))); s.Milli > 0 {
				s.Memory = 0
				kept.Shares = append(kept.Shares, s)
				q.Shares++
			}
		}
		shares = shares[piece.Shares:]
		if free, ok := p.state.Cluster.CPUFree(piece.Node); ok {
			q.CPU = min(piece.CPU, free)
		}
		if free, ok := p.state.Cluster.MemoryFree(piece.Node); ok {
			q.Memory = min(piece.Memory, free)
		}
		kept.Pieces = append(kept.Pieces, q)
	}
	kept.Slots = a.Slots
	if p.state.Cluster.Allocate(kept) != nil {
		kept.Slots = nil // less of a counted resource is free
		if p.state.Cluster.Allocate(kept) != nil {
			kept.Reset() // one of its nodes has gone: nothing of it can be reserved
		}
	}
	f()
	p.state.Cluster.Release(kept)
}
