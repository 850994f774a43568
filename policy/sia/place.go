package sia

import (
	"cmp"
	"slices"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/policy/kit/resize"
)

// carryOut places who was chosen, and tells the others why they wait. A job that keeps
// its configuration keeps its GPUs, unless it must make room for another one of which no
// placement exists otherwise. Where none exists even so, nobody makes room, and who finds
// none has another configuration.
func (r *round) carryOut() {
	if !r.p.Try(func() bool { return r.place(true) }) {
		r.forget()
		r.place(false)
	}
	for i := range r.claims {
		c := &r.claims[i]
		if r.p.Alloc(c.j.ID) == nil && (c.pick != None || c.was != nil) {
			r.settle(i)
		}
		if r.p.Alloc(c.j.ID) != nil {
			r.tell(c)
		} else if c.pick == None {
			r.hold(c)
		}
	}
}

// forget notes that nobody but those who were put back is placed.
func (r *round) forget() {
	clear(r.put)
	for i := range r.claims {
		r.claims[i].kept = false
	}
}

// place places all who were chosen: first those who keep what they have, then whole nodes
// from the last one on, then parts of nodes, the largest first, where they leave least. It
// is false if somebody finds no place. evict: they may make others move that keep part of
// a node.
func (r *round) place(evict bool) bool {
	var queue []int
	for i := range r.claims {
		if c := &r.claims[i]; c.pick != None && (c.pick != c.row.Now || !r.putBack(i)) {
			queue = append(queue, i)
		}
	}
	larger := func(a, b int) int { return cmp.Compare(r.claims[b].option().GPUs, r.claims[a].option().GPUs) }
	slices.SortStableFunc(queue, larger)
	all := true
	for len(queue) > 0 {
		i := queue[0]
		moved, ok := r.start(i, r.claims[i].option(), evict)
		if queue = queue[1:]; len(moved) > 0 {
			queue = append(queue, moved...)
			slices.SortStableFunc(queue, larger)
		}
		all = all && ok
	}
	return all
}

// option is what was chosen for a claimant.
func (c *claimant) option() Option { return c.row.Options[c.pick] }

// putBack gives a claimant again what it had, if that is free.
func (r *round) putBack(i int) bool {
	c := &r.claims[i]
	if c.was == nil || !resize.Free(r.v.Cluster(), c.was) || !r.p.StartOn(c.j.ID, c.was) {
		return false
	}
	c.kept = true
	r.note(i, c.was)
	return true
}

// note notes on which groups of devices a claimant is.
func (r *round) note(i int, a *cluster.Alloc) {
	c := r.v.Cluster()
	for k := range a.Shares {
		if g := c.GroupOf(a.Shares[k].Device); !slices.Contains(r.put[g], i) {
			r.put[g] = append(r.put[g], i)
		}
	}
}

// start places a claimant on nodes of a kind: on whole ones as far as it needs them, and
// on a part of another one. moved are those who have to find another place for that.
func (r *round) start(i int, o Option, evict bool) (moved []int, ok bool) {
	c, kind := &r.claims[i], &r.kinds[o.Kind]
	each := kind.GPUs / c.each
	tasks := o.GPUs / c.each
	var taken []slot
	var parts []int
	for left := tasks; left > 0; {
		n := min(left, each)
		at, off, found := r.find(c, kind, n, n == each, taken, evict)
		moved = append(moved, off...)
		if !found {
			return moved, false
		}
		taken, parts, left = append(taken, at), append(parts, n), left-n
	}
	var a cluster.Alloc
	for n, s := range taken {
		resize.AppendTasks(r.v.Cluster(), &a, s.group, &c.j.Spec().Demand.Roles[0], parts[n])
	}
	slices.SortFunc(a.Pieces, func(x, y cluster.Piece) int { return cmp.Compare(x.Node, y.Node) })
	slices.SortFunc(a.Shares, func(x, y cluster.Share) int { return cmp.Compare(x.Device, y.Device) })
	if !r.p.StartOn(c.j.ID, &a) {
		return moved, false
	}
	r.note(i, &a)
	return moved, true
}

