package elasticflow

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
	"github.com/norn-scheduler/norn/policy/kit/resize"
	"github.com/norn-scheduler/norn/sched"
)

// round is one decision about the jobs of a pool.
type round struct {
	o    *policy
	v    *sched.View
	p    *sched.Plan
	pool cluster.PoolID

	lots   []lot
	claims []*claim // that may have another size, by number
	apart  []sched.Job
	plans  int // made anew so far
}

// lot is the GPUs of one type of the pool.
type lot struct {
	typ     cluster.TypeID
	name    string
	slots   []slot
	node    int // GPUs of the largest node
	total   int // that jobs of this policy may have
	profile *Profile
}

// slot is the GPUs of one type on a node.
type slot struct {
	node  cluster.NodeID
	group cluster.GroupID
}

// claim is a job that may have another size.
type claim struct {
	Share
	j     sched.Job
	each  int // GPUs of a task
	note  note
	lot   int
	was   *cluster.Alloc // what it had; nil: nothing
	fixed bool           // it keeps what it has for now
	end   time.Duration  // by its schedule
}

// guard is kept before a deadline, against rounding.
const guard = time.Millisecond

// due is when a claimant has to end.
func (c *claim) due() time.Duration { return c.j.Spec().Deadline - guard }

// survey lists the usable nodes by GPU type.
func (r *round) survey() {
	c := r.v.Cluster()
	at := map[cluster.TypeID]int{}
	for _, id := range c.PoolNodes(r.pool) {
		if !c.Usable(id) {
			continue
		}
		for _, g := range c.NodeGroups(id) {
			t := c.GroupType(g)
			if c.Type(t).Host {
				continue
			}
			i, ok := at[t]
			if !ok {
				i, at[t] = len(r.lots), len(r.lots)
				r.lots = append(r.lots, lot{typ: t, name: c.Type(t).Name})
			}
			l := &r.lots[i]
			l.slots, l.node = append(l.slots, slot{id, g}), max(l.node, c.GroupCount(g))
		}
	}
}

// gather lists the jobs that may have another size. In the plan those that run hold nothing from
// then on. The others keep what they have until they end.
func (r *round) gather() {
	for j := range r.v.Waiting() {
		switch {
		case j.Pool() != r.pool:
		case recall(j).state == refused:
			if j.Reason().Code != job.Refused {
				r.p.Wait(j.ID, job.Reason{Code: job.Refused, Job: job.None})
			}
		default:
			if why := resize.Never(r.v, r.p, j, r.o.cfg.Place); why.Code != job.NoReason {
				r.p.Wait(j.ID, why)
			} else if r.standsApart(j) {
				r.apart = append(r.apart, j)
			} else {
				r.add(j)
			}
		}
	}
	var stay []sched.Job
	for j := range r.v.Running() {
		if j.Pool() != r.pool {
			continue
		}
		if r.stays(j) {
			stay = append(stay, j)
		} else {
			r.add(j)
		}
	}
	slices.SortFunc(r.claims, func(a, b *claim) int { return cmp.Compare(a.j.ID, b.j.ID) })
	for _, c := range r.claims {
		if c.was != nil && !c.fixed {
			r.p.Stop(c.j.ID, job.Reason{Code: job.MakesRoom, Job: job.None})
		}
	}
	r.count(stay)
	for _, c := range r.claims {
		r.measure(c)
	}
	r.claims = slices.DeleteFunc(r.claims, func(c *claim) bool {
		if len(c.Sizes) > 0 {
			return false
		}
		if c.was == nil {
			r.apart = append(r.apart, c.j)
		} else if !c.fixed {
			r.p.StartOn(c.j.ID, c.was)
		}
		return true
	})
}

// standsApart tells whether a job has one size and is not stopped once it runs.
func (r *round) standsApart(j sched.Job) bool {
	d := j.Spec().Demand
	role := &d.Roles[0]
	return role.GPU < unit.One || role.GPU%unit.One != 0 || d.Roles[1].Tasks > 0 || d.Within != "" || j.Spec().Stop != job.Checkpoint || r.v.Scope(j) != r.pool
}

// stays tells whether a running job keeps what it has until it ends.
func (r *round) stays(j sched.Job) bool {
	a := r.v.Alloc(j.ID)
	return r.standsApart(j) || j.Profiling() || a.Milli() != j.Spec().Demand.Milli(int32(a.Tasks(0))) || r.v.Cluster().UsableDevices(a) < len(a.Shares)
}

func (r *round) add(j sched.Job) {
	c := &claim{j: j, each: int(j.Spec().Demand.Roles[0].GPU / unit.One), note: recall(j), was: r.v.Alloc(j.ID), lot: -1}
	c.fixed = c.was != nil && j.Phase() != job.Running
	c.Size = -1
	r.claims = append(r.claims, c)
}

