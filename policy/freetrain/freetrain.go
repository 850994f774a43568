// Package freetrain trains on nodes that their owner leaves idle for a while. Whenever nodes come
// or go, or trainers do, the nodes are divided anew among the first trainers: for the most work
// within a horizon, less the work that is not done while trainers change their sizes.
//
// Nouns:
//   - A trainer is an elastic job; those that are not elastic have one size.
//   - A node is a task of a trainer with its GPUs: whole nodes where a task has all GPUs of one.
//   - The horizon is the time for which a division is expected to last.
//
// Source: Liu et al., "BFTrainer: Low-Cost Training of Neural Networks on Unfillable
// Supercomputer Nodes", arXiv 2106.12091; "FreeTrain", CCGrid 2023.
package freetrain

import (
	"errors"
	"time"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/place"
	"github.com/norn-scheduler/norn/policy/kit/resize"
	"github.com/norn-scheduler/norn/policy/need"
	"github.com/norn-scheduler/norn/policy/param"
	"github.com/norn-scheduler/norn/sched"
)

// Rule is how nodes are divided.
type Rule uint8

// The rules.
const (
	Best  Rule = iota // for the most work
	Equal             // the same number for everybody
)

// Objective is what work of unlike trainers is worth.
type Objective uint8

// The objectives.
const (
	Scaling Objective = iota // relative to one node
	Samples                  // units of work per second, as the jobs tell
)

// Config is the settings of the policy.
type Config struct {
	Horizon   time.Duration
	Trainers  int
	Rule      Rule
	Objective Objective
}

// NewConfig returns the defaults of the released code, but for a longer horizon.
func NewConfig() *Config { return &Config{Horizon: time.Minute, Trainers: 10} }

// Params binds the settings.
func (c *Config) Params() param.Set {
	return param.Set{
		param.Duration("horizon", &c.Horizon, "for how long a division is expected to last: the mean time between two changes of nodes"),
		param.Int("trainers", &c.Trainers, 1, 1_000_000, "jobs", "that take part at a time, in order of submission"),
		param.Choice("rule", &c.Rule, []param.Option[Rule]{{Name: "best", Value: Best}, {Name: "equal", Value: Equal}}, "for the most work, or the same number of nodes for everybody"),
		param.Choice("objective", &c.Objective, []param.Option[Objective]{{Name: "scaling", Value: Scaling}, {Name: "samples", Value: Samples}},
			"work of unlike jobs counts by their speed-up over one node, or by the units per second that they tell"),
	}
}

// Needs says what the policy lives on.
func (c *Config) Needs() need.List {
	return need.List(nil).And(need.Of(need.Elastic), "jobs start by submission, as far as they fit")
}

// Policy makes the policy.
func (c *Config) Policy() (sched.Policy, error) {
	if c.Horizon <= 0 || c.Horizon == unit.Never {
		return nil, errors.New("horizon must be above 0, and some time")
	}
	return &policy{*c}, nil
}

type policy struct{ cfg Config }

// Decide implements sched.Policy.
func (o *policy) Decide(v *sched.View, p *sched.Plan) {
	for pool := range v.EachPool() {
		r := &decision{o: o, v: v, p: p, pool: pool, wanted: map[cluster.NodeID]bool{}}
		r.gather()
		r.divide()
	}
}

// trainer is a job that takes part.
type trainer struct {
	j    sched.Job
	each int // GPUs of a task
	has  int // tasks
}

// decision is what is decided of a pool at one moment.
type decision struct {
	o    *policy
	v    *sched.View
	p    *sched.Plan
	pool cluster.PoolID

	jobs   []trainer
	gpus   int                     // that they share
	others []sched.Job             // that wait and cannot be divided
	late   []sched.Job             // that wait for their turn
	wanted map[cluster.NodeID]bool // nodes that are wanted back: nothing more goes there
}

// gather lists the first trainers, the GPUs that they share, and who waits besides.
func (r *decision) gather() {
	c := r.v.Cluster()
	for _, id := range c.PoolNodes(r.pool) {
		for _, recall := range r.v.Recalls() {
			r.wanted[id] = r.wanted[id] || c.Node(id).Lender() == recall.Lender
		}
		for _, g := range c.NodeGroups(id) {
			if c.Usable(id) && !r.wanted[id] && !c.GroupPooled(g) && !c.Type(c.GroupType(g)).Host {
				r.gpus += c.GroupFree(g)
			}
		}
	}
	var running []trainer
	for j := range r.v.Running() {
		if j.Pool() == r.pool && resize.Divides(r.v, j) {
			a := r.v.Alloc(j.ID)
			running = append(running, trainer{j, int(j.Spec().Demand.Roles[0].GPU / unit.One), a.Tasks(0)})
			r.gpus += len(a.Shares)
		}
	}
	for j := range r.v.Waiting() {
		switch {
		case j.Pool() != r.pool:
		case !resize.Whole(j.Spec().Demand) || r.v.PinnedPlace(j.ID) != nil || resize.Never(r.v, r.p, j, place.Pack).Code != job.NoReason:
			r.others = append(r.others, j)
		default:
			for len(running) > 0 && running[0].j.ID < j.ID {
				r.jobs, running = append(r.jobs, running[0]), running[1:]
			}
			if len(r.jobs)+len(running) < r.o.cfg.Trainers {
				r.jobs = append(r.jobs, trainer{j, int(j.Spec().Demand.Roles[0].GPU / unit.One), 0})
			} else {
				r.late = append(r.late, j)
			}
		}
	}
	r.jobs = append(r.jobs, running...)
}

