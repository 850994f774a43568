package gavel

import (
	"time"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/policy/kit/rounds"
)

// kind is what a policy can tell jobs apart by when they share a GPU: what they train,
// what they need of it, and how they take GPUs.
type kind struct {
	name, model, dataset string
	batch                int
	demand               perf.Demand
	stages               [3]time.Duration
	iteration            time.Duration
	mixed                bool
	memory               unit.Bytes // of each GPU; 0: not told
	tasks                int32
	gpu                  unit.Milli
	nodes                cluster.Condition // which it may use
}

// kindOf is the kind of a member; ok is false for one that shares with nobody.
func (g *policy) kindOf(m rounds.Member) (k kind, ok bool) {
	if m.Solo || !rounds.Pairable(m.Job) || m.GPUs() > 1 && !g.cfg.Gangs {
		return k, false
	}
	j := m.Spec()
	role := &j.Demand.Roles[0]
	k = kind{name: j.Name, model: j.Model, dataset: j.Dataset, batch: j.Batch, memory: role.GPUMemory, tasks: role.Tasks, gpu: role.GPU, nodes: j.Demand.Condition(m.Pool())}
	if k.model != "" {
		k.name = "" // names of jobs of one model may all be different
	}
	if h := j.Hints; h != nil && g.beliefs == nil { // which are the truth of a simulation
		k.demand, _ = perf.Hinted(j)
		k.stages, k.iteration, k.mixed, k.memory = h.Stages, h.Iteration, h.Mixed, max(k.memory, h.GPUMemory)
	}
	return k, true
}

// pack tells a problem how fast jobs are beside each other, as the scheduler believes.
func (g *policy) pack(r *rounds.Round, p *Problem, members []rounds.Member) {
	index := map[kind]int{}
	var kinds []kind
	var jobs []rounds.Member // one of each kind
	for i, m := range members {
		p.Jobs[i].Kind = -1
		k, ok := g.kindOf(m)
		if !ok {
			continue
		}
		at, known := index[k]
		if !known {
			at = len(kinds)
			index[k], kinds, jobs = at, append(kinds, k), append(jobs, m)
		}
		p.Jobs[i].Kind = at
	}
	sharing := r.View.Sharing
	if g.cfg.Estimate {
		sharing = g.estimated(sharing)
	}
	p.Beside = make([][][]float64, len(kinds))
	for a := range kinds {
		p.Beside[a] = make([][]float64, len(kinds))
		for b := range kinds {
			row := make([]float64, len(r.Types))
			p.Beside[a][b] = row
			if !rounds.Alike(jobs[a].Job, jobs[b].Job) {
				continue
			}
			other := [1]*job.Job{jobs[b].Spec()}
			for k, t := range r.Types {
				typ := r.View.Cluster().Type(t)
				if memory := kinds[a].memory + kinds[b].memory; typ.Memory == 0 || memory <= typ.Memory {
					row[k] = sharing.Beside(jobs[a].Spec(), other[:], typ)
				}
			}
		}
	}
}

// estimated is what is believed of jobs that share, completed where it is a table of
// what was measured, or what was learnt on top of one.
func (g *policy) estimated(s perf.Sharing) perf.Sharing {
	switch s := s.(type) {
	case perf.Pairs:
		if g.completed.Speed == nil || g.measured != len(s.Speed) { // tables do not change
			g.completed, g.measured = perf.Complete(s), len(s.Speed)
		}
		return g.completed
	case *perf.Learner:
		own := *s
		own.First = g.estimated(s.First)
		return &own
	}
	return s
}
