// Package resize is for policies that at certain moments divide all GPUs anew among jobs
// whose sizes they choose.
//
// Nouns:
//   - A round is such a moment: a multiple of an interval.
//   - A size is a number of tasks, on one node or spread over several.
//
// Sources: Qiao et al., "Pollux", OSDI 2021; Jayaram Subramanya et al., "Sia", SOSP 2023.
package resize

import (
	"math/bits"
	"time"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/place"
	"github.com/norn-scheduler/norn/sched"
)

// Rounds are the moments at which GPUs are divided.
type Rounds struct {
	Interval time.Duration // above 0
	Place    place.Strategy
}

// Next is the next round.
func (o Rounds) Next(v *sched.View) time.Duration { return (v.Now/o.Interval + 1) * o.Interval }

// Begin tells whether a round begins at this moment. If none does, jobs that came since the
// last one are told what they wait for.
func (o Rounds) Begin(v *sched.View, p *sched.Plan) bool {
	if v.Now%o.Interval != 0 {
		o.Wait(v, p)
		return false
	}
	return true
}

// Wait tells jobs that came between two rounds what they wait for.
func (o Rounds) Wait(v *sched.View, p *sched.Plan) {
	for j := range v.Waiting() {
		c := j.Reason().Code
		if c == job.NoReason || c > job.Because || sched.Revived(v, p, j, o.Place) {
			p.Wait(j.ID, job.Reason{Code: job.NotYet, At: o.Next(v), Job: job.None})
		}
	}
}

// Wake is the next round as long as there are jobs for it, as sched.Waker has it.
func (o Rounds) Wake(v *sched.View) time.Duration {
	for j := range v.Waiting() {
		if !j.Reason().Never() || Shrinks(v, j) { // others are reconsidered when nodes come or go
			return o.Next(v)
		}
	}
	for range v.Running() {
		return o.Next(v)
	}
	return unit.Never
}

// Never is why a job can never run, where it cannot at its least size.
func Never(v *sched.View, p *sched.Plan, j sched.Job, where place.Strategy) job.Reason {
	if Shrinks(v, j) {
		return job.Reason{}
	}
	return p.Never(j.ID, where)
}

// Shrinks tells whether an elastic job finds enough GPUs at its least size.
func Shrinks(v *sched.View, j sched.Job) bool {
	d, class := j.Spec().Demand, v.Class(j.Class())
	least, most := d.Roles[0].Range()
	return least < most && !class.NoType && d.GPUsAt(least) <= v.Cluster().TotalGPUs(class.Scope, class.Mask)
}

// Stays tells whether a running job keeps its devices whatever is divided. That is so if it
// loses its work when it is stopped or must not be stopped, or shares its GPUs. It is also so
// if it runs where no other job may, or has made no progress yet since it got its devices.
// Otherwise jobs whose restart takes longer than an interval would take turns for ever.
func Stays(v *sched.View, j sched.Job) bool {
	a := v.Alloc(j.ID)
	return j.Ready() >= v.Now || a.Milli() != j.Spec().Demand.Milli(int32(a.Tasks(0))) || j.Spec().Stop != job.Checkpoint ||
		j.Phase() != job.Running || j.Profiling() || v.Cluster().UsableDevices(a) < len(a.Shares)
}

// Free tells whether all that an allocation takes is free.
func Free(c *cluster.Cluster, a *cluster.Alloc) bool {
	mark := c.Mark()
	ok := c.Allocate(a) == nil
	c.Undo(mark)
	return ok
}

// Odd tells whether jobs ask for something else than so many tasks with whole GPUs anywhere: for parts of
// GPUs, several roles, or one place for all.
func Odd(d *job.Demand) bool {
	return d.Roles[0].GPU < unit.One || d.Roles[0].GPU%unit.One != 0 || d.Within != "" || d.Roles[1].Tasks > 0
}

