package lucid

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/policy/kit/profiles"
)

// Tree tells the score of a job from what it uses alone (Packing Analyze Model, section
// 3.5.1 of the paper): a decision tree that can be read. The zero Tree tells Jumbo.
type Tree struct{ nodes []split }

// split is a question about one thing, or a leaf, which has no yes: a node's children come
// after it.
type split struct {
	what    int     // of traits
	at      float64 // jobs with no more than that go to yes
	yes, no int32
	score   Score // of most jobs there
}

// traits are what a tree looks at.
type traits [4]float64

var traitNames = [len(traits{})]string{"GPU use", "GPU memory", "memory traffic", "mixed precision"}

func traitsOf(u *profiles.Use) traits {
	x := traits{u.GPU, float64(u.Memory) / float64(unit.GiB), u.Bandwidth, 0}
	if u.Mixed {
		x[3] = 1
	}
	return x
}

// Bounds of a tree.
const (
	treeDepth = 6
	treeLeaf  = 2     // jobs in a leaf, at least
	treeWorth = 0.015 // of all jobs that a split must tell better: the others are pruned
)

// GrowTree grows a tree from jobs of which the score is known, by the least impurity (Gini), and
// prunes the splits that are worth too little. There must be as many scores as uses.
func GrowTree(uses []profiles.Use, scores []Score) *Tree {
	g := grower{scores: scores, tree: new(Tree), least: treeWorth * float64(len(uses))}
	all := make([]int, len(uses))
	for i := range uses {
		g.rows, all[i] = append(g.rows, traitsOf(&uses[i])), i
	}
	if len(all) > 0 {
		g.grow(all, 0)
	}
	return g.tree
}

type grower struct {
	rows   []traits
	scores []Score
	tree   *Tree
	least  float64 // jobs that a split must tell better
}

// counts are jobs by score.
type counts [3]int

func (c counts) most() (s Score) {
	for k := range c {
		if c[k] > c[s] {
			s = Score(k)
		}
	}
	return s
}

// impurity is the Gini impurity times the number of jobs.
func (c counts) impurity() float64 {
	n, squares := 0.0, 0.0
	for _, k := range c {
		n, squares = n+float64(k), squares+float64(k)*float64(k)
	}
	if n == 0 {
		return 0
	}
	return n - squares/n
}

func (g *grower) count(of []int) (c counts) {
	for _, i := range of {
		c[g.scores[i]]++
	}
	return c
}

// grow adds the node for some jobs, and returns how many of them its leaves tell wrongly.
func (g *grower) grow(of []int, depth int) (wrong int) {
	c, at := g.count(of), len(g.tree.nodes)
	g.tree.nodes = append(g.tree.nodes, split{score: c.most()})
	wrong = len(of) - c[c.most()]
	if depth == treeDepth || wrong == 0 {
		return wrong
	}
	s, yes, no := g.best(of, c)
	if len(yes) == 0 {
		return wrong
	}
	s.score = c.most()
	s.yes = int32(len(g.tree.nodes))
	left := g.grow(yes, depth+1)
	s.no = int32(len(g.tree.nodes))
	left += g.grow(no, depth+1)
	if float64(wrong-left) < g.least || wrong == left {
		g.tree.nodes = g.tree.nodes[:at+1] // pruned
		return wrong
	}
	g.tree.nodes[at] = s
	return left
}

// best is the split that leaves the least impurity, the first of equals, and the jobs on each
// side of it; none where there is no such split.
func (g *grower) best(of []int, c counts) (s split, yes, no []int) {
	least := c.impurity() - 1e-9
	order := slices.Clone(of)
	for what := range traitNames {
		slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(g.rows[a][what], g.rows[b][what]) })
		var left counts
		right := c
		for i := 0; i+1 < len(order); i++ {
			left[g.scores[order[i]]]++
			right[g.scores[order[i]]]--
			here, next := g.rows[order[i]][what], g.rows[order[i+1]][what]
			if here == next || i+1 < treeLeaf || len(order)-i-1 < treeLeaf {
				continue
			}
			if rest := left.impurity() + right.impurity(); rest < least-1e-9 {
				least, s = rest, split{what: what, at: here/2 + next/2}
				yes, no = slices.Clone(order[:i+1]), slices.Clone(order[i+1:])
			}
		}
	}
	return s, yes, no
}

// Score is the score of a job that uses so much alone.
func (t *Tree) Score(u *profiles.Use) Score {
	if len(t.nodes) == 0 {
		return Jumbo
	}
	x, n := traitsOf(u), &t.nodes[0]
	for n.yes != 0 {
		n = &t.nodes[n.next(&x)]
	}
	return n.score
}

// next is the child of a split to which a job goes.
func (s *split) next(x *traits) int32 {
	if x[s.what] <= s.at {
		return s.yes
	}
	return s.no
}

// because says in a clause how the tree comes to the score of a job.
func (t *Tree) because(u *profiles.Use) string {
	var way []string
	x := traitsOf(u)
	for at := int32(0); int(at) < len(t.nodes) && t.nodes[at].yes != 0; at = t.nodes[at].next(&x) {
		n := &t.nodes[at]
		side := "up to"
		if n.next(&x) == n.no {
			side = "above"
		}
		way = append(way, fmt.Sprintf("%s %s %.2g", traitNames[n.what], side, n.at))
	}
	if len(way) == 0 {
		return "as nearly all jobs"
	}
	return strings.Join(way, ", ")
}
