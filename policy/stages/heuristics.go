package stages

import (
	"math"

	"github.com/norn-scheduler/norn/policy/param"
)

// FIFO is Spark's first in, first out. It has no settings.
type FIFO struct{}

// Params implements Config.
func (*FIFO) Params() param.Set { return nil }

// Policy implements Config.
func (f *FIFO) Policy() (Policy, error) { return f, nil }

// Next implements Policy.
func (*FIFO) Next(v *View) (Choice, bool) {
	for _, j := range v.Jobs {
		if stage, ok := j.first(); ok {
			return Choice{j, stage, v.Executors}, true
		}
	}
	return Choice{}, false
}

// first is the first stage of the frontier, and of these one whose parents are finished.
func (a *Active) first() (stage int, ok bool) {
	stage = -1
	for i := range a.Progress {
		if a.Progress[i].Open() == 0 || !a.ready(i, false) {
			continue
		}
		if a.Runnable(i) {
			return i, true
		}
		if stage < 0 {
			stage = i
		}
	}
	return stage, stage >= 0
}

// best is the stage of the frontier with the highest score; of equal ones the first.
func (a *Active) best(score []float64) (stage int, ok bool) {
	stage = -1
	for i := range a.Progress {
		if a.Progress[i].Open() > 0 && a.ready(i, false) && (stage < 0 || score[i] > score[stage]) {
			stage = i
		}
	}
	return stage, stage >= 0
}

// Shortest is SJF-CP: the job with the least work left, and in it the stage on the critical path. It has no settings.
type Shortest struct{}

// Params implements Config.
func (*Shortest) Params() param.Set { return nil }

// Policy implements Config.
func (s *Shortest) Policy() (Policy, error) { return s, nil }

// Next implements Policy.
func (*Shortest) Next(v *View) (Choice, bool) {
	var out Choice
	least := math.Inf(1)
	for _, j := range v.Jobs {
		work := j.Work()
		if work >= least {
			continue
		}
		if stage, ok := j.best(j.paths(true)); ok {
			least, out = work, Choice{j, stage, v.Executors}
		}
	}
	return out, out.Job != nil
}

// Partition is the published dynamic partition. It has no settings.
type Partition struct{}

// Params implements Config.
func (*Partition) Params() param.Set { return nil }

// Policy implements Config.
func (p *Partition) Policy() (Policy, error) { return p, nil }

// Limit is the executors that each job may hold: those of the cluster divided by the jobs that have tasks to
// launch, rounded up.
func (*Partition) Limit(v *View) int {
	n := 0
	for _, j := range v.Jobs {
		if j.waiting() {
			n++
		}
	}
	return (v.Executors + n - 1) / max(1, n)
}

// waiting tells whether a job has tasks to launch.
func (a *Active) waiting() bool {
	for i := range a.Progress {
		if a.Progress[i].Left > 0 {
			return true
		}
	}
	return false
}

// Next implements Policy.
func (p *Partition) Next(v *View) (Choice, bool) {
	if v.Source != nil {
		if stage, ok := v.Source.first(); ok {
			return Choice{v.Source, stage, v.Executors}, true
		}
	}
	limit := p.Limit(v)
	for _, j := range v.Jobs {
		if j.Held >= limit || j == v.Source {
			continue
		}
		if stage, ok := j.first(); ok {
			return Choice{j, stage, limit}, true
		}
	}
	return Choice{}, false
}

// Weighted is weighted fair sharing: the share of a job goes with its work to the power of Alpha. The work is that of
// the whole job. Executors beyond all shares go to the job that is least beyond its own.
type Weighted struct{ Alpha float64 }

// Params implements Config.
func (w *Weighted) Params() param.Set { return param.Set{alpha(&w.Alpha)} }

func alpha(v *float64) param.Param {
	return param.Float("alpha", v, -4, 4, "", "power of the work of a job to which its share is proportional; 0: equal shares")
}

// Policy implements Config.
func (w *Weighted) Policy() (Policy, error) { return w, nil }

// Next implements Policy.
func (w *Weighted) Next(v *View) (Choice, bool) {
	return share(v, w.Alpha, func(j *Active) (int, bool) { return j.first() })
}

// total is the seconds that all tasks of a job take.
func (a *Active) total() float64 {
	sum := 0.0
	for i := range a.Stages {
		sum += float64(a.Stages[i].Tasks) * a.Stages[i].Mean
	}
	return sum
}

// share gives free executors to the job they come from while it is within its share, or else to the one that is furthest
// below its share, or least above.
func share(v *View, alpha float64, pick func(*Active) (int, bool)) (Choice, bool) {
	weights, sum := make([]float64, len(v.Jobs)), 0.0
	for i, j := range v.Jobs {
		if j.waiting() {
			weights[i] = math.Pow(max(1e-3, j.total()), alpha)
			sum += weights[i]
		}
	}
	var out Choice
	lowest := math.Inf(1)
	for i, j := range v.Jobs {
		if weights[i] == 0 {
			continue
		}
		due := int(math.Ceil(float64(v.Executors) * weights[i] / sum))
		held := j.Held
		if j == v.Source {
			held -= v.Free
		}
		level := float64(held) / float64(due)
		if j == v.Source && held < due {
			level = -1 // it stays: a move costs
		}
		if level >= lowest {
			continue
		}
		if stage, ok := pick(j); ok {
			lowest, out = level, Choice{j, stage, max(due, held+1)}
		}
	}
	return out, out.Job != nil
}

// Graphene is a packing in the manner of Graphene: weighted shares, and in each job troublesome stages first. These are the stages
// whose tasks are long beside the longest of the job. What leads to them comes next, and then the critical path.
type Graphene struct {
	Alpha   float64
	Trouble float64 // a stage is troublesome whose tasks take this part of the longest ones at least
}

// Params implements Config.
func (g *Graphene) Params() param.Set {
	return param.Set{alpha(&g.Alpha), param.Float("trouble", &g.Trouble, 0, 1, "", "a stage is troublesome whose tasks take at least this part of the longest ones of its job")}
}

// Policy implements Config.
func (g *Graphene) Policy() (Policy, error) { return g, nil }

// Next implements Policy.
func (g *Graphene) Next(v *View) (Choice, bool) {
	return share(v, g.Alpha, func(j *Active) (int, bool) { return j.best(g.scores(j)) })
}

// scores orders the stages of a job.
func (g *Graphene) scores(j *Active) []float64 {
	longest := 0.0
	for i := range j.Stages {
		longest = max(longest, j.Stages[i].Mean)
	}
	out := j.paths(true)
	most := 1.0
	for _, s := range out {
		most = max(most, s)
	}
	ahead := make([]bool, len(out)) // a troublesome stage comes after it
	for _, i := range j.order {
		for _, c := range j.below[i] {
			ahead[i] = ahead[i] || ahead[c] || j.troublesome(c, g.Trouble*longest)
		}
		switch {
		case j.troublesome(i, g.Trouble*longest):
			out[i] += 2 * most
		case ahead[i]:
			out[i] += most
		}
	}
	return out
}

func (a *Active) troublesome(stage int, least float64) bool {
	return a.Progress[stage].Left > 0 && a.Stages[stage].Mean >= least
}
