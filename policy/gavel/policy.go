package gavel

import (
	"slices"
	"time"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/policy/kit/rounds"
	"github.com/norn-scheduler/norn/sched"
)

type policy struct {
	rounds.Policy
	cfg    Config
	solve  Program
	shares rounds.Shares
	types  []cluster.TypeID

	beliefs *believer // of pairs, learnt from measurements; nil: they are told

	completed perf.Pairs // what is believed of jobs that share, with what is estimated
	measured  int        // pairs of the table that it was made from
}

// Serve implements rounds.Rule.
func (g *policy) Serve(r *rounds.Round) {
	if !r.Begins {
		g.fill(r)
		return
	}
	g.shares.Begin(r)
	g.types = append(g.types[:0], r.Types...)
	if n := len(g.types); n > 0 && !g.cfg.Aware {
		// No type is better than any other: each is the first one in turn.
		turn := int(r.Number % int64(n))
		slices.Reverse(g.types[:turn])
		slices.Reverse(g.types[turn:])
		slices.Reverse(g.types)
	}
	g.shares.Walk(r, g.types, g.cfg.Idle, func(j sched.Job, t cluster.TypeID) float64 { return g.speed(r, j, t) })
	g.shares.End(r)
}

// speed is what the policy takes the speed of a job on a type to be.
func (g *policy) speed(r *rounds.Round, j sched.Job, t cluster.TypeID) float64 {
	s := r.Speed(j, t)
	if !g.cfg.Aware && s > 0 {
		return 1
	}
	return s
}

// fill gives what is free inside a round to whoever waits, in the order of arrival,
// on the fastest type that has room.
func (g *policy) fill(r *rounds.Round) {
	if !g.cfg.Idle {
		return
	}
	for _, j := range r.Jobs {
		best, on := 0.0, cluster.TypeID(0)
		for _, t := range r.Types {
			if r.Left(t) < r.Need(j) {
				continue
			}
			if s := g.speed(r, j, t); s > best {
				best, on = s, t
			}
		}
		if best > 0 {
			r.Serve(j, on)
		}
	}
}

// settle implements rounds.Shares.Settle.
func (g *policy) settle(r *rounds.Round, members []rounds.Member) rounds.Targets {
	p := g.problem(r, members)
	a, ok := p.plenty()
	if !ok || g.cfg.Objective.priced() || g.cfg.Objective == ByIsolated {
		var err error
		if a, err = g.solve(p); err != nil {
			a, _ = Isolated(p) // an answer at least
		}
	}
	if g.cfg.Objective == ByFinishTimes {
		for i := range members {
			j := &p.Jobs[i]
			// Work until now is charged. The share from now on is
			// remembered as the number of jobs, from which isolated finds
			// it again.
			*members[i].Own = j.Isolated - done(members[i].Job)/isolated(p, j, len(members))
		}
	}
	if g.cfg.Columns {
		p.gather(a)
		return g.targets(p, a)
	}
	t := rounds.Targets{Shares: a}
	for _, pair := range p.Pairs[:len(a)-len(members)] {
		t.Pairs = append(t.Pairs, [2]int{pair.A, pair.B})
	}
	return t
}

// done is how far a job has come, in steps.
func done(j sched.Job) float64 { return j.Progress().Seconds() }

// isolated is the throughput of a job with an equal share among n.
func isolated(p *Problem, j *Job, n int) float64 {
	return max(j.throughput(p.Share(j, max(1, n))), 1e-9)
}

// problem is what is to be shared now.
func (g *policy) problem(r *rounds.Round, members []rounds.Member) *Problem {
	p := &Problem{Jobs: make([]Job, len(members)), Each: r.View.Each}
	for _, t := range r.Types {
		p.Capacity = append(p.Capacity, max(0, float64(r.Shared(t))/1000))
		if int(t) < len(g.cfg.Prices) {
			p.Prices = append(p.Prices, g.cfg.Prices[t])
		}
	}
	entity := map[int]int{}
	for i, m := range members {
		j := Job{
			ID: m.Serial(), Size: float64(r.Need(m.Job)) / 1000, Speed: make([]float64, len(r.Types)), Weight: 1,
			Age: (r.View.Now - m.Submit()).Seconds(), Left: remaining(m.Job).Seconds(),
		}
		if h := m.Spec().Hints; h != nil && h.Weight > 0 {
			j.Weight = h.Weight
		}
		if d := m.Spec().Deadline; d > 0 {
			j.Due = (d - r.View.Now).Seconds()
		}
		for k, t := range r.Types {
			j.Speed[k] = g.speed(r, m.Job, t)
		}
		tenant := int(m.Tenant())
		if _, known := entity[tenant]; !known {
			entity[tenant] = len(p.Entities)
			weight := r.View.Tenants().At(m.Tenant()).Weight
			if !(weight > 0) {
				weight = 1
			}
			p.Entities = append(p.Entities, Entity{Weight: weight, FIFO: g.cfg.FIFO})
		}
		j.Entity = entity[tenant]
		p.Jobs[i] = j
	}
	if g.cfg.Columns {
		g.place(r, p, members)
	}
	if g.cfg.Packed {
		g.pack(r, p, members)
	}
	if g.cfg.Objective == ByFinishTimes {
		for i, m := range members {
			j := &p.Jobs[i]
			j.Isolated = max(0, *m.Own+done(m.Job)/isolated(p, j, g.shares.Sharers()))
		}
	}
	return p
}

// unknown is what a job without an estimate is taken to need at least.
const unknown = time.Hour

// remaining is how long a job has to go in the reference configuration. One without
// an estimate is taken to be halfway, and to need an hour at least.
func remaining(j sched.Job) time.Duration {
	if left, ok := j.Remaining(); ok {
		return left
	}
	return max(j.Progress(), unknown)
}
