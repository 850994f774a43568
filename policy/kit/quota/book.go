// Package quota is for schedulers that divide a cluster between tenants. It
// keeps what each tenant has as a plan takes shape, queues jobs by tenant,
// fills the cluster progressively down the tenant tree, and reclaims what was
// borrowed.
//
// Nouns:
//   - A Node is a part of the tenant tree that gets a share. It is a tenant
//     with all below it, or only the own jobs of a tenant that also has
//     children.
//   - The Level of a node tells how well it is served. The node with the lowest
//     level goes next.
//   - The promise of a node is the sum that it and the nodes below it are
//     guaranteed.
//   - GPUs that a node holds beyond its promise are borrowed. A claim takes
//     them back.
//
// Units: GPUs and cores in thousandths, memory in bytes.
//
// Sources: progressive filling is Ghodsi et al., "Dominant Resource Fairness",
// NSDI 2011, algorithm 1; guarantee, borrowing and reclaim are those of the
// capacity and fair schedulers of YARN, of Kueue's cohorts and of KAI's queues.
package quota

import (
	"slices"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/sched"
	"github.com/norn-scheduler/norn/tenant"
)

// Node is a part of the tenant tree that gets a share.
type Node struct {
	Tenant tenant.ID
	Own    bool // only the jobs of the tenant itself, not those of its children
}

// Book keeps what each tenant has as a plan stands: the tenant tree, and the
// changes of the plan. It is valid from one Open to the next.
type Book struct {
	Total tenant.Amount // usable resources in the part of the cluster that the view shows

	tree    *tenant.Tree
	delta   []tenant.Amount
	touched []tenant.ID
	promise []unit.Milli
	here    []bool // tenants whose jobs run in the part of the cluster that the view shows
	visits  int    // for which here was found, see sched.View.Visits
	outer   []outer
	listed  []bool // tenants in outer
	log     []held
}

// outer is a limited tenant that has, or may have, jobs in other parts of the
// cluster. It keeps the GPUs that the tenant had at the last look.
type outer struct {
	id   tenant.ID
	used unit.Milli
}

type held struct {
	id   tenant.ID
	what tenant.Amount
	sign int
}

// Open begins a plan. The plan may already hold decisions for another pool,
// whose policy was asked before; they count.
func (b *Book) Open(v *sched.View, p *sched.Plan) {
	b.Close()
	b.tree = v.Tenants()
	if len(b.delta) < b.tree.Len() {
		b.grow(v)
	} else if b.visits != v.Visits() {
		b.visited(v, 0)
	}
	b.Total.GPU = unit.Milli(v.Total()) * unit.One
	if v.NodesChanged() {
		b.Total.CPU, b.Total.Memory = others(v)
	}
	ops := p.Ops()
	for i := range ops {
		j := v.Job(ops[i].Job)
		switch amount := v.Class(j.Class()).Amount; {
		case ops[i].Was == nil && ops[i].Now != nil:
			b.Count(j.Tenant(), amount, 1)
		case ops[i].Was != nil && ops[i].Now == nil:
			b.Count(j.Tenant(), amount, -1)
		}
	}
}

// grow takes in the tenants that are new.
func (b *Book) grow(v *sched.View) {
	known, all := len(b.delta), b.tree.Len()
	b.delta = append(b.delta, make([]tenant.Amount, all-known)...)
	b.promise = append(b.promise, make([]unit.Milli, all-known)...)
	b.listed = append(b.listed, make([]bool, all-known)...)
	promises := false
	for t := tenant.ID(known); int(t) < all; t++ {
		b.here = append(b.here, false)
		promises = promises || b.tree.At(t).Guarantee > 0
	}
	if promises {
		b.promised(tenant.Root)
	}
	for i := range b.outer {
		b.outer[i].used = b.tree.At(b.outer[i].id).Used.GPU
	}
	if b.visits != v.Visits() {
		known = 0
	}
	b.visited(v, tenant.ID(known))
}

