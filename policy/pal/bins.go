package pal

import (
	"cmp"
	"math"
	"slices"
)

// Bins groups scores that are about the same. It returns for each score the value of its bin: the mean
// of the scores in it. A score above the mean by more than so many standard deviations is a bin of its
// own. The others are divided by k-means into 2 to most bins, as many as give the best mean silhouette;
// of equal ones the fewest. The division is the exact minimum of k-means, which numbers on a line have.
func Bins(scores []float64, sigma float64, most int) []float64 {
	out := slices.Clone(scores)
	order := make([]int, 0, len(scores))
	limit := outlier(scores, sigma)
	for i, x := range scores {
		if x <= limit {
			order = append(order, i)
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(scores[a], scores[b]) })
	line := newLine(scores, order)
	begin := 0
	for _, end := range line.best(most) {
		for _, i := range order[begin:end] {
			out[i] = line.mean(begin, end)
		}
		begin = end
	}
	return out
}

// outlier is the score above which one is a bin of its own.
func outlier(scores []float64, sigma float64) float64 {
	n, sum := float64(len(scores)), 0.0
	for _, x := range scores {
		sum += x
	}
	mean, squares := sum/n, 0.0
	for _, x := range scores {
		squares += (x - mean) * (x - mean)
	}
	if n < 2 {
		return math.Inf(1)
	}
	return mean + sigma*math.Sqrt(squares/(n-1))
}

// line is numbers in order, with the sums of the first of them. Divisions of it are lists of ends.
type line struct {
	at       []float64 // less their mean, so that squares stay exact
	shift    float64
	sum, sqr []float64 // of the first 0, 1, ...
}

func newLine(scores []float64, order []int) *line {
	l := &line{at: make([]float64, len(order)), sum: make([]float64, len(order)+1), sqr: make([]float64, len(order)+1)}
	for _, i := range order {
		l.shift += scores[i] / float64(len(order))
	}
	for k, i := range order {
		x := scores[i] - l.shift
		l.at[k], l.sum[k+1], l.sqr[k+1] = x, l.sum[k]+x, l.sqr[k]+x*x
	}
	return l
}

// mean is that of the numbers from one place to another. Equal ones have themselves as mean, to the bit.
func (l *line) mean(from, to int) float64 {
	if l.at[from] == l.at[to-1] {
		return l.at[from] + l.shift
	}
	return (l.sum[to]-l.sum[from])/float64(to-from) + l.shift
}

// cost is the sum of squared distances from their mean.
func (l *line) cost(from, to int) float64 {
	s := l.sum[to] - l.sum[from]
	return max(0, l.sqr[to]-l.sqr[from]-s*s/float64(to-from))
}

// best is the division with the best mean silhouette.
func (l *line) best(most int) []int {
	n, different := len(l.at), 0
	for i := range l.at {
		if i == 0 || l.at[i] != l.at[i-1] {
			different++
		}
	}
	if different < 2 {
		return []int{n}
	}
	var chosen []int
	value := math.Inf(-1)
	for _, ends := range l.divisions(min(most, different)) {
		if s := l.silhouette(ends); s > value {
			chosen, value = ends, s
		}
	}
	return chosen
}

// divisions are the cheapest ones into 2, 3, ... parts. Where the last part of a prefix begins grows
// with the prefix, which halves the search again and again.
func (l *line) divisions(most int) (all [][]int) {
	n := len(l.at)
	costs := make([]float64, n+1) // of the prefixes, in as many parts as so far
	for i := 1; i <= n; i++ {
		costs[i] = l.cost(0, i)
	}
	var begins [][]int // of the last part, by parts - 2 and prefix
	for parts := 2; parts <= most; parts++ {
		next, begin := make([]float64, n+1), make([]int, n+1)
		l.extend(costs, next, begin, parts, n, parts-1, n-1)
		costs, begins = next, append(begins, begin)
		ends := make([]int, parts)
		ends[parts-1] = n
		for p := parts - 1; p > 0; p-- {
			ends[p-1] = begins[p-1][ends[p]]
		}
		all = append(all, ends)
	}
	return all
}

// extend finds for the prefixes from low to high where their last part begins, which is from first to
// last.
func (l *line) extend(costs, next []float64, begin []int, low, high, first, last int) {
	if low > high {
		return
	}
	mid := (low + high) / 2
	next[mid] = math.Inf(1)
	for b := first; b <= min(last, mid-1); b++ {
		if c := costs[b] + l.cost(b, mid); c < next[mid] {
			next[mid], begin[mid] = c, b
		}
	}
	l.extend(costs, next, begin, low, mid-1, first, begin[mid])
	l.extend(costs, next, begin, mid+1, high, begin[mid], last)
}

// silhouette is the mean of (b-a)/max(a,b) over all numbers, a being the mean distance to the others
// of its part, and b to those of the next part. A number alone in its part counts 0.
func (l *line) silhouette(ends []int) float64 {
	total, begin := 0.0, 0
	for p, end := range ends {
		for i := begin; i < end && end-begin > 1; i++ {
			x := l.at[i]
			left := x*float64(i-begin) - (l.sum[i] - l.sum[begin])
			right := l.sum[end] - l.sum[i] - x*float64(end-i)
			a, b := (left+right)/float64(end-begin-1), math.Inf(1)
			if p > 0 {
				before := 0
				if p > 1 {
					before = ends[p-2]
				}
				b = x - (l.sum[begin]-l.sum[before])/float64(begin-before)
			}
			if p < len(ends)-1 {
				b = min(b, (l.sum[ends[p+1]]-l.sum[end])/float64(ends[p+1]-end)-x)
			}
			if m := max(a, b); m > 0 {
				total += (b - a) / m
			}
		}
		begin = end
	}
	return total / float64(len(l.at))
}
