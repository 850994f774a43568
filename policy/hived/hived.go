// Package hived guarantees tenants places instead of numbers of GPUs: each has cells (package
// policy/kit/cells), in which it gets on as in a cluster of its own. Jobs are served in the order in
// which they came, and who does not fit blocks nobody. GPUs that no guaranteed job has are lent to
// opportunistic jobs, and taken back whenever their owner needs them.
//
// Nouns:
//   - A guaranteed job has GPUs in cells of its tenant. An opportunistic one, or guest, has what is idle.
//     A job is a guest when its priority is below 0, or when its tenant has no cells.
//   - Of two jobs of one tenant the one of higher priority takes cells of the other when no others are
//     left. The other is stopped, or becomes a guest where it is (lazy preemption).
//
// Source: Zhao et al., "HiveD: Sharing a GPU Cluster for Deep Learning with Guarantees", OSDI 2020.
// What the paper leaves open is as in the published scheduler, as our specification tells of it.
package hived

import (
	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/place"
	"github.com/norn-scheduler/norn/policy/kit/queue"
	"github.com/norn-scheduler/norn/policy/need"
	"github.com/norn-scheduler/norn/policy/param"
	"github.com/norn-scheduler/norn/sched"
)

// Guarantee is what tenants are guaranteed.
type Guarantee uint8

// The guarantees.
const (
	Cells Guarantee = iota // the cells themselves
	Quota                  // as many GPUs, wherever they are: what HiveD is compared with
)

// Config is the settings of the policy.
type Config struct {
	Guarantee Guarantee
	Lazy      bool
	Beyond    bool
	Together  bool
}

// NewConfig returns the defaults.
func NewConfig() *Config { return &Config{Lazy: true, Beyond: true, Together: true} }

// Params binds the settings.
func (c *Config) Params() param.Set {
	return param.Set{
		param.Choice("guarantee", &c.Guarantee, []param.Option[Guarantee]{{Name: "cells", Value: Cells}, {Name: "quota", Value: Quota}},
			"what tenants are guaranteed: cells, or as many GPUs wherever they are"),
		param.Bool("lazy", &c.Lazy, "a job from which a more urgent one of its tenant takes cells goes on as an opportunistic job; false: it is stopped"),
		param.Bool("beyond", &c.Beyond, "a job that does not fit into the cells of its tenant, though no other guaranteed job of the tenant runs, runs as an opportunistic one; false: it waits"),
		param.Bool("together", &c.Together, "tasks of one GPU each are placed together on as few nodes as can be, as far as the cells of their tenant allow that at all; false: each by itself"),
	}
}

// Needs says what the policy lives on.
func (c *Config) Needs() need.List {
	return need.List(nil).And(need.Of(need.Cells, need.Quotas), "all tenants together have all cells, and jobs are packed in the order in which they came")
}

// Policy makes the policy.
func (c *Config) Policy() (sched.Policy, error) {
	return &policy{cfg: *c, groups: map[group]int32{}}, nil
}

// group is jobs of which none fits when one does not.
type group struct {
	class, priority int32
	vc              int
}

type policy struct {
	cfg        Config
	sites      []*site // by pool; nil: not looked at yet
	queue      queue.Queue
	groups     map[group]int32
	full       []bool   // groups of which no job fits until something is freed
	fresh      bool     // there is something to try
	again      []job.ID // guests that this plan has started and stopped
	infeasible sched.Infeasible
}

// Decide implements sched.Policy.
func (o *policy) Decide(v *sched.View, p *sched.Plan) {
	for len(o.sites) < v.Pools() {
		o.sites = append(o.sites, nil)
	}
	for pool := range v.EachPool() {
		if v.NodesChanged() || o.sites[pool] == nil {
			o.look(v, pool)
		}
	}
	if v.NodesChanged() {
		o.freed()
		for _, id := range o.infeasible.Reconsider(v) {
			o.wait(v, p, v.Job(id))
		}
	}
	o.follow(v, p)
	for o.fresh {
		o.fresh = false
		o.serve(v, p)
		for _, id := range o.again {
			o.wait(v, p, v.Job(id))
		}
		o.again = o.again[:0]
	}
}

// serve starts the jobs that fit, in their order. When one stops others, all that wait are looked at
// anew from the first one on, also those that did not fit before. So they are once more after any start:
// by what is bound for it, cells may be found for one that had none.
func (o *policy) serve(v *sched.View, p *sched.Plan) {
	started := false
	o.queue.Walk(func(g int32) bool { return !o.full[g] }, func(id job.ID) queue.Step {
		if o.fresh {
			return queue.Stop
		}
		a := attempt{policy: o, v: v, p: p, site: o.sites[v.Job(id).Pool()], j: v.Job(id)}
		if a.start() {
			started = true
			return queue.Took
		}
		o.full[o.group(a.site, a.j)] = true
		return queue.SkipClass
	})
	if started {
		o.freed()
	}
}

// look makes or refreshes what is known of a pool.
func (o *policy) look(v *sched.View, pool cluster.PoolID) {
	if s := o.sites[pool]; !v.First && s != nil && s.nodes == v.Cluster().Nodes() {
		s.refresh(v)
		return
	}
	s := newSite(v, pool, o.cfg.Guarantee)
	for j := range v.Running() {
		if j.Pool() == pool {
			s.restore(v, j)
		}
	}
	o.sites[pool] = s
}

// freed forgets which jobs did not fit.
func (o *policy) freed() {
	clear(o.full)
	o.fresh = true
}

// follow takes in what happened since the last decision.
func (o *policy) follow(v *sched.View, p *sched.Plan) {
	for _, ch := range v.Changes() {
		j := v.Job(ch.Job)
		s := o.sites[j.Pool()]
		switch ch.Kind {
		case sched.Arrived:
			o.wait(v, p, j)
		case sched.Stopped:
			s.release(j.ID)
			o.freed()
			o.wait(v, p, j)
		case sched.Ended:
			s.release(j.ID)
			o.freed()
			o.queue.Remove(j.ID)
			o.infeasible.Remove(j.ID)
		case sched.Altered:
			if a := v.Alloc(j.ID); a != nil && len(a.Shares) < len(s.space.Devices(j.ID)) { // it has lost a node, and goes on
				s.release(j.ID)
				s.restore(v, j)
				o.freed()
			}
		}
	}
}

// wait puts a job into the queue, unless it can never run: the most urgent guaranteed ones first, and
// guests behind all others.
func (o *policy) wait(v *sched.View, p *sched.Plan, j sched.Job) {
	if o.infeasible.Rejects(p, j.ID, place.Pack) {
		return
	}
	s := o.sites[j.Pool()]
	key := queue.Key{A: 1 << 32}
	if vc, priority := s.standing(v, j); vc >= 0 {
		key.A = -int64(priority)
	}
	g := o.group(s, j)
	o.queue.Add(j.ID, g, key)
	o.fresh = o.fresh || !o.full[g]
}

// group is the number of the group of a job.
func (o *policy) group(s *site, j sched.Job) int32 {
	key := group{class: j.Class(), priority: j.Spec().Priority, vc: s.vc(j)}
	if j.Spec().Stop == job.Pinned {
		key.priority = fixedPriority
	}
	n, known := o.groups[key]
	if !known {
		n = int32(len(o.groups))
		o.groups[key] = n
		o.full = append(o.full, false)
	}
	return n
}

// Why implements sched.Explainer.
func (o *policy) Why(v *sched.View, id job.ID) job.Reason {
	j := v.Job(id)
	return o.sites[j.Pool()].why(v, j)
}
