package sia

import (
	"cmp"
	"slices"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/policy/kit/resize"
	"github.com/norn-scheduler/norn/sched"
)

// round is one choice of configurations for the jobs of a pool.
type round struct {
	o    *policy
	v    *sched.View
	p    *sched.Plan
	pool cluster.PoolID

	claims []claimant // by number
	kinds  []kind
	nodes  map[cluster.TypeID]int // GPUs of the largest node of each type
	shapes map[int32]*shape
	whys   resize.Reasons
	put    map[cluster.GroupID][]int
}

// claimant is a job for which a configuration is chosen.
type claimant struct {
	j           sched.Job
	least, most int // tasks
	each        int // GPUs of a task
	note        note
	row         Row
	pick        int            // of the options of the row
	kept        bool           // it has its devices again
	was         *cluster.Alloc // what it had; nil: nothing
}

// rigid tells whether the job has one size only.
func (c *claimant) rigid() bool { d := c.j.Spec().Demand; return !d.Elastic() }

// kind is a Kind of the pool, with its nodes.
type kind struct {
	Kind
	typ   cluster.TypeID
	slots []slot // in order of nodes
}

// slot is the GPUs of one type on a node.
type slot struct {
	node  cluster.NodeID
	group cluster.GroupID
}

// shape is what all jobs of a class have in common.
type shape struct {
	apart bool // no configuration is chosen for them
}

// gather lists the jobs among which the GPUs are divided. Those of which no configuration
// can be chosen start first, in order of submission, wherever they fit without the others,
// and are not stopped. In the plan the others hold nothing from then on.
func (r *round) gather() {
	r.shapes, r.put = map[int32]*shape{}, map[cluster.GroupID][]int{}
	r.survey()
	var apart []sched.Job
	for j := range r.v.Waiting() {
		if j.Pool() != r.pool {
			continue
		}
		if why := resize.Never(r.v, r.p, j, r.o.cfg.Place); why.Code != job.NoReason {
			r.p.Wait(j.ID, why)
		} else if r.shape(j).apart || j.Spec().Stop == job.Freeze {
			apart = append(apart, j)
		} else {
			r.add(j)
		}
	}
	for j := range r.v.Running() {
		if j.Pool() == r.pool && !r.stays(j) {
			r.add(j)
		}
	}
	slices.SortFunc(r.claims, func(a, b claimant) int { return cmp.Compare(a.j.ID, b.j.ID) })
	for i := range r.claims {
		if c := &r.claims[i]; c.was != nil {
			r.p.Stop(c.j.ID, job.Reason{Code: job.MakesRoom, Job: job.None})
		}
	}
	for _, j := range apart {
		r.p.StartSize(j.ID, int(j.Spec().Demand.Roles[0].Tasks), r.o.cfg.Place)
	}
}

// survey lists the usable nodes by kind.
func (r *round) survey() {
	c := r.v.Cluster()
	r.nodes = map[cluster.TypeID]int{}
	at := map[[2]int]int{}
	for _, id := range c.PoolNodes(r.pool) {
		if !c.Usable(id) {
			continue
		}
		for _, g := range c.NodeGroups(id) {
			t, gpus := c.GroupType(g), c.GroupCount(g)
			if c.Type(t).Host {
				continue
			}
			key := [2]int{int(t), gpus}
			k, ok := at[key]
			if !ok {
				k, at[key] = len(r.kinds), len(r.kinds)
				r.kinds = append(r.kinds, kind{Kind: Kind{GPUs: gpus}, typ: t})
			}
			r.kinds[k].slots = append(r.kinds[k].slots, slot{id, g})
			r.kinds[k].Nodes++
			r.nodes[t] = max(r.nodes[t], gpus)
		}
	}
	slices.SortFunc(r.kinds, func(a, b kind) int { return cmp.Or(cmp.Compare(a.typ, b.typ), cmp.Compare(a.GPUs, b.GPUs)) })
}

// shape is what jobs like j have in common.
func (r *round) shape(j sched.Job) *shape {
	if s := r.shapes[j.Class()]; s != nil {
		return s
	}
	class := r.v.Class(j.Class())
	s := &shape{apart: resize.Odd(class.Demand) || !r.fitsKind(class.Scope, class.Mask, class.Demand)}
	r.shapes[j.Class()] = s
	return s
}

// fitsKind tells whether the nodes of one kind have the GPUs for a job at its least size.
func (r *round) fitsKind(scope cluster.PoolID, mask cluster.TypeMask, d *job.Demand) bool {
	c := r.v.Cluster()
	least, _ := d.Roles[0].Range()
	each := int(d.Roles[0].GPU / unit.One)
	for i := range r.kinds {
		k, tasks := &r.kinds[i], 0
		if mask != 0 && !mask.Has(k.typ) {
			continue
		}
		for _, s := range k.slots {
			if c.In(s.node, scope) {
				tasks += k.GPUs / max(1, each)
			}
		}
		if tasks >= int(least) {
			return true
		}
	}
	return false
}

// stays tells whether a running job keeps its devices: no configuration is chosen for it, or
// see resize.Stays.
func (r *round) stays(j sched.Job) bool { return r.shape(j).apart || resize.Stays(r.v, j) }

// add takes a job in.
func (r *round) add(j sched.Job) {
	role := &j.Spec().Demand.Roles[0]
	least, most := role.Range()
	c := claimant{j: j, least: int(least), most: int(most), each: int(role.GPU / unit.One), note: recall(j), was: r.v.Alloc(j.ID), pick: None}
	if least < most {
		c.most = min(c.most, r.o.cfg.Largest)
		if x := r.o.cfg.Explore; x > 0 {
			c.most = min(c.most, int(max(1, x*float64(r.largest(&c)))))
		}
		c.most = max(c.most, c.least)
	}
	r.claims = append(r.claims, c)
}

