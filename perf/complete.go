package perf

import (
	"math"
	"math/rand/v2"
	"slices"
)

// Complete is a table of pairs in which unmeasured pairs are estimated from
// measured ones. Both sorts of jobs must have been measured in at least one
// pair.
//
// References are sorts that were measured beside each other on all GPU types of
// the table. They are found by leaving out, one after the other, the sort of
// which most is missing. Their rows are approximated by a matrix of low rank.
// Any other sort has a fingerprint: its speeds beside some of the references.
// The rest of its row is filled in from that matrix. The sort is then taken for
// the reference whose row points most in the same direction (the least cosine
// distance). Two sorts are estimated to do beside each other what the
// references they are taken for do. Measured pairs stay as they are.
//
// Source: Narayanan et al., "Heterogeneity-Aware Cluster Scheduling Policies for Deep
// Learning Workloads", OSDI 2020, section 6, and its code: rank 10, weight 0.01; after
// Paragon (Delimitrou and Kozyrakis, ASPLOS 2013).
func Complete(p Pairs) Pairs {
	c := newCompletion(p)
	if len(c.refs) < 2 {
		return p
	}
	c.match()
	out := p
	out.Speed = make(map[Pair]float64, len(p.Speed))
	for pair, s := range p.Speed {
		out.Speed[pair] = s
	}
	for a, like := range c.like {
		for b, other := range c.like {
			for t, typ := range c.types {
				pair := Pair{c.sorts[a], c.sorts[b], typ}
				if _, ok := p.Speed[pair]; !ok && like >= 0 && other >= 0 {
					out.Speed[pair] = c.rows[like][c.at(other, t)]
				}
			}
		}
	}
	return out
}

// The figures of the estimator.
const (
	completeRank   = 10
	completeWeight = 1e-2 // of the size of factors, against the error
	completePasses = 20
)

// completion is a table on its way to completeness.
type completion struct {
	p     Pairs
	sorts []string // in order
	types []string

	refs []int       // sorts that are references
	rows [][]float64 // of each reference, by place among them: by other reference and type
	like []int       // by sort: the reference that it is taken for; -1: not known
	side [][]float64 // factors of the columns, completeRank each
}

func newCompletion(p Pairs) *completion {
	c := &completion{p: p}
	for pair := range p.Speed {
		c.sorts = append(c.sorts, pair.Job, pair.Beside)
		c.types = append(c.types, pair.Type)
	}
	slices.Sort(c.sorts)
	slices.Sort(c.types)
	c.sorts, c.types = slices.Compact(c.sorts), slices.Compact(c.types)
	c.choose()
	for _, a := range c.refs {
		row := make([]float64, len(c.refs)*len(c.types))
		for k, b := range c.refs {
			for t := range c.types {
				row[c.at(k, t)], _ = c.measured(a, b, t)
			}
		}
		c.rows = append(c.rows, row)
	}
	return c
}

// at is the place of a reference and a type in a row.
func (c *completion) at(ref, t int) int { return ref*len(c.types) + t }

func (c *completion) measured(a, b, t int) (float64, bool) {
	s, ok := c.p.Speed[Pair{c.sorts[a], c.sorts[b], c.types[t]}]
	return s, ok
}

// choose finds the references.
func (c *completion) choose() {
	missing := make([]int, len(c.sorts)) // of a sort, in its row and its column
	lacks := func(a, b int) (n int) {
		for t := range c.types {
			if _, ok := c.measured(a, b, t); !ok {
				n++
			}
		}
		return n
	}
	for a := range c.sorts {
		c.refs = append(c.refs, a)
		for b := range c.sorts {
			missing[a] += lacks(a, b) + lacks(b, a)
		}
	}
	for len(c.refs) > 0 {
		worst := 0
		for i, a := range c.refs {
			if missing[a] >= missing[c.refs[worst]] {
				worst = i
			}
		}
		a := c.refs[worst]
		if missing[a] == 0 {
			return
		}
		c.refs = slices.Delete(c.refs, worst, worst+1)
		for _, b := range c.refs {
			missing[b] -= lacks(a, b) + lacks(b, a)
		}
	}
}

