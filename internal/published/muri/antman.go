package muri

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/internal/published/yarn"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/sched"
)

// antman is the schedule of that name, as which the simulator of Muri plays
// AntMan. Jobs of priority 0 are guaranteed GPUs of their own, and keep those
// that they have while they wait for more. Jobs of priority 1 go to the GPUs
// that are least in use, whatever runs there, one on each. Nobody is preempted,
// and the guaranteed feel nothing of the others.
type antman struct {
	clock   *clock
	size    int     // GPUs of a node
	gpus    []gpu   // node by node
	held    [][]int // by job: GPUs, also of one that waits for more
	pending []int32 // in the order in which they are tried
	running []int32 // in the same order
	list    []int
	alloc   cluster.Alloc
}

// gpu is who is on a GPU, and how much of it they are said to use.
type gpu struct {
	owner int32 // guaranteed; -1: nobody
	guest int32 // -1: nobody
	util  float64
}

// The declared use of jobs, and the use from which a GPU takes no guest. A job
// that waits for more GPUs is said to use the less of those it has: floating
// point decides which of two GPUs is less in use, so each sum is made as
// published.
const (
	ownerUse = 0.1
	guestUse = 0.9
	waitUse  = 0.01
	fullFrom = 0.8
)

// antmanPlays says what of antman cannot be played: several switches, of which the
// published code reserves GPUs on each, nodes of which a large job needs a part, and a
// trace without priorities, where it throws dice.
func antmanPlays(s yarn.Spec, w *workload) error {
	if s.Switches > 1 {
		return errors.New("is played on one switch, and this cluster has several")
	}
	if !w.guests {
		return errors.New("the trace has no column priority (0 guaranteed, 1 opportunistic)")
	}
	for i := range w.facts {
		if gpus := w.facts[i].gpus; gpus > s.GPUs && gpus%s.GPUs != 0 {
			return fmt.Errorf("job %s asks for %d GPUs, which is no number of whole nodes of %d", w.jobs[i].Job.Key, gpus, s.GPUs)
		}
	}
	return nil
}

func newAntman(s yarn.Spec, c *clock) *antman {
	a := &antman{clock: c, size: s.GPUs, gpus: make([]gpu, s.Total()), held: make([][]int, len(c.work.facts))}
	for i := range a.gpus {
		a.gpus[i] = gpu{owner: -1, guest: -1}
	}
	return a
}

func (a *antman) guest(id int32) bool { return a.clock.work.facts[id].guest }

// order is that in which jobs are tried: the guaranteed first, each sort as it came.
func (a *antman) order(x, y int32) int {
	guest := func(id int32) int {
		if a.guest(id) {
			return 1
		}
		return 0
	}
	return cmp.Or(guest(x)-guest(y), cmp.Compare(a.clock.work.facts[x].submit, a.clock.work.facts[y].submit), int(x-y))
}

// Decide implements sched.Policy.
func (a *antman) Decide(v *sched.View, p *sched.Plan) {
	for _, ch := range v.Changes() {
		switch id := int32(ch.Job); ch.Kind {
		case sched.Ended:
			a.leave(id)
		case sched.Arrived:
			at, _ := slices.BinarySearchFunc(a.pending, id, a.order)
			a.pending = slices.Insert(a.pending, at, id)
		}
	}
	a.pending = slices.DeleteFunc(a.pending, func(id int32) bool {
		if !a.place(id) {
			return false
		}
		at, _ := slices.BinarySearchFunc(a.running, id, a.order)
		a.running = slices.Insert(a.running, at, id)
		a.clock.started(id)
		p.StartOn(job.ID(id), a.nothing(id))
		return true
	})
	for _, id := range a.running {
		if a.guest(id) {
			a.clock.jobs[id].iteration = a.slowed(id)
		}
	}
	a.clock.foresee(a.running, isNear)
}

// nothing is what a job holds in the ledger: the GPUs are counted here.
func (a *antman) nothing(id int32) *cluster.Alloc {
	a.alloc.Reset()
	a.alloc.Pieces = append(a.alloc.Pieces, cluster.Piece{Tasks: int32(a.clock.work.facts[id].gpus), Shares: 1})
	a.alloc.Shares = append(a.alloc.Shares, cluster.Share{})
	return &a.alloc
}

// leave takes a job that has ended off its GPUs.
func (a *antman) leave(id int32) {
	a.running = slices.DeleteFunc(a.running, func(other int32) bool { return other == id })
	for _, i := range a.held[id] {
		if a.guest(id) {
			a.gpus[i].guest = -1
			a.gpus[i].util -= guestUse
		} else {
			a.gpus[i].owner = -1
			a.gpus[i].util -= ownerUse
		}
	}
	a.held[id] = nil
}