// AppendTasks adds so many tasks with whole free GPUs of a group to an Alloc. The group must have
// them.
func AppendTasks(c *cluster.Cluster, a *cluster.Alloc, g cluster.GroupID, role *job.Role, tasks int) {
	shares := len(a.Shares)
	a.Shares = c.AppendWhole(a.Shares, g, tasks*int(role.GPU/unit.One), role.GPUMemory)
	a.Pieces = append(a.Pieces, cluster.Piece{
		Node: c.GroupNode(g), Tasks: int32(tasks), Shares: int32(len(a.Shares) - shares),
		CPU: role.CPU * unit.Milli(tasks), Memory: role.Memory * unit.Bytes(tasks),
	})
}

// Batch tells a job that has devices how many samples each of its GPUs is to take for a step.
func Batch(p *sched.Plan, id job.ID, batch int32) {
	p.Adjust(id, func(a *cluster.Alloc) {
		for i := range a.Shares {
			a.Shares[i].Batch = batch
		}
	})
}

// Reasons are why jobs that got nothing wait. The zero value knows of none.
type Reasons struct {
	whys map[int32]job.Reason // why gangs of a class do not fit, once asked
}

// Hold tells a job why it got nothing: that it does not fit, if it has one size only, else the
// text.
func (r *Reasons) Hold(p *sched.Plan, j sched.Job, s place.Strategy, text string) {
	if !j.Spec().Demand.Elastic() {
		why, asked := r.whys[j.Class()]
		if !asked {
			why, _ = p.Fits(j.ID, s)
			if r.whys == nil {
				r.whys = map[int32]job.Reason{}
			}
			r.whys[j.Class()] = why
		}
		if why.Code != job.NoReason {
			p.Wait(j.ID, why)
			return
		}
	}
	p.Wait(j.ID, job.Reason{Code: job.Because, Job: job.None, Text: text})
}

// Sizes are sizes with which a job has run. They are comparable, and fields of notes.
type Sizes struct {
	Together uint32 // bit k-1: k tasks on one node; the last bit: or more
	Spread   uint64 // the same on several nodes
}

// Fields lists the sizes as fields of a note.
func (s *Sizes) Fields(f *sched.Fields) {
	sched.Int(f, "together", &s.Together)
	sched.Int(f, "spread", &s.Spread)
}

// Add notes a size.
func (s *Sizes) Add(tasks int, spread bool) {
	if spread {
		s.Spread |= 1 << (min(tasks, 64) - 1)
	} else {
		s.Together |= 1 << (min(tasks, 32) - 1)
	}
}

// Largest is the most tasks.
func (s *Sizes) Largest() int { return max(bits.Len32(s.Together), bits.Len64(s.Spread)) }

// Each yields the sizes.
func (s *Sizes) Each(yield func(tasks int, spread bool)) {
	for set := s.Together; set != 0; set &= set - 1 {
		yield(bits.TrailingZeros32(set)+1, false)
	}
	for set := s.Spread; set != 0; set &= set - 1 {
		yield(bits.TrailingZeros64(set)+1, true)
	}
}

// Goodput is a goodput that remembers what was best for each size.
type Goodput struct {
	perf.Goodput
	best map[size]Optimum
}

type size struct {
	gpus   int
	spread bool
}

// Optimum is the batch that is best for a size, and the goodput with it.
type Optimum struct {
	Batch perf.Batch
	Value float64
}

// Hear takes in the gradient noise scale that the job has reported; 0: none.
func (g *Goodput) Hear(noise float64) {
	if now := g.Goodput.At(noise); now.Noise != g.Noise {
		g.Goodput = now
		clear(g.best)
	}
}

// Optimum is the best with so many GPUs.
func (g *Goodput) Optimum(gpus int, spread bool) Optimum {
	s := size{gpus, spread}
	b, known := g.best[s]
	if !known {
		b.Batch, b.Value = g.Best(gpus, spread)
		if g.best == nil {
			g.best = map[size]Optimum{}
		}
		g.best[s] = b
	}
	return b
}
