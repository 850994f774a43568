package gimbal

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/policy/kit/beside"
	"github.com/norn-scheduler/norn/sched"
)

// isPacked tells whether a running gang shares any of its GPUs.
func isPacked(v *sched.View, p *sched.Plan, a *cluster.Alloc) bool {
	return slices.ContainsFunc(a.Shares, func(s cluster.Share) bool { return len(p.On(s.Device)) > 1 && beside.Divisible(v, s.Device) })
}

// on is who is on a GPU: those that have begun, by number, then who is just
// being placed. A job that was exchanged in this decision has the place of the
// job whose GPU it got.
func (g *policy) on(v *sched.View, p *sched.Plan, d cluster.DeviceID) []job.ID {
	return slices.SortedStableFunc(slices.Values(p.On(d)), func(a, b job.ID) int { return cmp.Compare(g.order(v, d, a), g.order(v, d, b)) })
}

// stand is a job on a GPU.
type stand struct {
	device cluster.DeviceID
	job    job.ID
}

// order is by what the jobs on a GPU are put in order.
func (g *policy) order(v *sched.View, d cluster.DeviceID, id job.ID) job.ID {
	if of, exchanged := g.stands[stand{d, id}]; exchanged {
		return of
	}
	if v.Alloc(id) == nil {
		return job.ID(v.Jobs())
	}
	return id
}

// calibrate looks at the packed gangs whose partners have changed since they were
// calibrated last, or which run at another speed than was predicted, and swaps the
// stragglers of those that have them.
func (g *policy) calibrate(v *sched.View, p *sched.Plan) {
	for j := range v.Running() {
		a := p.Alloc(j.ID)
		if a == nil || !packable(j) || !isPacked(v, p, a) {
			continue
		}
		was, _ := sched.Recall[note](j)
		now := was
		now.partners, now.correction = partners(p, a, j.ID), g.observed(v, p, j, was)
		changed := now.correction != was.correction || !slices.Equal(now.partners, was.partners)
		if v.Now-j.Since() < g.cfg.Period { // it moves
			g.look(v)
		}
		settled := j.Since() < v.Now && v.Now-j.Since() <= g.cfg.Period // the look after a change
		if !changed && !settled || !ready(v, p, a) {
			continue
		}
		l, ids := g.local(v, p, []job.ID{j.ID})
		if l.Gangs[0].Correct = now.correct(); changed {
			g.look(v)
			if l.Settle(); !g.apply(p, l, ids) {
				continue
			}
		}
		if g.swap(v, p, l, ids, j, now) {
			now.swapped, changed = v.Now, true
		}
		if changed {
			p.Remember(j.ID, &now)
		}
	}
}

// look has the policy asked again at the end of the period.
func (g *policy) look(v *sched.View) {
	g.wake = min(g.wake, beside.Next(v.Now, g.cfg.Period))
}

// ready tells whether what a gang and its partners hold can be changed.
func ready(v *sched.View, p *sched.Plan, a *cluster.Alloc) bool {
	for i := range a.Shares {
		for _, id := range p.On(a.Shares[i].Device) {
			if j := v.Job(id); j.Phase() != job.Running || j.Profiling() || !packable(j) {
				return false
			}
		}
	}
	return true
}

// partners is who sits beside each worker of a gang.
func partners(p *sched.Plan, a *cluster.Alloc, self job.ID) (out []neighbour) {
	for i := range a.Shares {
		d := a.Shares[i].Device
		for _, id := range p.On(d) {
			if id != self {
				out = append(out, neighbour{d, id})
			}
		}
	}
	return out
}