// count makes the profiles: what is free when all claimants are stopped and, from their ends on,
// what the jobs have that stay.
func (r *round) count(stay []sched.Job) {
	for i := range r.lots {
		l := &r.lots[i]
		l.total = r.free(l)
		for _, cl := range r.claims {
			if cl.fixed {
				l.total += r.held(l, cl.was)
			}
		}
		free := l.total
		for _, j := range stay {
			l.total += r.held(l, r.v.Alloc(j.ID))
		}
		l.profile = NewProfile(r.v.Now, free)
		for _, j := range stay {
			if end, known := j.ExpectedEnd(); known {
				if end <= r.v.Now { // it takes longer than was believed: nobody knows when it ends
					end = r.v.Now + overrun
				}
				l.profile.Take(end, unit.Never, -r.held(l, r.v.Alloc(j.ID)))
			}
		}
	}
}

// overrun is what a running job is taken to have left that has run for as long as was believed
// and has not ended.
const overrun = time.Minute

// held is the usable GPUs of a lot of which an allocation has a part.
func (r *round) held(l *lot, a *cluster.Alloc) (n int) {
	c := r.v.Cluster()
	for i := range a.Shares {
		if d := a.Shares[i].Device; c.TypeOf(d) == l.typ && c.UsableDevice(d) {
			n += max(1, int(a.Shares[i].Milli)/int(unit.One))
		}
	}
	return n
}

// measure finds out on which lot a claimant is and how it may run there.
func (r *round) measure(c *claim) {
	left, known := c.j.Remaining()
	if !known {
		left = time.Hour // by which the division of GPUs goes where nothing is known
	}
	if left <= 0 && c.was != nil {
		left = overrun
	}
	c.Left, c.Tasks, c.Slow = max(1e-3, left.Seconds()), 0, c.fixed
	c.Pause = pause(r.v.Costs, r.o.cfg.Largest*c.each)
	if c.was != nil {
		c.Tasks, c.Busy = c.was.Tasks(0), max(0, c.j.Ready()-r.v.Now)
		c.lot = r.lotOf(r.v.Cluster().TypeOf(c.was.Shares[0].Device))
	}
	if c.note.state == promised && c.was == nil {
		c.lot = slices.IndexFunc(r.lots, func(l lot) bool { return l.name == c.note.on })
	}
	if c.lot >= 0 {
		c.Sizes = r.sizes(c, c.lot)
		return
	}
	best := 0.0
	for i := range r.lots { // the one on which most of them would run, and best
		if all := r.sizes(c, i); len(all) > 0 {
			if fast := all[0].Speed * float64(1+r.lots[i].profile.Free(r.v.Now)); fast > best {
				best, c.lot, c.Sizes = fast, i, all
			}
		}
	}
}

func (r *round) lotOf(t cluster.TypeID) int {
	return slices.IndexFunc(r.lots, func(l lot) bool { return l.typ == t })
}

// pause is for how long any change keeps a job of up to so many GPUs from its work.
func pause(costs *perf.Costs, gpus int) (longest time.Duration) {
	of := func(c perf.Cost) time.Duration {
		return max(c.Start, c.Restore, c.Resize, c.Migrate) + c.Checkpoint
	}
	longest = of(costs.Base)
	for _, t := range costs.Tiers {
		if t.GPUs <= gpus {
			longest = max(longest, of(t.Cost))
		}
	}
	return longest
}

// sizes are the sizes that a claimant may have on a lot: its least, and powers of two, as long as
// more GPUs make it faster. Where it runs with another size, that is none of them.
func (r *round) sizes(c *claim, at int) (all []Size) {
	l, d := &r.lots[at], c.j.Spec().Demand
	class := r.v.Class(c.j.Class())
	if class.Mask != 0 && !class.Mask.Has(l.typ) {
		return nil
	}
	least, most := d.Roles[0].Range()
	if least < most {
		most = max(least, min(most, int32(r.o.cfg.Largest)))
	}
	add := func(tasks int) bool {
		gpus := tasks * c.each
		if gpus > l.total {
			return false
		}
		speed := r.v.TypeSpeed(c.j, l.typ, tasks, gpus > l.node)
		if speed > 0 && (len(all) == 0 || speed > all[len(all)-1].Speed*(1+1e-9)) {
			all = append(all, Size{Tasks: tasks, GPUs: gpus, Speed: speed})
		}
		return true
	}
	add(int(least))
	for n := 1; n <= int(most) && n <= math.MaxInt32/2; n *= 2 {
		if n > int(least) && !add(n) {
			break
		}
	}
	return all
}

// hurry gives each job the fastest size for which there are GPUs, those with the earliest
// deadline first, and those without one last.
func (r *round) hurry() {
	order := slices.Clone(r.claims)
	by := func(c *claim) time.Duration { return cmp.Or(c.j.Spec().Deadline, unit.Never) }
	slices.SortStableFunc(order, func(a, b *claim) int { return cmp.Compare(by(a), by(b)) })
	for _, c := range order {
		l := &r.lots[c.lot]
		free := l.profile.Free(r.v.Now)
		for i, s := range c.Sizes {
			if c.fixed && s.Tasks == c.Tasks || !c.fixed && s.GPUs <= free {
				c.Size = i
			}
		}
		if c.Size >= 0 {
			l.profile.Take(r.v.Now, unit.Never, c.Sizes[c.Size].GPUs)
		}
	}
}

