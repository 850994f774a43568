package philly

import (
	"cmp"
	"slices"
	"time"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/sched"
	"github.com/norn-scheduler/norn/tenant"
)

// borrowed is what VCs hold above their quotas, as a decision finds it. In the
// part of a decision that may reclaim it, nobody borrows.
type borrowed struct {
	known   bool
	victims []victim
	vain    []vain
	taken   cluster.Alloc // scratch
}

// victim is a job of a VC above its quota, in the order in which they go: the
// newest first, and no more of a VC than it must give back.
type victim struct {
	id    job.ID
	vc    tenant.ID
	since time.Duration
}

// vain is a demand for which not even all victims would make room.
type vain struct {
	class int32
	level Level
	why   job.Reason
}

// reclaim starts a job of a VC below its quota on GPUs that it takes back from
// VCs above theirs, the newest jobs first and no more of them than it must, once
// enough of the cluster is in use. When even all of them would not make room,
// nobody is preempted, and the kind is told what would be missing.
func (s *policy) reclaim(v *sched.View, p *sched.Plan, j sched.Job, k *kind) bool {
	total := v.Total()
	if used := total - v.Free(); total == 0 || float64(used) < s.cfg.ReclaimAt*float64(total) {
		return false
	}
	b := &s.borrowed
	if !b.known {
		s.findVictims(v, p)
	}
	for i := range b.vain {
		if b.vain[i].class == k.class && b.vain[i].level == k.level {
			k.why = b.vain[i].why
			return false
		}
	}
	fewest := s.fewest(v, p, j, k)
	if fewest == 0 {
		b.vain = append(b.vain, vain{k.class, k.level, k.why})
		return false
	}
	s.makesRoom(v, p, j, k, fewest) // leaves where in b.taken
	need := v.Class(k.class).Amount
	for _, w := range b.victims[:fewest] {
		if b.inTheWay(p.Alloc(w.id), need) {
			p.Stop(w.id, job.Reason{Code: job.Reclaimed, Job: j.ID})
			s.shares.plan(v, w.vc, -v.Job(w.id).Allocated())
			s.vcs[w.vc].running.Remove(s.local(v.Job(w.id)))
		}
	}
	b.known = false
	return p.StartOn(j.ID, &b.taken)
}

// findVictims lists the victims.
func (s *policy) findVictims(v *sched.View, p *sched.Plan) {
	b := &s.borrowed
	b.known, b.victims, b.vain = true, b.victims[:0], b.vain[:0]
	for i := range s.vcs {
		c, t := &s.vcs[i], tenant.ID(i)
		if c.running.Len() == 0 || !s.shares.over(v, t) {
			continue
		}
		from := len(b.victims)
		for local := range c.running.All() {
			j := v.Job(c.jobs[local])
			if j.Running() && j.Allocated() > 0 && j.Spec().Stop != job.Pinned && p.Alloc(j.ID) != nil {
				b.victims = append(b.victims, victim{j.ID, t, j.Since()})
			}
		}
		slices.SortFunc(b.victims[from:], newest)
		keep := from
		for over := s.shares.used(v, t) - s.shares.quota[t]; keep < len(b.victims) && over > 0; keep++ {
			over -= v.Job(b.victims[keep].id).Allocated()
		}
		b.victims = b.victims[:keep]
	}
	slices.SortFunc(b.victims, newest)
}

func newest(a, b victim) int {
	return cmp.Or(cmp.Compare(b.since, a.since), cmp.Compare(b.id, a.id))
}

// fewest is the least number of victims that make room for a job, or 0. One more
// victim never leaves less room, so the number is found by steps that double, and then by halving.
func (s *policy) fewest(v *sched.View, p *sched.Plan, j sched.Job, k *kind) int {
	class := v.Class(k.class)
	most := len(s.borrowed.victims)
	short := class.Amount.GPU - room(v.Cluster(), class.Scope, class.Mask, class.Demand)
	least, held := 0, unit.Milli(0) // before anything is tried, they must hold enough
	for ; least < most && held < short; least++ {
		held += v.Job(s.borrowed.victims[least].id).Allocated()
	}
	if held < short {
		return 0
	}
	low, high := least-1, least // fewer than least hold too little
	for step := 1; !s.makesRoom(v, p, j, k, high); step *= 2 {
		if high == most {
			return 0
		}
		low, high = high, min(high+step, most)
	}
	for high-low > 1 {
		if mid := (low + high) / 2; s.makesRoom(v, p, j, k, mid) {
			high = mid
		} else {
			low = mid
		}
	}
	return high
}

// makesRoom tells whether a job fits once the first n victims have gone, and
// notes where. It leaves the plan as it is.
func (s *policy) makesRoom(v *sched.View, p *sched.Plan, j sched.Job, k *kind, n int) (fits bool) {
	class := v.Class(k.class)
	p.Try(func() bool {
		for _, w := range s.borrowed.victims[:n] {
			p.Stop(w.id, job.Reason{Code: job.Reclaimed, Job: j.ID})
		}
		if room(v.Cluster(), class.Scope, class.Mask, class.Demand) < class.Amount.GPU {
			return false
		}
		if fits = p.Start(j.ID, k.where); fits {
			s.borrowed.taken.CopyFrom(p.Alloc(j.ID))
		} else {
			k.why = p.Why()
		}
		return false
	})
	return fits
}

// inTheWay tells whether a job holds anything of what was found for another: one
// of its devices, or a part of one of its nodes where CPUs or memory count.
func (b *borrowed) inTheWay(held *cluster.Alloc, need tenant.Amount) bool {
	for i := range held.Shares {
		if slices.ContainsFunc(b.taken.Shares, func(x cluster.Share) bool { return x.Device == held.Shares[i].Device }) {
			return true
		}
	}
	if need.CPU == 0 && need.Memory == 0 {
		return false
	}
	for i := range held.Pieces {
		if slices.ContainsFunc(b.taken.Pieces, func(x cluster.Piece) bool { return x.Node == held.Pieces[i].Node }) {
			return true
		}
	}
	return false
}