// visited takes in where tenants have jobs, of all from one on.
func (b *Book) visited(v *sched.View, from tenant.ID) {
	b.visits = v.Visits()
	for t := from; int(t) < len(b.here); t++ {
		b.here[t] = v.Uses(t)
		if !v.All && slices.ContainsFunc(v.PoolsOf(t), func(p cluster.PoolID) bool { return p != v.Pool }) {
			b.outside(t)
		}
	}
}

// outside lists the limits over a tenant with jobs in other parts of the cluster.
func (b *Book) outside(t tenant.ID) {
	for up := t; up >= 0; up = b.tree.At(up).Parent {
		if e := b.tree.At(up); e.Limit < tenant.Unlimited && !b.listed[up] {
			b.listed[up] = true
			b.outer = append(b.outer, outer{up, e.Used.GPU})
		}
	}
}

// Loosened tells whether GPUs were given back since the last call under a limit
// that also applies to jobs in other parts of the cluster.
func (b *Book) Loosened() (yes bool) {
	for i := range b.outer {
		used := b.tree.At(b.outer[i].id).Used.GPU
		yes = yes || used < b.outer[i].used
		b.outer[i].used = used
	}
	return yes
}

// Close notes that the plan was carried out. From now on the tenant tree
// includes it.
func (b *Book) Close() {
	for _, t := range b.touched {
		b.delta[t] = tenant.Amount{}
	}
	b.touched, b.log = b.touched[:0], b.log[:0]
}

// others is the CPU, in thousandths of a core, and the memory of the usable
// nodes that the view shows. It is 0 where nodes declare none.
func others(v *sched.View) (cpu unit.Milli, memory unit.Bytes) {
	c := v.Cluster()
	for p := range v.EachPool() {
		for _, n := range c.PoolNodes(p) {
			if c.Usable(n) {
				cpu += c.Node(n).CPU
				memory += c.Node(n).Memory
			}
		}
	}
	return cpu, memory
}

// promised fills in the promises of a tenant and of those below it, and returns
// the tenant's.
func (b *Book) promised(t tenant.ID) unit.Milli {
	e := b.tree.At(t)
	sum := unit.Milli(0)
	for _, c := range e.Children {
		sum += b.promised(c)
	}
	b.promise[t] = max(e.Guarantee, sum)
	return b.promise[t]
}

// Count notes that the plan gives a tenant something (sign 1) or takes it away
// (sign -1).
func (b *Book) Count(t tenant.ID, a tenant.Amount, sign int) {
	b.log = append(b.log, held{t, a, sign})
	b.add(t, a, sign)
}

func (b *Book) add(t tenant.ID, a tenant.Amount, sign int) {
	for ; t >= 0; t = b.tree.At(t).Parent {
		d := &b.delta[t]
		if *d == (tenant.Amount{}) {
			b.touched = append(b.touched, t)
		}
		d.GPU += unit.Milli(sign) * a.GPU
		d.CPU += unit.Milli(sign) * a.CPU
		d.Memory += unit.Bytes(sign) * a.Memory
	}
}

// Mark is a mark of the present book, to which Undo returns.
func (b *Book) Mark() int { return len(b.log) }

// Undo takes back every Count since the Mark.
func (b *Book) Undo(mark int) {
	for i := len(b.log) - 1; i >= mark; i-- {
		b.add(b.log[i].id, b.log[i].what, -b.log[i].sign)
	}
	b.log = b.log[:mark]
}

// Used is what a node has.
func (b *Book) Used(n Node) tenant.Amount {
	e := b.tree.At(n.Tenant)
	u := plus(e.Used, b.delta[n.Tenant], 1)
	if n.Own {
		for _, c := range e.Children {
			u = plus(u, plus(b.tree.At(c).Used, b.delta[c], 1), -1)
		}
	}
	return u
}

func plus(a, b tenant.Amount, sign int) tenant.Amount {
	a.GPU += unit.Milli(sign) * b.GPU
	a.CPU += unit.Milli(sign) * b.CPU
	a.Memory += unit.Bytes(sign) * b.Memory
	return a
}

