package quota

import (
	"time"

	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/place"
	"github.com/norn-scheduler/norn/sched"
	"github.com/norn-scheduler/norn/state/dense"
	"github.com/norn-scheduler/norn/tenant"
)

// Level tells how well a node is served. Nodes of a lower tier go first, and
// within a tier those with the smaller value.
type Level struct {
	Tier  int8
	Value float64
}

// Below tells whether a node at one level goes before one at the other.
func (l Level) Below(m Level) bool { return l.Tier < m.Tier || l.Tier == m.Tier && l.Value < m.Value }

// Rule is the part in which the policies of this package differ.
type Rule interface {
	// Level is the level of a node that has so much.
	Level(b *Book, n Node, held tenant.Amount) Level
}

// Guaranteed is the level of a node that has less than its guarantee; ok is
// false if it has that much. Such nodes go before all others, and the one
// with the smallest part of its guarantee goes first.
func Guaranteed(b *Book, n Node, held tenant.Amount) (level Level, ok bool) {
	g := b.Promise(n)
	if held.GPU >= g {
		return Level{}, false
	}
	return Level{0, float64(held.GPU) / float64(g)}, true
}

// Policy first serves the tenants that are owed GPUs, from free GPUs or by
// reclaiming borrowed ones. Then it fills the cluster progressively. The node
// with the lowest level goes next, level by level down the tenant tree. It
// starts the first of its jobs that fits and that its limits allow.
//
// The time of a decision grows with the number of tenants with waiting jobs and
// of their lanes. A decision takes no time if nothing was freed since the last
// one and the new jobs are like others that did not fit.
type Policy struct {
	Settings
	Rule   Rule
	Divide Basis // what weights divide, if shares are reclaimed

	book       Book
	lanes      Lanes
	accounts   []account
	infeasible sched.Infeasible
	round      uint64
	books      uint64 // how often a claim has changed what tenants have
	full       []bool // classes of which no job fits until something is freed
	fresh      bool   // something was freed, or a job has come that might fit
	wake       time.Duration

	water water
	claim claim
	runs  running
}

// account is what the policy keeps of a tenant.
type account struct {
	lanes  []int32   // of its own jobs
	below  int       // number of waiting jobs, including those of its children
	own    int       // number of its own waiting jobs
	gpus   int64     // demand of its own waiting jobs, in thousandths of a GPU
	active dense.Set // children with waiting jobs
	shut   uint64    // the round in which the policy leaves its own jobs out
	done   uint64    // the round in which the policy leaves it out altogether
	order  order     // of the nodes below it
}

// Decide follows the changes of the view, fills what is free and settles claims.
func (r *Policy) Decide(v *sched.View, p *sched.Plan) {
	r.book.Open(v, p)
	r.wake = unit.Never
	r.follow(v, p)
	r.water.filled = false
	if r.Reclaim != Nothing && r.lanes.Len() > 0 {
		r.settle(v, p)
	}
	if r.fresh {
		r.fill(v, p)
	}
}

// NextWake is the next moment at which a claim falls due.
func (r *Policy) NextWake(*sched.View) time.Duration { return r.wake }

// freed forgets which jobs did not fit.
func (r *Policy) freed() {
	clear(r.full)
	r.fresh = true
}

// follow takes in what happened since the last decision.
func (r *Policy) follow(v *sched.View, p *sched.Plan) {
	for len(r.accounts) < v.Tenants().Len() {
		r.accounts = append(r.accounts, account{})
	}
	for len(r.full) < v.Classes() {
		r.full = append(r.full, false)
	}
	if r.book.Loosened() || v.NodesChanged() || r.Place == place.Random { // so that a restarted policy draws as often
		r.freed()
	}
	r.runs.follow(v, r.Victims)
	for _, id := range r.infeasible.Reconsider(v) {
		r.wait(v, p, v.Job(id))
	}
	for _, ch := range v.Changes() {
		j := v.Job(ch.Job)
		switch ch.Kind {
		case sched.Stopped:
			r.freed()
			r.runs.remove(j.ID)
			r.wait(v, p, j)
		case sched.Runs:
			r.runs.add(j, r.Victims)
		case sched.Arrived:
			r.wait(v, p, j)
		case sched.Ended:
			r.freed()
			r.runs.remove(j.ID)
			r.remove(v, ch.Job)
			r.infeasible.Remove(ch.Job)
		case sched.Altered:
			if r.lanes.Has(ch.Job) {
				r.wait(v, p, j)
			}
		}
	}
}