// place gives a job GPUs, and tells whether it has all that it needs.
func (a *antman) place(id int32) bool {
	switch {
	case a.guest(id):
		return a.least(id)
	case a.clock.work.facts[id].gpus > a.size:
		return a.nodes(id)
	}
	return a.node(id)
}

// least puts a guest on the GPUs that are least in use, if there are enough.
func (a *antman) least(id int32) bool {
	a.list = a.list[:0]
	for i := range a.gpus {
		if a.gpus[i].util < fullFrom {
			a.list = append(a.list, i)
		}
	}
	need := a.clock.work.facts[id].gpus
	if len(a.list) < need {
		return false
	}
	slices.SortStableFunc(a.list, func(x, y int) int { return cmp.Compare(a.gpus[x].util, a.gpus[y].util) })
	a.held[id] = append([]int(nil), a.list[:need]...)
	for _, i := range a.held[id] {
		a.gpus[i].guest = id
		a.gpus[i].util += guestUse
	}
	return true
}

// free are the GPUs of a node that no other guaranteed job has.
func (a *antman) free(node int) []int {
	a.list = a.list[:0]
	for i := node * a.size; i < (node+1)*a.size; i++ {
		if a.gpus[i].owner < 0 {
			a.list = append(a.list, i)
		}
	}
	return a.list
}

// node gives a job GPUs of the first node that has enough, or else those of the one
// that has most, where it waits for the others.
func (a *antman) node(id int32) bool {
	need := a.clock.work.facts[id].gpus - len(a.held[id])
	if len(a.held[id]) > 0 {
		free := a.free(a.held[id][0] / a.size)
		return a.take(id, free[:min(need, len(free))])
	}
	best, most := -1, 0
	for n := range len(a.gpus) / a.size {
		free := len(a.free(n))
		if free >= need {
			return a.take(id, a.free(n)[:need])
		}
		if free > most {
			best, most = n, free
		}
	}
	return best >= 0 && a.take(id, a.free(best))
}

// nodes gives a job as many wholly free nodes as it needs, or those that there are.
func (a *antman) nodes(id int32) bool {
	for n := 0; n < len(a.gpus)/a.size && len(a.held[id]) < a.clock.work.facts[id].gpus; n++ {
		if free := a.free(n); len(free) == a.size {
			a.reserve(id, free)
		}
	}
	return a.whole(id)
}

func (a *antman) take(id int32, gpus []int) bool {
	a.reserve(id, gpus)
	return a.whole(id)
}

// reserve gives a job GPUs that it may have to wait on.
func (a *antman) reserve(id int32, gpus []int) {
	for _, i := range gpus {
		a.gpus[i].owner = id
		var wait float64 = ownerUse
		a.gpus[i].util += wait - waitUse
	}
	a.held[id] = append(a.held[id], gpus...)
}

// whole tells whether a guaranteed job has all its GPUs, which it uses then.
func (a *antman) whole(id int32) bool {
	if len(a.held[id]) < a.clock.work.facts[id].gpus {
		return false
	}
	for _, i := range a.held[id] {
		a.gpus[i].util += waitUse
	}
	return true
}

// slowed is how long an iteration of a guest takes beside the worst of those that own
// its GPUs and run there.
func (a *antman) slowed(id int32) float64 {
	f := &a.clock.work.facts[id]
	slowest, last := f.iteration, int32(-1)
	for _, i := range a.held[id] {
		owner := a.gpus[i].owner
		if owner >= 0 && owner != last && len(a.held[owner]) == a.clock.work.facts[owner].gpus {
			slowest = max(slowest, turns(f.stages, &a.clock.work.facts[owner]))
		}
		last = owner
	}
	return slowest
}

// turns is how long an iteration of a guest takes in the gaps of an owner. It
// is the number of the owner's iterations until each stage of the guest has
// been done while the owner was at another one.
func turns(guest [3]float64, owner *facts) float64 {
	load, gpu, net := owner.stages[0], owner.stages[1], owner.stages[2]
	n := math.Floor(guest[0] / (gpu + net))
	if rest := math.Mod(guest[0], gpu+net); rest > 0 {
		n++
		guest[1] -= min(guest[1], net, gpu+net-rest)
	}
	n += math.Floor(guest[1] / (load + net))
	if rest := math.Mod(guest[1], load+net); rest > 0 {
		n++
		if rest < load {
			guest[2] -= min(guest[2], load+gpu-rest)
		}
	}
	n += math.Floor(guest[2] / (load + gpu))
	if math.Mod(guest[2], load+gpu) > load {
		n++
	}
	return n * owner.iteration
}

// NextWake implements sched.Waker.
func (a *antman) NextWake(v *sched.View) time.Duration { return a.clock.nextEvent(math.Inf(1), v.Now) }
