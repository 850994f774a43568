package sia

import (
	"math"

	"github.com/norn-scheduler/norn/solve/choose"
)

// Kind is the nodes of one GPU type with equally many GPUs.
type Kind struct {
	Nodes int
	GPUs  int // of each node
}

// Option is a configuration: so many GPUs of a kind, on so many nodes.
type Option struct {
	Kind, Nodes, GPUs int

	// Value is the goodput there, in any unit that the options of a job share; 0 where
	// the job cannot be, or Unknown.
	Value float64
}

// Unknown is the value of an option of which nothing is known but its GPUs.
const Unknown = -1

// Options are the configurations of a kind: powers of two on one node, a whole one,
// and several whole ones. They can always be placed if they fit by number.
func (k Kind) Options(kind int) (all []Option) {
	if k.Nodes < 1 || k.GPUs < 1 {
		return nil
	}
	for g := 1; g < k.GPUs; g *= 2 {
		all = append(all, Option{Kind: kind, Nodes: 1, GPUs: g})
	}
	for n := 1; n <= k.Nodes; n++ {
		all = append(all, Option{Kind: kind, Nodes: n, GPUs: n * k.GPUs})
	}
	return all
}

// Row is a job of the choice.
type Row struct {
	Options []Option
	Now     int     // the option that it has; None: it has none of them
	Factor  float64 // what a change leaves of the value of every other option, 0 to 1; 1 for a job that waits
}

// None stands for no option.
const None = choose.None

// Normalise scales the values of a row so that the least of them becomes a number of
// GPUs: those of the least configuration of the job, 1 for a plain one. An unknown value
// is taken to be worth its GPUs.
func (r *Row) Normalise(gpus int) {
	least := math.Inf(1)
	for _, o := range r.Options {
		if o.Value > 0 {
			least = min(least, o.Value)
		}
	}
	for i := range r.Options {
		switch o := &r.Options[i]; {
		case o.Value == Unknown:
			o.Value = float64(o.GPUs)
		case o.Value > 0:
			o.Value *= float64(gpus) / least
		}
	}
}

// RestartFactor is what a change leaves of the goodput of a job of an age that was
// restarted so often, where each restart costs delay: the part of its life so far that
// would remain. It is 1 for a job that is younger than a restart. Times are in seconds.
func RestartFactor(age float64, restarts int, delay float64) float64 {
	if age < delay || age+delay <= 0 {
		return 1
	}
	return max(0, age-float64(restarts)*delay) / (age + delay)
}

// Objective is what makes a choice good: the sum over jobs of their values to a power,
// which is to be small where the power is negative, and a price for each job that gets
// nothing.
type Objective struct {
	Power float64 // not 0
	Price float64 // above 1, so that the least configuration is better than none

	// Round has values to the power rounded to hundredths, as in the published code.
	Round bool

	Limits choose.Limits
}

// most bounds a value to the power, as in the published code.
const most = 3000

// Cost is a value to the power: a cost where the power is negative, and a gain where it is
// not.
func (b Objective) Cost(value float64) float64 {
	x := math.Pow(value, b.Power)
	if b.Round {
		x = math.Round(x*100) / 100
	}
	return min(x, most)
}

// Of two choices that are equally good, the one in which more jobs keep what they have
// is taken, and then the one with fewer GPUs.
const (
	keeps   = 1e-7
	thrifty = 1e-10 // for each GPU
)

// gain is by how much an option is better than none.
func (b Objective) gain(r *Row, i int) float64 {
	tie := -thrifty * float64(r.Options[i].GPUs)
	if i == r.Now {
		tie += keeps
	}
	if b.Power < 0 {
		return b.Price - b.cost(r, i) + tie
	}
	return b.Price + b.cost(r, i) + tie
}

// cost is Cost of an option of a row.
func (b Objective) cost(r *Row, i int) float64 {
	if i == r.Now {
		return b.Cost(r.Options[i].Value)
	}
	return b.Cost(r.Options[i].Value * r.Factor)
}

// Choice is an option for each row, or None.
type Choice struct {
	Pick   []int
	Value  float64 // the objective: a cost where the power is negative
	Gap    float64 // how far from the best value it is at most, relative to it
	Proven bool    // the gap is within that asked for
}

// Choose finds the best choice such that no more GPUs of a kind are given than there are. It
// fails on values that are no numbers, and on capacities below 0.
func (b Objective) Choose(capacity []int64, rows []Row) (Choice, error) {
	jobs := make([][]choose.Option, len(rows))
	numbers := make([][]int, len(rows))
	for j := range rows {
		r := &rows[j]
		for i, o := range r.Options {
			if o.Value <= 0 {
				continue
			}
			if gain := b.gain(r, i); gain > 0 {
				jobs[j] = append(jobs[j], choose.Option{Kind: o.Kind, Need: int64(o.GPUs), Value: gain})
				numbers[j] = append(numbers[j], i)
			}
		}
	}
	a, err := choose.Best(capacity, jobs, b.Limits)
	if err != nil {
		return Choice{}, err
	}
	c := Choice{Pick: make([]int, len(rows)), Proven: a.Optimal}
	for j, k := range a.Pick {
		c.Pick[j] = None
		if k != choose.None {
			c.Pick[j] = numbers[j][k]
		}
	}
	c.Value = b.value(rows, c.Pick)
	if c.Value != 0 {
		c.Gap = (a.Bound - a.Value) / math.Abs(c.Value)
	}
	return c, nil
}

// value is the objective of a choice.
func (b Objective) value(rows []Row, pick []int) (sum float64) {
	for j, i := range pick {
		switch {
		case i != None:
			sum += b.cost(&rows[j], i)
		case b.Power < 0:
			sum += b.Price
		default:
			sum -= b.Price
		}
	}
	return sum
}
