package tiresias

import (
	"math"
	"sort"

	"github.com/norn-scheduler/norn/internal/published/yarn"
)

// slowGandiva is the loop of Gandiva once more, every step of ten seconds of it.
type slowGandiva struct {
	spec     yarn.Spec
	free     int                // nodes
	sets     map[int][]*slowSet // by size of job
	pending  []*slowJob
	running  int
	released bool
	now      int64
}

type slowSet struct {
	nodes, capacity, util int
	jobs                  []*slowJob
}

func (g *slowGandiva) sort(size int) {
	sort.SliceStable(g.sets[size], func(a, b int) bool { return g.sets[size][a].util < g.sets[size][b].util })
}

func (g *slowGandiva) nodes(size int) int {
	return int(math.Ceil(float64(size) / float64(g.spec.GPUs)))
}

func (g *slowGandiva) newSet(size int) *slowSet {
	n := g.nodes(size)
	if n > g.free {
		return nil
	}
	g.free -= n
	return &slowSet{nodes: n, capacity: n * g.spec.GPUs / size}
}

func (s *slowSet) put(j *slowJob) {
	s.util++
	s.jobs = append(s.jobs, j)
}

func (g *slowGandiva) place(j *slowJob) bool {
	size := j.gpus
	pop := func() *slowSet {
		first := g.sets[size][0]
		g.sets[size] = g.sets[size][1:]
		return first
	}
	push := func(s *slowSet) { g.sets[size] = append(g.sets[size][:len(g.sets[size]):len(g.sets[size])], s) }
	if len(g.sets[size]) > 0 {
		s := pop()
		if s.util+1 < s.capacity {
			s.put(j)
			push(s)
			g.sort(size)
			return true
		}
		push(s)
	}
	s := g.newSet(size)
	if s == nil {
		if len(g.sets[size]) == 0 {
			return false
		}
		s = pop()
	}
	s.put(j)
	push(s)
	g.sort(size)
	return true
}

func (g *slowGandiva) start(j *slowJob) bool {
	if !g.place(j) {
		return false
	}
	j.start, j.pending, j.status = g.now, g.now-j.submit, slowRunning
	g.running++
	return true
}

func (g *slowGandiva) adjust() {
	all, demand, occupied := 0, map[int]int{}, map[int]int{}
	for size, sets := range g.sets {
		for _, s := range sets {
			demand[size] += size * len(s.jobs)
			occupied[size] += s.nodes * g.spec.GPUs
		}
		all += demand[size]
	}
	for _, size := range []int{16, 1, 2, 4, 24, 32, 8, 64, 12} {
		if demand[size] == 0 {
			continue
		}
		plan := int(math.Floor(float64(demand[size]) / float64(all) * float64(g.spec.Total())))
		diff := min(plan, demand[size]) - occupied[size]
		count := int(math.Ceil(math.Abs(float64(diff)) / float64(size)))
		switch {
		case diff > 0:
			g.expand(size, count)
		case diff < 0:
			g.shrink(size, count)
		}
	}
}

func (g *slowGandiva) expand(size, count int) {
	i := 0
	for k := 1; k <= count; k++ {
		i = k
		if s := g.newSet(size); s != nil {
			g.sets[size] = append(g.sets[size], s)
			i = s.nodes - 1
		}
	}
	if i == 0 {
		return
	}
	var jobs []*slowJob
	for _, s := range g.sets[size] {
		if len(s.jobs) > 0 {
			jobs = append(jobs, s.jobs...)
			s.jobs, s.util = nil, 0
		}
	}
	g.again(size, jobs)
}

func (g *slowGandiva) shrink(size, count int) {
	var jobs []*slowJob
	for range min(count, len(g.sets[size])-1) {
		s := g.sets[size][0]
		g.sets[size] = g.sets[size][1:]
		jobs = append(jobs, s.jobs...)
		g.free += s.nodes
	}
	g.again(size, jobs)
}

func (g *slowGandiva) again(size int, jobs []*slowJob) {
	for _, j := range jobs {
		g.sets[size][0].put(j)
		g.sort(size)
	}
}

func (g *slowGandiva) execute(passed int64) {
	for size, sets := range g.sets {
		var kept []*slowSet
		for _, s := range sets {
			var first, rest, ended []*slowJob
			for i, j := range s.jobs {
				if i >= s.capacity {
					rest = append(rest, j)
					continue
				}
				if j.executed += passed; j.executed >= j.duration {
					j.end, j.reachedEnd, j.status = g.now, true, slowEnded
					ended = append(ended, j)
				}
				first = append(first, j)
			}
			if g.now%60 == 0 {
				s.jobs = append(rest, first...)
			}
			var left []*slowJob
			for _, j := range s.jobs {
				if j.status != slowEnded {
					left = append(left, j)
				}
			}
			g.running -= len(ended)
			if s.jobs = left; len(left) > 0 {
				kept = append(kept, s)
				continue
			}
			g.free += s.nodes
			g.released = true
		}
		g.sets[size] = kept
	}
}

func slowRunGandiva(jobs []*slowJob, spec yarn.Spec) {
	g := &slowGandiva{spec: spec, free: spec.Switches * spec.Nodes, sets: map[int][]*slowSet{}}
	come := append([]*slowJob(nil), jobs...)
	sort.SliceStable(come, func(a, b int) bool { return come[a].submit < come[b].submit })
	g.now = come[0].submit
	for passed, stuck := int64(0), 0; len(come)+g.running > 0 || stuck < 2; {
		if stuck++; len(come)+g.running > 0 {
			stuck = 0
		}
		g.adjust()
		g.execute(passed)
		for len(come) > 0 && come[0].submit == g.now {
			if !g.start(come[0]) {
				g.pending = append(g.pending, come[0])
			}
			come = come[1:]
		}
		for i := 0; g.released && i < len(g.pending); i++ {
			if g.start(g.pending[i]) {
				g.pending = append(g.pending[:i:i], g.pending[i+1:]...)
			}
		}
		g.released = false
		passed = 10
		if len(come) > 0 {
			passed = min(passed, come[0].submit-g.now)
		}
		g.now += passed
	}
}
