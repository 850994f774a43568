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
	"github.com/norn-scheduler/norn/state/dense"
)

// ending is a job that has devices, with the moment at which it is expected
// to leave them.
type ending struct {
	id job.ID
	at time.Duration
}

// Expect is the earliest moment at which a waiting job would fit, and the
// devices on which it would. It assumes that each job with devices in the pool
// leaves them when its estimate says, and that no other job starts. Jobs that
// this plan starts are among them. Jobs without an estimate are taken to run
// for ever; ok is false when the job would then never fit. The Alloc is valid
// until the next call.
func (p *Plan) Expect(id job.ID, where place.Strategy) (at time.Duration, on *cluster.Alloc, ok bool) {
	if !p.known(id, "place") {
		return 0, nil, false
	}
	r := p.state.Record(id)
	tasks := int(r.Job.Demand.Roles[0].Tasks)
	need := r.Job.Demand.GPUs()
	mark := p.state.Cluster.Mark()
	defer p.state.Cluster.Undo(mark)
	if _, ok := p.find(id, tasks, where); ok {
		return p.view.Now, &p.req.Out, true
	}
	ends := p.endings(r.Pool)
	for end, more := ends.next(); more; {
		for at = end.at; more && end.at == at; end, more = ends.next() {
			p.state.Cluster.Release(p.Alloc(end.id))
		}
		if p.state.Cluster.FreeGPUs(p.state.Class(r.Class).Scope, r.Mask) < need && r.Job.Demand.Plain() {
			continue
		}
		if _, ok := p.find(id, tasks, where); ok {
			return at, &p.req.Out, true
		}
	}
	return unit.Never, nil, false
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
