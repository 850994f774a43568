package tiresias

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/internal/published/harness"
	"github.com/norn-scheduler/norn/internal/published/yarn"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/sched"
	"github.com/norn-scheduler/norn/sim"
	"github.com/norn-scheduler/norn/state"
)

// sizes are the sizes of jobs that the published Gandiva has node sets for, in the
// order in which Python 2 goes through its dictionary of them.
var sizes = [...]int{16, 1, 2, 4, 24, 32, 8, 64, 12}

// The steps of its clock, seconds.
const (
	gandivaStep  = 10
	gandivaSlice = 60 // at whole multiples of it the jobs of a set take turns
)

// gandiva is Gandiva as the simulator has it. Nodes are dealt out as node sets to
// classes of jobs of one size. The first jobs of the list of a set run, and go to
// its end at every full minute.
//
// The load of a set is the number of jobs that were ever put there: those that end
// are not taken off it until all jobs of the class are put anew.
//
// Who has done the work of a step is found at its end, by the lists that hold then,
// after sets were opened and given back. So a job may end that did not run.
type gandiva struct {
	total, perNode int // GPUs
	free           int // nodes of no set
	classes        [][]*nodeSet
	jobs           []gandivaJob
	arrived        []int32
	pending        []int32
	placed         int // jobs in sets

	now      int64 // of the last step, seconds
	stepped  bool  // the step of this moment is done
	released bool  // a set was given back since jobs were admitted
	ended    []int32
	running  []int32
	starts   []int32
	round    int
	hold     yarn.Holdings
	clock    *harness.Clock
}

// nodeSet is the nodes on which jobs of one size take turns.
type nodeSet struct {
	nodes, capacity int // capacity: jobs at a time
	load            int
	jobs            []int32
}

type gandivaJob struct {
	class, gpus int
	length      int64 // seconds, as all below
	done        int64
	start, end  int64 // end: -1 before
	runs        bool
	leads       int // the round in which it was last among the first of its set
}

// runGandiva runs it on a cluster.
func runGandiva(ctx context.Context, spec yarn.Spec, jobs harness.Jobs) (*harness.Result, error) {
	c, err := spec.Pooled()
	if err != nil {
		return nil, err
	}
	clock := &harness.Clock{}
	g, err := newGandiva(spec, jobs, clock)
	if err != nil {
		return nil, err
	}
	setup := harness.Setup{
		Cluster: c, Policy: g, World: sim.Config{Source: endless(jobs).Source()},
		Around: func(w *sim.Sim) harness.World { clock.Sim = w; return clock },
	}
	s, err := setup.Run(ctx)
	if err != nil {
		return nil, err
	}
	return g.result(s), nil
}

func newGandiva(spec yarn.Spec, jobs harness.Jobs, c *harness.Clock) (*gandiva, error) {
	g := &gandiva{
		total: spec.Total(), perNode: spec.GPUs, free: spec.Switches * spec.Nodes,
		classes: make([][]*nodeSet, len(sizes)), jobs: make([]gandivaJob, len(jobs)), clock: c,
	}
	for i := range jobs {
		n := jobs[i].Job.Demand.GPUs()
		class := slices.Index(sizes[:], n)
		if class < 0 {
			known := strings.Trim(fmt.Sprint(slices.Sorted(slices.Values(sizes[:]))), "[]")
			return nil, fmt.Errorf("job %s asks for %d GPUs: gandiva has node sets for jobs of %s", jobs[i].Job.Key, n, known)
		}
		g.jobs[i] = gandivaJob{class: class, gpus: n, length: secs(jobs[i].Truth.Work), end: -1}
	}
	return g, nil
}

// Decide implements sched.Policy.
func (g *gandiva) Decide(v *sched.View, p *sched.Plan) {
	for _, ch := range v.Changes() {
		if ch.Kind == sched.Arrived {
			g.arrived = append(g.arrived, int32(ch.Job))
		}
	}
	if now := int64(v.Now / time.Second); now != g.now || !g.stepped {
		passed := now - g.now
		if g.placed == 0 {
			passed = 0
		}
		g.now, g.stepped = now, true
		g.adjust()
		g.step(passed)
		if len(g.ended) > 0 {
			g.tell(v)
			return // they leave first, at the same moment
		}
	}
	g.admit()
	g.dispatch(p)
}