// keepPromises books the schedules of all who were admitted. Where one cannot be kept any more,
// as after the loss of a node, another one is looked for, and then others for all. A job for
// which there is none is late.
func (r *round) keepPromises() {
	var broken []*claim
	for _, c := range r.claims {
		if c.note.state == promised && !r.book(c) {
			broken = append(broken, c)
		}
	}
	for _, c := range broken {
		if r.plan(c) || r.replan(c) {
			continue
		}
		r.remember(c, note{state: late})
	}
}

// book books the schedule of a claimant, if that can be kept.
func (r *round) book(c *claim) bool {
	p := r.lots[c.lot].profile
	c.end = c.note.plan.End(&c.Work, r.v.Now)
	if c.end > c.due() || !c.note.plan.Fits(p, &c.Work, r.v.Now, c.end) {
		return false
	}
	c.note.plan.Take(p, &c.Work, r.v.Now, c.end)
	return true
}

// plan finds a schedule for a claimant beside all that are booked, and books it.
func (r *round) plan(c *claim) bool {
	p := r.lots[c.lot].profile
	plan, end, ok := Fill(p, &c.Work, r.v.Now, c.due())
	if ok {
		c.end = end
		plan.Take(p, &c.Work, r.v.Now, end)
		r.remember(c, note{state: promised, on: r.lots[c.lot].name, plan: plan})
	}
	return ok
}

// replan makes the schedules of all jobs with promises on the lot of one, and its own, anew, in
// order of deadlines. If they cannot all be kept, everything stays as it was.
func (r *round) replan(c *claim) bool {
	if r.plans++; r.plans > r.o.cfg.Replans {
		return false
	}
	l := &r.lots[c.lot]
	all := []*claim{c}
	fresh := l.profile.Clone()
	for _, o := range r.claims {
		if o != c && o.lot == c.lot && o.note.state == promised && o.end > 0 {
			all = append(all, o)
			o.note.plan.free(fresh, &o.Work, r.v.Now, o.end)
		}
	}
	if _, _, ok := Fill(fresh, &c.Work, r.v.Now, c.due()); !ok {
		return false
	}
	slices.SortStableFunc(all, func(a, b *claim) int { return cmp.Or(cmp.Compare(a.due(), b.due()), cmp.Compare(a.j.ID, b.j.ID)) })
	plans, ends := make([]Schedule, len(all)), make([]time.Duration, len(all))
	for i, o := range all {
		var ok bool
		if plans[i], ends[i], ok = Fill(fresh, &o.Work, r.v.Now, o.due()); !ok {
			return false
		}
		plans[i].Take(fresh, &o.Work, r.v.Now, ends[i])
	}
	l.profile = fresh
	for i, o := range all {
		o.end = ends[i]
		r.remember(o, note{state: promised, on: l.name, plan: plans[i]})
	}
	return true
}

// free gives back what Take took.
func (s Schedule) free(p *Profile, w *Work, now, end time.Duration) {
	end += rounding
	for t := now; t < end; {
		to := min(end, s.Next(t))
		p.Take(t, to, -w.size(s.Now(t)).GPUs)
		t = to
	}
}

func (r *round) remember(c *claim, n note) {
	c.note = n
	r.p.Remember(c.j.ID, &n)
}

// admit decides about those who have a deadline and have not been heard yet, in order of
// submission.
func (r *round) admit() {
	for _, c := range r.claims {
		spec := c.j.Spec()
		if spec.Deadline == 0 || c.note.state != unheard {
			continue
		}
		_, known := c.j.Remaining()
		switch {
		case !known:
			r.remember(c, note{state: late})
		case r.plan(c) || r.replan(c):
		case spec.Soft || r.o.cfg.Refused == Run || c.was != nil:
			r.remember(c, note{state: late})
		default:
			r.remember(c, note{state: refused})
			r.p.Wait(c.j.ID, job.Reason{Code: job.Refused, Job: job.None, Text: r.refusal(c)})
		}
	}
	r.claims = slices.DeleteFunc(r.claims, func(c *claim) bool { return c.note.state == refused })
}

// refusal says why a job is refused: what it would need.
func (r *round) refusal(c *claim) string {
	in := unit.Human(max(0, c.j.Spec().Deadline-r.v.Now))
	best := c.Sizes[len(c.Sizes)-1]
	if alone := time.Duration(c.Left / best.Speed * 1e9); r.v.Now+c.Pause+alone > c.due() {
		return fmt.Sprintf("it needs %s even on %s, and its deadline is in %s", unit.Human(alone), unit.Count(best.GPUs, "GPU"), in)
	}
	_, end, ok := fill(r.lots[c.lot].profile, &c.Work, best, r.v.Now, unit.Never)
	if !ok {
		return "its deadline is in " + in + ", and other jobs with deadlines need the GPUs"
	}
	return fmt.Sprintf("its deadline is in %s, and beside other jobs with deadlines it would end in %s at the earliest", in, unit.Human(end-r.v.Now))
}