// find finds a node for so many tasks of a claimant: a whole one from the last on, or the
// one with the least room that suffices. If there is none, others may make room, on the
// node that has most.
func (r *round) find(c *claimant, kind *kind, tasks int, whole bool, taken []slot, evict bool) (at slot, moved []int, ok bool) {
	least := 0
	var full []slot
	for n := range kind.slots {
		s := kind.slots[n]
		if slices.Contains(taken, s) {
			continue
		}
		switch free := r.room(c, s); {
		case free < tasks:
			full = append(full, s)
		case whole || !ok || free < least: // of whole ones the last
			at, least, ok = s, free, true
		}
	}
	if ok || !evict {
		return at, nil, ok
	}
	cl := r.v.Cluster()
	slices.SortStableFunc(full, func(a, b slot) int { return cmp.Compare(cl.GroupFree(b.group), cl.GroupFree(a.group)) })
	for _, s := range full {
		if moved, ok = r.evict(c, s, tasks); ok {
			return s, moved, true
		}
	}
	return at, nil, false
}

// evict has those who keep a part of a node make room for so many tasks there, the
// smallest first. ok is false if that does not suffice, and then all stay.
func (r *round) evict(c *claimant, s slot, tasks int) (moved []int, ok bool) {
	var there []int
	for _, i := range r.put[s.group] {
		if o := &r.claims[i]; o.kept && o.pick != None && o.option().GPUs < r.kinds[o.option().Kind].GPUs {
			there = append(there, i)
		}
	}
	slices.SortStableFunc(there, func(a, b int) int { return cmp.Compare(r.claims[a].option().GPUs, r.claims[b].option().GPUs) })
	ok = r.p.Try(func() bool {
		for _, i := range there {
			if r.room(c, s) >= tasks {
				break
			}
			r.p.Stop(r.claims[i].j.ID, job.Reason{Code: job.MakesRoom, Job: c.j.ID})
			moved = append(moved, i)
		}
		return r.room(c, s) >= tasks
	})
	if !ok {
		return nil, false
	}
	for _, i := range moved {
		r.claims[i].kept = false
		r.put[s.group] = slices.DeleteFunc(r.put[s.group], func(k int) bool { return k == i })
	}
	return moved, true
}

// settle finds something in what is left for a claimant that was not placed: what it had,
// then its configurations, the best first. A running job may have been left out since a
// change costs it more than no GPUs; stopped as it is, it had better have some. A job
// whose configuration found no place has its least size wherever there is room, where
// counted resources are in the way.
func (r *round) settle(i int) {
	c := &r.claims[i]
	if r.putBack(i) {
		return
	}
	others := slices.Clone(c.row.Options)
	slices.SortStableFunc(others, func(a, b Option) int { return cmp.Compare(b.Value, a.Value) })
	for _, o := range others {
		if _, ok := r.start(i, o, false); ok {
			return
		}
	}
	if c.pick != None {
		r.p.StartSize(c.j.ID, c.least, r.o.cfg.Place)
	}
}

// tell tells a claimant that has devices its batch, and notes what is new to it.
func (r *round) tell(c *claimant) {
	a := r.p.Alloc(c.j.ID)
	tasks, spread := a.Tasks(0), a.Nodes() > 1
	t := r.v.Cluster().TypeOf(a.Shares[0].Device)
	changed := c.was == nil || !a.Equal(c.was)
	if batch := r.batch(c, t, tasks*c.each, spread); changed || batch != c.j.Config().Chosen.Batch {
		resize.Batch(r.p, c.j.ID, batch)
	}
	if !changed {
		return
	}
	news := c.note
	if _, before := c.j.FirstStart(); before {
		news.restarts++
	}
	news = news.with(r.v.Cluster().Type(t).Name, tasks, spread)
	r.p.Remember(c.j.ID, &news)
}

// batch is how many samples each GPU of a job is to take for a step: those with the best
// goodput by what it has reported. Before it has run anywhere, they are as few as it can
// begin with. It is 0, as its user wants, for a job that never reports or whose batch is
// fixed.
func (r *round) batch(c *claimant, t cluster.TypeID, gpus int, spread bool) int32 {
	m := r.model(c)
	if m == nil || c.fixed() > 0 {
		return 0
	}
	if on := &m.types[t]; on.ok && len(m.ran) > 0 {
		if b := on.at(gpus, spread, 0); b.Value > 0 {
			return int32(b.Batch.Local * (b.Batch.Accum + 1))
		}
	}
	report, ok := r.v.Speeds.(perf.TypeReporter).ReportOn(c.j.Spec(), r.v.Cluster(), t, max(1, gpus/c.each), spread, 0)
	if !ok {
		return 0
	}
	return int32(max((report.Batches.First+gpus-1)/gpus, report.Batches.LocalMin))
}

// hold tells a job that gets nothing why it waits.
func (r *round) hold(c *claimant) {
	r.whys.Hold(r.p, c.j, r.o.cfg.Place, "other jobs gain more from the GPUs; configurations are chosen anew at "+unit.Human(r.o.rounds().Next(r.v)))
}
