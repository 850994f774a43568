package solver

import (
	"container/heap"
	"slices"
)

// keep is how many of its best mates a job remembers, so that it need not look at
// all others again when the best one is taken.
const keep = 48

// edge is a pair and its gain.
type edge struct {
	gain float64
	i, j int32
}

// before is the order in which pairs are made: by gain, then by number.
func (e edge) before(f edge) bool {
	switch {
	case e.gain != f.gain:
		return e.gain > f.gain
	case e.i != f.i:
		return e.i < f.i
	}
	return e.j < f.j
}

// matcher makes the greedy matching, the pair of greatest gain first, without a
// list of all pairs: each job offers its best pair with a later one.
type matcher struct {
	n      int
	merges Merges
	mates  [][]edge // by job: its best edges to later jobs, the best last
	more   []bool   // it has others than those
	mate   []int
	offers []edge
	table  []float64 // the gains of all pairs, where they are not too many: first with second, ..., second with third, ...
	fresh  []int     // the jobs that are, in order
}

// later yields the later jobs with which a job may have a gain.
func (m *matcher) later(i int) func(func(j int) bool) {
	return func(yield func(int) bool) {
		at, fresh := slices.BinarySearch(m.fresh, i)
		if fresh {
			for j := i + 1; j < m.n && yield(j); j++ {
			}
			return
		}
		for _, j := range m.fresh[at:] {
			if !yield(j) {
				return
			}
		}
	}
}

// maxTable is the number of jobs up to which the gains of all pairs are kept.
const maxTable = 4096

// fill asks for the gains of all pairs.
func (m *matcher) fill() {
	if m.n > maxTable {
		return
	}
	m.table = make([]float64, m.n*(m.n-1)/2)
	for i := range m.n {
		gains := m.gains(i)
		for j := range m.later(i) {
			gains[j-i-1] = m.merges.Gain(i, j)
		}
	}
}

// gains are the gains of a job with each later one, or nil.
func (m *matcher) gains(i int) []float64 {
	if m.table == nil {
		return nil
	}
	from := i*(m.n-1) - i*(i-1)/2
	return m.table[from : from+m.n-1-i]
}

// greedy is the mate of each job, or None.
func greedy(n int, merges Merges) []int {
	m := &matcher{n: n, merges: merges, mates: make([][]edge, n), more: make([]bool, n), mate: make([]int, n)}
	for i := range m.mate {
		m.mate[i] = None
	}
	if merges == nil {
		return m.mate
	}
	for i := range n {
		if merges.Fresh(i) {
			m.fresh = append(m.fresh, i)
		}
	}
	if len(m.fresh) == 0 {
		return m.mate
	}
	m.fill()
	for i := range n {
		m.look(i)
		m.offer(i)
	}
	heap.Init(m)
	for len(m.offers) > 0 {
		e := heap.Pop(m).(edge)
		switch {
		case m.mate[e.i] != None:
		case m.mate[e.j] != None:
			before := len(m.offers)
			m.offer(int(e.i))
			if len(m.offers) > before {
				last := m.offers[before]
				m.offers = m.offers[:before]
				heap.Push(m, last)
			}
		default:
			m.mate[e.i], m.mate[e.j] = int(e.j), int(e.i)
		}
	}
	return m.mate
}

// look finds the best edges of a job to later jobs without a mate.
func (m *matcher) look(i int) {
	best := m.mates[i][:0]
	m.more[i] = false
	known, gain, floor := m.gains(i), 0.0, 0.0
	for j := range m.later(i) {
		if known != nil {
			gain = known[j-i-1]
		} else if m.mate[j] == None {
			gain = m.merges.Gain(i, j)
		}
		if !(gain > floor) || m.mate[j] != None {
			m.more[i] = m.more[i] || floor > 0
			continue
		}
		e := edge{gain, int32(i), int32(j)}
		at, _ := slices.BinarySearchFunc(best, e, func(have, e edge) int {
			if e.before(have) {
				return -1
			}
			return 1
		})
		best = slices.Insert(best, at, e)
		if len(best) > keep {
			best = slices.Delete(best, 0, 1)
			m.more[i] = true
		}
		if len(best) == keep {
			floor = best[0].gain // of equal ones the earlier counts
		}
	}
	m.mates[i] = best
}

// offer puts the best edge of a job to one without a mate on the heap's list.
func (m *matcher) offer(i int) {
	for {
		list := m.mates[i]
		for len(list) > 0 && m.mate[list[len(list)-1].j] != None {
			list = list[:len(list)-1]
		}
		if m.mates[i] = list; len(list) > 0 {
			m.offers = append(m.offers, list[len(list)-1])
			return
		}
		if !m.more[i] {
			return
		}
		m.look(i)
	}
}

// Len, Less, Swap, Push and Pop make a heap of the offers.
func (m *matcher) Len() int           { return len(m.offers) }
func (m *matcher) Less(a, b int) bool { return m.offers[a].before(m.offers[b]) }
func (m *matcher) Swap(a, b int)      { m.offers[a], m.offers[b] = m.offers[b], m.offers[a] }
func (m *matcher) Push(x any)         { m.offers = append(m.offers, x.(edge)) }

// Pop takes the last offer off the list.
func (m *matcher) Pop() any {
	last := m.offers[len(m.offers)-1]
	m.offers = m.offers[:len(m.offers)-1]
	return last
}
