package afs

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"time"
)

// Claim is an elastic job that wants GPUs. Its first step is that to its least
// size, each further step is one task more.
type Claim struct {
	Left  float64                  // work left, as seconds at speed 1; +Inf: nothing is known
	First int64                    // what the least size needs, in thousandths of a GPU
	Each  int64                    // what each further task needs
	Steps int                      // as many sizes it has
	Speed func(typ, n int) float64 // at its n-th size (from 1) on GPUs of a type; 0: it cannot run there
	Types []int                    // those that it accepts, best first

	Units int           // AFS-P: units of time that it has had
	Kept  time.Duration // AFS-P: until it has had the unit that it is in; 0: it is in none
	Type  int           // on which it runs, NoType when it does not

	Size   int // the answer: how many steps it has got
	speeds []float64
}

// NoType is the GPU type of a claim that has none yet.
const NoType = -1

// at is the speed after so many steps.
func (c *Claim) at(n int) float64 {
	if n == 0 {
		return 0
	}
	for len(c.speeds) <= n {
		c.speeds = append(c.speeds, c.Speed(c.Type, len(c.speeds)))
	}
	return c.speeds[n]
}

// length is how long it would take with what it has.
func (c *Claim) length() float64 {
	if p := c.at(c.Size); p > 0 {
		return c.Left / p
	}
	return math.Inf(1)
}

// steps tells whether it has a next step that fits and makes it faster.
func (c *Claim) steps(free []int64) bool {
	return c.Size > 0 && c.Size < c.Steps && (c.Each == 0 || c.Type != NoType && c.Each <= free[c.Type]) && c.at(c.Size+1) > c.at(c.Size)
}

// Divide is AFS-L: it divides the free GPUs of each type, in thousandths, among
// claims. Everybody gets the least size first, the shortest at that size before
// the others; then one task at a time goes to the claim that wins against the others.
//
// That is the one which is left after each claim was compared with the winner among
// those before it. The relation is not quite transitive (TestCycle), so that their order
// counts.
func Divide(free []int64, claims []*Claim) {
	free = slices.Clone(free)
	enter(free, claims)
	c := newContest(free, claims)
	c.compare(0)
	for len(c.leads) > 0 {
		last := len(c.leads) - 1
		i := c.leads[last]
		c.leads = c.leads[:last]
		if c.grow(i) {
			c.leads, i = c.leads[:0], 0 // those who led before may no longer take part
		}
		c.compare(i)
	}
}

// enter gives out the least sizes.
func enter(free []int64, claims []*Claim) {
	type entry struct {
		*Claim
		length float64
	}
	order := make([]entry, 0, len(claims))
	for _, c := range claims {
		c.Size, c.speeds = 0, append(c.speeds[:0], 0)
		order = append(order, entry{c, c.shortest()})
	}
	slices.SortStableFunc(order, func(a, b entry) int { return cmp.Compare(a.length, b.length) })
	for _, e := range order {
		e.admit(free)
	}
}

// shortest is how long it would take at its least size, on the GPU type that it
// likes best.
func (c *Claim) shortest() float64 {
	for _, t := range c.Types {
		if p := c.Speed(t, 1); p > 0 {
			return c.Left / p
		}
	}
	return math.Inf(1)
}

// admit gives a claim its least size, on the type where it runs or the first that
// has room, or on several when none alone has.
func (c *Claim) admit(free []int64) bool {
	if c.First == 0 {
		c.Size = 1
		return true
	}
	if c.Type != NoType {
		return c.takeFirst(c.Type, free)
	}
	sum := int64(0)
	for _, t := range c.Types {
		if c.takeFirst(t, free) {
			return true
		}
		if c.Speed(t, 1) > 0 {
			sum += free[t]
		}
	}
	if sum < c.First {
		return false
	}
	need := c.First
	for _, t := range c.Types {
		if c.Speed(t, 1) <= 0 || free[t] == 0 || need == 0 {
			continue
		}
		n := min(need, free[t])
		free[t] -= n
		need -= n
		c.Type = t // the last and least of them: it will hardly grow
	}
	c.Size = 1
	return true
}

func (c *Claim) takeFirst(t int, free []int64) bool {
	if free[t] < c.First || c.Speed(t, 1) <= 0 {
		return false
	}
	free[t] -= c.First
	c.Type, c.Size = t, 1
	return true
}

// DivideBlind is AFS-P: lengths are not known. Where there is room for everybody
// at her least size, the rest goes one task at a time to a claim that no other beats
// whichever of the two were shorter; of several such claims r chooses one. Otherwise
// those who are in the middle of a unit of time keep their place, and the others come
// in by how many units they have had.
func DivideBlind(free []int64, claims []*Claim, r *rand.Rand) {
	free = slices.Clone(free)
	order := slices.Clone(claims)
	slices.SortStableFunc(order, func(a, b *Claim) int {
		if in := b.Kept > 0; in != (a.Kept > 0) {
			if in {
				return 1
			}
			return -1
		}
		if a.Kept > 0 {
			return 0
		}
		return cmp.Compare(a.Units, b.Units)
	})
	for _, c := range order {
		c.Size, c.speeds = 0, append(c.speeds[:0], 0)
		c.admit(free)
	}
	r.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
	c := newContest(free, order)
	for {
		i := c.unbeaten()
		if i < 0 {
			return
		}
		c.grow(i)
	}
}