// NextWake implements sched.Waker.
func (g *gandiva) NextWake(*sched.View) time.Duration {
	if g.placed == 0 {
		return unit.Never // nothing will be given back, so that who is pending stays so
	}
	return harness.Seconds(g.now + gandivaStep)
}

// step counts the work of the time that has passed, lets jobs take turns, and gives
// sets back that are empty.
func (g *gandiva) step(passed int64) {
	for class, sets := range g.classes {
		kept := sets[:0]
		for _, s := range sets {
			lead := s.leading()
			ended := len(g.ended)
			for _, id := range lead {
				if j := &g.jobs[id]; j.done+passed >= j.length {
					g.ended = append(g.ended, id)
				}
				g.jobs[id].done += passed
			}
			if g.now%gandivaSlice == 0 {
				s.jobs = slices.Concat(s.jobs[len(lead):], lead)
			}
			for _, id := range g.ended[ended:] {
				s.jobs = slices.Delete(s.jobs, slices.Index(s.jobs, id), slices.Index(s.jobs, id)+1)
			}
			if len(s.jobs) == 0 {
				g.free += s.nodes
				g.released = true
				continue
			}
			kept = append(kept, s)
		}
		g.classes[class] = kept
	}
}

// tell lets those leave that have done their work.
func (g *gandiva) tell(v *sched.View) {
	for _, id := range g.ended {
		j := &g.jobs[id]
		j.end = g.now
		g.clock.Ends = append(g.clock.Ends, harness.End{Job: job.ID(id), At: v.Now, GivenUp: !j.runs})
		j.runs = false
		g.placed--
	}
	g.ended = g.ended[:0]
}

// admit puts the jobs that come into sets and, if a set was given back, those that
// are pending. Behind one that is put the next is overlooked, since it is taken out
// of the list that is being walked.
func (g *gandiva) admit() {
	for _, id := range g.arrived {
		if !g.put(id) {
			g.pending = append(g.pending, id)
		}
	}
	g.arrived = g.arrived[:0]
	if g.released {
		for i := 0; i < len(g.pending); i++ {
			if g.put(g.pending[i]) {
				g.pending = slices.Delete(g.pending, i, i+1)
			}
		}
	}
	g.released = false
}

// put puts a job into the set with the least load if that has room for more than
// this one; else into a new one; else into the one with the next load.
func (g *gandiva) put(id int32) bool {
	class := g.jobs[id].class
	sets := g.classes[class]
	switch {
	case len(sets) == 0:
		if !g.open(class) {
			return false
		}
	case sets[0].load+1 < sets[0].capacity:
		toEnd(sets)
	default:
		if toEnd(sets); !g.open(class) {
			toEnd(sets)
		}
	}
	sets = g.classes[class]
	sets[len(sets)-1].add(id)
	byLoad(sets)
	g.jobs[id].start = g.now
	g.placed++
	return true
}

func (s *nodeSet) add(id int32) {
	s.load++
	s.jobs = append(s.jobs, id)
}

// leading are the jobs that run.
func (s *nodeSet) leading() []int32 { return s.jobs[:min(len(s.jobs), s.capacity)] }

func toEnd(sets []*nodeSet) {
	first := sets[0]
	sets[copy(sets, sets[1:])] = first
}

func byLoad(sets []*nodeSet) {
	slices.SortStableFunc(sets, func(a, b *nodeSet) int { return cmp.Compare(a.load, b.load) })
}

// nodesOf is the number of nodes of a set of a class.
func (g *gandiva) nodesOf(class int) int { return (sizes[class] + g.perNode - 1) / g.perNode }

// open opens a set, if enough nodes are free.
func (g *gandiva) open(class int) bool {
	nodes := g.nodesOf(class)
	if nodes > g.free {
		return false
	}
	g.free -= nodes
	g.classes[class] = append(g.classes[class], &nodeSet{nodes: nodes, capacity: nodes * g.perNode / sizes[class]})
	return true
}

