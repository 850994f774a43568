package antman

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/policy/kit/beside"
	"github.com/norn-scheduler/norn/sched"
	"github.com/norn-scheduler/norn/tenant"
)

// visitor tells whether a job could be a guest: a gang of a fixed number of tasks of
// whole GPUs. Others run on GPUs that nobody owns, whatever the quota.
func visitor(j sched.Job) bool {
	d := j.Spec().Demand
	r := &d.Roles[0]
	return r.GPU >= unit.One && r.GPU%unit.One == 0 && d.Roles[1].Tasks == 0 && !d.Elastic()
}

// Quota is what is left of the quota of a tenant, in thousandths of a GPU, where spent
// is what is used of quotas beside what jobs hold. Quotas are the guarantees of the
// tenant and of those above it; who has none has no quota, unless nobody has any.
func Quota(tree *tenant.Tree, t tenant.ID, spent map[tenant.ID]unit.Milli) unit.Milli {
	left, some := tenant.Unlimited, false
	for up := t; up >= 0; up = tree.At(up).Parent {
		e := tree.At(up)
		if e.Guarantee > 0 {
			left, some = min(left, e.Guarantee-e.Used.GPU-spent[up]), true
		}
		if e.Limit != tenant.Unlimited {
			left = min(left, e.Limit-e.Used.GPU-spent[up])
		}
	}
	if some {
		return left
	}
	for i := range tenant.ID(tree.Len()) {
		if tree.At(i).Guarantee > 0 {
			return 0
		}
	}
	return left
}

// whole is the quota of a tenant when nothing of it is used.
func whole(tree *tenant.Tree, t tenant.ID) unit.Milli {
	unused := map[tenant.ID]unit.Milli{}
	for up := t; up >= 0; up = tree.At(up).Parent {
		unused[up] = -tree.At(up).Used.GPU
	}
	return Quota(tree, t, unused)
}

// limited tells whether a job that could be no guest would exceed a limit.
func limited(tree *tenant.Tree, t tenant.ID, need unit.Milli, spent map[tenant.ID]unit.Milli) bool {
	for up := t; up >= 0; up = tree.At(up).Parent {
		if e := tree.At(up); e.Limit != tenant.Unlimited && e.Used.GPU+spent[up]+need > e.Limit {
			return true
		}
	}
	return false
}

// spend notes that so much of the quotas of a tenant is used from now on.
func (f *policy) spend(tree *tenant.Tree, t tenant.ID, milli unit.Milli) {
	for ; t >= 0; t = tree.At(t).Parent {
		f.spent[t] += milli
	}
}

// own starts the jobs that may own GPUs and makes owners of guests whose tenant has quota
// again: first come, first served within a tenant, whether they wait or are guests.
func (f *policy) own(v *sched.View, p *sched.Plan) {
	slices.Sort(f.guests)
	guests, at, stay := f.guests, 0, f.guests[:0]
	upTo := func(last job.ID) {
		for ; at < len(guests) && guests[at] < last; at++ {
			if id := guests[at]; !f.upgrade(v, p, v.Job(id)) {
				stay = append(stay, id)
			}
		}
	}
	for j := range v.Waiting() {
		upTo(j.ID)
		if !f.admit(v, p, j) && ClassOf(j.Spec()) != Opportunistic && !j.Reason().Never() {
			f.queue.first[j.Tenant()] = true
		}
	}
	upTo(job.ID(math.MaxInt32))
	f.guests = stay
}

