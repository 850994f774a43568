package quota

import (
	"slices"
	"time"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/sched"
	"github.com/norn-scheduler/norn/state"
	"github.com/norn-scheduler/norn/state/dense"
	"github.com/norn-scheduler/norn/tenant"
)

// claim is a waiting job for which borrowed GPUs are taken back, with the
// tenants that could give them.
//
// Below the tenant that is above both jobs, a claim compares two nodes: that of
// the claimant and that of a victim. A claim is hard if the claimant's node,
// with the job, stays within its promise while the victim's node holds more
// than its own. The job then gets its GPUs whatever gang has to leave.
//
// A claim is soft if the claimant's node stays within its share while the
// victim's node has more than its own. The victim's node must also remain
// better served than the claimant's is now, and not fall below its promise. So
// a soft claim always raises the lower level of the two, and claims cannot go
// round in circles.
type claim struct {
	id     job.ID
	tenant tenant.ID
	need   unit.Milli
	class  int32
	pool   cluster.PoolID
	scope  cluster.PoolID // the nodes that it may use
	hard   bool

	stopped []leaver

	withdrawn []job.ID // starts of this plan that were taken back
	loosened  bool     // a job under a limit has left, so the limit may no longer forbid other claims
}

// leaver is a job that was stopped for a claim, with its old allocation.
type leaver struct {
	id job.ID
	on *cluster.Alloc
}

// settle serves the claims that are due, hard ones first.
func (r *Policy) settle(v *sched.View, p *sched.Plan) {
	r.claim.withdrawn = r.claim.withdrawn[:0]
	// A gang that leaves can make other jobs eligible. The loop ends, because each
	// claim starts a job, and a start is taken back at most once.
	for {
		for r.book.Promises() && r.claims(v, p, true) {
		}
		if r.Reclaim != Share {
			return
		}
		r.shares()
		if r.claims(v, p, false); !r.claim.loosened {
			return
		}
	}
}

// shares brings the shares up to date.
func (r *Policy) shares() {
	if !r.water.filled {
		r.water.fill(&r.book, r.Divide, func(t tenant.ID) int64 { return r.accounts[t].gpus })
	}
}

// claims goes through the tenants as fill does, the lowest first, and tells
// whether any job was started.
func (r *Policy) claims(v *sched.View, p *sched.Plan, hard bool) (any bool) {
	r.round++
	c := &r.claim
	c.hard, c.loosened = hard, false
	for {
		id, lane, ok := r.next(v, nil)
		if !ok {
			return any
		}
		at := r.lanes.At(lane)
		c.tenant, c.class = at.Tenant, at.Class
		if c.need = r.least(v, at.Tenant); !r.owed() {
			r.accounts[at.Tenant].shut = r.round
			continue
		}
		c.need = v.Class(at.Class).Amount.GPU
		if room, binds := r.book.Room(c.tenant); c.need == 0 || c.need > room && binds == c.tenant || !r.owed() {
			r.shut(lane)
			continue
		}
		if id, ok = r.due(v, id, lane); !ok {
			r.shut(lane)
			continue
		}
		c.id, c.pool, c.scope = id, v.Job(id).Pool(), v.Scope(v.Job(id))
		if !r.take(v, p) {
			r.shut(lane)
			continue
		}
		any = true
		if c.loosened && !hard {
			return any
		}
	}
}

// least is the smallest number of GPUs, above none, that a job of a tenant waits
// for.
func (r *Policy) least(v *sched.View, t tenant.ID) unit.Milli {
	least := tenant.Unlimited
	for _, lane := range r.accounts[t].lanes {
		at := r.lanes.At(lane)
		if n := v.Class(at.Class).Amount.GPU; n > 0 && at.list.Len() > 0 {
			least = min(least, n)
		}
	}
	return least
}

// due is the first job of a lane that has waited for the grace time. When none
// has, the policy wants to be woken when the first one will have.
func (r *Policy) due(v *sched.View, id job.ID, lane int32) (job.ID, bool) {
	for ok := true; ok; id, ok = r.lanes.After(lane, id) {
		at := unit.Later(v.Job(id).Since(), r.Grace)
		if at <= v.Now {
			return id, true
		}
		r.wake = min(r.wake, at)
		if r.Block {
			break
		}
	}
	return 0, false
}

