package solver

import (
	"math"
	"slices"
)

// unit is a job, or two that are matched and may be merged or not.
type unit struct {
	i, j     int // j is None for a job alone
	one, two []option
	both     []option // of the pair; none: the two are not merged
	split    bool     // the two may be apart
}

// units are the units of a matching, in the order of their first jobs.
func (p *Problem) units(mate []int) []unit {
	var out []unit
	var ways []Way
	for i := range p.Jobs {
		switch j := mate[i]; {
		case j == None:
			out = append(out, unit{i: i, j: None, one: p.options(&p.Jobs[i], 0, nil)})
		case j > i:
			ways = p.Merges.Ways(i, j, ways[:0])
			out = append(out, unit{i: i, j: j, one: p.options(&p.Jobs[i], 0, nil), two: p.options(&p.Jobs[j], 0, nil), both: p.pairOptions(ways), split: true})
		}
	}
	return out
}

// leastPaid is the option that costs least where a GPU has a price, and what it costs then.
// Of equal ones it is the smallest.
func leastPaid(opts []option, price float64) (at int, cost float64) {
	cost = math.Inf(1)
	for k := range opts {
		if c := opts[k].cost + price*float64(opts[k].gpus); c < cost {
			at, cost = k, c
		}
	}
	return at, cost
}

// best is what a unit takes where a GPU has a price: what it costs with what it pays, what
// it costs alone, and how many GPUs it gets.
func (u *unit) best(price float64) (paid, cost float64, gpus int) {
	k, paid := leastPaid(u.one, price)
	cost, gpus = u.one[k].cost, u.one[k].gpus
	if u.j == None {
		return paid, cost, gpus
	}
	k, second := leastPaid(u.two, price)
	paid, cost, gpus = paid+second, cost+u.two[k].cost, gpus+u.two[k].gpus
	if k, together := leastPaid(u.both, price); together <= paid && len(u.both) > 0 {
		return together, u.both[k].cost, u.both[k].gpus
	}
	return paid, cost, gpus
}

// slack is the part of a cost by which sums of costs may be off.
const slack = 1e-9

// prune leaves out the options with which no division is as good as one that is known. At
// any price of a GPU, all that units pay, less what all GPUs are worth, is less than any
// division costs. An option that makes a unit pay more by as much as a known division costs
// more than that is in no best division.
func (p *Problem) prune(units []unit) {
	price, known, bound := p.price(units)
	gap := known - bound + slack*(1+math.Abs(known))
	keep := func(opts []option, most float64) []option {
		return slices.DeleteFunc(opts, func(o option) bool { return o.cost+price*float64(o.gpus) > most })
	}
	for k := range units {
		u := &units[k]
		least, _, _ := u.best(price)
		if u.j == None {
			u.one = keep(u.one, least+gap)
			continue
		}
		_, first := leastPaid(u.one, price)
		_, second := leastPaid(u.two, price)
		u.both = keep(u.both, least+gap)
		if u.split = first+second <= least+gap; u.split {
			u.one, u.two = keep(u.one, least+gap-second), keep(u.two, least+gap-first)
		}
	}
}

// price is about the price of a GPU at which as many are taken as there are. It also finds
// what a division costs in which everybody takes what is best at about that price, as far as
// there are GPUs, and what no division costs less than.
func (p *Problem) price(units []unit) (price, known, bound float64) {
	low, high := 0.0, 1.0
	for p.taken(units, high) > p.GPUs {
		low, high = high, 2*high
	}
	if p.taken(units, 0) <= p.GPUs {
		high = 0
	}
	for high-low > 1e-12*high {
		if middle := (low + high) / 2; p.taken(units, middle) > p.GPUs {
			low = middle
		} else {
			high = middle
		}
	}
	left := p.GPUs - p.taken(units, high)
	bound = -high * float64(p.GPUs)
	for k := range units {
		paid, cost, gpus := units[k].best(high)
		bound += paid
		if _, other, more := units[k].best(low); more-gpus <= left && other < cost {
			cost, left = other, left-(more-gpus)
		}
		known += cost
	}
	return high, known, bound
}

// taken is how many GPUs units take at a price.
func (p *Problem) taken(units []unit, price float64) (sum int) {
	for k := range units {
		_, _, gpus := units[k].best(price)
		sum += gpus
	}
	return sum
}
