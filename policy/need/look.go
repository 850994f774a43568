package need

import (
	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/state"
	"github.com/norn-scheduler/norn/tenant"
)

// Beliefs are what the scheduler of a run believes of speeds and of sharing, as a policy
// sees them.
type Beliefs struct {
	Speeds  perf.Typed   // nil: every job runs at speed 1
	Sharing perf.Sharing // nil: nobody disturbs anybody

	Variability *perf.Variability // nil: devices of a type are alike

	Sockets *perf.Sockets // nil: nothing was measured
}

// Look finds the facts of a run, in one pass over the jobs that its state knows. A thing
// is there as soon as one job tells it.
func Look(s *state.State, b Beliefs) Set {
	l := look{s: s, b: b, tenants: make([]party[tenant.ID], s.Cluster.Pools()), users: make([]party[string], s.Cluster.Pools())}
	if b.Speeds == nil {
		l.b.Speeds = perf.Reference{}
	}
	if _, measured := b.Sharing.(perf.Pairs); measured {
		l.found |= Of(Pairs)
	}
	l.add(Devices, b.Variability != nil && len(b.Variability.Scores) > 0)
	l.add(Sockets, b.Sockets != nil)
	l.cluster()
	l.quotas()
	for id := range job.ID(s.Jobs()) {
		l.job(s.Record(id))
	}
	l.measured()
	return l.found
}

// measured looks at what was measured of jobs.
func (l *look) measured() {
	for _, m := range l.s.Readings.All() {
		l.add(Losses, m.Series(perf.Loss) != nil)
	}
}

// Possible is the facts of a machine that runs on: those that there are, and all that jobs
// may yet tell that come. A fact that is missing is one that the machine cannot give.
func Possible(s *state.State, b Beliefs) Set {
	facts := Look(s, b) | Of(Predictions, History, Elastic, Losses, Batches, Stages, Use, Memory, Pairs, Services, Models, Backbones, Tenants, Users, Classes, Deadlines, Tiers, Priorities, Bandwidth, Parts, Bursts)
	if facts.Has(Kinds) {
		facts |= Of(Types)
	}
	if s.Cluster.Nodes() > 1 {
		facts |= Of(Spread)
	}
	for t := range cluster.TypeID(s.Cluster.Types()) {
		if s.Cluster.Type(t).Host {
			facts |= Of(Processors)
		}
	}
	return facts
}

// look is the pass over the jobs.
type look struct {
	s        *state.State
	b        Beliefs
	found    Set
	hosts    bool // some processors are lent to jobs
	tenants  []party[tenant.ID]
	users    []party[string]
	priority party[int32]
}

// party tells whether there are several values of a property.
type party[T comparable] struct {
	first T
	known bool
}

// several takes one value in, and tells whether it is not the first one.
func (p *party[T]) several(x T) bool {
	if !p.known {
		p.first, p.known = x, true
	}
	return x != p.first
}

func (l *look) add(t Thing, there bool) {
	if there {
		l.found |= Of(t)
	}
}

func (l *look) cluster() {
	types := 0
	for t := range cluster.TypeID(l.s.Cluster.Types()) {
		if l.s.Cluster.Type(t).Host {
			l.hosts = true
		} else {
			types++
		}
	}
	l.add(Kinds, types > 1)
	l.add(Adapters, cluster.Networked(l.s.Cluster))
	l.add(Regions, regions(l.s.Cluster) > 1)
	for id := range cluster.NodeID(l.s.Cluster.Nodes()) {
		if links := l.s.Cluster.Node(id).Links; links != nil && links.Devices() > 1 {
			l.found |= Of(Links)
			break
		}
	}
}

// regions is the number of places that are regions.
func regions(c *cluster.Cluster) (n int) {
	for d := range cluster.DomainID(c.Domains()) {
		if level, _, _ := c.Domain(d); level == "region" {
			n++
		}
	}
	return n
}

func (l *look) quotas() {
	for t := range tenant.ID(l.s.Tenants.Len()) {
		e := l.s.Tenants.At(t)
		l.add(Quotas, e.Guarantee > 0 || e.Limit < tenant.Unlimited)
		l.add(Cells, e.Cells != "")
	}
}

// job looks at one job.
func (l *look) job(r *job.Record) {
	j, d := r.Job, r.Job.Demand
	l.add(Tenants, l.tenants[r.Pool].several(r.Tenant))
	l.add(Users, l.users[r.Pool].several(j.User))
	l.add(Priorities, l.priority.several(j.Priority))
	l.add(RunTimes, r.Estimate >= 0)
	l.add(History, j.User != "" || j.Name != "" || j.Hints != nil && j.Hints.Group != "")
	l.add(Elastic, d.Elastic())
	l.add(Memory, perf.MemoryOf(j) > 0)
	l.add(Services, j.Kind == job.Inference)
	l.add(Models, j.Model != "")
	l.add(Bandwidth, perf.MindsBandwidth(j))
	l.add(Backbones, j.Backbone != "")
	l.add(Deadlines, j.Deadline > 0)
	l.add(Tiers, j.Tier != job.Basic)
	for i := range d.Roles {
		l.add(Parts, d.Roles[i].GPU > 0 && d.Roles[i].GPU != unit.One)
		l.add(Rations, d.Roles[i].CPU > 0 || d.Roles[i].Memory > 0)
	}
	if j.Hints != nil {
		l.hints(j.Hints)
	}
	l.believed(r)
}

func (l *look) hints(h *job.Hints) {
	l.add(Predictions, h.HasRank || h.UserEstimate > 0 || h.GroupEstimate > 0 || h.GroupSizeEstimate > 0)
	l.add(Stages, h.Stages[0] > 0 || h.Stages[1] > 0 || h.Stages[2] > 0)
	l.add(Use, h.GPUUse > 0)
	l.add(Classes, h.QoS != "")
	l.add(Bursts, h.Bursts.Len() > 0)
	l.add(Processors, l.hosts && h.CPUTime > 0)
}

// believed looks at what is believed of a job. It asks no more for what was found.
func (l *look) believed(r *job.Record) {
	j, c := r.Job, l.s.Cluster
	tasks := int(j.Demand.Roles[0].Tasks)
	if b, ok := l.b.Sharing.(perf.Batched); ok && !l.found.Has(Batches) {
		l.add(Batches, b.Stepping(j) != nil)
	}
	if m, ok := l.b.Speeds.(perf.Sensitive); ok && !l.found.Has(Rations) {
		l.add(Rations, m.Grid(j) != nil)
	}
	if m, ok := l.b.Speeds.(perf.Reporter); ok && !l.found.Has(Reports) {
		_, reports := m.Report(j, tasks, false)
		l.add(Reports, reports)
	}
	if l.found.Has(Types) && l.found.Has(Spread) {
		return
	}
	var speed party[float64]
	for t := range cluster.TypeID(c.Types()) {
		if c.Type(t).Host || r.Mask != 0 && !r.Mask.Has(t) {
			continue
		}
		near := l.b.Speeds.On(j, c, t, tasks, false)
		l.add(Types, speed.several(near))
		l.add(Spread, tasks > 1 && near > 0 && l.b.Speeds.On(j, c, t, tasks, true) < near)
	}
}
