// Package mapa gives a job the GPUs of a node that are linked best for the way in which its tasks
// talk to each other, or those that leave the best links to others.
//
// Nouns:
//   - A Graph is the GPUs of a node and the links between each two of them.
//   - A Pattern is which GPUs of a job talk to each other: a ring, a chain, a star, a clique. A
//     set of GPUs can hold a pattern in many orders.
//   - A sensitive job is slower where it has less bandwidth.
//   - Aggregate is the speeds of the links that a job uses, added up. Predicted is the effective
//     bandwidth that it has over them, as a fit foretells. Preserved is the speeds of all NVLinks
//     between the GPUs that stay free. All are in GB/s.
//   - A Rule is by what a set is chosen. Preserve is MAPA; Greedy, TopoAware and Baseline are what
//     the paper compares with.
//
// Jobs are served in order of submission, and nobody is preempted. Nodes are chosen by a strategy
// of package place. What each set of GPUs of a node is worth is found once for a layout of links
// and a pattern, over sets of growing size, so that a choice is a look at each set of free GPUs.
// The policy keeps nothing else between calls.
//
// Source: Ranganath et al., "MAPA: Multi-Accelerator Pattern Allocation Policy for Multi-Tenant GPU
// Servers", SC 2021, and its code, socal-ucr/MAPA.
package mapa

import (
	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/place"
	"github.com/norn-scheduler/norn/policy/kit/queue"
	"github.com/norn-scheduler/norn/policy/need"
	"github.com/norn-scheduler/norn/policy/param"
	"github.com/norn-scheduler/norn/sched"
)

// Mind is which jobs are sensitive to bandwidth.
type Mind uint8

// The ways to know.
const (
	Told   Mind = iota // those that tell it, or whose model is known to be
	All                // all
	Nobody             // none
)

// Config is the settings of the policy.
type Config struct {
	Rule    Rule
	Mind    Mind
	Pattern Pattern // of jobs that tell none
	Group   int     // of TopoAware; 0: half of a node
	Skip    bool    // behind a job that does not fit, others may start
	Place   place.Strategy
}

// NewConfig returns the defaults.
func NewConfig() *Config { return &Config{Place: place.Pack} }

// Params binds the settings.
func (c *Config) Params() param.Set {
	patterns := make([]param.Option[Pattern], 0, int(Clique)+1)
	for p := Ring; p <= Clique; p++ {
		patterns = append(patterns, param.Option[Pattern]{Name: p.String(), Value: p})
	}
	return param.Set{
		param.Choice("rule", &c.Rule, []param.Option[Rule]{
			{Name: "preserve", Value: Preserve}, {Name: "greedy", Value: Greedy}, {Name: "topo-aware", Value: TopoAware}, {Name: "baseline", Value: Baseline},
		}, "by what GPUs of a node are chosen"),
		param.Choice("sensitive", &c.Mind, []param.Option[Mind]{{Name: "told", Value: Told}, {Name: "all", Value: All}, {Name: "none", Value: Nobody}},
			"which jobs mind their bandwidth: those that tell it or whose model is known to, all, none"),
		param.Choice("pattern", &c.Pattern, patterns, "how the tasks of jobs talk to each other that do not tell"),
		param.Int("group", &c.Group, 0, MaxDevices, "GPUs", "of rule=topo-aware: GPUs of consecutive numbers that are neighbours; 0: half of the node"),
		param.Bool("skip", &c.Skip, "jobs behind one that does not fit may start"),
		place.Param(&c.Place),
	}
}

// Needs says what the policy lives on.
func (c *Config) Needs() need.List {
	return need.List(nil).
		And(need.Of(need.Links), "it acts as fifo").
		If(c.Rule == Preserve && c.Mind == Told, need.Of(need.Bandwidth), "every job gets the GPUs that leave the best links to others")
}

// Policy makes the policy.
func (c *Config) Policy() (sched.Policy, error) {
	return &policy{cfg: *c, where: aware{nodes: c.Place, graphs: map[*cluster.Links]*Graph{}}}, nil
}

type policy struct {
	cfg        Config
	queue      queue.Queue
	infeasible sched.Infeasible
	blocked    job.ID // the first job that did not fit
	where      aware
}

// Decide implements sched.Policy.
func (m *policy) Decide(v *sched.View, p *sched.Plan) {
	for _, id := range m.infeasible.Reconsider(v) {
		m.add(v.Job(id), p)
	}
	for _, ch := range v.Changes() {
		switch ch.Kind {
		case sched.Arrived, sched.Stopped:
			m.add(v.Job(ch.Job), p)
		case sched.Ended:
			m.queue.Remove(ch.Job)
			m.infeasible.Remove(ch.Job)
		}
	}
	m.blocked = job.None
	m.queue.Walk(nil, func(id job.ID) queue.Step {
		m.where.query = m.ask(v.Job(id).Spec())
		if p.Start(id, &m.where) {
			return queue.Took
		}
		if m.blocked == job.None {
			m.blocked = id
		}
		if m.cfg.Skip {
			return queue.SkipClass
		}
		return queue.Stop
	})
}

func (m *policy) add(j sched.Job, p *sched.Plan) {
	if !m.infeasible.Rejects(p, j.ID, m.cfg.Place) {
		m.queue.Add(j.ID, j.Class(), queue.Key{})
	}
}

// ask is what a job asks for, but for where and how many.
func (m *policy) ask(j *job.Job) Query {
	q := Query{Pattern: m.cfg.Pattern, Rule: m.cfg.Rule, Group: m.cfg.Group, Sensitive: m.cfg.Mind == All}
	if j.Hints != nil {
		if p, ok := ParsePattern(j.Hints.Pattern); ok {
			q.Pattern = p
		}
	}
	if m.cfg.Mind == Told {
		q.Sensitive = perf.MindsBandwidth(j)
	}
	return q
}

// Why implements sched.Explainer.
func (m *policy) Why(v *sched.View, id job.ID) job.Reason {
	if m.blocked != job.None && m.blocked != id && !m.cfg.Skip {
		return job.Reason{Code: job.Behind, Job: m.blocked}
	}
	return job.Reason{Code: job.NeedGPUs, Need: int32(v.Job(id).GPUs()), Have: int32(v.Free()), Job: job.None}
}
