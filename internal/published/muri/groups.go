package muri

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/internal/published/yarn"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/policy/muri"
	"github.com/norn-scheduler/norn/sched"
)

// groups is Muri itself (multi-resource-blossom-same-gpu and its variants):
// policy muri with what is odd about the published loop. Pairs are found as the
// matching of that code finds them, and merged in that order. The remaining
// time of a job that no event has found running yet is its duration in the
// file, without the cost of the mechanism. Each member of a group pays the
// overheads of all of them. Groups are placed again from scratch at every
// event.
type groups struct {
	clock    *clock
	known    bool // order by what remains, not by what was attained
	grouping muri.Grouping
	place    *yarn.Packing
	total    int
	list     []int32   // runnable jobs, as the published loop last sorted them
	keys     []float64 // by job: what it is sorted by now
	held     []bool    // by job
	running  []int32
	alloc    cluster.Alloc

	// Memory of the last decision, which the next one uses again.
	sizes      [largest + 1]bySize
	candidates []muri.Member
	of         []int32 // by job: its group, less 1; 0: none
	placed     []bool  // by group
}

// bySize is how many runnable jobs there are of a size.
type bySize struct{ all, taken, seen int }

func newGroups(s yarn.Spec, c *clock, most int, known, matched bool, order perf.Ordering) *groups {
	alone := slower // a variable: the published code divides when it runs, with the digits that it has then
	overhead := [...]float64{1.33 / alone, 1.5 / alone, 1.37 / alone}
	if !matched {
		overhead[2] = 1.3 / alone // as the published code has it for this variant
	}
	g := &groups{
		clock: c, known: known, place: yarn.New(s), total: s.Total(),
		keys: make([]float64, len(c.jobs)), held: make([]bool, len(c.jobs)), of: make([]int32, len(c.jobs)),
		grouping: muri.Grouping{
			Most: most, InOrder: true, Unmatched: !matched,
			Model: perf.Interleave{Order: order, Overhead: overhead},
		},
	}
	p := newPairing(most, c.work.facts)
	p.together = g.grouping.Together
	g.grouping.Mates = p.mates
	return g
}

// key is what the published loop sorts by.
func (g *groups) key(id int32) float64 {
	p, f := &g.clock.jobs[id], &g.clock.work.facts[id]
	switch {
	case !g.known:
		return p.executed * float64(f.gpus)
	case p.executed == 0:
		return f.duration * float64(f.gpus)
	}
	return p.left * f.iteration * float64(f.gpus)
}

// Decide implements sched.Policy.
func (g *groups) Decide(v *sched.View, p *sched.Plan) {
	for _, ch := range v.Changes() {
		switch ch.Kind {
		case sched.Ended:
			g.list = slices.DeleteFunc(g.list, func(id int32) bool { return id == int32(ch.Job) })
			g.held[ch.Job] = false
		case sched.Arrived:
			g.list = append(g.list, int32(ch.Job))
		}
	}
	for _, id := range g.list {
		g.keys[id] = g.key(id)
	}
	slices.SortStableFunc(g.list, func(a, b int32) int { return cmp.Compare(g.keys[a], g.keys[b]) })
	g.choose()
	found := g.grouping.Groups(g.candidates, g.total)
	g.fit(found)
	slices.SortStableFunc(g.list, func(a, b int32) int {
		return cmp.Compare(g.clock.work.facts[b].gpus, g.clock.work.facts[a].gpus)
	})
	g.carryOut(p, found)
	g.clock.foresee(g.running, isNear)
	g.clock.joinArrival()
}

// member is a job as the grouping sees it.
func (g *groups) member(id int32) muri.Member {
	f := &g.clock.work.facts[id]
	return muri.Member{Job: job.ID(id), GPUs: f.gpus, Class: int32(f.gpus), Stages: f.stages, Iteration: f.iteration, Key: g.keys[id]}
}

// choose finds the candidates: the jobs that would run if every group had as
// many as it may. A group that finds room brings in the first ones of its size
// that are left.
func (g *groups) choose() {
	facts := g.clock.work.facts
	g.sizes = [largest + 1]bySize{}
	for _, id := range g.list {
		g.sizes[facts[id].gpus].all++
	}
	g.place.Empty()
	for _, id := range g.list {
		n := &g.sizes[facts[id].gpus]
		if n.seen++; n.seen > n.taken && g.place.Fit(facts[id].gpus) {
			n.taken = min(n.taken+g.grouping.Most, n.all)
		}
	}
	g.candidates = g.candidates[:0]
	for _, id := range g.list {
		if n := &g.sizes[facts[id].gpus]; n.taken > 0 {
			n.taken--
			g.candidates = append(g.candidates, g.member(id))
		}
	}
}

// fit notes which groups find room, in order of priority.
func (g *groups) fit(all []muri.Group) {
	for _, id := range g.list {
		g.of[id] = 0
	}
	g.place.Empty()
	for i := range all {
		if group := &all[i]; g.place.Fit(group.GPUs()) {
			for k := range group.Members {
				g.of[group.Members[k].Job] = int32(i + 1)
			}
		}
	}
}

// carryOut places the groups that found room, the largest first, and starts and
// stops jobs.
func (g *groups) carryOut(p *sched.Plan, all []muri.Group) {
	g.place.Empty()
	g.placed = append(g.placed[:0], make([]bool, len(all))...)
	g.running = g.running[:0]
	for _, id := range g.list {
		runs := false
		if k := g.of[id] - 1; k >= 0 {
			if !g.placed[k] {
				g.placed[k] = g.place.Fit(all[k].GPUs())
			}
			runs = g.placed[k]
		}
		switch {
		case runs:
			g.pace(id, &all[g.of[id]-1])
			g.running = append(g.running, id)
			if !g.held[id] {
				g.held[id] = true
				g.clock.started(id)
				p.StartOn(job.ID(id), g.guest(id))
			}
		case g.held[id]:
			g.held[id] = false
			p.Stop(job.ID(id), outranked)
		}
	}
}

// pace sets how fast a job runs in its group, and what events cost it there.
func (g *groups) pace(id int32, group *muri.Group) {
	now := &g.clock.jobs[id]
	now.iteration, now.overhead = group.Time, 0
	for i := range group.Members {
		now.overhead += g.clock.work.facts[group.Members[i].Job].overhead
	}
}

// guest is what a job holds: a place, and nothing of the devices, which others may
// share. The packing of the published loop says who has room.
func (g *groups) guest(id int32) *cluster.Alloc {
	g.alloc.Reset()
	g.alloc.Pieces = append(g.alloc.Pieces, cluster.Piece{Tasks: int32(g.clock.work.facts[id].gpus), Shares: 1})
	g.alloc.Shares = append(g.alloc.Shares, cluster.Share{})
	return &g.alloc
}

// NextWake implements sched.Waker.
func (g *groups) NextWake(v *sched.View) time.Duration { return g.clock.nextEvent(math.Inf(1), v.Now) }