// largest is the most tasks with which a claimant was seen to run.
func (r *round) largest(c *claimant) int {
	if b, ok := r.v.Speeds.(*believer); ok {
		if times, gpus := b.known(c.j.Spec()); times > 0 {
			return gpus / c.each
		}
		if _, reports := b.Report(c.j.Spec(), 1, false); reports {
			return 0
		}
	}
	return c.note.largest()
}

// choose picks a configuration for each claimant. Those of which none can be chosen have
// what they had, or start with their least size wherever there is room.
func (r *round) choose() error {
	rows := make([]Row, 0, len(r.claims))
	var of []int
	for i := range r.claims {
		c := &r.claims[i]
		if r.describe(c); len(c.row.Options) > 0 {
			rows, of = append(rows, c.row), append(of, i)
		} else if !r.putBack(i) {
			r.p.StartSize(c.j.ID, c.least, r.o.cfg.Place)
		}
	}
	capacity := make([]int64, len(r.kinds))
	for k := range r.kinds {
		for _, s := range r.kinds[k].slots {
			capacity[k] += int64(r.v.Cluster().GroupFree(s.group))
		}
	}
	best, err := r.o.objective().Choose(capacity, rows)
	if err != nil {
		return err
	}
	for n, i := range of {
		r.claims[i].pick = best.Pick[n]
	}
	return nil
}

// describe lists the options of a claimant and what they are worth to it.
func (r *round) describe(c *claimant) {
	c.row = Row{Now: None, Factor: 1}
	least := 0
	for k := range r.kinds {
		first := len(c.row.Options)
		for i, o := range r.options(c, k) {
			if o.Value = r.value(c, o); o.Value > 0 || o.Value == Unknown && i == 0 {
				c.row.Options = append(c.row.Options, o)
			}
		}
		if now := c.row.Options[first:]; len(now) > 0 && (least == 0 || now[0].GPUs < least) {
			least = now[0].GPUs
		}
	}
	c.row.Normalise(least)
	if c.was == nil {
		return
	}
	delay := r.o.cfg.Delay.Seconds()
	c.row.Factor = RestartFactor((r.v.Now - c.j.Submit()).Seconds(), c.note.restarts, delay)
	k := r.kindOf(c.was)
	c.row.Now = slices.IndexFunc(c.row.Options, func(o Option) bool {
		return o.Kind == k && o.GPUs == c.was.Tasks(0)*c.each && o.Nodes == c.was.Nodes()
	})
}

// kindOf is the kind on whose nodes an allocation is; None: on those of several.
func (r *round) kindOf(a *cluster.Alloc) int {
	c, one := r.v.Cluster(), None
	for i := range a.Shares {
		g := c.GroupOf(a.Shares[i].Device)
		t, gpus := c.GroupType(g), c.GroupCount(g)
		k := slices.IndexFunc(r.kinds, func(k kind) bool { return k.typ == t && k.GPUs == gpus })
		if i > 0 && k != one {
			return None
		}
		one = k
	}
	return one
}

// options are the configurations that a claimant could have if all others made room:
// those of the kind between its least and its largest size. A job that finds none among
// them, as one with a single size may, has its least size.
func (r *round) options(c *claimant, k int) (all []Option) {
	kind, class := &r.kinds[k], r.v.Class(c.j.Class())
	if class.Mask != 0 && !class.Mask.Has(kind.typ) || c.each > kind.GPUs {
		return nil
	}
	each := kind.GPUs / c.each // tasks on a whole node
	whole, part := 0, 0
	for _, s := range kind.slots {
		if n := r.room(c, s); n == each {
			whole++
		} else {
			part = max(part, n)
		}
	}
	can := func(tasks int) bool { return tasks/each < whole || tasks/each == whole && tasks%each <= part }
	for _, o := range kind.Options(k) {
		tasks := o.GPUs / c.each
		if o.GPUs%c.each == 0 && (o.Nodes == 1 || kind.GPUs%c.each == 0) && tasks >= c.least && tasks <= c.most && can(tasks) {
			all = append(all, o)
		}
	}
	if len(all) == 0 && can(c.least) {
		all = append(all, Option{Kind: k, Nodes: (c.least + each - 1) / each, GPUs: c.least * c.each})
	}
	return all
}

// room is how many tasks of a claimant find room on a node.
func (r *round) room(c *claimant, s slot) int {
	cl, role := r.v.Cluster(), &c.j.Spec().Demand.Roles[0]
	if !cl.In(s.node, r.v.Scope(c.j)) {
		return 0
	}
	if m := cl.Type(cl.GroupType(s.group)).Memory; m > 0 && role.GPUMemory > m {
		return 0
	}
	return cl.TasksBeside(s.node, role.CPU, role.Memory, cl.GroupFree(s.group)/c.each)
}

// value is what is believed of a claimant on an option; Unknown where it reports and
// nothing was seen on the type.
func (r *round) value(c *claimant, o Option) float64 {
	k := &r.kinds[o.Kind]
	tasks, spread := o.GPUs/c.each, o.Nodes > 1
	speed := r.v.TypeSpeed(c.j, k.typ, tasks, spread)
	m := r.model(c)
	switch {
	case speed <= 0:
		return 0
	case m != nil:
		return m.value(k.typ, o.GPUs, spread, c.fixed())
	}
	return speed
}

// fixed is the batch of a job that keeps it whatever it holds; 0: it is tuned.
func (c *claimant) fixed() int {
	if h := c.j.Spec().Hints; h != nil && h.Adapts == static {
		return c.j.Spec().Batch
	}
	return 0
}

// static is how a job says that its batch stays as it is (job.Hints.Adapts).
const static = "static"