// wait puts a job into its lane, unless it can never run.
func (r *Policy) wait(v *sched.View, p *sched.Plan, j sched.Job) {
	r.remove(v, j.ID)
	need := v.Class(j.Class()).Amount.GPU
	if r.infeasible.Rejects(p, j.ID, r.Place) || r.book.Forbids(p, j, need) {
		return
	}
	lane, isNew := r.lanes.Lane(LaneKey{Tenant: j.Tenant(), Class: j.Class()})
	if isNew {
		a := &r.accounts[j.Tenant()]
		a.lanes = append(a.lanes, lane)
	}
	r.lanes.Add(j.ID, lane, r.Order.key(j))
	r.count(v, j.Tenant(), 1, need)
	r.fresh = r.fresh || !r.full[j.Class()] || r.Block
}

// remove takes a job out of its lane, if it is in one.
func (r *Policy) remove(v *sched.View, id job.ID) {
	if lane, ok := r.lanes.Remove(id); ok {
		at := r.lanes.At(lane)
		r.count(v, at.Tenant, -1, -v.Class(at.Class).Amount.GPU)
	}
}

// count updates the numbers of waiting jobs up the tree.
func (r *Policy) count(v *sched.View, t tenant.ID, n int, gpus unit.Milli) {
	r.accounts[t].own += n
	r.accounts[t].gpus += int64(gpus)
	for t >= 0 {
		a := &r.accounts[t]
		a.below += n
		above := v.Tenants().At(t).Parent
		if above >= 0 {
			if a.below > 0 {
				r.accounts[above].active.Add(int(t))
			} else {
				r.accounts[above].active.Remove(int(t))
			}
		}
		t = above
	}
}

// fill starts jobs until no waiting job fits.
func (r *Policy) fill(v *sched.View, p *sched.Plan) {
	r.fresh = false
	r.round++
	for {
		id, lane, ok := r.next(v, r.full)
		if !ok {
			return
		}
		at := r.lanes.At(lane)
		switch {
		case !r.allowed(v, p, id, at):
			r.shut(lane)
		case !p.Start(id, r.Place):
			r.full[at.Class] = true
			r.shut(lane)
		default:
			r.started(v, id)
		}
	}
}

// shut leaves a lane out for the rest of the round. If jobs block each other,
// it leaves out all jobs of the tenant.
func (r *Policy) shut(lane int32) {
	at := r.lanes.At(lane)
	at.Shut = r.round
	if r.Block {
		r.accounts[at.Tenant].shut = r.round
	}
}

// started books a job that the plan has started.
func (r *Policy) started(v *sched.View, id job.ID) {
	j := v.Job(id)
	r.remove(v, id)
	r.runs.add(j, r.Victims)
	r.book.Count(j.Tenant(), v.Class(j.Class()).Amount, 1)
}

// allowed tells whether the limits of its tenant allow a job to start, and notes
// why not.
func (r *Policy) allowed(v *sched.View, p *sched.Plan, id job.ID, at *Lane) bool {
	need := v.Class(at.Class).Amount.GPU
	room, binds := r.book.Room(at.Tenant)
	if need <= room || need == 0 {
		return true
	}
	p.Wait(id, r.book.Quota(binds))
	return false
}