// admit starts a job that may own GPUs, and tells whether it did.
func (f *policy) admit(v *sched.View, p *sched.Plan, j sched.Job) bool {
	if why := p.Never(j.ID, f.cfg.Place); why.Code != job.NoReason {
		p.Wait(j.ID, why)
		return false
	}
	class, tree, q := ClassOf(j.Spec()), v.Tenants(), &f.queue
	need := j.Spec().Demand.Milli(j.Spec().Demand.Roles[0].Tasks)
	if class == Opportunistic && visitor(j) {
		return false
	}
	who, blocked := q.behind[j.Tenant()]
	if !blocked {
		who, blocked = q.blocked[j.Pool()]
	}
	if blocked {
		holdBehind(p, j, who)
		return false
	}
	if left := Quota(tree, j.Tenant(), f.spent); visitor(j) && left < need || limited(tree, j.Tenant(), need, f.spent) {
		if f.overQuota(v, p, j, left, need) {
			q.behind[j.Tenant()] = j.ID
		}
		return false
	}
	if !f.start(v, p, j) {
		q.behind[j.Tenant()] = j.ID
		if f.cfg.Reserve {
			f.keep(v, p, j)
		}
		return false
	}
	f.spend(tree, j.Tenant(), need)
	return true
}

// holdBehind notes that a job waits behind another one; that this is soon another is no
// news.
func holdBehind(p *sched.Plan, j sched.Job, who job.ID) {
	if j.Reason().Code != job.Behind {
		p.Wait(j.ID, job.Reason{Code: job.Behind, Job: who})
	}
}

// start starts a job as an owner: one whose memory ran out beside guests where there
// are none.
func (f *policy) start(v *sched.View, p *sched.Plan, j sched.Job) (ok bool) {
	if !evicted(p, j) {
		f.queue.without(p, func() { ok = p.Start(j.ID, f.cfg.Place) })
		return ok
	}
	f.alloc.Reset()
	for d := range cluster.DeviceID(v.Cluster().Devices()) {
		if owners, guests := f.counts(d); guests > 0 && owners == 0 && v.Cluster().UsableDevice(d) {
			beside.Add(&f.alloc, v.Cluster().NodeOf(d), cluster.Share{Device: d, Milli: beside.Whole})
		}
	}
	p.Without(&f.alloc, func() { f.queue.without(p, func() { ok = p.Start(j.ID, f.cfg.Place) }) })
	return ok
}

// overQuota says why a job does not fit its tenant's quota, and tells whether it waits
// for that, and those of the tenant behind it too.
func (f *policy) overQuota(v *sched.View, p *sched.Plan, j sched.Job, left, need unit.Milli) bool {
	all := whole(v.Tenants(), j.Tenant())
	gpus := func(m unit.Milli) int32 { return int32(max(0, m) / unit.One) }
	switch {
	case ClassOf(j.Spec()) == Auto && visitor(j):
		return false // it looks for a place as a guest at once
	case need > all:
		p.Wait(j.ID, job.Reason{Code: job.OverLimit, Need: int32(j.GPUs()), Have: gpus(all), Job: job.None})
		return false
	}
	p.Wait(j.ID, job.Reason{Code: job.Quota, Need: gpus(all), Have: gpus(all - left), Job: job.None})
	return true
}

// spot is a GPU that takes a guest.
type spot struct {
	device cluster.DeviceID
	node   cluster.NodeID
	use    float64
	types  cluster.TypeID
}

// visit starts jobs as guests: those that have no quota, or waited for long enough.
func (f *policy) visit(v *sched.View, p *sched.Plan) {
	for j := range v.Waiting() {
		class := ClassOf(j.Spec())
		if p.Alloc(j.ID) != nil || class == Guaranteed || !visitor(j) || p.Never(j.ID, f.cfg.Place).Code != job.NoReason {
			continue
		}
		need := unit.Milli(j.GPUs()) * unit.One
		quota := class == Auto && Quota(v.Tenants(), j.Tenant(), f.spent) >= need
		if quota && v.Now-j.Since() < f.cfg.Wait {
			continue
		}
		wasEvicted := evicted(p, j)
		if f.refused[j.Class()] || !f.seat(v, p, j, wasEvicted) {
			f.refused[j.Class()] = f.refused[j.Class()] || !wasEvicted
			if !quota {
				p.Wait(j.ID, f.waits(v, j, class))
			}
		}
	}
}

