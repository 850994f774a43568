// Package bytegnn gives jobs whose batches processors make, such as training on graphs, the cores
// that they need to keep their GPUs busy, and changes them in place whenever jobs come and go.
//
// Nouns:
//   - The need of a job is the cores for each of its GPUs from which on it is as fast as it can be.
//     A job tells it (job.Hints.CPUPerGPU), or it is the best of its measured grid (perf.Sensitive),
//     by which policy/synergy goes, too.
//   - A claim is a job as far as the cores of one node are divided.
//   - The gain of a core is by how much more of a GPU it keeps busy.
//
// GPUs are given first come, first served, passing over who does not fit; nobody is stopped. The
// cores of each node are then divided among its jobs by gain, or evenly. A gang on several nodes
// is as fast as it is on the node where it has least, so it is given no more anywhere. Jobs of
// which nothing is known to need cores have what they ask for. The policy keeps nothing that it
// could not make again from a view.
//
// Source: "ByteGNN: Efficient Graph Neural Network Training at Large Scale", PVLDB 15(6), 2022, is a
// scheduler inside one job, which is in packages pipeline and partition. How cores are divided
// between jobs is our mapping of its balance of sampling and training (section 2.5 of the
// specification), not the paper's.
package bytegnn

import (
	"slices"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/place"
	"github.com/norn-scheduler/norn/policy/kit/queue"
	"github.com/norn-scheduler/norn/policy/need"
	"github.com/norn-scheduler/norn/policy/param"
	"github.com/norn-scheduler/norn/sched"
)

// Goal is what the cores of a node are divided for.
type Goal uint8

// The goals.
const (
	Gain Goal = iota // the largest number of GPUs kept busy
	Even             // the same slow-down for all
)

// Config is the settings of the policy.
type Config struct {
	Goal  Goal
	Least float64 // under Gain, the part of its proportional share that every job has
	Place place.Strategy
}

// NewConfig returns the defaults.
func NewConfig() *Config { return &Config{Least: 0.5, Place: place.Pack} }

// Params binds the settings.
func (c *Config) Params() param.Set {
	return param.Set{
		param.Choice("goal", &c.Goal, []param.Option[Goal]{{Name: "gain", Value: Gain}, {Name: "even", Value: Even}},
			"what the cores of a node are divided for: the most GPUs kept busy, or the same slow-down for all"),
		param.Float("least", &c.Least, 0, 1, "", "with goal=gain, the part of its proportional share of cores that every job has"),
		place.Param(&c.Place),
	}
}

// Needs says what the policy lives on.
func (c *Config) Needs() need.List {
	return need.List(nil).If(true, need.Of(need.Rations), "it acts as fifo(mode=skip)")
}

// Policy makes the policy.
func (c *Config) Policy() (sched.Policy, error) {
	return &policy{cfg: *c}, nil
}

type policy struct {
	cfg     Config
	queue   queue.Line
	blocked job.ID // the first job that did not fit
}

// Decide implements sched.Policy.
func (b *policy) Decide(v *sched.View, p *sched.Plan) {
	b.queue.Follow(v, p, b.cfg.Place)
	started := b.start(v, p)
	b.divide(v, p, started)
}

// start starts jobs from the top of the queue. For one that lacks cores others give up what they
// have beyond their least; what is left of that they have back when cores are divided.
func (b *policy) start(v *sched.View, p *sched.Plan) (started []job.ID) {
	b.blocked = job.None
	shrunk := false
	b.queue.Walk(nil, func(id job.ID) queue.Step {
		ok := p.Start(id, b.cfg.Place)
		if !ok && p.Why().Code == job.NeedCPU && !shrunk {
			shrunk = true
			b.shrink(v, p, started)
			ok = p.Start(id, b.cfg.Place)
		}
		if ok {
			started = append(started, id)
			return queue.Took
		}
		if b.blocked == job.None {
			b.blocked = id
		}
		return queue.SkipClass
	})
	return started
}

// Why implements sched.Explainer.
func (b *policy) Why(v *sched.View, id job.ID) job.Reason {
	if need, have := v.Job(id).GPUs(), v.Free(); b.blocked == job.None || b.blocked == id || need > have {
		return job.Reason{Code: job.NeedGPUs, Need: int32(need), Have: int32(have), Job: job.None}
	}
	return job.Reason{Code: job.Behind, Job: b.blocked}
}

// sharer is a job whose cores can be changed.
type sharer struct {
	id    job.ID
	claim Claim // of each of its nodes, with the GPUs there
	parts []part
}

// part is what a job has of a node.
type part struct {
	node  cluster.NodeID
	gpus  int
	cores unit.Milli // that it is to have there
}

// sharers are the jobs of a plan whose cores can be changed, by number.
func (b *policy) sharers(v *sched.View, p *sched.Plan, started []job.ID) (out []sharer) {
	model, ok := v.Speeds.(perf.Sensitive)
	if !ok {
		return nil
	}
	add := func(j sched.Job) {
		a, r := p.Alloc(j.ID), &j.Spec().Demand.Roles[0]
		if a == nil || r.GPU < unit.One || j.Spec().Demand.Roles[1].Tasks > 0 {
			return
		}
		if g := model.Grid(j.Spec()); g != nil {
			if s := (sharer{id: j.ID, claim: Claim{Grid: g, Memory: perf.FairShare().Memory}}); s.read(v.Cluster(), a) {
				out = append(out, s)
			}
		}
	}
	for j := range v.Running() {
		add(j)
	}
	for _, id := range started {
		add(v.Job(id))
	}
	slices.SortFunc(out, func(x, y sharer) int { return int(x.id) - int(y.id) })
	return slices.CompactFunc(out, func(x, y sharer) bool { return x.id == y.id })
}

