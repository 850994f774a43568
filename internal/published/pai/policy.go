package pai

import (
	"cmp"
	"slices"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/internal/published/backlog"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/policy/kit/queue"
	"github.com/norn-scheduler/norn/sched"
)

// policy walks the pending jobs in order whenever a job arrives or ends, and
// starts whoever fits. The published code does so at every tick, unless the
// idle resources and the number of jobs are as they were after a walk that
// started no job. A walk in vain changes nothing, so every walk that must be in
// vain can be left out.
type policy struct {
	facts  []facts
	nodes  idle
	queue  queue.Queue
	kinds  []kind   // by class
	came   []job.ID // at this event
	where  []span   // by job: its pieces
	pieces []piece  // of all jobs that have started
	alloc  cluster.Alloc
}

// span is a part of a slice.
type span struct{ from, to int32 }

func (p *policy) piecesOf(id job.ID) []piece { return p.pieces[p.where[id].from:p.where[id].to] }

// pair is an amount of GPUs and CPUs, in per cent.
type pair struct{ gpus, cpus int64 }

// kind is a class of jobs of equal demand.
type kind struct {
	need    pair // of one job
	waiting int  // jobs in the queue
	vain    bool // no node had room for any of them, but for what was freed since
}

// piece is some instances of a job on a node.
type piece struct{ node, instances int32 }

func newPolicy(p Policy, m *machine, w *workload) *policy {
	return &policy{facts: w.facts, nodes: newIdle(m, p.balance), where: make([]span, len(w.facts))}
}

// Decide implements sched.Policy.
func (p *policy) Decide(v *sched.View, plan *sched.Plan) {
	freed := false
	p.came = p.came[:0]
	for _, ch := range v.Changes() {
		switch ch.Kind {
		case sched.Ended:
			for _, at := range p.piecesOf(ch.Job) {
				p.nodes.book(&p.facts[ch.Job], at, -1)
			}
			freed = true
		case sched.Arrived:
			p.came = append(p.came, ch.Job)
		}
	}
	if !freed {
		p.onlyNew(v, plan)
		return
	}
	for _, id := range p.came {
		p.enqueue(v, id, false)
	}
	p.queue.Walk(func(class int32) bool { return p.nodes.total.holds(p.kinds[class].need) }, func(id job.ID) queue.Step {
		k := &p.kinds[v.Job(id).Class()]
		switch {
		case p.nodes.full():
			return queue.Stop
		case p.start(v, id, k.vain, plan):
			k.waiting--
			return queue.Took
		}
		k.vain = true
		return queue.SkipClass
	})
	p.nodes.freed.Clear()
}

// onlyNew looks at the jobs that have just come: where nothing was freed, no
// other can fit.
func (p *policy) onlyNew(v *sched.View, plan *sched.Plan) {
	slices.SortFunc(p.came, func(a, b job.ID) int {
		ka, kb := p.place(a), p.place(b)
		return cmp.Or(cmp.Compare(ka.A, kb.A), cmp.Compare(ka.B, kb.B), cmp.Compare(a, b))
	})
	for _, id := range p.came {
		if p.nodes.full() || !p.start(v, id, false, plan) {
			p.enqueue(v, id, true)
		}
	}
}

// enqueue puts a job into the queue. tried tells whether it was tried in vain.
func (p *policy) enqueue(v *sched.View, id job.ID, tried bool) {
	class := v.Job(id).Class()
	for int(class) >= len(p.kinds) {
		p.kinds = append(p.kinds, kind{})
	}
	k := &p.kinds[class]
	k.need = p.facts[id].need()
	if k.waiting++; k.waiting == 1 || tried {
		k.vain = tried
	}
	p.queue.Add(id, class, p.place(id))
}

// place is the place of a job in the order.
func (p *policy) place(id job.ID) queue.Key {
	f := &p.facts[id]
	return queue.Key{A: backlog.FloatKey(f.key), B: f.id}
}

// start starts a job if it fits. vain tells that only what was freed can hold it.
func (p *policy) start(v *sched.View, id job.ID, vain bool, plan *sched.Plan) bool {
	f := &p.facts[id]
	if !p.nodes.total.holds(f.need()) || !p.nodes.find(f, vain) {
		return false
	}
	from := len(p.pieces)
	p.pieces = append(p.pieces, p.nodes.found...)
	p.where[id] = span{int32(from), int32(len(p.pieces))}
	p.alloc.Reset()
	for _, at := range p.nodes.found {
		p.nodes.book(f, at, 1)
		n := int64(at.instances)
		q := cluster.Piece{Node: cluster.NodeID(at.node), Tasks: at.instances, CPU: milli(int64(f.cpus) * n)}
		if f.gpus > 0 {
			first, _ := v.Cluster().DeviceRange(q.Node)
			p.alloc.Shares = append(p.alloc.Shares, cluster.Share{Device: first, Milli: int32(milli(int64(f.gpus) * n))})
			q.Shares = 1
		}
		p.alloc.Pieces = append(p.alloc.Pieces, q)
	}
	return plan.StartOn(id, &p.alloc)
}

// nodeOf is the node of an instance of a job that has started.
func (p *policy) nodeOf(id, part int32) int32 {
	for _, at := range p.piecesOf(job.ID(id)) {
		if part -= at.instances; part < 0 {
			return at.node
		}
	}
	return -1
}

// need is what all instances of a job need together.
func (f *facts) need() pair {
	n := int64(f.instances)
	return pair{int64(f.gpus) * n, int64(f.cpus) * n}
}

// holds tells whether an amount suffices.
func (p pair) holds(need pair) bool { return need.gpus <= p.gpus && need.cpus <= p.cpus }