// adjust opens sets and gives some back, so that each class has its share of the
// GPUs, by what its jobs ask for.
func (g *gandiva) adjust() {
	var demand, holds [len(sizes)]int
	total := 0
	for class, sets := range g.classes {
		for _, s := range sets {
			demand[class] += len(s.jobs) * sizes[class]
			holds[class] += s.nodes * g.perNode
		}
		total += demand[class]
	}
	for class, n := range demand {
		if n == 0 {
			continue
		}
		target := min(n, int(math.Floor(float64(n)/float64(total)*float64(g.total))))
		switch more := target - holds[class]; {
		case more > 0:
			g.expand(class, (more+sizes[class]-1)/sizes[class])
		case more < 0:
			g.shrink(class, (sizes[class]-1-more)/sizes[class])
		}
	}
}

// expand opens sets. The published code uses the counter of this loop for the
// nodes of a set, too. Its final value decides what happens next. Either the
// jobs of the class are placed anew, or the new sets stay empty until the next
// step gives them back. They are put anew if the last set could not be opened,
// or if it has several nodes.
func (g *gandiva) expand(class, count int) {
	opened := false
	for range count {
		opened = g.open(class)
	}
	if opened && g.nodesOf(class) == 1 {
		return
	}
	var all []int32
	for _, s := range g.classes[class] {
		all = append(all, s.jobs...)
		if len(s.jobs) > 0 {
			s.jobs, s.load = nil, 0
		}
	}
	g.spread(class, all)
}

// shrink gives the sets with the least load back, but never all. Their jobs go to
// the others.
func (g *gandiva) shrink(class, count int) {
	sets := g.classes[class]
	count = min(count, len(sets)-1)
	var all []int32
	for _, s := range sets[:count] {
		all = append(all, s.jobs...)
		g.free += s.nodes
	}
	g.classes[class] = sets[count:]
	g.spread(class, all)
}

// spread puts jobs, each into the first set, which is the one with the least load
// from the second job on.
func (g *gandiva) spread(class int, jobs []int32) {
	sets := g.classes[class]
	for _, id := range jobs {
		sets[0].add(id)
		byLoad(sets)
	}
}

// dispatch lets the first jobs of each set run.
func (g *gandiva) dispatch(p *sched.Plan) {
	g.round++
	g.starts = g.starts[:0]
	for _, sets := range g.classes {
		for _, s := range sets {
			for _, id := range s.leading() {
				j := &g.jobs[id]
				if j.leads = g.round; !j.runs {
					g.starts = append(g.starts, id)
				}
			}
		}
	}
	g.running = slices.DeleteFunc(g.running, func(id int32) bool {
		j := &g.jobs[id]
		if j.runs && j.leads != g.round {
			p.Stop(job.ID(id), job.Reason{Code: job.UsedShare, Job: job.None})
			j.runs = false
		}
		return !j.runs
	})
	slices.Sort(g.starts)
	for _, id := range g.starts {
		p.StartOn(job.ID(id), g.hold.Of(g.jobs[id].gpus))
		g.jobs[id].runs = true
	}
	g.running = append(g.running, g.starts...)
}

// endless is jobs that end only when the published loop says so.
func endless(jobs harness.Jobs) harness.Jobs {
	jobs = slices.Clone(jobs)
	for i := range jobs {
		jobs[i].Truth.Work = harness.Seconds(harness.MaxSeconds)
	}
	return jobs
}

// result is what the published loop wrote down: a job has started when it was put
// into a set.
func (g *gandiva) result(s *state.State) *harness.Result {
	r := &harness.Result{Columns: Columns()}
	for i := range g.jobs {
		if j := &g.jobs[i]; j.end >= 0 {
			spec := s.Record(job.ID(i)).Job
			r.Rows = append(r.Rows, harness.Row{Key: spec.Key, Submit: spec.Submit.Seconds(), Start: float64(j.start), End: float64(j.end), Job: int32(i)})
		}
	}
	r.Append = func(dst []byte, row *harness.Row) []byte {
		j, submit := &g.jobs[row.Job], int64(row.Submit)
		dst = append(dst, row.Key...)
		dst = harness.AppendInts(dst, int64(j.gpus), submit, j.start, j.end, j.end-submit, j.length, j.start-submit, 0)
		return append(dst, ",,0"...)
	}
	return r
}