// owed tells whether the claimant, or a tenant above it, stays within its
// promise (or share) with the job.
func (r *Policy) owed() bool {
	for n, ok := r.book.leaf(r.claim.tenant), true; ok && n.Tenant != tenant.Root; n, ok = r.book.parent(n) {
		if r.within(n) {
			return true
		}
	}
	return false
}

// within tells whether a node stays within its promise (or share) when the
// claimant starts.
func (r *Policy) within(n Node) bool { return r.book.GPU(n)+r.claim.need <= r.entitled(n) }

func (r *Policy) entitled(n Node) unit.Milli {
	if r.claim.hard {
		return r.book.Promise(n)
	}
	return r.water.of(n)
}

// fair is the amount to which a node is entitled: its promise or, if shares are
// reclaimed, the larger of share and promise.
func (r *Policy) fair(n Node) unit.Milli {
	if r.Reclaim != Share {
		return r.book.Promise(n)
	}
	r.shares()
	return max(r.water.of(n), r.book.Promise(n))
}

// take stops victims until the claimant fits, and starts it. Victims whose
// devices the claimant does not need stay, and those that fit elsewhere move.
// take tells whether it succeeded; if not, it changes nothing.
func (r *Policy) take(v *sched.View, p *sched.Plan) bool {
	mark := r.book.Mark()
	r.claim.stopped = r.claim.stopped[:0]
	taken := p.Try(func() bool {
		for {
			below := tenant.Root
			if room, binds := r.book.Room(r.claim.tenant); room < r.claim.need {
				below = binds
			} else if r.enough(v) {
				if _, fits := p.Fits(r.claim.id, r.Place); fits {
					break
				}
			}
			next := r.victim(v, p, below)
			if next == job.None {
				return false
			}
			r.claim.stopped = append(r.claim.stopped, leaver{next, p.Alloc(next)})
			p.Stop(next, job.Reason{Code: job.Reclaimed, Job: r.claim.id})
			r.book.Count(v.Job(next).Tenant(), amount(v, next), -1)
		}
		return p.Start(r.claim.id, r.Place)
	})
	if !taken {
		r.book.Undo(mark)
		return false
	}
	r.started(v, r.claim.id)
	r.spare(v, p)
	r.books++
	return true
}

// amount is what a job has or asks for.
func amount(v *sched.View, id job.ID) tenant.Amount { return v.Class(v.Job(id).Class()).Amount }

// enough tells whether enough GPUs are free to make a search for a place
// worthwhile.
func (r *Policy) enough(v *sched.View) bool {
	return v.Cluster().FreeMilli(r.claim.scope, v.Class(r.claim.class).Mask) >= r.claim.need
}

// spare lets victims stay if the claimant does not need their devices, the last
// stopped first. It moves those that fit elsewhere and keep their work.
func (r *Policy) spare(v *sched.View, p *sched.Plan) {
	for i := len(r.claim.stopped) - 1; i >= 0; i-- {
		id, on := r.claim.stopped[i].id, r.claim.stopped[i].on
		j := v.Job(id)
		stays := false
		if room, _ := r.book.Room(j.Tenant()); amount(v, id).GPU > room {
			// the claimant has it
		} else if Vacant(v.Cluster(), on, p.Alloc(r.claim.id)) {
			stays = p.StartOn(id, on)
		} else if j.Spec().Stop.Keeps() && j.Phase() == job.Running {
			stays = p.Start(id, r.Place)
		}
		if stays {
			r.book.Count(j.Tenant(), amount(v, id), 1)
			continue
		}
		r.freed()
		r.claim.loosened = r.claim.loosened || r.book.Promises() && r.book.Cap(j.Tenant()) < tenant.Unlimited
		r.runs.remove(id)
		if j.Waiting() { // this plan has started it
			r.claim.withdrawn = append(r.claim.withdrawn, id)
			r.wait(v, p, j)
		} // else it comes back with a change, once it has left
	}
}

