package lucid

import (
	"cmp"
	"maps"
	"math"
	"slices"

	"github.com/norn-scheduler/norn/perf/predict"
)

// Grouping puts names of jobs into groups of like members. The most frequent
// names stand for themselves. The others are grouped with those that begin with
// the same letter, by affinity propagation over their edit distances (section
// 3.5.3). The letter, and that the most frequent stand for themselves, are
// those of the published notebook.
type grouping struct {
	usual int // names that stand for themselves
	most  int // of the others that are grouped, the most frequent; what is rarer stands for itself too
}

// published is the grouping of the published notebook, which knows no bound on how many
// are grouped: each round takes time in the square of the names with one first letter.
var published = grouping{usual: 100, most: 300}

// buckets gives each of the names that were seen, of which n tells how often, the name of
// its group.
func (g grouping) buckets(n map[string]int) map[string]string {
	names := slices.SortedFunc(maps.Keys(n), func(a, b string) int { return cmp.Or(cmp.Compare(n[b], n[a]), cmp.Compare(a, b)) })
	of := make(map[string]string, len(names))
	letters := map[byte][]string{}
	for i, name := range names {
		of[name] = name
		if i >= g.usual && i-g.usual < g.most && name != "" {
			letters[name[0]] = append(letters[name[0]], name)
		}
	}
	for _, alike := range letters {
		for i, k := range propagate(likeness(alike)) {
			of[alike[i]] = alike[k]
		}
	}
	return of
}

// tie is by how much points that come first are preferred where nothing else tells them
// apart: too little to outweigh one letter in a group of as many as there may be.
const tie = 1e-3

// likeness is how alike two names are: their edit distance, below 0. Equal distances
// are told apart by a little, so that which name is the exemplar of a group does not
// hang on rounding: the one that comes first.
func likeness(names []string) [][]float64 {
	s := make([][]float64, len(names))
	for i := range s {
		s[i] = make([]float64, len(names))
		for k := range s[i] {
			s[i][k] = -float64(predict.Distance(names[i], names[k])) - tie*float64(k)/float64(len(names))
		}
	}
	return s
}

// Affinity propagation ends after so many rounds, or when the exemplars have stayed the
// same for as many as settled. Messages are damped. With the 200, 15 and 0.9 of the
// published notebook it ends before small groups have come together.
const (
	rounds  = 1000
	settled = 100
	damping = 0.5
)

// propagate finds exemplars among points by how alike they are, s[i][k] that point i is
// represented by k, and returns the exemplar of each. How much a point likes to be one
// is the median likeness: Frey and Dueck, "Clustering by Passing Messages Between Data
// Points", Science 2007. Where it comes to none, each point is its own.
func propagate(s [][]float64) []int {
	n := len(s)
	if n == 0 {
		return nil
	}
	like := median(s)
	for i := range s {
		s[i][i] = like - tie*float64(i)/float64(n)
	}
	r, a := square(n), square(n)
	var last []int
	for round, same := 0, 0; round < rounds && same < settled; round++ {
		respond(s, r, a)
		offer(r, a)
		now := exemplars(r, a)
		if same++; len(now) == 0 || !slices.Equal(now, last) {
			same = 0
		}
		last = now
	}
	return assign(s, last)
}

// respond updates what each point tells each other: how much better it would represent
// it than the next best one.
func respond(s, r, a [][]float64) {
	for i := range s {
		best, first, second := 0, math.Inf(-1), math.Inf(-1)
		for k := range s {
			switch v := a[i][k] + s[i][k]; {
			case v > first:
				best, first, second = k, v, first
			case v > second:
				second = v
			}
		}
		for k := range s {
			other := first
			if k == best {
				other = second
			}
			if math.IsInf(other, -1) {
				other = 0 // there is no other
			}
			r[i][k] = damping*r[i][k] + (1-damping)*(s[i][k]-other)
		}
	}
}

// offer updates what each point offers each other: how much the others want to be
// represented by it.
func offer(r, a [][]float64) {
	for k := range r {
		sum := r[k][k]
		for i := range r {
			if i != k {
				sum += max(0, r[i][k])
			}
		}
		for i := range r {
			v := sum - r[k][k]
			if i != k {
				v = min(0, sum-max(0, r[i][k]))
			}
			a[i][k] = damping*a[i][k] + (1-damping)*v
		}
	}
}

func exemplars(r, a [][]float64) (of []int) {
	for k := range r {
		if r[k][k]+a[k][k] > 0 {
			of = append(of, k)
		}
	}
	return of
}

// assign gives each point the exemplar that is most like it.
func assign(s [][]float64, exemplars []int) []int {
	of := make([]int, len(s))
	for i := range of {
		of[i] = i
		for n, k := range exemplars {
			if k == i {
				of[i] = i
				break
			}
			if n == 0 || s[i][k] > s[i][of[i]] {
				of[i] = k
			}
		}
	}
	return of
}

func square(n int) [][]float64 {
	m := make([][]float64, n)
	for i := range m {
		m[i] = make([]float64, n)
	}
	return m
}

// median is the median of all values of a matrix.
func median(m [][]float64) float64 {
	all := slices.Concat(m...)
	slices.Sort(all)
	n := len(all)
	return (all[(n-1)/2] + all[n/2]) / 2
}

// nearest is the group of a name that was not seen: that of the name with the same first
// letter that is most similar, by at least so much as the published estimator of names asks for
// (0.6), or none.
func nearest(name string, of map[string]string) string {
	best, found := 0.6, ""
	for seen, group := range of {
		if name == "" || seen == "" || seen[0] != name[0] {
			continue
		}
		if s := predict.Similarity(name, seen); s > best || s == best && (found == "" || group < found) {
			best, found = s, group
		}
	}
	return found
}
