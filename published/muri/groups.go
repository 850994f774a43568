package muri

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/policy/muri"
	"github.com/norn-scheduler/norn/published/yarn"
	"github.com/norn-scheduler/norn/sched"
)

// groups is Muri itself (multi-resource-blossom-same-gpu and its variants): policy
// muri with what is odd about the published loop. Pairs are merged in the order
// in which they are found; what remains of a job that has not run yet is its
// duration as the file tells it, without what the mechanism costs it; members of a
// group each pay the overheads of all of them; and groups are placed again from
// scratch at every event.
type groups struct {
	clock    *clock
	known    bool // order by what remains, not by what was attained
	grouping muri.Grouping
	place    *yarn.Packing
	total    int
	list     []int32 // runnable jobs, as the published loop last sorted them
	held     map[int32]bool
	running  []int32
	alloc    cluster.Alloc
}

func newGroups(s yarn.Spec, c *clock, known, matched bool, order perf.Ordering) *groups {
	overhead := perf.PublishedOverhead
	if !matched {
		overhead[2] = 1.3 / slower // as the published code has it for this variant
	}
	return &groups{
		clock: c, known: known, place: yarn.New(s), total: s.Total(), held: map[int32]bool{},
		grouping: muri.Grouping{
			Most: perf.MaxInterleaved, InOrder: true, Unmatched: !matched,
			Model: perf.Interleave{Order: order, Overhead: overhead},
		},
	}
}

// key is what the published loop sorts by.
func (g *groups) key(id int32) float64 {
	p, f := &g.clock.jobs[id], &g.clock.work.facts[id]
	switch {
	case !g.known:
		return p.executed * float64(f.gpus)
	case p.left == f.left:
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
			delete(g.held, int32(ch.Job))
		case sched.Arrived:
			g.list = append(g.list, int32(ch.Job))
		}
	}
	slices.SortStableFunc(g.list, func(a, b int32) int { return cmp.Compare(g.key(a), g.key(b)) })
	found := g.fitting(g.grouping.Groups(g.candidates(), g.total))
	slices.SortStableFunc(g.list, func(a, b int32) int {
		return cmp.Compare(g.clock.work.facts[b].gpus, g.clock.work.facts[a].gpus)
	})
	g.carryOut(p, found)
	g.clock.foresee(g.running, func(a, b float64) bool { return a == b })
}

// member is a job as the grouping sees it.
func (g *groups) member(id int32) muri.Member {
	f := &g.clock.work.facts[id]
	return muri.Member{Job: job.ID(id), GPUs: f.gpus, Class: int32(f.gpus), Stages: f.stages, Iteration: f.iteration, Key: g.key(id)}
}

// candidates are the jobs that would run if every group had as many as it may.
func (g *groups) candidates() []muri.Member {
	bySize := map[int][]int32{}
	for _, id := range g.list {
		gpus := g.clock.work.facts[id].gpus
		bySize[gpus] = append(bySize[gpus], id)
	}
	taken := map[int32]bool{}
	g.place.Empty()
	for _, id := range g.list {
		gpus := g.clock.work.facts[id].gpus
		if taken[id] || !g.place.Fit(gpus) {
			continue
		}
		n := min(g.grouping.Most, len(bySize[gpus]))
		for _, other := range bySize[gpus][:n] {
			taken[other] = true
		}
		bySize[gpus] = bySize[gpus][n:]
	}
	var out []muri.Member
	for _, id := range g.list {
		if taken[id] {
			out = append(out, g.member(id))
		}
	}
	return out
}

// fitting are the groups that find room, by their members.
func (g *groups) fitting(all []muri.Group) map[int32]*muri.Group {
	out := map[int32]*muri.Group{}
	g.place.Empty()
	for i := range all {
		if group := &all[i]; g.place.Fit(group.GPUs()) {
			for _, m := range group.Members {
				out[int32(m.Job)] = group
			}
		}
	}
	return out
}

// carryOut places the groups, the largest first, and starts and stops jobs.
func (g *groups) carryOut(p *sched.Plan, found map[int32]*muri.Group) {
	g.place.Empty()
	placed := map[*muri.Group]bool{}
	g.running = g.running[:0]
	for _, id := range g.list {
		group := found[id]
		if group != nil && !placed[group] {
			placed[group] = g.place.Fit(group.GPUs())
		}
		switch runs := group != nil && placed[group]; {
		case runs:
			g.pace(id, group)
			g.running = append(g.running, id)
			if !g.held[id] {
				g.held[id] = true
				g.clock.started(id)
				p.StartOn(job.ID(id), g.guest(id))
			}
		case g.held[id]:
			delete(g.held, id)
			p.Stop(job.ID(id), outranked)
		}
	}
}

// pace sets how fast a job runs in its group, and what events cost it there.
func (g *groups) pace(id int32, group *muri.Group) {
	now := &g.clock.jobs[id]
	now.iteration, now.overhead = group.Time, 0
	for _, m := range group.Members {
		now.overhead += g.clock.work.facts[m.Job].overhead
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
