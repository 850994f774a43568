package afs

import "math"

// contest finds which claim is to get the next GPU. It keeps the claims in an order,
// as the leaves of a tree whose nodes bound what the claims below them could win
// against. So most claims are not looked at again after each step.
type contest struct {
	free   []int64
	claims []*Claim
	need   []int64 // by GPU type: the most that a step of a claim takes
	leaves int     // a power of two
	nodes  []bid   // the children of i are 2i and 2i+1
	leads  []int   // AFS-L: those who win against all before them, up to the one who wins
}

// bid is what a claim offers for its next step, or the best of several claims. gains are
// divided by the GPUs that the step takes.
type bid struct {
	length float64 // how long it would take with what it has
	now    float64 // the gain in speed over the present speed; below 0: it takes no step
	then   float64 // the gain over the speed after the step
}

// none is the bid of a claim that takes no step.
var none = bid{math.Inf(1), -1, -1}

// bid is what a claim offers.
func (c *Claim) bid(free []int64) bid {
	if !c.steps(free) {
		return none
	}
	p, next := c.at(c.Size), c.at(c.Size+1)
	each := float64(max(1, c.Each))
	return bid{c.length(), (next - p) / p / each, (next - p) / next / each}
}

// slack is more than rounding makes of two bids that are equal.
const slack = 1e-9

// lowered is a bid that loses to all that could win against it, and to hardly any others.
func (b bid) lowered() bid { return bid{b.length, b.now * (1 - slack), b.then * (1 - slack)} }

// mayLose tells whether a claim with a lowered bid could lose to any of the claims below a
// node that stand after it.
func (b *bid) mayLose(to *bid) bool {
	return to.length < b.length && to.now >= b.then || to.then >= b.now
}

// loses is rule (3) of the paper, between a claim and one that stands after it: whether
// the second is to get the next GPU. A longer job gets it when its gain over its speed
// after the step is above the gain of the shorter one over its present speed. The gain
// of a step is divided by the GPUs that it takes, which is one in the paper. Of two
// claims of equal length the first keeps its place unless the other beats it.
func loses(s, j *Claim) bool {
	if j.length() < s.length() {
		return !beats(j, s)
	}
	return beats(s, j)
}

// beats tells whether b, the longer of two jobs, is to get the next GPU rather than a.
func beats(a, b *Claim) bool {
	pb, pb1 := b.at(b.Size), b.at(b.Size+1)
	pa, pa1 := a.at(a.Size), a.at(a.Size+1)
	return (pb1-pb)/pb1*float64(max(1, a.Each)) > (pa1-pa)/pa*float64(max(1, b.Each))
}

func newContest(free []int64, claims []*Claim) *contest {
	c := &contest{free: free, claims: claims, need: make([]int64, len(free)), leaves: 1}
	for c.leaves < len(claims) {
		c.leaves *= 2
	}
	c.nodes = make([]bid, 2*c.leaves)
	c.build()
	return c
}

// build makes the tree anew.
func (c *contest) build() {
	clear(c.need)
	for i := range c.leaves {
		c.nodes[c.leaves+i] = none
	}
	for i, claim := range c.claims {
		b := claim.bid(c.free)
		if c.nodes[c.leaves+i] = b; b.now > 0 && claim.Each > 0 {
			c.need[claim.Type] = max(c.need[claim.Type], claim.Each)
		}
	}
	for i := c.leaves - 1; i > 0; i-- {
		c.join(i)
	}
}

// join makes a node of its children.
func (c *contest) join(i int) {
	a, b := &c.nodes[2*i], &c.nodes[2*i+1]
	c.nodes[i] = bid{min(a.length, b.length), max(a.now, b.now), max(a.then, b.then)}
}

// grow gives a claim its next step. It tells whether there are too few GPUs now for some
// claims, which no longer take part.
func (c *contest) grow(i int) (fewer bool) {
	claim := c.claims[i]
	claim.Size++
	if t := max(claim.Type, 0); claim.Each > 0 {
		c.free[t] -= claim.Each
		fewer = c.free[t] < c.need[t]
	}
	if fewer {
		c.build()
		return true
	}
	at := c.leaves + i
	c.nodes[at] = claim.bid(c.free)
	for at /= 2; at > 0; at /= 2 {
		c.join(at)
	}
	return false
}

// compare goes on with the comparisons from a place on, up to the claim that wins.
func (c *contest) compare(from int) {
	for from < len(c.claims) {
		lead := none
		if n := len(c.leads); n > 0 {
			lead = c.nodes[c.leaves+c.leads[n-1]].lowered()
		}
		i := c.next(1, 0, c.leaves, from, &lead)
		if i < 0 {
			return
		}
		c.leads = append(c.leads, i)
		from = i + 1
	}
}

// next is the first claim from a place on that wins against the one that leads, which has
// a lowered bid, among those from lo up to hi, which stand below a node; -1 when there is
// none.
func (c *contest) next(node, lo, hi, from int, lead *bid) int {
	if b := &c.nodes[node]; hi <= from || b.now <= 0 || !lead.mayLose(b) {
		return -1
	}
	if hi-lo == 1 {
		if n := len(c.leads); n > 0 && !loses(c.claims[c.leads[n-1]], c.claims[lo]) {
			return -1
		}
		return lo
	}
	mid := (lo + hi) / 2
	if i := c.next(2*node, lo, mid, from, lead); i >= 0 {
		return i
	}
	return c.next(2*node+1, mid, hi, from, lead)
}

// unbeaten is the first claim that no other beats whatever their lengths; -1 when no
// claim takes a step.
func (c *contest) unbeaten() int {
	then := c.nodes[1].then
	if then <= 0 {
		return -1
	}
	at := 1
	for at < c.leaves {
		if at *= 2; c.nodes[at].now < then {
			at++
		}
	}
	return at - c.leaves
}
