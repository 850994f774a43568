package mapa

import (
	"slices"
	"time"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/sched"
)

// best is the first of the candidates than which no other one is better; nil when none is better than
// no GPUs at all.
func best(all []candidate, better func(a, b *candidate) bool) *candidate {
	chosen := &candidate{}
	for i := range all {
		if better(&all[i], chosen) {
			chosen = &all[i]
		}
	}
	if chosen.gpus == nil {
		return nil
	}
	return chosen
}

func larger(a, b *candidate) bool { return a.aggregate > b.aggregate }

func first(all []candidate) *candidate {
	if len(all) == 0 {
		return nil
	}
	return &all[0]
}

// baseline takes the first set, in the order with the largest sum.
func baseline(_ *machine, all []candidate, t *task) *candidate {
	if t.gpus == 1 || len(all) == 0 {
		return first(all)
	}
	orders := 1
	for k := 2; k <= t.gpus; k++ {
		orders *= k
	}
	return best(all[:orders], larger)
}

// topoAware takes the first candidate in one group of neighbours, in its first order.
func topoAware(m *machine, all []candidate, t *task) *candidate {
	if t.gpus == 1 {
		return first(all)
	}
	for i := range all {
		if t.gpus >= m.group {
			break
		}
		group := all[i].gpus[0] / m.group
		if !slices.ContainsFunc(all[i].gpus, func(g int) bool { return g/m.group != group }) {
			return &all[i]
		}
	}
	return baseline(m, all, t)
}

// greedy takes the largest sum.
func greedy(_ *machine, all []candidate, t *task) *candidate {
	if t.gpus == 1 {
		return first(all)
	}
	return best(all, larger)
}

// preserve takes the best prediction for sensitive jobs, and what is left to others for the rest.
func preserve(_ *machine, all []candidate, t *task) *candidate {
	if t.sensitive && t.gpus > 1 {
		return best(all, func(a, b *candidate) bool { return a.predicted() > b.predicted() })
	}
	return best(all, func(a, b *candidate) bool {
		return a.preserved > b.preserved || a.preserved == b.preserved && a.aggregate > b.aggregate
	})
}

// minScore has sensitive jobs wait for a perfect set.
func minScore(m *machine, all []candidate, t *task) *candidate {
	c := preserve(m, all, t)
	if c != nil && t.sensitive && t.gpus > 1 && m.normal(c) != 1 {
		return nil
	}
	return c
}

// player carries the simulator's loop out as a policy.
type player struct {
	*machine
	policy  Policy
	tasks   []task
	waiting []job.ID
	more    bool // a job was overlooked
	alloc   cluster.Alloc
}

// Decide implements sched.Policy. The list of waiting jobs loses a job while it is walked, so that
// the next one is overlooked until the next second.
func (p *player) Decide(v *sched.View, plan *sched.Plan) {
	for _, ch := range v.Changes() {
		if ch.Kind == sched.Arrived {
			p.waiting = append(p.waiting, ch.Job)
		}
	}
	p.more = false
	for i := 0; i < len(p.waiting); i++ {
		t := &p.tasks[p.waiting[i]]
		busy := make([]bool, p.n)
		free := p.n
		for g := range busy {
			if busy[g] = v.Cluster().DeviceFree(cluster.DeviceID(g)) < unit.One; busy[g] {
				free--
			}
		}
		if t.gpus > free {
			return
		}
		c := p.policy.choose(p.machine, p.candidates(busy, t), t)
		if c == nil {
			return
		}
		t.has = c
		if plan.StartOn(p.waiting[i], p.holds(c)) {
			p.waiting = slices.Delete(p.waiting, i, i+1)
			p.more = p.more || i < len(p.waiting)
		}
	}
}

// holds is the GPUs of a candidate.
func (p *player) holds(c *candidate) *cluster.Alloc {
	a, n := &p.alloc, int32(len(c.gpus))
	a.Reset()
	a.Pieces = append(a.Pieces, cluster.Piece{Tasks: n, Shares: n})
	for _, g := range slices.Sorted(slices.Values(c.gpus)) {
		a.Shares = append(a.Shares, cluster.Share{Device: cluster.DeviceID(g), Milli: int32(unit.One)})
	}
	return a
}

// NextWake implements sched.Waker.
func (p *player) NextWake(v *sched.View) time.Duration {
	if p.more {
		return v.Now + time.Second
	}
	return unit.Never
}

var _ sched.Waker = (*player)(nil)
