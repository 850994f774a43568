package partition

import (
	"cmp"
	"slices"
)

// level is a graph of one level: vertices with weights, and undirected edges with weights.
type level struct {
	weight []int64
	start  []int32
	to     []int32
	edge   []int64
	coarse []int32 // by vertex: that of the next level
}

// slack is by how much a part may be larger than the mean.
const slack = 1.05

// Multilevel is the partition by coarsening, growing and refining: few edges between parts, and
// vertices even to 5 % where the graph allows it.
func Multilevel(g *Graph, parts int) []int32 {
	levels := []*level{finest(g)}
	for {
		last := levels[len(levels)-1]
		if len(last.weight) <= 30*parts {
			break
		}
		next := last.coarsen(int64(g.Vertices()) / int64(10*parts))
		if len(next.weight) > len(last.weight)*19/20 {
			break
		}
		levels = append(levels, next)
	}
	of := levels[len(levels)-1].grow(parts)
	for i := len(levels) - 1; ; i-- {
		levels[i].refine(of, parts)
		if i == 0 {
			return of
		}
		fine := make([]int32, len(levels[i-1].weight))
		for v, c := range levels[i-1].coarse {
			fine[v] = of[c]
		}
		of = fine
	}
}

// build makes a level of lists of neighbours, which it sorts and joins.
func build(weight []int64, lists [][]half) *level {
	l := &level{weight: weight, start: make([]int32, len(weight)+1)}
	for v, list := range lists {
		slices.SortFunc(list, func(a, b half) int { return cmp.Compare(a.to, b.to) })
		for i := 0; i < len(list); {
			to, sum := list[i].to, int64(0)
			for ; i < len(list) && list[i].to == to; i++ {
				sum += list[i].weight
			}
			if int(to) != v {
				l.to, l.edge = append(l.to, to), append(l.edge, sum)
			}
		}
		l.start[v+1] = int32(len(l.to))
	}
	return l
}

// half is an edge as one of its ends has it.
type half struct {
	to     int32
	weight int64
}

// finest is the graph itself, its edges in both directions.
func finest(g *Graph) *level {
	weight, lists := make([]int64, g.Vertices()), make([][]half, g.Vertices())
	for v := range weight {
		weight[v] = 1
		for _, u := range g.In(int32(v)) {
			lists[v] = append(lists[v], half{u, 1})
			lists[u] = append(lists[u], half{int32(v), 1})
		}
	}
	return build(weight, lists)
}

// near are the edges of a vertex.
func (l *level) near(v int32) (to []int32, weight []int64) {
	return l.to[l.start[v]:l.start[v+1]], l.edge[l.start[v]:l.start[v+1]]
}

// coarsen joins vertices in pairs along their heaviest edges, those with few neighbours first; no
// pair is heavier than most.
func (l *level) coarsen(most int64) *level {
	n := len(l.weight)
	order := make([]int32, n)
	for v := range order {
		order[v] = int32(v)
	}
	slices.SortStableFunc(order, func(a, b int32) int { return cmp.Compare(l.start[a+1]-l.start[a], l.start[b+1]-l.start[b]) })
	l.coarse = make([]int32, n)
	for v := range l.coarse {
		l.coarse[v] = -1
	}
	var weight []int64
	for _, v := range order {
		if l.coarse[v] >= 0 {
			continue
		}
		best, heavy := int32(-1), int64(0)
		to, w := l.near(v)
		for i, u := range to {
			if l.coarse[u] < 0 && w[i] > heavy && l.weight[u]+l.weight[v] <= max(2, most) {
				best, heavy = u, w[i]
			}
		}
		l.coarse[v] = int32(len(weight))
		weight = append(weight, l.weight[v])
		if best >= 0 {
			l.coarse[best] = l.coarse[v]
			weight[l.coarse[v]] += l.weight[best]
		}
	}
	lists := make([][]half, len(weight))
	for v := range int32(n) {
		to, w := l.near(v)
		c := l.coarse[v]
		for i, u := range to {
			lists[c] = append(lists[c], half{l.coarse[u], w[i]})
		}
	}
	return build(weight, lists)
}

// grow gives each part vertices that are nearer to those that it has than to those of others, the
// part with least first.
func (l *level) grow(parts int) []int32 {
	of := make([]int32, len(l.weight))
	for v := range of {
		of[v] = None
	}
	sums := make([]int64, parts)
	pull := make([][]int64, parts) // by part and vertex: weight of the edges to the part
	for p := range pull {
		pull[p] = make([]int64, len(of))
	}
	all := make([]int64, len(of)) // by vertex: weight of the edges to all parts
	for range of {
		p := 0
		for q := range sums {
			if sums[q] < sums[p] {
				p = q
			}
		}
		best, most := int32(-1), int64(0)
		for v := range int32(len(of)) {
			if of[v] != None {
				continue
			}
			if gain := 2*pull[p][v] - all[v]; best < 0 || gain > most || gain == most && l.weight[v] > l.weight[best] {
				best, most = v, gain
			}
		}
		of[best] = int32(p)
		sums[p] += l.weight[best]
		to, w := l.near(best)
		for i, u := range to {
			pull[p][u] += w[i]
			all[u] += w[i]
		}
	}
	return of
}

// passes is how often vertices are looked at on each level.
const passes = 8

// refine moves vertices to the part to which most of their edges go, where it has room, and out of
// parts that are too large.
func (l *level) refine(of []int32, parts int) {
	sums, total := make([]int64, parts), int64(0)
	for v, w := range l.weight {
		sums[of[v]] += w
		total += w
	}
	most := int64(slack*float64(total)/float64(parts)) + 1
	pull := make([]int64, parts)
	for range passes {
		moved := 0
		for v := range int32(len(of)) {
			to, w := l.near(v)
			clear(pull)
			for i, u := range to {
				pull[of[u]] += w[i]
			}
			was, best := of[v], of[v]
			full := sums[was] > most
			for p := range int32(parts) {
				if p == was || sums[p]+l.weight[v] > most || full && sums[p]+l.weight[v] >= sums[was] {
					continue
				}
				if best == was && full || pull[p] > pull[best] || pull[p] == pull[best] && best != was && sums[p] < sums[best] {
					best = p
				}
			}
			if best != was {
				of[v] = best
				sums[was], sums[best] = sums[was]-l.weight[v], sums[best]+l.weight[v]
				moved++
			}
		}
		if moved == 0 {
			return
		}
	}
}
