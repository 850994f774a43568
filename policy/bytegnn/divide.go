package bytegnn

import (
	"cmp"
	"math"
	"slices"

	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/perf"
)

// Claim is a job as far as the cores of one node are divided. It has GPUs there, and so much memory
// for each of them; its grid tells how fast it is with so many cores for each.
type Claim struct {
	GPUs   int
	Grid   *perf.Grid
	Memory unit.Bytes
	Most   unit.Milli // more cores for each GPU are of no use; 0: as the grid says
}

// need is the cores for each GPU from which on a job is as fast as it can be with its memory.
func (c *Claim) need() unit.Milli {
	top := c.Grid.CPUs[len(c.Grid.CPUs)-1]
	best := c.Grid.Rate(perf.Ration{CPU: top, Memory: c.Memory}) * (1 - c.Grid.Slack)
	for _, cores := range c.Grid.CPUs {
		if c.Grid.Rate(perf.Ration{CPU: cores, Memory: c.Memory}) >= best {
			top = cores
			break
		}
	}
	if c.Most > 0 {
		top = min(top, c.Most)
	}
	return max(1, top)
}

// Rate is the speed of a job with so many cores in all over that with all that it needs.
func (c *Claim) Rate(cores unit.Milli) float64 {
	need := c.need()
	full := c.Grid.Rate(perf.Ration{CPU: need, Memory: c.Memory})
	if full <= 0 || c.GPUs == 0 {
		return 1
	}
	return min(1, c.Grid.Rate(perf.Ration{CPU: cores / unit.Milli(c.GPUs), Memory: c.Memory})/full)
}

// segment is a range of cores of a claim over which its speed grows evenly.
type segment struct {
	claim    int
	from, to unit.Milli
	gain     float64 // GPUs kept busy for each thousandth of a core
}

// segments are the ranges of a claim in which more cores make it faster, the steepest first: the
// upper hull of its speed, from no core to those that it needs.
func (c *Claim) segments(at int, out []segment) []segment {
	type point struct {
		cores unit.Milli
		busy  float64
	}
	hull := []point{{}}
	need := c.need()
	add := func(cores unit.Milli) {
		p := point{cores * unit.Milli(c.GPUs), float64(c.GPUs) * c.Rate(cores*unit.Milli(c.GPUs))}
		slope := func(a, b point) float64 { return (b.busy - a.busy) / float64(b.cores-a.cores) }
		for len(hull) > 1 && slope(hull[len(hull)-2], hull[len(hull)-1]) <= slope(hull[len(hull)-1], p) {
			hull = hull[:len(hull)-1]
		}
		hull = append(hull, p)
	}
	for _, cores := range c.Grid.CPUs {
		if cores < need {
			add(cores)
		}
	}
	add(need)
	for i, b := range hull[1:] {
		a := hull[i]
		if gain := (b.busy - a.busy) / float64(b.cores-a.cores); gain > 0 {
			out = append(out, segment{at, a.cores, b.cores, gain})
		}
	}
	return out
}

// ByGain divides cores for the largest number of GPUs kept busy, core by core to whom they make
// fastest. Nobody has less than the part `least` of the proportional share for its GPUs, or than it
// needs. share is that share for each GPU. The result is exact where speeds are concave in cores,
// as the hull of a grid is.
//
// Source: specification of ByteGNN, section 2.5, variant sum (a fractional knapsack).
func ByGain(cores unit.Milli, claims []Claim, share unit.Milli, least float64) []unit.Milli {
	out := make([]unit.Milli, len(claims))
	var all []segment
	for i := range claims {
		floor := min(claims[i].need(), max(1, unit.Milli(least*float64(share))))
		out[i] = min(floor*unit.Milli(claims[i].GPUs), cores)
		cores -= out[i]
		all = claims[i].segments(i, all)
	}
	slices.SortStableFunc(all, func(a, b segment) int { return cmp.Compare(b.gain, a.gain) })
	for _, s := range all {
		if more := min(cores, s.to-max(s.from, out[s.claim])); more > 0 {
			out[s.claim] += more
			cores -= more
		}
	}
	return out
}

// Evenly divides cores in proportion to needs: all are slowed down alike where cores are short, and
// have the same head room where they are not.
//
// Source: specification of ByteGNN, section 2.5.
func Evenly(cores unit.Milli, claims []Claim) []unit.Milli {
	out := make([]unit.Milli, len(claims))
	sum := 0.0
	for i := range claims {
		sum += float64(claims[i].need()) * float64(claims[i].GPUs)
	}
	for i := range claims {
		need := claims[i].need() * unit.Milli(claims[i].GPUs)
		out[i] = max(1, unit.Milli(math.Floor(float64(cores)*float64(need)/sum)))
		if claims[i].Most > 0 {
			out[i] = min(out[i], max(1, claims[i].Most*unit.Milli(claims[i].GPUs)))
		}
	}
	return out
}