// observed is how much faster a gang is than predicted, in steps of 10 %; as before
// while it, or one of its partners, has not run as it is.
func (g *policy) observed(v *sched.View, p *sched.Plan, j sched.Job, was note) int {
	a := v.Alloc(j.ID)
	if a == nil || !(j.Speed() > 0) {
		return was.correction
	}
	least := 1.0
	for i := range a.Shares {
		s := &a.Shares[i]
		var others []perf.Sharer
		for _, id := range g.on(v, p, s.Device) {
			o := v.Job(id)
			if o.Since() == v.Now || o.Phase() != job.Running || v.Alloc(id) == nil {
				return was.correction
			}
			if id != j.ID {
				others = append(others, perf.Sharer{Job: o.Spec(), Share: beside.Of(v.Alloc(id), s.Device)})
			}
		}
		if len(others) > 0 || s.Throttle > 0 {
			least = min(least, perf.Among(v.Sharing, perf.Sharer{Job: j.Spec(), Share: *s}, others, v.Cluster().Type(v.Cluster().TypeOf(s.Device))))
		}
	}
	alone := v.TypeSpeed(j, v.Cluster().TypeOf(a.Shares[0].Device), j.Tasks(), a.Nodes() > 1)
	if !(least > 0) || !(alone > 0) {
		return was.correction
	}
	return int(max(-100, min(100, math.Round(math.Log(j.Speed()/alone/least)/math.Log(1.1)))))
}

// local is some gangs with all who share a GPU with them, as the plan stands. The GPUs of
// those gangs may be divided anew. It returns the jobs of its gangs.
func (g *policy) local(v *sched.View, p *sched.Plan, of []job.ID) (*Local, []job.ID) {
	l := &Local{Sharing: v.Sharing, Step: int32(g.cfg.Step)}
	ids := slices.Clone(of)
	for _, id := range of {
		for _, s := range p.Alloc(id).Shares {
			for _, o := range g.on(v, p, s.Device) {
				if !slices.Contains(ids, o) {
					ids = append(ids, o)
				}
			}
		}
	}
	for _, id := range ids {
		g.seat(v, p, l, ids, id, len(of))
	}
	for i := range l.Seats {
		if n := l.Seats[i].Gang; n >= 0 {
			l.Gangs[n].Seats = append(l.Gangs[n].Seats, i)
		}
	}
	return l, ids
}

// seat seats a gang, and those beside it who are not looked at.
func (g *policy) seat(v *sched.View, p *sched.Plan, l *Local, ids []job.ID, id job.ID, opened int) {
	j := v.Job(id)
	n, _ := sched.Recall[note](j)
	l.Gangs = append(l.Gangs, Gang{Job: j.Spec(), Worth: g.worth(v, j), Least: g.least(v, p, j), Correct: n.correct()})
	self := len(l.Gangs) - 1
	for _, s := range p.Alloc(id).Shares {
		at := slices.IndexFunc(l.Spots, func(x Spot) bool { return len(x.Seats) > 0 && l.Seats[x.Seats[0]].Share.Device == s.Device })
		if at >= 0 {
			continue // seated with the one that was met before
		}
		spot := Spot{Type: v.Cluster().Type(v.Cluster().TypeOf(s.Device)), Open: self < opened}
		for _, o := range g.on(v, p, s.Device) {
			n := slices.Index(ids, o)
			if n >= 0 && n < opened {
				spot.Open = true
			}
			l.Seats = append(l.Seats, Seat{Gang: n, Spot: len(l.Spots), Job: v.Job(o).Spec(), Share: beside.Of(p.Alloc(o), s.Device)})
			spot.Seats = append(spot.Seats, len(l.Seats)-1)
		}
		l.Spots = append(l.Spots, spot)
	}
}

// least is the rate that a gang must have: that of a protected one, which came to all of
// its GPUs before others did, and a little of one that cannot be made to leave.
func (g *policy) least(v *sched.View, p *sched.Plan, j sched.Job) float64 {
	held := p.Alloc(j.ID) // it may have been moved, or sent off, a moment ago
	if g.cfg.Protect && j.Running() && held != nil && !slices.ContainsFunc(held.Shares, func(s cluster.Share) bool { return first(v, p, s.Device) != j.ID }) {
		return 1 - g.cfg.Slack
	}
	if j.Spec().Stop == job.Pinned {
		return 0.05
	}
	return 0
}

