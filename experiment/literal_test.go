package experiment_test

import (
	"math"
	"slices"
	"sort"

	"github.com/norn-scheduler/norn/experiment"
)

// literal is what the published simulator of QSSF does in one virtual cluster
// of equal nodes of eight GPUs. It goes second by second, but leaves out
// seconds in which nothing can change. Jobs that end leave, and jobs that come
// join the queue. Then jobs start from the top of the queue until one finds no
// place. rank orders the queue, with bySize smaller ones of equal rank first;
// with lazy, jobs that find the queue empty are ordered by their size alone in
// the second in which they come.
type literal struct {
	free   []int // GPUs of each node
	rank   func(i int) float64
	bySize bool
	lazy   bool
	jobs   experiment.Jobs
	queue  []int
	runs   []running
	start  []int64 // by job, in seconds
}

type running struct {
	end   int64
	nodes [][2]int // node, GPUs
}

func (l *literal) submit(i int) int64 { return int64(l.jobs[i].Job.Submit.Seconds()) }

// simulate returns when each job starts.
func (l *literal) simulate() []int64 {
	l.start = make([]int64, len(l.jobs))
	next, now := 0, int64(0)
	again := false // a job came in the last second
	for next < len(l.jobs) || len(l.queue) > 0 {
		at := int64(math.MaxInt64)
		if next < len(l.jobs) {
			at = l.submit(next)
		}
		for _, r := range l.runs {
			at = min(at, r.end)
		}
		if again {
			at = min(at, now+1)
		}
		now = at
		l.runs = slices.DeleteFunc(l.runs, func(r running) bool {
			for _, n := range r.nodes {
				if r.end == now {
					l.free[n[0]] += n[1]
				}
			}
			return r.end == now
		})
		fresh := 0
		for ; next < len(l.jobs) && l.submit(next) == now; next++ {
			l.queue = append(l.queue, next)
			fresh++
		}
		again = l.lazy && fresh > 0
		l.sort(len(l.queue) == fresh)
		l.startAll(now)
	}
	return l.start
}

// sort orders the queue; those of equal rank stay as they are.
func (l *literal) sort(allFresh bool) {
	size := func(i int) float64 { return float64(l.jobs[i].Job.Demand.GPUs()) }
	if l.bySize {
		sort.SliceStable(l.queue, func(a, b int) bool { return size(l.queue[a]) < size(l.queue[b]) })
	}
	if l.lazy && allFresh {
		return
	}
	sort.SliceStable(l.queue, func(a, b int) bool { return l.rank(l.queue[a]) < l.rank(l.queue[b]) })
}

func (l *literal) startAll(now int64) {
	for len(l.queue) > 0 {
		i := l.queue[0]
		nodes, ok := l.place(l.jobs[i].Job.Demand.GPUs())
		if !ok {
			return
		}
		for _, n := range nodes {
			l.free[n[0]] -= n[1]
		}
		l.start[i] = now
		l.runs = append(l.runs, running{now + int64(l.jobs[i].Truth.Work.Seconds()), nodes})
		l.queue = l.queue[1:]
	}
}

// place is the consolidated placement: at most eight GPUs on the fullest node that
// has room, more on empty nodes and the rest on the emptiest one left.
func (l *literal) place(gpus int) (nodes [][2]int, ok bool) {
	order := make([]int, len(l.free))
	for i := range order {
		order[i] = i
	}
	if gpus <= 8 {
		sort.SliceStable(order, func(a, b int) bool { return l.free[order[a]] < l.free[order[b]] })
		for _, n := range order {
			if l.free[n] >= gpus {
				return [][2]int{{n, gpus}}, true
			}
		}
		return nil, false
	}
	sort.SliceStable(order, func(a, b int) bool { return l.free[order[a]] > l.free[order[b]] })
	for _, n := range order {
		take := min(8, gpus)
		if l.free[n] < take {
			return nil, false
		}
		nodes = append(nodes, [2]int{n, take})
		if gpus -= take; gpus == 0 {
			return nodes, true
		}
	}
	return nil, false
}

// preemptive does the same for SRTF. In each second in which a job comes or
// ends, it chooses jobs by remaining time while their GPUs fit into all GPUs
// together. Running jobs that are not chosen leave and have to repeat some
// work. Chosen jobs start if they find a place. A job ends in the second after
// the one in which nothing of it is left. It returns when each job ends.
func (l *literal) preemptive(repeats func(gpus int) int64) []int64 {
	total := 8 * len(l.free)
	remain, since, ends := make([]int64, len(l.jobs)), make([]int64, len(l.jobs)), make([]int64, len(l.jobs))
	on := make([][][2]int, len(l.jobs))
	for i := range l.jobs {
		remain[i] = int64(l.jobs[i].Truth.Work.Seconds())
	}
	var runs []int
	leave := func(i int) {
		for _, n := range on[i] {
			l.free[n[0]] += n[1]
		}
		on[i] = nil
	}
	for next := 0; next < len(l.jobs) || len(l.queue)+len(runs) > 0; {
		now := int64(math.MaxInt64)
		if next < len(l.jobs) {
			now = l.submit(next)
		}
		for _, i := range runs {
			now = min(now, since[i]+remain[i]+1)
		}
		runs = slices.DeleteFunc(runs, func(i int) bool {
			if since[i]+remain[i]+1 > now {
				remain[i], since[i] = remain[i]-(now-since[i]), now
				return false
			}
			ends[i] = now
			leave(i)
			return true
		})
		for ; next < len(l.jobs) && l.submit(next) == now; next++ {
			l.queue = append(l.queue, next)
		}
		all := append(slices.Clone(l.queue), runs...)
		sort.SliceStable(all, func(a, b int) bool { return remain[all[a]] < remain[all[b]] })
		left, chosen := total, []int(nil)
		for _, i := range all {
			gpus := l.jobs[i].Job.Demand.GPUs()
			switch {
			case gpus <= left:
				left -= gpus
				if on[i] == nil {
					chosen = append(chosen, i)
				}
			case on[i] != nil:
				remain[i] += repeats(gpus)
				leave(i)
				runs = slices.DeleteFunc(runs, func(k int) bool { return k == i })
				l.queue = append(l.queue, i)
			}
		}
		for _, i := range chosen {
			if nodes, ok := l.place(l.jobs[i].Job.Demand.GPUs()); ok {
				for _, n := range nodes {
					l.free[n[0]] -= n[1]
				}
				on[i], since[i] = nodes, now
				runs = append(runs, i)
				l.queue = slices.DeleteFunc(l.queue, func(k int) bool { return k == i })
			}
		}
	}
	return ends
}