// waits is why a job waits that may be a guest only.
func (f *policy) waits(v *sched.View, j sched.Job, class Class) job.Reason {
	own := "it is opportunistic, so that it owns no GPUs"
	if class == Auto {
		t := v.Tenants().At(j.Tenant())
		own = fmt.Sprintf("its tenant owns %d of the %d GPUs of its quota", t.Used.GPU/unit.One, max(0, whole(v.Tenants(), j.Tenant()))/unit.One)
	}
	return beside.Because(
		"%s; as a guest it needs %s with room for another guest (%d at most), %.0f%% in use on average and %g GiB taken at most", own, unit.Count(j.GPUs(), "GPU"), f.cfg.Guests, 100*f.cfg.Use, f.cfg.Memory)
}

// seat starts a job as a guest on the GPUs that are used least.
func (f *policy) seat(v *sched.View, p *sched.Plan, j sched.Job, wasEvicted bool) bool {
	if !f.listed {
		f.find(v)
	}
	role, class := &j.Spec().Demand.Roles[0], v.Class(j.Class())
	each, need := int(role.GPU/unit.One), int(role.Tasks)
	if class.NoType {
		return false
	}
	tasks := f.choose(v, j, each, need, wasEvicted)
	if tasks == nil {
		return false
	}
	f.alloc.Reset()
	for i := range tasks {
		s := &tasks[i]
		piece := beside.Add(&f.alloc, s.node, cluster.Share{Device: s.device})
		piece.Tasks = piece.Shares / int32(each)
	}
	pace := Full
	if f.owned(&f.alloc) {
		pace = 0 // the coordinator lets it go
	}
	f.give(v, j, &f.alloc, nil, pace)
	if !p.StartOn(j.ID, &f.alloc) {
		return false
	}
	if !wasEvicted {
		p.Remember(j.ID, &note{step: v.Now, owners: f.owners(&f.alloc)})
	}
	f.guests, f.stale = append(f.guests, j.ID), true
	for _, s := range f.alloc.Shares {
		if f.full(s.Device) {
			f.filled.Add(int(s.Device))
		}
	}
	for len(f.spots) > 0 && f.filled.Has(int(f.spots[0].device)) {
		f.spots = f.spots[1:]
	}
	return true
}

// full tells whether a GPU has as many guests as it takes.
func (f *policy) full(d cluster.DeviceID) bool {
	_, guests := f.counts(d)
	return guests >= f.cfg.Guests
}

// choose takes so many GPUs for each of so many tasks, each task on one node, least
// used first; in order, or none. One whose memory ran out has them for itself, and
// where memory cannot spill all of it must fit.
func (f *policy) choose(v *sched.View, j sched.Job, each, need int, wasEvicted bool) []spot {
	mask, role := v.Class(j.Class()).Mask, &j.Spec().Demand.Roles[0]
	var chosen []spot
	half := map[cluster.NodeID][]spot{}
	room := map[cluster.NodeID]unit.Bytes{}
	for _, s := range f.spots {
		if !mask.Has(s.types) || !v.Cluster().In(s.node, v.Scope(j)) || f.filled.Has(int(s.device)) || wasEvicted && len(f.on(s.device)) > 0 || !spills(v) && !f.fits(v, j, s) {
			continue
		}
		half[s.node] = append(half[s.node], s)
		if len(half[s.node]) < each {
			continue
		}
		if free, ok := v.Cluster().MemoryFree(s.node); ok && role.Memory > 0 {
			if room[s.node] += role.Memory; room[s.node] > free {
				continue
			}
		}
		chosen = append(chosen, half[s.node]...)
		half[s.node] = half[s.node][:0:0]
		if len(chosen) == need*each {
			slices.SortFunc(chosen, func(a, b spot) int { return cmp.Compare(a.device, b.device) })
			return chosen
		}
	}
	return nil
}

// fits tells whether all memory of a guest fits a GPU, as far as is known how much that has.
func (f *policy) fits(v *sched.View, j sched.Job, s spot) bool {
	return v.Cluster().Type(s.types).Memory == 0 || f.limit(v, j, s.device, 0) >= perf.MemoryOf(j.Spec())
}