// first is who was on a GPU first.
func first(v *sched.View, p *sched.Plan, d cluster.DeviceID) job.ID {
	return slices.MinFunc(p.On(d), func(a, b job.ID) int {
		x, _ := v.Job(a).FirstStart()
		y, _ := v.Job(b).FirstStart()
		if !v.Job(a).Running() { // it is just being placed
			x = unit.Never
		}
		if !v.Job(b).Running() {
			y = unit.Never
		}
		return cmp.Or(cmp.Compare(x, y), cmp.Compare(a, b))
	})
}

// apply gives the gangs the parts that were found.
func (g *policy) apply(p *sched.Plan, l *Local, ids []job.ID) bool {
	return p.Try(func() bool {
		for pass := range 2 { // first those that get less of something
			for n, id := range ids {
				ok := p.Adjust(id, func(a *cluster.Alloc) {
					for _, at := range l.Gangs[n].Seats {
						s := l.Seats[at].Share
						i := slices.IndexFunc(a.Shares, func(x cluster.Share) bool { return x.Device == s.Device })
						if pass == 0 && s.Milli > a.Shares[i].Milli {
							s.Milli = a.Shares[i].Milli
						}
						a.Shares[i] = s
					}
				})
				if !ok {
					return false
				}
			}
		}
		return true
	})
}

// paused has gangs leave of which a worker has been paused for too long.
func (g *policy) paused(v *sched.View, p *sched.Plan) {
	for j := range v.Running() {
		a := p.Alloc(j.ID)
		if a == nil || !packable(j) || j.Phase() != job.Running || j.Spec().Stop == job.Pinned {
			continue
		}
		n, _ := sched.Noted[note](p, j)
		at := slices.IndexFunc(a.Shares, func(s cluster.Share) bool { return s.Throttle == 1000 })
		switch {
		case at < 0 && n.paused != never:
			n.paused = never
			p.Remember(j.ID, &n)
		case at >= 0 && n.paused == never:
			n.paused = v.Now
			p.Remember(j.ID, &n)
			g.until(later(n.paused, g.cfg.Patience))
		case at >= 0 && v.Now >= later(n.paused, g.cfg.Patience):
			g.evict(v, p, j, a)
		case at >= 0:
			g.until(later(n.paused, g.cfg.Patience))
		}
	}
}

// until has the policy asked at a moment.
func (g *policy) until(at time.Duration) {
	if at > 0 && at < unit.Never {
		g.wake = min(g.wake, at)
	}
}

// evict has a gang leave its GPUs to its partners.
func (g *policy) evict(v *sched.View, p *sched.Plan, j sched.Job, a *cluster.Alloc) {
	why := job.Reason{Code: job.MakesRoom, Job: job.None}
	for i := range a.Shares {
		for _, o := range p.On(a.Shares[i].Device) {
			if a.Shares[i].Throttle == 1000 && o != j.ID {
				why.Job = o
			}
		}
	}
	p.Stop(j.ID, why)
	p.Remember(j.ID, &note{paused: never, swapped: v.Now})
}

