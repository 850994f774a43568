package sched

import (
	"time"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/place"
)

// ending is a job that holds devices, with the moment at which it is expected
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
	p.listEndings(r.Pool)
	for p.ends.more() {
		at = p.ends[0].at
		for p.ends.more() && p.ends[0].at == at {
			p.state.Cluster.Release(p.Alloc(p.ends.pop().id))
		}
		if p.state.Cluster.FreeGPUs(r.Pool, r.Mask) < need && r.Job.Demand.Plain() {
			continue
		}
		if _, ok := p.find(id, tasks, where); ok {
			return at, &p.req.Out, true
		}
	}
	return unit.Never, nil, false
}

// listEndings lists the jobs that hold devices in a pool as the plan stands and are
// expected to end, by when.
func (p *Plan) listEndings(pool cluster.PoolID) {
	p.ends = p.ends[:0]
	add := func(id job.ID, started bool) {
		j := p.view.Job(id)
		at, ok := j.ExpectedEnd()
		if started {
			var left time.Duration
			if left, ok = j.Remaining(); ok {
				at = p.view.Now + left
			}
		}
		if ok && at < unit.Never {
			p.ends = append(p.ends, ending{id, at})
		}
	}
	for i := range p.state.Running(pool).All() {
		if id := job.ID(i); p.opOf[id] == 0 {
			add(id, false)
		}
	}
	for i := range p.ops {
		if op := &p.ops[i]; op.Now != nil && p.state.Record(op.Job).Pool == pool {
			add(op.Job, op.Was == nil)
		}
	}
	p.ends.order()
}

// endings is a heap. A job usually fits after few of them, so they are not
// sorted.
type endings []ending

// order makes the heap.
func (e endings) order() {
	for i := len(e)/2 - 1; i >= 0; i-- {
		e.down(i)
	}
}

// more tells whether any job is left that is expected to end.
func (e endings) more() bool { return len(e) > 0 }

// pop takes out the first to end, ties by number.
func (e *endings) pop() ending {
	h := *e
	first, last := h[0], len(h)-1
	h[0] = h[last]
	*e = h[:last]
	h[:last].down(0)
	return first
}

func (e endings) down(i int) {
	for {
		least := i
		for c := 2*i + 1; c <= 2*i+2 && c < len(e); c++ {
			if e[c].before(&e[least]) {
				least = c
			}
		}
		if least == i {
			return
		}
		e[i], e[least] = e[least], e[i]
		i = least
	}
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
	if p.state.Cluster.Allocate(kept) != nil {
		kept.Reset() // one of its nodes has gone: nothing of it can be reserved
	}
	f()
	p.state.Cluster.Release(kept)
}