// find lists the GPUs that take guests, the least used first.
func (f *policy) find(v *sched.View) {
	f.listed, f.spots = true, make([]spot, 0, v.Cluster().Devices())
	f.filled.Clear()
	c := v.Cluster()
	for pool := range v.EachPool() {
		for _, n := range c.PoolNodes(pool) {
			if !c.Usable(n) || c.Node(n).Pooled {
				continue
			}
			first, count := c.DeviceRange(n)
			for d := first; d < first+cluster.DeviceID(count); d++ {
				if t := c.TypeOf(d); !c.Broken(d) && !c.Type(t).Host && !f.full(d) {
					if use, memory := f.load(v, d); f.cfg.Takes(use, memory) {
						f.spots = append(f.spots, spot{d, n, use, t})
					}
				}
			}
		}
	}
	slices.SortStableFunc(f.spots, func(a, b spot) int { return cmp.Compare(a.use, b.use) })
}

// Takes tells whether a GPU takes guests that was used so much on average, and of
// whose memory so much was taken at most.
func (c *Config) Takes(use float64, memory unit.Bytes) bool {
	return use < c.Use && float64(memory) < c.Memory*float64(unit.GiB)
}

// load is how much a GPU was used over the window, and the most that was taken of its
// memory: as measured, or else as those tell who are there.
func (f *policy) load(v *sched.View, d cluster.DeviceID) (use float64, memory unit.Bytes) {
	if w := v.UsedOver(d, f.cfg.Window); w.Known {
		return w.Use, w.Memory
	}
	for _, id := range f.on(d) {
		j := v.Job(id).Spec()
		memory += perf.MemoryOf(j)
		if told, ok := perf.Hinted(j); ok {
			use += told[perf.SM]
		} else {
			use++
		}
	}
	return min(1, use), memory
}

// upgrade makes an owner of a guest, where its tenant has quota, nobody else owns its GPUs
// or keeps them, and nobody of its tenant waits who came before it.
func (f *policy) upgrade(v *sched.View, p *sched.Plan, j sched.Job) bool {
	need, held := unit.Milli(j.GPUs())*unit.One, p.Alloc(j.ID)
	if ClassOf(j.Spec()) != Auto || j.Phase() != job.Running || f.queue.first[j.Tenant()] || f.owned(held) || f.queue.keeps(held) ||
		Quota(v.Tenants(), j.Tenant(), f.spent) < need || !p.Adjust(j.ID, func(a *cluster.Alloc) { promote(a, j) }) {
		return false
	}
	f.spend(v.Tenants(), j.Tenant(), need)
	p.Forget(j.ID)
	f.stale = true
	return true
}

// promote gives a guest what an owner holds.
func promote(a *cluster.Alloc, j sched.Job) {
	r := &j.Spec().Demand.Roles[0]
	for i := range a.Shares {
		a.Shares[i].Milli, a.Shares[i].Throttle, a.Shares[i].Memory = int32(unit.One), 0, r.GPUMemory
	}
	for i := range a.Pieces {
		a.Pieces[i].CPU, a.Pieces[i].Memory = r.CPU*unit.Milli(a.Pieces[i].Tasks), r.Memory*unit.Bytes(a.Pieces[i].Tasks)
	}
}

// release has guests give up, in the books, what owners that start could need: the
// coordinator gives them again what is left.
func (f *policy) release(v *sched.View, p *sched.Plan) {
	for _, id := range f.guests {
		if v.Job(id).Phase() != job.Running {
			continue
		}
		p.Adjust(id, func(a *cluster.Alloc) {
			for i := range a.Shares {
				if spills(v) {
					a.Shares[i].Memory = 0
				}
			}
			for i := range a.Pieces {
				a.Pieces[i].CPU = 0
			}
		})
	}
}

// Why implements sched.Explainer.
func (f *policy) Why(v *sched.View, id job.ID) job.Reason {
	j := v.Job(id)
	if ClassOf(j.Spec()) != Guaranteed && visitor(j) {
		return f.waits(v, j, ClassOf(j.Spec()))
	}
	return beside.NeedsGPUs(v, j)
}

// since is a step of the coordinator that is not before another moment.
func since(step, period, now time.Duration) time.Duration {
	if now < step || period >= unit.Never-now {
		return unit.Never
	}
	return step + ((now-step)/period+1)*period
}
