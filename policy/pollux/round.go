package pollux

import (
	"cmp"
	"math"
	"slices"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/policy/kit/resize"
	"github.com/norn-scheduler/norn/sched"
)

// round is one division of the GPUs of a pool.
type round struct {
	o    *policy
	v    *sched.View
	p    *sched.Plan
	pool cluster.PoolID

	claims []claimant // in the order in which they go first
	nodes  []cluster.NodeID
	at     map[cluster.NodeID]int32 // place in nodes
	rooms  []Need
	now    Matrix
	total  int // usable GPUs
	others int // jobs that keep what they have
	shapes map[int32]*shape
	whys   resize.Reasons
}

// claimant is a job whose GPUs are divided.
type claimant struct {
	j     sched.Job
	least int
	most  int
	each  Need
	can   []bool
	note  note
}

// shape is what all claimants of a class have in common.
type shape struct {
	each  Need
	can   []bool
	apart bool // they are not claimants
}

// unlimited stands for what a node does not account for.
const unlimited = math.MaxInt64 / 4

// gather lists who shares what. Jobs that are not just a number of like tasks with
// whole GPUs start first, in order of submission, wherever they would fit without
// the claimants.
func (r *round) gather() {
	r.survey()
	var apart []sched.Job
	for j := range r.v.Waiting() {
		if j.Pool() != r.pool {
			continue
		}
		if r.shape(j).apart || j.Spec().Stop == job.Freeze {
			apart = append(apart, j)
		} else if why := resize.Never(r.v, r.p, j, r.o.cfg.Place); why.Code != job.NoReason {
			r.p.Wait(j.ID, why)
		} else {
			r.add(j)
		}
	}
	for j := range r.v.Running() {
		switch {
		case j.Pool() != r.pool:
		case r.stays(j):
			r.others++
		default:
			r.add(j)
		}
	}
	slices.SortStableFunc(r.claims, func(a, b claimant) int {
		return cmp.Or(cmp.Compare(a.j.Service(), b.j.Service()), cmp.Compare(a.j.ID, b.j.ID))
	})
	r.startApart(apart)
	r.measure()
}

// survey lists the usable nodes.
func (r *round) survey() {
	c := r.v.Cluster()
	r.at, r.shapes = map[cluster.NodeID]int32{}, map[int32]*shape{}
	r.total = c.TotalGPUs(r.pool, 0)
	for _, id := range c.PoolNodes(r.pool) {
		if c.Usable(id) {
			r.at[id] = int32(len(r.nodes))
			r.nodes = append(r.nodes, id)
		}
	}
}

// shape is what the search is to know of jobs like j.
func (r *round) shape(j sched.Job) *shape {
	if s := r.shapes[j.Class()]; s != nil {
		return s
	}
	class := r.v.Class(j.Class())
	d, role := class.Demand, &class.Demand.Roles[0]
	s := &shape{each: Need{int32(role.GPU / unit.One), int64(role.CPU), int64(role.Memory)}}
	r.shapes[j.Class()] = s
	s.apart = role.GPU < unit.One || role.GPU%unit.One != 0
	for i := 1; i < job.MaxRoles; i++ {
		s.apart = s.apart || d.Roles[i].Tasks > 0
	}
	s.apart = s.apart || d.Within != ""
	if class.Mask == 0 && class.Scope == class.Pool {
		return s
	}
	c := r.v.Cluster()
	s.can = make([]bool, len(r.nodes))
	for i, id := range r.nodes {
		types := cluster.TypeMask(0)
		for _, g := range c.NodeGroups(id) {
			if t := c.GroupType(g); !c.Type(t).Host {
				types |= 1 << t
			}
		}
		if !c.In(id, class.Scope) {
			continue
		}
		s.can[i] = class.Mask == 0 || types&^class.Mask == 0
		s.apart = s.apart || !s.can[i] && types&class.Mask != 0 // some GPUs of the node will do
	}
	return s
}

// stays tells whether a running job keeps its devices: it is apart, or see resize.Stays.
func (r *round) stays(j sched.Job) bool { return r.shape(j).apart || resize.Stays(r.v, j) }

// add takes a job in.
func (r *round) add(j sched.Job) {
	s := r.shape(j)
	least, most := j.Spec().Demand.Roles[0].Range()
	c := claimant{j: j, least: int(least), most: int(most), each: s.each, can: s.can, note: recall(j)}
	if least < most {
		c.most = min(c.most, r.o.cfg.Largest)
		if x := r.o.cfg.Explore; x > 0 {
			c.most = min(c.most, int(max(1, x*float64(c.note.Largest()))))
		}
		c.most = max(c.most, c.least)
	}
	r.claims = append(r.claims, c)
}