// next is the job that goes next: the first of the lowest node. It skips lanes
// that are shut, and those of classes in full.
func (r *Policy) next(v *sched.View, full []bool) (id job.ID, lane int32, ok bool) {
	return r.descend(v, tenant.Root, full)
}

func (r *Policy) descend(v *sched.View, t tenant.ID, full []bool) (id job.ID, lane int32, ok bool) {
	a := &r.accounts[t]
	for a.below > 0 && a.done != r.round {
		if a.active.Len() == 0 {
			if id, lane, ok = r.head(a, full); ok {
				return id, lane, true
			}
			break
		}
		n, found := r.lowest(v, t)
		if !found {
			break
		}
		if n.Own {
			if id, lane, ok = r.head(a, full); ok {
				return id, lane, true
			}
			continue
		}
		if id, lane, ok = r.descend(v, n.Tenant, full); ok {
			return id, lane, true
		}
	}
	a.done = r.round
	return 0, 0, false
}

// first is the lowest number of a job at the head of a lane of a node.
func (r *Policy) first(v *sched.View, n Node) job.ID {
	a := &r.accounts[n.Tenant]
	least := job.ID(v.Jobs())
	for _, lane := range a.lanes {
		if id, ok := r.lanes.Head(lane); ok {
			least = min(least, id)
		}
	}
	if !n.Own {
		for c := a.active.Min(); c >= 0; c = a.active.Next(c + 1) {
			least = min(least, r.first(v, Node{Tenant: tenant.ID(c)}))
		}
	}
	return least
}

// head is the first of a tenant's own jobs that are not left out. When jobs
// block each other it is the first of all of them, or none.
func (r *Policy) head(a *account, full []bool) (id job.ID, lane int32, ok bool) {
	if a.own == 0 || a.shut == r.round {
		return 0, 0, false
	}
	found, blocked := false, false
	for _, l := range a.lanes {
		at := r.lanes.At(l)
		out := at.Shut == r.round || full != nil && full[at.Class]
		if out && !r.Block {
			continue
		}
		if head, has := r.lanes.Head(l); has && (!found || r.lanes.Before(head, id)) {
			id, lane, found, blocked = head, l, true, out
		}
	}
	if !found || blocked {
		a.shut = r.round
		return 0, 0, false
	}
	return id, lane, true
}

// Why says why a job was left waiting, once the plan has been carried out.
func (r *Policy) Why(v *sched.View, id job.ID) job.Reason {
	r.book.Close()
	j := v.Job(id)
	class := v.Class(j.Class())
	room, binds := r.book.Room(j.Tenant())
	held, free := r.book.GPU(r.book.leaf(j.Tenant())), v.Cluster().FreeGPUs(class.Scope, class.Mask)
	fair := r.fair(r.book.leaf(j.Tenant()))
	switch {
	case class.Amount.GPU > room:
		return r.book.Quota(binds)
	case free < j.GPUs() && fair > 0 && held+class.Amount.GPU > fair:
		return job.Reason{Code: job.OverShare, Need: int32(fair / unit.One), Have: int32(held / unit.One), Job: job.None}
	case free < j.GPUs():
		return job.Reason{Code: job.NeedGPUs, Need: int32(j.GPUs()), Have: int32(free), Job: job.None}
	case r.Block:
		if a := &r.accounts[j.Tenant()]; a.own > 1 {
			return r.behind(a, id)
		}
	}
	return job.Reason{Code: job.Outranked, Job: job.None}
}

// behind names the first job of a tenant that blocks another.
func (r *Policy) behind(a *account, id job.ID) job.Reason {
	first := id
	for _, lane := range a.lanes {
		if head, ok := r.lanes.Head(lane); ok && r.lanes.Before(head, first) {
			first = head
		}
	}
	if first == id {
		return job.Reason{Code: job.Outranked, Job: job.None}
	}
	return job.Reason{Code: job.Behind, Job: first}
}