// Vacant tells whether a stopped job can stay on its old devices beside the
// allocation of another job.
func Vacant(c *cluster.Cluster, was, other *cluster.Alloc) bool {
	for i := range was.Shares {
		s, milli := &was.Shares[i], unit.Milli(0)
		for k := range was.Shares { // several tasks may share a device
			if was.Shares[k].Device == s.Device {
				milli += unit.Milli(was.Shares[k].Milli)
			}
		}
		if c.DeviceFree(s.Device) < milli {
			return false
		}
		if s.Memory > 0 && slices.ContainsFunc(other.Shares, func(o cluster.Share) bool { return o.Device == s.Device }) {
			return false
		}
	}
	for i := range was.Pieces {
		n, cpu, memory := was.Pieces[i].Node, unit.Milli(0), unit.Bytes(0)
		for _, q := range was.Pieces {
			if q.Node == n {
				cpu += q.CPU
				memory += q.Memory
			}
		}
		if free, ok := c.CPUFree(n); ok && free < cpu {
			return false
		}
		if free, ok := c.MemoryFree(n); ok && free < memory {
			return false
		}
	}
	return true
}

// victim is the next job to be stopped for the claim, or None. Of the tenants
// that may give, victim chooses one whose common ancestor with the claimant is
// nearest the root. So a tenant whose children hold no more than its promise is
// not disturbed. Of these it chooses the tenant in the best served node, and of
// its jobs the first that may go. If a limit leaves no room for the claimant,
// the victim is below the tenant with that limit.
func (r *Policy) victim(v *sched.View, p *sched.Plan, below tenant.ID) job.ID {
	best, from := job.None, giver{}
	for i := range r.runs.owners.All() {
		t := tenant.ID(i)
		if !r.book.under(t, below) {
			continue
		}
		g, ok := r.gives(t)
		if !ok || best != job.None && (g.depth > from.depth || g.depth == from.depth && !from.level.Below(g.level)) {
			continue
		}
		if id := r.oneOf(v, p, t); id != job.None {
			best, from = id, g
		}
	}
	return best
}

// giver describes a tenant that may give, relative to the claimant.
type giver struct {
	depth int   // depth of the lowest tenant above both
	level Level // level of the giver's node right below that tenant
}

// rank is the place of a job among the victims of its tenant, least first.
func (r *Policy) rank(j sched.Job, keepsPromise bool) [5]int64 {
	if j.Waiting() {
		return [5]int64{-1, 0, 0, 0, -int64(j.ID)}
	}
	return [5]int64{bit(!keepsPromise), bit(!j.Spec().Stop.Keeps()), r.Victims.least(j), -int64(j.Since()), -int64(j.ID)}
}

// least is the part of the rank of a running job that is a matter of settings.
func (o Victims) least(j sched.Job) int64 {
	switch o {
	case LowestPriority:
		return int64(j.Spec().Priority)
	case LeastService:
		return int64(j.RunTime()/time.Millisecond) * int64(j.Allocated())
	case LeastLost:
		return int64(j.AtStake()/time.Millisecond) * int64(j.Allocated())
	}
	return 0
}

func bit(yes bool) int64 {
	if yes {
		return 1
	}
	return 0
}

// gives tells whether a tenant may give GPUs for the claim, and describes it
// relative to the claimant.
func (r *Policy) gives(t tenant.ID) (giver, bool) {
	mine, theirs, ok := r.apart(t)
	if !ok || !r.within(mine) {
		return giver{}, false
	}
	depth := 0
	for n, up := r.book.parent(theirs); up; n, up = r.book.parent(n) {
		depth++
	}
	for n := r.book.leaf(t); ; n, _ = r.book.parent(n) {
		if r.book.GPU(n) <= r.entitled(n) {
			return giver{}, false
		}
		if n == theirs {
			return giver{depth, r.Rule.Level(&r.book, n, r.book.Used(n))}, true
		}
	}
}

