package quota

import (
	"slices"

	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/tenant"
)

// Basis says what the weights divide.
type Basis uint8

// The bases.
const (
	Borrowed Basis = iota // what is left after the guarantees
	All                   // everything; a guarantee is a least share
)

// Part is one of the parties that divide a capacity. Amounts are in thousandths
// of a GPU.
type Part struct {
	Promise float64 // what it gets before others get more
	Cap     float64 // what it can use at most
	Weight  float64 // above 0
	Share   float64 // the result
}

// Top is the tenant directly below the root to which a tenant belongs; the root for
// the root.
func Top(tree *tenant.Tree, t tenant.ID) tenant.ID {
	for t != tenant.Root && tree.At(t).Parent != tenant.Root {
		t = tree.At(t).Parent
	}
	return t
}

// PartOf is the part of a tenant that can use so much of a capacity. Its
// promise is the tenant's guarantee, and its cap at most the tenant's limit.
// Both are multiplied by times, a length of time, if the capacity is an amount
// over time; otherwise times is 1. The root stands for jobs of no tenant.
func PartOf(tree *tenant.Tree, t tenant.ID, use, times float64) Part {
	p := Part{Cap: use, Weight: 1}
	if t == tenant.Root {
		return p
	}
	e := tree.At(t)
	if e.Limit != tenant.Unlimited {
		p.Cap = min(p.Cap, float64(e.Limit)*times)
	}
	p.Promise, p.Weight = min(float64(e.Guarantee)*times, p.Cap), e.Weight
	return p
}

// edge is a water level at which a part begins or ceases to rise.
type edge struct{ at, slope float64 }

// Divide gives each part its weighted max-min fair share of a capacity. With
// the water at level x, in GPUs for each unit of weight, a part gets
//
//	min(Cap, Promise + x Weight)       weights divide what is Borrowed
//	min(Cap, max(Promise, x Weight))   weights divide All
//
// and x is the level at which all of the capacity is given out, or every part
// has enough. If the capacity is too small for the promises, each part gets the
// same fraction of its promise, or all that it can use. The level is found
// exactly, by walking the edges in order, in O(n log n).
func Divide(parts []Part, capacity float64, basis Basis) { new(divider).divide(parts, capacity, basis) }

// divider is Divide with its memory.
type divider struct{ edges []edge }

func (d *divider) divide(parts []Part, capacity float64, basis Basis) {
	promised := 0.0
	for i := range parts {
		promised += min(parts[i].Promise, parts[i].Cap)
	}
	if promised > capacity {
		d.edges = d.edges[:0]
		for i := range parts {
			if q := &parts[i]; q.Promise > 0 {
				d.rises(0, q.Cap/q.Promise, q.Promise)
			}
		}
		x := d.level(0, capacity)
		for i := range parts {
			parts[i].Share = min(parts[i].Cap, x*parts[i].Promise)
		}
		return
	}
	d.edges = d.edges[:0]
	for i := range parts {
		q := &parts[i]
		if q.Cap > q.Promise {
			from, to := 0.0, (q.Cap-q.Promise)/q.Weight
			if basis == All {
				from, to = q.Promise/q.Weight, q.Cap/q.Weight
			}
			d.rises(from, to, q.Weight)
		}
	}
	x := d.level(promised, capacity)
	for i := range parts {
		q := &parts[i]
		if basis == All {
			q.Share = min(q.Cap, max(q.Promise, x*q.Weight))
		} else {
			q.Share = min(q.Cap, q.Promise+x*q.Weight)
		}
	}
}

func (d *divider) rises(from, to, slope float64) {
	d.edges = append(d.edges, edge{from, slope}, edge{to, -slope})
}

// level is the water level at which the capacity is given out, where given is
// given out at level 0. It is the highest edge if the capacity is never given
// out.
func (d *divider) level(given, capacity float64) float64 {
	slices.SortFunc(d.edges, func(a, b edge) int {
		switch {
		case a.at < b.at, a.at == b.at && a.slope > b.slope:
			return -1
		case a == b:
			return 0
		}
		return 1
	})
	x, slope := 0.0, 0.0
	rising := 0
	for _, e := range d.edges {
		if more := slope * (e.at - x); rising > 0 && given+more >= capacity {
			return x + (capacity-given)/slope
		} else if rising > 0 {
			given += more
		}
		x = e.at
		slope += e.slope
		if e.slope > 0 {
			rising++
		} else {
			rising--
		}
	}
	return x
}

// water keeps the shares of all nodes of a tenant tree.
type water struct {
	divider
	caps   []float64 // of tenants
	whole  []float64 // shares of tenants, including all below them
	own    []float64 // shares of their own jobs
	parts  []Part
	nodes  []Node
	filled bool // whether it is up to date for the present decision
}

// fill divides the GPUs of the view down the tenant tree, by what each tenant
// has and asks for. asked is the demand of a tenant's own waiting jobs, in
// thousandths of a GPU.
func (w *water) fill(b *Book, basis Basis, asked func(tenant.ID) int64) {
	n := b.tree.Len()
	w.caps = slices.Grow(w.caps[:0], n)[:n]
	w.whole = slices.Grow(w.whole[:0], n)[:n]
	w.own = slices.Grow(w.own[:0], n)[:n]
	w.cap(b, tenant.Root, asked)
	w.parts, w.nodes, w.filled = w.parts[:0], w.nodes[:0], true
	w.share(b, tenant.Root, min(w.caps[tenant.Root], float64(b.Total.GPU)), basis)
}

// cap is the amount that a tenant and those below it could use.
func (w *water) cap(b *Book, t tenant.ID, asked func(tenant.ID) int64) float64 {
	e := b.tree.At(t)
	w.own[t], w.whole[t] = 0, 0
	if b.here[t] {
		w.own[t] = float64(b.GPU(Node{t, true})) + float64(asked(t)) // for now its cap
	}
	sum := w.own[t]
	for _, c := range e.Children {
		sum += w.cap(b, c, asked)
	}
	if e.Limit < tenant.Unlimited {
		sum = min(sum, float64(e.Limit))
	}
	w.caps[t] = sum
	return sum
}

// share divides what a tenant gets between its own jobs and its children.
func (w *water) share(b *Book, t tenant.ID, capacity float64, basis Basis) {
	w.whole[t] = capacity
	e := b.tree.At(t)
	if len(e.Children) == 0 {
		w.own[t] = capacity
		return
	}
	base := len(w.parts)
	put := func(n Node, cap float64) {
		if cap > 0 {
			w.parts = append(w.parts, Part{Promise: min(cap, float64(b.Promise(n))), Cap: cap, Weight: b.Weight(n)})
			w.nodes = append(w.nodes, n)
		}
	}
	put(Node{t, true}, w.own[t])
	for _, c := range e.Children {
		put(Node{Tenant: c}, w.caps[c])
	}
	w.own[t] = 0
	w.divide(w.parts[base:], capacity, basis)
	end := len(w.parts)
	for i := base; i < end; i++ {
		if n, s := w.nodes[i], w.parts[i].Share; n.Own {
			w.own[t] = s
		} else {
			w.share(b, n.Tenant, s, basis)
		}
	}
	w.parts, w.nodes = w.parts[:base], w.nodes[:base]
}

// of is the share of a node, in whole thousandths. Where rounding has made a
// whole number slightly too small, of restores it.
func (w *water) of(n Node) unit.Milli {
	s := w.whole[n.Tenant]
	if n.Own {
		s = w.own[n.Tenant]
	}
	return unit.Milli(s + 1e-6)
}
