// Package mapa gives a job the GPUs of a node that are linked best for the way in which its tasks
// talk to each other, or those that leave the best links to others.
//
// Nouns:
//   - A sensitive job is slower where it has less bandwidth.
//   - A Query asks for GPUs of a node. What sets of them are worth is in package fabric: the sum of
//     the speeds of the links that a job uses, the effective bandwidth that is predicted, and what is
//     preserved for others.
//   - A Rule is by what a set is chosen. Preserve is MAPA; Greedy, TopoAware and Baseline are what
//     the paper compares with.
//
// Jobs are served in order of submission, and nobody is preempted. Nodes are chosen by a strategy
// of package place. The policy keeps nothing between calls but what follows from the links of
// nodes.
//
// Source: Ranganath et al., "MAPA: Multi-Accelerator Pattern Allocation Policy for Multi-Tenant GPU
// Servers", SC 2021, and its code, socal-ucr/MAPA.
package mapa

import (
	"github.com/norn-scheduler/norn/cluster/fabric"
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
	Pattern fabric.Pattern // of jobs that tell none
	Group   int            // of TopoAware; 0: half of a node
	Skip    bool           // behind a job that does not fit, others may start
	Place   place.Strategy
}

// NewConfig returns the defaults.
func NewConfig() *Config { return &Config{Place: place.Pack} }

// Params binds the settings.
func (c *Config) Params() param.Set {
	patterns := make([]param.Option[fabric.Pattern], 0, int(fabric.Clique)+1)
	for p := fabric.Ring; p <= fabric.Clique; p++ {
		patterns = append(patterns, param.Option[fabric.Pattern]{Name: p.String(), Value: p})
	}
	return param.Set{
		param.Choice("rule", &c.Rule, []param.Option[Rule]{
			{Name: "preserve", Value: Preserve}, {Name: "greedy", Value: Greedy}, {Name: "topo-aware", Value: TopoAware}, {Name: "baseline", Value: Baseline},
		}, "by what GPUs of a node are chosen"),
		param.Choice("sensitive", &c.Mind, []param.Option[Mind]{{Name: "told", Value: Told}, {Name: "all", Value: All}, {Name: "none", Value: Nobody}},
			"which jobs mind their bandwidth: those that tell it or whose model is known to, all, none"),
		param.Choice("pattern", &c.Pattern, patterns, "how the tasks of jobs talk to each other that do not tell"),
		param.Int("group", &c.Group, 0, fabric.MaxDevices, "GPUs", "of rule=topo-aware: GPUs of consecutive numbers that are neighbours; 0: half of the node"),
		param.Bool("skip", &c.Skip, "jobs behind one that does not fit may start"),
		place.Param(&c.Place),
	}
}

// Needs says what the policy lives on.
func (c *Config) Needs() need.List {
	return need.List(nil).
		If(!c.Skip, need.Of(need.Links), "it acts as fifo").
		If(c.Skip, need.Of(need.Links), "it acts as fifo(mode=skip)").
		If(c.Rule == Preserve && c.Mind == Told, need.Of(need.Bandwidth), "every job gets the GPUs that leave the best links to others")
}

// Policy makes the policy.
func (c *Config) Policy() (sched.Policy, error) {
	return &policy{cfg: *c, where: aware{nodes: c.Place}}, nil
}

type policy struct {
	cfg     Config
	queue   queue.Line
	blocked job.ID // the first job that did not fit
	where   aware
}

// Decide implements sched.Policy.
func (m *policy) Decide(v *sched.View, p *sched.Plan) {
	m.queue.Follow(v, p, m.cfg.Place)
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

// ask is what a job asks for, but for where and how many.
func (m *policy) ask(j *job.Job) Query {
	q := Query{Pattern: m.cfg.Pattern, Rule: m.cfg.Rule, Group: m.cfg.Group, Sensitive: m.cfg.Mind == All}
	if j.Hints != nil {
		if p, ok := fabric.ParsePattern(j.Hints.Pattern); ok {
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
