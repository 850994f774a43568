package boost

import "math"

// cell is what a bin of a histogram adds up, in one number so that one addition
// adds both: the sum of residuals in its upper bits and the number of rows in
// its lower ones.
type cell int64

const (
	countBits = 20
	sumBits   = 63 - countBits - 1
)

func one(residual int64) cell    { return cell(residual<<countBits + 1) }
func (c cell) count() int64      { return int64(c) & (1<<countBits - 1) }
func (c cell) sum() int64        { return int64(c) >> countBits }
func (c cell) square() float64   { s := float64(c.sum()); return s * s / float64(c.count()) }
func (c cell) mean() float64     { return float64(c.sum()) / float64(c.count()) }
func (c cell) less(v int64) cell { return c - cell(v<<countBits) }

// trainer grows the trees of one model.
type trainer struct {
	cfg      Config
	model    *Model
	scale    float64    // residual 1 is this many units
	features []feature  // that are not the same everywhere
	bins     int        // of all features
	codes    []uint16   // row by row: the bin of each feature
	columns  [][]uint16 // the same, feature by feature
	left     []cell     // by row: what is left to explain

	rows    []int32 // in the order of the leaves of the tree
	scratch []int32
	spare   [][]cell // histograms
	grew    bool     // the tree explains anything
}

// part is a node that is being grown: rows[from:to] and what is left of them.
type part struct {
	node     int32
	from, to int
	depth    int
	total    cell
}

// split is the best one found for a node.
type split struct {
	gain    float64
	feature int
	bin     int32 // the last one that goes left
	left    cell
}

// grow adds tree after tree, until one finds nothing to explain.
func (t *trainer) grow() {
	t.rows = make([]int32, len(t.left))
	t.scratch = make([]int32, len(t.left))
	for range t.cfg.Trees {
		nodes := len(t.model.nodes)
		t.grew = false
		root := part{node: t.add(1), to: len(t.rows)}
		for i := range t.rows {
			t.rows[i] = int32(i)
			root.total += t.left[i]
		}
		hist := t.histogram(t.rows)
		t.divide(root, hist)
		if !t.grew {
			t.model.nodes = t.model.nodes[:nodes]
			return
		}
		t.model.roots = append(t.model.roots, root.node)
	}
}

// add makes room for n nodes and returns the number of the first.
func (t *trainer) add(n int) int32 {
	t.model.nodes = append(t.model.nodes, make([]node, n)...)
	return int32(len(t.model.nodes) - n)
}

// histogram adds up rows by bin.
func (t *trainer) histogram(rows []int32) []cell {
	var hist []cell
	if n := len(t.spare); n > 0 {
		hist, t.spare = t.spare[n-1], t.spare[:n-1]
		clear(hist)
	} else {
		hist = make([]cell, t.bins)
	}
	n := len(t.features)
	for _, row := range rows {
		left := t.left[row]
		for _, code := range t.codes[int(row)*n : int(row)*n+n] {
			hist[code] += left
		}
	}
	return hist
}

// divide grows the subtree below a node from its histogram, which it takes.
func (t *trainer) divide(p part, hist []cell) {
	best := t.best(p.total, hist)
	if best.gain <= 0 {
		t.spare = append(t.spare, hist)
		t.leaf(p)
		return
	}
	f := &t.features[best.feature]
	children := t.add(2)
	t.model.nodes[p.node] = node{at: f.cuts[best.bin-f.first], feature: f.column, left: children}
	mid := t.partition(p, best)
	l := part{children, p.from, mid, p.depth + 1, best.left}
	r := part{children + 1, mid, p.to, p.depth + 1, p.total - best.left}
	t.below(l, r, hist)
}

// below goes on with the children of a node: it adds up the smaller one and
// makes the histogram of the larger one from the parent's.
func (t *trainer) below(l, r part, hist []cell) {
	if t.final(l) && t.final(r) {
		t.spare = append(t.spare, hist)
		t.leaf(l)
		t.leaf(r)
		return
	}
	small, large := l, r
	if small.to-small.from > large.to-large.from {
		small, large = r, l
	}
	own := t.histogram(t.rows[small.from:small.to])
	for i, c := range own {
		hist[i] -= c
	}
	t.divideOrEnd(small, own)
	t.divideOrEnd(large, hist)
}

func (t *trainer) divideOrEnd(p part, hist []cell) {
	if !t.final(p) {
		t.divide(p, hist)
		return
	}
	t.spare = append(t.spare, hist)
	t.leaf(p)
}

// final tells whether a node cannot be split any more.
func (t *trainer) final(p part) bool {
	return p.depth == t.cfg.Depth || p.to-p.from < 2*t.cfg.Leaf
}

// best is the split after which the least is left to explain; its gain is 0 when
// none helps. Of equal splits the first feature's first one is taken.
func (t *trainer) best(total cell, hist []cell) split {
	var best split
	whole := total.square()
	least := int64(t.cfg.Leaf)
	n := total.count()
	for k := range t.features {
		f := &t.features[k]
		var left cell
		for b := f.first; b < f.first+int32(len(f.cuts)); b++ {
			if hist[b] == 0 {
				continue
			}
			left += hist[b]
			if left.count() < least {
				continue
			}
			if n-left.count() < least {
				break
			}
			if gain := left.square() + (total - left).square() - whole; gain > best.gain {
				best = split{gain, k, b, left}
			}
		}
	}
	if best.gain <= whole*1e-12 {
		best.gain = 0 // no more than a rounding error
	}
	return best
}

// partition orders the rows of a node so that those that go left come first,
// and returns where the others begin.
func (t *trainer) partition(p part, s split) (mid int) {
	codes, last := t.columns[s.feature], uint16(s.bin)
	rows := t.rows[p.from:p.to]
	right := t.scratch[:len(rows)]
	lefts, rights := 0, 0
	for _, row := range rows { // without a branch, which nobody could predict
		goes := 0
		if codes[row] <= last {
			goes = 1
		}
		rows[lefts], right[rights] = row, row
		lefts, rights = lefts+goes, rights+1-goes
	}
	copy(rows[lefts:], right[:rights])
	return p.from + lefts
}

// leaf ends a branch: it explains a share of the mean of what is left.
func (t *trainer) leaf(p part) {
	step := int64(math.Round(t.cfg.Rate * p.total.mean()))
	t.model.nodes[p.node] = node{at: float64(step) / t.scale}
	if step == 0 {
		return
	}
	t.grew = true
	for _, row := range t.rows[p.from:p.to] {
		t.left[row] = t.left[row].less(step)
	}
}