// GPU is the amount of GPUs that a node has.
func (b *Book) GPU(n Node) unit.Milli { return b.Used(n).GPU }

// Promise is what a node is guaranteed. For a tenant it is the larger of its
// own guarantee and the sum of the promises below it. For a tenant's own jobs
// it is what remains of that.
func (b *Book) Promise(n Node) unit.Milli {
	g := b.promise[n.Tenant]
	if n.Own {
		for _, c := range b.tree.At(n.Tenant).Children {
			g -= b.promise[c]
		}
	}
	return g
}

// Weight is the weight of a node among its siblings. The own jobs of a tenant
// with children weigh 1.
func (b *Book) Weight(n Node) float64 {
	if n.Own {
		return 1
	}
	return b.tree.At(n.Tenant).Weight
}

// Room is the amount of GPUs that the jobs of a tenant may still take before it
// or a tenant above it meets its limit. It also returns the tenant whose limit
// that is.
func (b *Book) Room(t tenant.ID) (room unit.Milli, binds tenant.ID) {
	room, binds = tenant.Unlimited, t
	for ; t >= 0; t = b.tree.At(t).Parent {
		e := b.tree.At(t)
		if r := e.Limit - e.Used.GPU - b.delta[t].GPU; e.Limit < tenant.Unlimited && r < room {
			room, binds = r, t
		}
	}
	return room, binds
}

// under tells whether a tenant is another or below it.
func (b *Book) under(t, above tenant.ID) bool {
	for t > above { // parents come before their children
		t = b.tree.At(t).Parent
	}
	return t == above
}

// Quota is the reason to wait for a job that would exceed the limit of a tenant.
func (b *Book) Quota(t tenant.ID) job.Reason {
	limit, has := b.tree.At(t).Limit, b.GPU(Node{Tenant: t})
	return job.Reason{Code: job.Quota, Need: int32(limit / unit.One), Have: int32(has / unit.One), Job: job.None}
}

// Forbids tells whether a job asks for more GPUs than its tenant may ever have.
// If so, it notes the reason.
func (b *Book) Forbids(p *sched.Plan, j sched.Job, need unit.Milli) bool {
	limit := b.Cap(j.Tenant())
	if need > limit {
		p.Wait(j.ID, job.Reason{Code: job.OverLimit, Need: int32(j.GPUs()), Have: int32(limit / unit.One), Job: job.None})
	}
	return need > limit
}

// Owed tells whether a tenant, or one above it, stays within its promise when a
// job of the tenant starts that needs so many GPUs.
func (b *Book) Owed(t tenant.ID, need unit.Milli) bool {
	for n, ok := b.leaf(t), true; ok && n.Tenant != tenant.Root; n, ok = b.parent(n) {
		if b.GPU(n)+need <= b.Promise(n) {
			return true
		}
	}
	return false
}

// Cap is the largest number of GPUs that the jobs of a tenant may ever have.
func (b *Book) Cap(t tenant.ID) unit.Milli {
	limit := tenant.Unlimited
	for ; t >= 0; t = b.tree.At(t).Parent {
		limit = min(limit, b.tree.At(t).Limit)
	}
	return limit
}

// Dominant is the dominant share of an amount: the largest fraction of the
// total of any resource. A resource that the cluster does not declare does not
// count.
func (b *Book) Dominant(a tenant.Amount) float64 { return a.Dominant(b.Total) }

// Promises tells whether any tenant has a guarantee.
func (b *Book) Promises() bool { return b.promise[tenant.Root] > 0 }

// parent is the node above; ok is false at the root.
func (b *Book) parent(n Node) (above Node, ok bool) {
	if n.Own {
		return Node{Tenant: n.Tenant}, true
	}
	t := b.tree.At(n.Tenant).Parent
	return Node{Tenant: t}, t >= 0
}

// leaf is the node that stands for the own jobs of a tenant.
func (b *Book) leaf(t tenant.ID) Node {
	return Node{Tenant: t, Own: len(b.tree.At(t).Children) > 0}
}