// swap takes the straggler of a gang to another GPU of its node, in exchange for the
// worker of another gang there, if that makes it faster and is worth something. It tells
// whether it did.
func (g *policy) swap(v *sched.View, p *sched.Plan, l *Local, ids []job.ID, j sched.Job, n note) bool {
	seat, ratio := l.Straggler(0)
	if ratio <= g.cfg.Straggler || n.rests(v.Now, g.cfg.Rest) || !g.moves(v, p, j) {
		return false
	}
	from := l.Seats[seat].Share.Device
	c := v.Cluster()
	first, count := c.DeviceRange(c.NodeOf(from))
	best, with, most := cluster.DeviceID(-1), job.None, l.GangRate(0)*(1+g.cfg.Faster)
	for d := first; d < first+cluster.DeviceID(count); d++ {
		if len(p.On(d)) == 0 || slices.Contains(p.On(d), j.ID) || c.Broken(d) || c.TypeOf(d) != c.TypeOf(from) {
			continue
		}
		for _, o := range g.on(v, p, d) {
			k := v.Job(o)
			other, _ := sched.Noted[note](p, k)
			if slices.Contains(p.On(from), o) || !g.moves(v, p, k) || n.swapped != never && other.rests(v.Now, 0) {
				continue
			}
			if rate := g.exchanged(v, p, j.ID, o, from, d); rate > most {
				best, with, most = d, o, rate
			}
		}
	}
	return with != job.None && g.exchange(v, p, j.ID, with, from, best)
}

// moves tells whether a worker of a running gang may be taken elsewhere.
func (g *policy) moves(v *sched.View, p *sched.Plan, j sched.Job) bool {
	a := v.Alloc(j.ID)
	return packable(j) && j.Phase() == job.Running && j.Spec().Stop == job.Checkpoint && a != nil && p.Alloc(j.ID) != nil && v.Cluster().UsableAlloc(a)
}

// exchanged is the rate of a gang when its worker on one GPU and that of another gang on
// another have changed places and all was calibrated anew; 0 when all together would count
// for less.
func (g *policy) exchanged(v *sched.View, p *sched.Plan, id, with job.ID, from, to cluster.DeviceID) (rate float64) {
	before, _ := g.local(v, p, []job.ID{id, with})
	was := before.Utility()
	stands := maps.Clone(g.stands)
	p.Try(func() bool {
		if g.exchange(v, p, id, with, from, to) {
			l, _ := g.local(v, p, []job.ID{id, with})
			l.Settle()
			if l.Utility() >= was {
				rate = l.GangRate(0)
			}
		}
		return false
	})
	g.stands = stands
	return rate
}

// exchange has two workers change places; each gets half of its new GPU, or all.
func (g *policy) exchange(v *sched.View, p *sched.Plan, id, with job.ID, from, to cluster.DeviceID) bool {
	a, b := &cluster.Alloc{}, &cluster.Alloc{}
	a.CopyFrom(p.Alloc(id))
	b.CopyFrom(p.Alloc(with))
	c := v.Cluster()
	replace := func(x *cluster.Alloc, old, new cluster.DeviceID, part int32) cluster.Share {
		i := slices.IndexFunc(x.Shares, func(s cluster.Share) bool { return s.Device == old })
		was := x.Shares[i]
		x.Shares[i].Device, x.Shares[i].Milli, x.Shares[i].Throttle = new, part, 0
		return was
	}
	part := map[cluster.DeviceID]int32{} // before anybody leaves
	for _, d := range [2]cluster.DeviceID{from, to} {
		part[d] = int32(1000 / max(1, len(p.On(d))))
	}
	was := [2]cluster.Share{replace(a, from, to, part[to]), replace(b, to, from, part[from])}
	if c.DeviceMemoryFree(to)+was[1].Memory < was[0].Memory || c.DeviceMemoryFree(from)+was[0].Memory < was[1].Memory {
		return false
	}
	why := job.Reason{Code: job.Moved, Job: job.None}
	ok := p.Stop(id, why) && p.Stop(with, why)
	for _, d := range [2]cluster.DeviceID{from, to} {
		for _, o := range p.On(d) { // who stays
			ok = ok && beside.Change(p, o, d, func(s *cluster.Share) { s.Milli, s.Throttle = part[d], 0 })
		}
	}
	if !ok || !p.StartOn(id, a) || !p.StartOn(with, b) {
		return false
	}
	mine, theirs := g.order(v, from, id), g.order(v, to, with)
	g.stands[stand{from, with}], g.stands[stand{to, id}] = mine, theirs
	return true
}
