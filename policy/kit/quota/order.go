package quota

import (
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/sched"
	"github.com/norn-scheduler/norn/tenant"
)

// order is a heap of the nodes right below a tenant that may go next, the lowest first.
// Starting a job changes the level of the node on top alone, so that only this one
// is looked at again.
type order struct {
	round, books uint64 // in which it was made, see Policy
	nodes        []placed
}

// placed is a node with its place in an order.
type placed struct {
	Node
	level Level
	first job.ID // see Policy.first
}

// before tells whether a node goes before another. Ties go to the node whose next job has
// the lower number.
func (a *placed) before(b *placed) bool {
	switch {
	case a.level.Below(b.level):
		return true
	case b.level.Below(a.level):
		return false
	}
	return a.first < b.first
}

// lowest is the node with the lowest level among the children of a tenant that
// are not left out, and its own jobs.
func (r *Policy) lowest(v *sched.View, t tenant.ID) (Node, bool) {
	a := &r.accounts[t]
	o := &a.order
	if o.round != r.round || o.books != r.books {
		r.arrange(v, t, o)
	}
	for len(o.nodes) > 0 {
		top := &o.nodes[0]
		if !r.goes(top.Node) {
			last := len(o.nodes) - 1
			o.nodes[0] = o.nodes[last]
			o.nodes = o.nodes[:last]
			o.down(0)
			continue
		}
		was := *top
		if r.stand(v, top); was.before(top) {
			o.down(0)
			continue
		}
		return top.Node, true
	}
	return Node{}, false
}

// arrange makes the order below a tenant anew.
func (r *Policy) arrange(v *sched.View, t tenant.ID, o *order) {
	a := &r.accounts[t]
	o.round, o.books, o.nodes = r.round, r.books, o.nodes[:0]
	add := func(n Node) {
		if r.goes(n) {
			at := placed{Node: n}
			o.nodes = append(o.nodes, r.stand(v, &at))
		}
	}
	for c := a.active.Min(); c >= 0; c = a.active.Next(c + 1) {
		add(Node{Tenant: tenant.ID(c)})
	}
	add(Node{Tenant: t, Own: true})
	for i := len(o.nodes)/2 - 1; i >= 0; i-- {
		o.down(i)
	}
}

// goes tells whether a node has waiting jobs and is not left out.
func (r *Policy) goes(n Node) bool {
	a := &r.accounts[n.Tenant]
	if n.Own {
		return a.own > 0 && a.shut != r.round
	}
	return a.below > 0 && a.done != r.round
}

// stand brings the place of a node up to date, and returns it.
func (r *Policy) stand(v *sched.View, at *placed) placed {
	at.level = r.Rule.Level(&r.book, at.Node, r.book.Used(at.Node))
	at.first = r.first(v, at.Node)
	return *at
}

// down moves the node at i down to its place in the heap.
func (o *order) down(i int) {
	for {
		least := i
		for c := 2*i + 1; c <= 2*i+2 && c < len(o.nodes); c++ {
			if o.nodes[c].before(&o.nodes[least]) {
				least = c
			}
		}
		if least == i {
			return
		}
		o.nodes[i], o.nodes[least] = o.nodes[least], o.nodes[i]
		i = least
	}
}