// read takes down where a job is. It answers false where some node does not count cores, or a
// task has no whole GPU there.
func (s *sharer) read(c *cluster.Cluster, a *cluster.Alloc) bool {
	shares := a.Shares
	for i := range a.Pieces {
		at := &a.Pieces[i]
		milli := unit.Milli(0)
		for _, sh := range shares[:at.Shares] {
			milli += unit.Milli(sh.Milli)
		}
		shares = shares[at.Shares:]
		if _, counts := c.CPUFree(at.Node); !counts || milli < unit.One {
			return false
		}
		s.parts = append(s.parts, part{node: at.Node, gpus: int(milli / unit.One), cores: at.CPU})
		if at.Memory > 0 {
			s.claim.Memory = min(s.claim.Memory, at.Memory/unit.Bytes(milli/unit.One))
		}
	}
	return len(s.parts) > 0
}

// shrink leaves jobs no more than they must have, so that others can start.
func (b *policy) shrink(v *sched.View, p *sched.Plan, started []job.ID) {
	all := b.sharers(v, p, started)
	for i := range all {
		s := &all[i]
		for k := range s.parts {
			floor := max(1, unit.Milli(b.cfg.Least*float64(share(v.Cluster(), s.parts[k].node))))
			s.parts[k].cores = min(s.parts[k].cores, min(floor, s.claim.need())*unit.Milli(s.parts[k].gpus))
		}
		s.write(p)
	}
}

// share is what a node has of cores for each of its GPUs.
func share(c *cluster.Cluster, id cluster.NodeID) unit.Milli {
	return c.Node(id).CPU / unit.Milli(max(1, c.NodeGPUs(id)))
}

// divide divides the cores of all nodes. Gangs on several nodes are cut in a second pass to what
// they have where they have least, and others have the rest.
func (b *policy) divide(v *sched.View, p *sched.Plan, started []job.ID) {
	all := b.sharers(v, p, started)
	on := map[cluster.NodeID][]*part{}
	of := map[*part]*sharer{}
	var nodes []cluster.NodeID
	wide := false
	for i := range all {
		s := &all[i]
		wide = wide || len(s.parts) > 1
		for k := range s.parts {
			at := &s.parts[k]
			if of[at] = s; on[at.node] == nil {
				nodes = append(nodes, at.node)
			}
			on[at.node] = append(on[at.node], at)
		}
	}
	has := make([]unit.Milli, len(nodes))
	for i, id := range nodes {
		has[i], _ = v.Cluster().CPUFree(id)
		for _, at := range on[id] {
			has[i] += at.cores
		}
	}
	for pass := 0; pass == 0 || pass == 1 && wide; pass++ {
		for i, id := range nodes {
			b.node(has[i], share(v.Cluster(), id), on[id], of)
		}
		for i := range all {
			all[i].even()
		}
	}
	b.carryOut(v, p, all)
}

// node divides the cores of one node.
func (b *policy) node(cores, share unit.Milli, parts []*part, of map[*part]*sharer) {
	claims := make([]Claim, len(parts))
	for i, at := range parts {
		claims[i] = of[at].claim
		claims[i].GPUs = at.gpus
	}
	var got []unit.Milli
	if b.cfg.Goal == Even {
		got = Evenly(cores, claims)
	} else {
		got = ByGain(cores, claims, share, b.cfg.Least)
	}
	for i, at := range parts {
		at.cores = max(1, got[i])
	}
}

// even cuts a gang to the cores for each GPU that it has where it has least.
func (s *sharer) even() {
	if len(s.parts) < 2 {
		return
	}
	least := s.parts[0].cores / unit.Milli(s.parts[0].gpus)
	for _, at := range s.parts[1:] {
		least = min(least, at.cores/unit.Milli(at.gpus))
	}
	s.claim.Most = max(1, least)
	for k := range s.parts {
		s.parts[k].cores = max(1, least*unit.Milli(s.parts[k].gpus))
	}
}

// carryOut changes what jobs have: those that have less first, so that there is room for others.
func (b *policy) carryOut(v *sched.View, p *sched.Plan, all []sharer) {
	for _, growing := range [2]bool{false, true} {
		for i := range all {
			s := &all[i]
			if a := p.Alloc(s.id); a != nil && s.grows(a) == growing {
				s.write(p)
			}
		}
	}
}

// grows tells whether a job is to have more of some node than it has.
func (s *sharer) grows(a *cluster.Alloc) bool {
	for k := range s.parts {
		if s.parts[k].cores > a.Pieces[k].CPU {
			return true
		}
	}
	return false
}

// write changes the cores of a job in the plan.
func (s *sharer) write(p *sched.Plan) {
	p.Adjust(s.id, func(a *cluster.Alloc) {
		for k := range s.parts {
			a.Pieces[k].CPU = s.parts[k].cores
		}
	})
}
