package mast

import (
	"cmp"
	"slices"
	"time"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/policy/kit/preempt"
	"github.com/norn-scheduler/norn/sched"
)

// bid is what it takes to have a job on a site.
type bid struct {
	site    int32
	order   int        // of the site's type among those that the job prefers
	lost    unit.Milli // what victims have of GPUs
	band    int32      // the highest one of the victims
	left    int        // wholly free GPUs of the site beside the job, victims aside
	apart   int        // steps of the topology between its tasks
	spare   int        // wholly free GPUs of the region
	free    int        // and of the site, before
	forced  bool       // it stops others
	stopped []job.ID   // the victims
}

// compare has the better bid first: nobody stopped, few GPUs taken from others, low bands, little left
// beside the job, tasks close together, a region with much to spare, and the first site.
func (b *bid) compare(o *bid) int {
	return cmp.Or(cmp.Compare(b.lost, o.lost), cmp.Compare(b.band, o.band), cmp.Compare(b.order, o.order), cmp.Compare(b.left, o.left),
		cmp.Compare(b.apart, o.apart), cmp.Compare(o.spare, b.spare), cmp.Compare(b.site, o.site))
}

// victim is a job that may be stopped.
type victim struct {
	preempt.Victim
	band  int32
	since time.Duration
}

// open asks all sites on which a job may be.
func (m *policy) open(v *sched.View, j sched.Job, suits []int32) {
	class := v.Class(j.Class())
	m.bids = m.bids[:0]
	spare := make([]int, len(m.regions))
	for _, i := range suits {
		s := m.sites[i]
		free, ok := s.free(v.Cluster(), class.Scope)
		if spare[s.region] += free; ok {
			m.bids = append(m.bids, bid{site: i, order: preference(v, class.Demand, s.typ), free: free, left: free - int(class.GPUs)})
		}
	}
	for i := range m.bids {
		m.bids[i].spare = spare[m.sites[m.bids[i].site].region]
	}
	slices.SortFunc(m.bids, func(a, b bid) int { return a.compare(&b) })
}

// preference is the place of a type in a job's order of preference; 0 where it has none.
func preference(v *sched.View, d *job.Demand, t cluster.TypeID) (n int) {
	if d.Types == "" {
		return 0
	}
	d.EachType(v.Cluster(), func(o cluster.TypeID) bool {
		n++
		return o != t
	})
	return n
}

// best is the best bid that stops nobody; nil: there is none. Those that leave less of their site come
// first, so that of the others only those are tried that leave as little.
func (m *policy) best(v *sched.View, p *sched.Plan, j sched.Job) (won *bid) {
	whole := wholly(j.Spec().Demand)
	for i := range m.bids {
		b := &m.bids[i]
		switch {
		case won != nil && (b.order != won.order || b.left != won.left):
			return won
		case whole && b.left < 0:
			continue
		}
		fits := false
		p.Try(func() bool {
			if fits = p.Start(j.ID, m.sites[b.site]); fits {
				b.apart = apart(v.Cluster(), p.Alloc(j.ID))
			}
			return false
		})
		if fits && (won == nil || b.compare(won) < 0) {
			won = b
		}
	}
	return won
}

// wholly tells whether a gang asks for nothing but whole GPUs, where it asks for any.
func wholly(d *job.Demand) bool {
	return !slices.ContainsFunc(d.Roles[:], func(r job.Role) bool { return r.GPU%unit.One != 0 })
}

// apart is how many steps of the topology lie between the tasks of a gang.
func apart(c *cluster.Cluster, a *cluster.Alloc) (most int) {
	for i := range a.Pieces {
		most = max(most, c.Distance(a.Pieces[0].Node, a.Pieces[i].Node))
	}
	return most
}

// bestOver is the best bid that stops jobs of lower bands; nil: there is none.
func (m *policy) bestOver(v *sched.View, p *sched.Plan, j sched.Job) (won *bid) {
	for i := range m.bids {
		b := &m.bids[i]
		ok := false
		p.Try(func() bool {
			if b.stopped, ok = m.over(v, p, j, b); !ok {
				return false
			}
			b.forced, b.band = true, j.Spec().Priority
			for k, id := range b.stopped {
				r := v.Job(id)
				if b.lost += v.Cluster().GPUMilli(v.Alloc(id)); k == 0 || r.Spec().Priority > b.band {
					b.band = r.Spec().Priority
				}
			}
			b.apart = apart(v.Cluster(), p.Alloc(j.ID))
			return false
		})
		if ok && (won == nil || b.compare(won) < 0) {
			won = b
		}
	}
	return won
}

// over starts a job on the site of a bid, with the fewest victims that it takes when those of the
// lowest bands go first, of these the youngest.
func (m *policy) over(v *sched.View, p *sched.Plan, j sched.Job, b *bid) (stopped []job.ID, ok bool) {
	s := m.sites[b.site]
	m.gather(v, p, j, s)
	have := unit.Milli(b.free) * unit.One
	all := make([]preempt.Victim, len(m.victims))
	for i := range m.victims {
		all[i] = m.victims[i].Victim
		have += v.Cluster().GPUMilli(all[i].On)
	}
	if len(all) == 0 || wholly(j.Spec().Demand) && have < v.Class(j.Class()).Amount.GPU {
		return nil, false
	}
	return preempt.MakeRoom(v, p, all, j.ID, s)
}

// gather lists the jobs of lower bands that have anything of a site.
func (m *policy) gather(v *sched.View, p *sched.Plan, j sched.Job, s *site) {
	m.victims = m.victims[:0]
	scope := v.Scope(j)
	among := func(id cluster.NodeID) bool { return s.has(id) && v.Cluster().In(id, scope) }
	for r := range v.Running() {
		if r.Spec().Priority >= j.Spec().Priority {
			continue
		}
		if w, ok := preempt.Stoppable(v, p, r, among); ok && w.On == v.Alloc(r.ID) {
			m.victims = append(m.victims, victim{w, r.Spec().Priority, r.Since()})
		}
	}
	slices.SortFunc(m.victims, func(a, b victim) int {
		return cmp.Or(cmp.Compare(a.band, b.band), cmp.Compare(b.since, a.since), cmp.Compare(b.ID, a.ID))
	})
}

// missing is why nobody bids for a job.
func (m *policy) missing(v *sched.View, p *sched.Plan, j sched.Job) (why job.Reason) {
	class := v.Class(j.Class())
	all, most, best := 0, -1, int32(0)
	for i := range m.bids {
		b := &m.bids[i]
		if all += b.free; b.free > most {
			best, most = b.site, b.free
		}
	}
	switch need := class.GPUs; {
	case most < int(need) && all >= int(need):
		return job.Reason{Code: job.NeedWithin, Need: need, Have: int32(most), Job: job.None, Text: "dynamic cluster"}
	case most < int(need) && wholly(class.Demand):
		return job.Reason{Code: job.NeedGPUs, Need: need, Have: int32(all), Job: job.None}
	case most < 0:
		return job.Reason{Code: job.NeedGPUs, Need: need, Job: job.None}
	}
	why, _ = p.Fits(j.ID, m.sites[best])
	return why
}