// match finds for each sort the reference that it is taken for.
func (c *completion) match() {
	c.factor()
	c.like = make([]int, len(c.sorts))
	for a := range c.sorts {
		if i := slices.Index(c.refs, a); i >= 0 {
			c.like[a] = i
			continue
		}
		row, ok := c.complete(a)
		if c.like[a] = -1; ok {
			c.like[a] = nearest(c.rows, row)
		}
	}
}

// complete is the row of a sort that is no reference; ok is false when nothing of it was
// measured.
func (c *completion) complete(a int) (row []float64, ok bool) {
	row = make([]float64, len(c.side))
	known := make([]bool, len(row))
	for k, b := range c.refs {
		for t := range c.types {
			i := c.at(k, t)
			row[i], known[i] = c.measured(a, b, t)
			ok = ok || known[i]
		}
	}
	if !ok {
		return nil, false
	}
	own := leastSquares(c.side, func(i int) (float64, bool) { return row[i], known[i] })
	for i := range row {
		if !known[i] {
			row[i] = min(1, max(slowest, dotProduct(own, c.side[i])))
		}
	}
	return row, true
}

// factor factors the rows of the references, by turns for rows and columns.
func (c *completion) factor() {
	r := rand.New(rand.NewPCG(1, uint64(len(c.refs)))) // where to begin
	rows := make([][]float64, len(c.rows))
	c.side = make([][]float64, len(c.rows[0]))
	for i := range c.side {
		c.side[i] = make([]float64, completeRank)
		for k := range c.side[i] {
			c.side[i][k] = r.Float64()
		}
	}
	for range completePasses {
		for i := range rows {
			rows[i] = leastSquares(c.side, func(k int) (float64, bool) { return c.rows[i][k], true })
		}
		for k := range c.side {
			c.side[k] = leastSquares(rows, func(i int) (float64, bool) { return c.rows[i][k], true })
		}
	}
}

// leastSquares is the x with the least sum of (x·factor - value)² over what is known, and
// completeWeight x².
func leastSquares(factors [][]float64, value func(i int) (float64, bool)) []float64 {
	const n = completeRank
	var a [n][n]float64
	x := make([]float64, n)
	for i, f := range factors {
		v, ok := value(i)
		if !ok {
			continue
		}
		for r := range n {
			x[r] += v * f[r]
			for k := range r + 1 {
				a[r][k] += f[r] * f[k]
			}
		}
	}
	for r := range n { // Cholesky: what is added to the diagonal keeps it above zero
		a[r][r] += completeWeight
		for k := range r + 1 {
			sum := a[r][k]
			for i := range k {
				sum -= a[r][i] * a[k][i]
			}
			if r == k {
				a[r][r] = math.Sqrt(sum)
			} else {
				a[r][k] = sum / a[k][k]
			}
		}
	}
	for r := range n {
		for k := range r {
			x[r] -= a[r][k] * x[k]
		}
		x[r] /= a[r][r]
	}
	for r := n - 1; r >= 0; r-- {
		for k := r + 1; k < n; k++ {
			x[r] -= a[k][r] * x[k]
		}
		x[r] /= a[r][r]
	}
	return x
}

func dotProduct(a, b []float64) float64 {
	sum := 0.0
	for i := range a {
		sum += a[i] * b[i]
	}
	return sum
}

// nearest is the row that points most in the same direction as one, the first of equals.
func nearest(rows [][]float64, row []float64) int {
	best, most := -1, math.Inf(-1)
	for i, r := range rows {
		if near := dotProduct(r, row) / math.Sqrt(dotProduct(r, r)); near > most {
			best, most = i, near
		}
	}
	return best
}