// divide divides nodes among trainers, and carries out the difference: first they shrink, then
// they grow and start.
func (r *decision) divide() {
	all := make([]Trainer, len(r.jobs))
	for i := range r.jobs {
		all[i] = r.trainer(&r.jobs[i])
	}
	var sizes []int
	if r.o.cfg.Rule == Best {
		var err error
		if sizes, err = Divide(all, r.gpus, r.o.cfg.Horizon.Seconds()); err != nil {
			sizes = nil
		}
	}
	if sizes == nil {
		sizes = Share(all, r.gpus)
	}
	r.carryOut(sizes)
	r.rest()
	for _, j := range r.others {
		r.p.Start(j.ID, place.Pack)
	}
	for _, j := range r.late {
		r.p.Wait(j.ID, job.Reason{Code: job.Because, Job: job.None, Text: "waits until one of the jobs that train ends"})
	}
}

// trainer is a job as the division sees it.
func (r *decision) trainer(t *trainer) Trainer {
	spec := t.j.Spec()
	least, most := spec.Demand.Roles[0].Range()
	out := Trainer{Least: int(least), Most: int(most), Each: t.each, Has: t.has}
	if t.has > 0 && spec.Stop != job.Checkpoint { // it would lose its work, or have to stay where it is
		out.Least, out.Stays = min(out.Least, t.has), true
	}
	out.Rate = make([]float64, max(out.Most, out.Has)+1)
	on, one := r.fastest(t.j), 1.0
	if r.o.cfg.Objective == Scaling {
		one = r.v.TypeSpeed(t.j, on, 1, false)
	} else if h := spec.Hints; h != nil && h.Speed > 0 {
		one = 1 / h.Speed
	}
	if !(one > 0) {
		one = 1
	}
	for n := 1; n < len(out.Rate); n++ {
		out.Rate[n] = r.v.TypeSpeed(t.j, on, n, n > 1) / one
	}
	resize := r.v.Costs.Reshape(spec, max(1, t.has)*t.each, true, false, true).Seconds()
	out.Up, out.Down = resize, resize
	return out
}

// fastest is the GPU type on which a job is fastest.
func (r *decision) fastest(j sched.Job) (best cluster.TypeID) {
	c, speed := r.v.Cluster(), -1.0
	for t := range cluster.TypeID(c.Types()) {
		if s := r.v.TypeSpeed(j, t, int(j.Spec().Demand.Roles[0].Tasks), true); !c.Type(t).Host && s > speed {
			best, speed = t, s
		}
	}
	return best
}

// carryOut has trainers have so many tasks each.
func (r *decision) carryOut(sizes []int) {
	for i := range r.jobs {
		if t := &r.jobs[i]; t.has > sizes[i] {
			r.shrink(t, sizes[i])
		}
	}
	for i := range r.jobs {
		t := &r.jobs[i]
		if t.has >= sizes[i] && (t.has > 0 || sizes[i] > 0) {
			continue
		}
		if t.has > 0 {
			if seats := r.seats(t.j, sizes[i]-t.has); len(seats) > 0 {
				resize.Grow(r.v, r.p, t.j, seats)
			}
			continue
		}
		r.start(t, sizes[i])
	}
}

// shrink takes the latest tasks of a trainer away, or stops it.
func (r *decision) shrink(t *trainer, size int) {
	if size == 0 {
		r.p.Stop(t.j.ID, job.Reason{Code: job.MakesRoom, Job: job.None})
		return
	}
	pieces := r.v.Alloc(t.j.ID).Pieces
	var seats []resize.Seat
	for i, left := len(pieces)-1, t.has-size; left > 0; i-- {
		n := min(left, int(pieces[i].Tasks))
		seats = append(seats, resize.Seat{Node: pieces[i].Node, Tasks: n})
		left -= n
	}
	resize.Shrink(r.p, t.j.ID, seats)
}

// start starts a trainer with so many tasks, or with fewer where parts of nodes are left over.
func (r *decision) start(t *trainer, size int) {
	least, _ := t.j.Spec().Demand.Roles[0].Range()
	seats := r.seats(t.j, size)
	n := 0
	for _, s := range seats {
		n += s.Tasks
	}
	if size > 0 && n >= int(least) {
		resize.Place(r.v, r.p, t.j, seats)
	}
}

// rest starts those who have nothing, with as little as they need, in what is left. The division
// knows neither of GPU types nor of devices that are only counted.
func (r *decision) rest() {
	for i := range r.jobs {
		if t := &r.jobs[i]; t.has == 0 && r.p.Alloc(t.j.ID) == nil {
			least, _ := t.j.Spec().Demand.Roles[0].Range()
			r.p.StartSize(t.j.ID, int(least), place.Pack)
		}
	}
}

// seats finds places for so many tasks, or for as many as there are, by node.
func (r *decision) seats(j sched.Job, tasks int) (out []resize.Seat) {
	c, scope := r.v.Cluster(), r.v.Scope(j)
	for _, id := range c.PoolNodes(scope) {
		if tasks <= 0 || r.wanted[id] || !c.In(id, scope) {
			continue
		}
		for _, g := range c.NodeGroups(id) {
			if n := min(tasks, resize.Room(r.v, j, id, g)); n > 0 {
				out = append(out, resize.Seat{Node: id, Group: g, Tasks: n})
				tasks -= n
				break
			}
		}
	}
	return out
}
