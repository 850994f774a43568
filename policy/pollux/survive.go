package pollux

import (
	"cmp"
	"math"
	"slices"
	"sort"
)

// survive leaves as many candidates alive as there may be: front by front, of the last
// one those that stand apart most (NSGA-II).
func (g *genetic) survive() {
	all := append(g.alive, g.born...)
	g.born = g.born[:0]
	slices.SortStableFunc(all, func(a, b *candidate) int {
		return cmp.Or(cmp.Compare(b.fitness, a.fitness), cmp.Compare(b.utility, a.utility))
	})
	sizes := fronts(all)
	room := g.size
	for f, start := 0, byFront(all); f < len(sizes); f++ {
		crowd(start[f])
		if room <= 0 || sizes[f] > room {
			slices.SortStableFunc(start[f], func(a, b *candidate) int { return cmp.Compare(b.crowd, a.crowd) })
			for _, c := range start[f][max(0, room):] {
				c.front = -1
			}
		}
		room -= sizes[f]
	}
	kept := all[:0:0]
	for _, c := range all {
		if c.front >= 0 {
			kept = append(kept, c)
			continue
		}
		delete(g.known, c.key)
		g.spare = append(g.spare, c)
	}
	g.alive = kept
}

// fronts notes the front of each candidate, which are sorted by fitness, and returns
// how many each front has. The least utility that a front has so far falls from front
// to front.
func fronts(sorted []*candidate) (sizes []int) {
	var last []*candidate // of each front
	for _, c := range sorted {
		c.front = sort.Search(len(last), func(i int) bool { return !last[i].dominates(c) })
		if c.front == len(last) {
			last, sizes = append(last, nil), append(sizes, 0)
		}
		last[c.front] = c
		sizes[c.front]++
	}
	return sizes
}

func byFront(sorted []*candidate) (out [][]*candidate) {
	for _, c := range sorted {
		for c.front >= len(out) {
			out = append(out, nil)
		}
		out[c.front] = append(out[c.front], c)
	}
	return out
}

// crowd notes how far the neighbours of each candidate of a front are, which is sorted
// by fitness.
func crowd(front []*candidate) {
	n := len(front)
	first, last := front[0], front[n-1]
	width, height := first.fitness-last.fitness, last.utility-first.utility
	for i, c := range front {
		if c.crowd = math.Inf(1); i == 0 || i == n-1 {
			continue
		}
		c.crowd = 0
		if width > 0 {
			c.crowd += (front[i-1].fitness - front[i+1].fitness) / width
		}
		if height > 0 {
			c.crowd += (front[i+1].utility - front[i-1].utility) / height
		}
	}
}