// apart finds the two nodes at which the paths from the root to the claimant
// and to another tenant separate. ok is false when both jobs belong to the same
// tenant itself.
func (r *Policy) apart(t tenant.ID) (mine, theirs Node, ok bool) {
	for mine, up := r.book.leaf(r.claim.tenant), true; up; mine, up = r.book.parent(mine) {
		above, has := r.book.parent(mine)
		if !has {
			break
		}
		for theirs, up := r.book.leaf(t), true; up; theirs, up = r.book.parent(theirs) {
			if at, has := r.book.parent(theirs); has && at == above && theirs != mine {
				return mine, theirs, true
			} else if has && at == above {
				break
			}
		}
	}
	return Node{}, Node{}, false
}

// oneOf is the first job of a tenant that may go for the claim, or None.
func (r *Policy) oneOf(v *sched.View, p *sched.Plan, t tenant.ID) job.ID {
	best, least := job.None, [5]int64{}
	mine, theirs, _ := r.apart(t)
	for _, i := range r.runs.of[t] {
		k := &r.runs.all[i]
		if k.list.Len() == 0 || v.Class(k.class).Pool != r.claim.pool {
			continue
		}
		keeps, may := r.may(v, k, mine, theirs)
		if !may && r.MinRun == 0 {
			continue
		}
		k.list.Each(func(it dense.Item) bool {
			j := v.Job(^job.ID(it.ID))
			if !r.mayLeave(v, p, j) || !may {
				return true
			}
			if rank := r.rank(j, keeps); best == job.None || slices.Compare(rank[:], least[:]) < 0 {
				best, least = j.ID, rank
			}
			return r.Victims == LeastService || r.Victims == LeastLost || r.MinRun > 0 // else all others of its kind come later
		})
	}
	return best
}

// mayLeave tells whether a job that has devices may be a victim of the claim, as far as
// that is a matter of the job alone.
func (r *Policy) mayLeave(v *sched.View, p *sched.Plan, j sched.Job) bool {
	was, now := v.Alloc(j.ID), p.Alloc(j.ID)
	switch {
	case now == nil, now.Milli() == 0, !useful(v.Cluster(), now, v.Class(r.claim.class)), !v.Cluster().UsableAlloc(now):
		return false
	case was == nil && slices.Contains(r.claim.withdrawn, j.ID):
		return false // started again by this plan
	case !r.claim.hard && was != nil && now != was && !now.Equal(was):
		return false // moved by this plan: one claim is enough for a job, unless its GPUs are owed to the claimant
	case was != nil && j.Spec().Stop == job.Pinned:
		return false
	}
	until := unit.Later(j.Since(), r.MinRun)
	if was != nil && r.MinRun > 0 && until > v.Now {
		r.wake = min(r.wake, until)
		return false
	}
	return true
}

// useful tells whether a job has a GPU of a type that the claimant accepts.
func useful(c *cluster.Cluster, a *cluster.Alloc, class *state.Class) bool {
	if class.Mask == 0 && class.Scope == class.Pool {
		return true
	}
	return slices.ContainsFunc(a.Shares, func(s cluster.Share) bool {
		return class.Mask.Has(c.TypeOf(s.Device)) && c.In(c.NodeOf(s.Device), class.Scope)
	})
}

// may tells whether jobs of a kind may be stopped for the claim, and whether the nodes
// to which they belong then keep their promises.
func (r *Policy) may(v *sched.View, k *kind, mine, theirs Node) (keeps, may bool) {
	amount := v.Class(k.class).Amount
	keeps = true
	for n := r.book.leaf(k.tenant); keeps; n, _ = r.book.parent(n) {
		keeps = r.book.GPU(n)-amount.GPU >= r.book.Promise(n)
		if n == theirs {
			break
		}
	}
	if r.claim.hard || !keeps {
		return keeps, r.claim.hard
	}
	now := r.Rule.Level(&r.book, mine, r.book.Used(mine))
	left := r.Rule.Level(&r.book, theirs, plus(r.book.Used(theirs), amount, -1))
	return true, now.Below(left)
}
