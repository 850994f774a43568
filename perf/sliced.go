package perf

import (
	"cmp"
	"math"
	"slices"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/job"
)

// SliceOverhead is by how much the steps of a job whose workers take turns on a GPU are longer than
// those of its workers, one after the other. It is below 3 % in Singularity (arXiv 2202.07848, section
// on replica splicing), and at most 1.9 % in EasyScale (SC 2023, figure 12).
const SliceOverhead = 0.03

// GPUsOf is a number of equal GPUs on which the workers of a job take turns.
type GPUsOf struct {
	GPUs  int
	Speed float64 // steps in a second of one worker that has one of them for itself; 0: it cannot run there
}

// Slicing is how the workers of a job are divided among its GPUs: with the shortest step.
type Slicing struct {
	Workers []int   // that take turns on each of the GPUs, by what Slice was asked of; 0: these stay idle
	Step    float64 // time of one step of all workers, without the overhead; +Inf: they cannot run there
	Waste   float64 // of what the GPUs could do, the part that is not used, 0 to 1
}

// Rate is the steps in a second.
func (s *Slicing) Rate() float64 { return 1 / s.Step }

// Turns tells whether any workers take turns.
func (s *Slicing) Turns() bool {
	return slices.ContainsFunc(s.Workers, func(n int) bool { return n > 1 })
}

// Slice divides so many workers, each of which does one mini-batch in a step. Of all divisions with
// the shortest step it is the one in which each GPU has as many workers as it can do in that time, so
// there may be places for more workers than there are. Source: Li et al., "EasyScale", SC 2023.
func Slice(workers int, on []GPUsOf) Slicing {
	out := Slicing{Workers: make([]int, len(on)), Step: math.Inf(1)}
	able := 0.0
	for _, g := range on {
		able += float64(g.GPUs) * g.Speed
		if g.GPUs > 0 && g.Speed > 0 {
			least := (workers + g.GPUs - 1) / g.GPUs // with these GPUs alone no fewer will do
			for n := 1; n <= least; n++ {
				if step := float64(n) / g.Speed; step < out.Step && places(on, step) >= workers {
					out.Step = step
					break
				}
			}
		}
	}
	for i, g := range on {
		if g.GPUs > 0 && !math.IsInf(out.Step, 1) {
			out.Workers[i] = within(g.Speed, out.Step)
		}
	}
	if able > 0 {
		out.Waste = max(0, 1-float64(workers)/out.Step/able)
	}
	return out
}

// places is how many workers have their turns within a step.
func places(on []GPUsOf, step float64) (n int) {
	for _, g := range on {
		n += g.GPUs * within(g.Speed, step)
	}
	return n
}

// within is how many workers have their turns on a GPU within a step.
func within(speed, step float64) int { return int(step*speed + 1e-9) }

// Speed is the speed of a job that is divided so, where that of one worker is its speed with all
// that it asks for.
func (s *Slicing) Speed() float64 {
	if s.Turns() {
		return s.Rate() / (1 + SliceOverhead)
	}
	return s.Rate()
}

// On is the speed of j alone with so many tasks on GPUs of type t, as a Model says. Where it has
// fewer GPUs than workers, and these take turns (job.TimeSliced), its steps are longer. A worker is
// a task as the user asked, with its GPUs.
func On(of Typed, j *job.Job, c *cluster.Cluster, t cluster.TypeID, tasks int, spread bool) float64 {
	workers := int(j.Demand.Roles[0].Tasks)
	if j.Resize != job.TimeSliced || tasks <= 0 || tasks == workers {
		return of.On(j, c, t, tasks, spread)
	}
	s := Slice(workers, []GPUsOf{{tasks, of.On(j, c, t, workers, spread)}})
	return s.Speed()
}

// slicedOn is the speed of j on a; ok is false where its workers do not take turns, or the Model
// cannot tell.
func slicedOn(m Model, j *job.Job, c *cluster.Cluster, a *cluster.Alloc) (speed float64, ok bool) {
	of, typed := m.(Typed)
	workers := int(j.Demand.Roles[0].Tasks)
	if !typed || len(a.Shares) == 0 {
		return 0, false
	}
	on := TasksOn(c, a)
	if len(on) == 1 && a.Tasks(0) == workers {
		return 0, false
	}
	all := make([]GPUsOf, len(on))
	for i, x := range on {
		all[i] = GPUsOf{x.Tasks, of.On(j, c, x.Type, workers, a.Nodes() > 1)}
	}
	s := Slice(workers, all)
	return s.Speed(), true
}

// TypeTasks is how many tasks of the first role of a gang are on GPUs of a type.
type TypeTasks struct {
	Type  cluster.TypeID
	Tasks int
}

// TasksOn is how many tasks of its first role an Alloc has on each GPU type, by type.
func TasksOn(c *cluster.Cluster, a *cluster.Alloc) (out []TypeTasks) {
	next := int32(0)
	for _, p := range a.Pieces {
		mine := a.Shares[next : next+p.Shares]
		next += p.Shares
		for i := 0; p.Role == 0 && p.Tasks > 0 && i < len(mine); i += max(1, len(mine)/int(p.Tasks)) {
			t := c.TypeOf(mine[i].Device)
			at := slices.IndexFunc(out, func(x TypeTasks) bool { return x.Type == t })
			if at < 0 {
				at, out = len(out), append(out, TypeTasks{Type: t})
			}
			out[at].Tasks++
		}
	}
	slices.SortFunc(out, func(a, b TypeTasks) int { return cmp.Compare(a.Type, b.Type) })
	return out
}