// startApart starts waiting jobs that are no claimants.
func (r *round) startApart(apart []sched.Job) {
	if len(apart) == 0 {
		return
	}
	var off []job.ID
	for i := range r.claims {
		if j := r.claims[i].j; j.Running() {
			r.p.Stop(j.ID, job.Reason{Code: job.MakesRoom, Job: apart[0].ID})
			off = append(off, j.ID)
		}
	}
	for _, j := range apart {
		if r.p.StartSize(j.ID, int(j.Spec().Demand.Roles[0].Tasks), r.o.cfg.Place) {
			r.others++
		}
	}
	for _, id := range off { // who can stays where it is
		r.p.Try(func() bool { return resize.Free(r.v.Cluster(), r.v.Alloc(id)) && r.p.StartOn(id, r.v.Alloc(id)) })
	}
}

// measure notes what the claimants hold, and what they and nobody else can have on
// each node.
func (r *round) measure() {
	c := r.v.Cluster()
	r.rooms = make([]Need, len(r.nodes))
	for i, id := range r.nodes {
		room := &r.rooms[i]
		room.GPUs, room.CPU, room.Memory = int32(c.NodeFreeGPUs(id, c.GPUMask())), unlimited, unlimited
		if cpu, ok := c.CPUFree(id); ok {
			room.CPU = int64(cpu)
		}
		if memory, ok := c.MemoryFree(id); ok {
			room.Memory = int64(memory)
		}
	}
	for i := range r.claims {
		cl := &r.claims[i]
		a := r.v.Alloc(cl.j.ID)
		if a == nil {
			continue
		}
		row := Matrix{}
		for k := range a.Pieces {
			p := &a.Pieces[k]
			row = append(row, Cell{int32(i), r.at[p.Node], p.Tasks})
			if r.p.Alloc(cl.j.ID) != nil {
				r.rooms[r.at[p.Node]].less(&cl.each, -p.Tasks)
			}
		}
		slices.SortFunc(row, order)
		for _, c := range row { // a node may have pieces of several types
			if n := len(r.now); n > 0 && r.now[n-1].Job == c.Job && r.now[n-1].Node == c.Node {
				r.now[n-1].Count += c.Count
			} else {
				r.now = append(r.now, c)
			}
		}
	}
}

// claim is a claimant as the search sees it.
func (r *round) claim(c *claimant) Claim {
	jobs := len(r.claims) + r.others
	fair := (r.total + jobs*int(c.each.GPUs) - 1) / (jobs * int(c.each.GPUs))
	age := (r.v.Now - c.j.Submit()).Seconds()
	factor := RestartFactor(age, c.note.restarts, r.o.cfg.Delay.Seconds())
	return Claim{
		Speedup: r.speedup(c, fair), Factor: factor, Scale: float64(int(c.each.GPUs)*len(r.nodes)) / float64(max(1, r.total)),
		Least: c.least, Most: c.most, Each: c.each, Can: c.can,
	}
}

// fills lists divisions from which the search starts beside the present one. In
// each, one of the first waiting jobs gets the emptiest nodes, at the cost of
// those behind it. In another one all of them follow one after the other
// wherever there is room.
func (r *round) fills(p *Problem) (out []Matrix) {
	const most = 8
	p.Prepare()
	all := slices.Clone(p.Now)
	left := slices.Clone(p.Nodes)
	for _, c := range p.Now {
		left[c.Node].less(&p.Jobs[c.Job].Each, c.Count)
	}
	for i := range r.claims {
		if r.claims[i].j.Running() {
			continue
		}
		if len(out) < most {
			if row := p.pack(i, left, true); row != nil {
				out = append(out, with(p.Now, row))
			}
		}
		row := p.pack(i, left, false)
		if row == nil {
			continue
		}
		all = with(all, row)
		for _, c := range row {
			left[c.Node].less(&p.Jobs[i].Each, c.Count)
		}
	}
	return append(out, all)
}

// pack is the least row with which a job can run: on one node if there is one with
// room, the fullest, and else on as few as can be; nil without. push: also where
// others are, whom it pushes away, on the nodes that have the most left.
func (p *Problem) pack(job int, left []Need, push bool) Matrix {
	c := &p.Jobs[job]
	least := int32(max(1, c.Least))
	type roomy struct{ node, fits, size int32 }
	var nodes []roomy
	for n := range left {
		if c.Can != nil && !c.Can[n] {
			continue
		}
		size := left[n].fits(&c.Each, least)
		if push {
			size = p.Nodes[n].fits(&c.Each, least)
		}
		if size > 0 {
			nodes = append(nodes, roomy{int32(n), left[n].fits(&c.Each, math.MaxInt32), size})
		}
	}
	slices.SortStableFunc(nodes, func(a, b roomy) int {
		if push || a.size != b.size {
			return cmp.Or(cmp.Compare(b.size, a.size), cmp.Compare(b.fits, a.fits))
		}
		return cmp.Compare(a.fits, b.fits)
	})
	var row Matrix
	for _, n := range nodes {
		k := min(least, n.size)
		row = append(row, Cell{int32(job), n.node, k})
		if least -= k; least == 0 {
			slices.SortFunc(row, order)
			return row
		}
	}
	return nil
}

// with is a Matrix with a row added for a job that has none.
func with(m, row Matrix) Matrix {
	out := append(slices.Clone(m), row...)
	slices.SortFunc(out, order)
	return out
}
