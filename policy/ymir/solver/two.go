package solver

import "math"

// TwoStage finds a good solution for any number of jobs: a greedy matching on the
// gain of pairs, and then the best division of GPUs among pairs and jobs, in which
// a pair may be taken apart again. Given the matching, the division is the best
// one. The matching takes time in proportion to the square of the number of jobs. The
// division takes time in proportion to entities x sizes x the numbers of GPUs that those
// may leave to the others, after what cannot be in a best division is left out.
func TwoStage(p *Problem) (Solution, error) {
	if err := p.check(); err != nil {
		return Solution{}, err
	}
	units := p.units(greedy(len(p.Jobs), p.Merges))
	p.prune(units)
	d := division{p: p}
	d.divide(units)
	return d.answer(), nil
}

// division is the dynamic program.
type division struct {
	p     *Problem
	last  row
	steps []step
	free  [][]float64 // memory of rows
}

// row is the least cost of some entities with no more than so many GPUs, from low on. It has
// those numbers of GPUs that the entities after them can leave.
type row struct {
	low  int
	cost []float64
}

// step is one entity added to a row: what it gets for each number of GPUs.
type step struct {
	i, j  int // j is None for a job alone
	opts  []option
	low   int // number of GPUs of the first pick
	pick  []int16
	apart []bool // of a pair: where it is better taken apart
}

// span is the least and the most GPUs that an option takes.
func span(opts []option) (least, most int) {
	least = math.MaxInt
	for _, o := range opts {
		least, most = min(least, o.gpus), max(most, o.gpus)
	}
	return least, most
}

// span is the least and the most GPUs that a unit takes.
func (u *unit) span() (least, most int) {
	if u.j == None {
		return span(u.one)
	}
	least, most = span(u.both)
	if u.split {
		l1, m1 := span(u.one)
		l2, m2 := span(u.two)
		least, most = min(least, l1+l2), max(most, m1+m2)
	}
	return least, most
}

// divide adds units one by one. Those after a unit leave from low to high GPUs to it and to
// those before.
func (d *division) divide(units []unit) {
	low, high := make([]int, len(units)+1), make([]int, len(units)+1)
	low[len(units)], high[len(units)] = d.p.GPUs, d.p.GPUs
	for k := len(units) - 1; k >= 0; k-- {
		least, most := units[k].span()
		low[k], high[k] = max(0, low[k+1]-most), high[k+1]-least
	}
	d.last = row{low[0], make([]float64, high[0]-low[0]+1)}
	for k := range units {
		d.unit(&units[k], low[k+1], high[k+1])
	}
}

// unit adds a job, or a pair together and apart.
func (d *division) unit(u *unit, low, high int) {
	before := d.last
	defer func() { d.give(before) }()
	if u.j == None {
		d.last = d.add(step{i: u.i, j: None, opts: u.one}, before, low, high)
		return
	}
	least, most := span(u.two)
	if !u.split || least > high {
		d.last = d.add(step{i: u.i, j: u.j, opts: u.both}, before, low, high)
		return
	}
	alone := d.add(step{i: u.i, j: None, opts: u.one}, before, max(0, low-most), high-least)
	apart := d.add(step{i: u.j, j: None, opts: u.two}, alone, low, high)
	d.give(alone)
	if d.last = apart; len(u.both) == 0 {
		return
	}
	d.last = d.add(step{i: u.i, j: u.j, opts: u.both}, before, low, high)
	last := &d.steps[len(d.steps)-1]
	last.apart = make([]bool, len(apart.cost))
	for g := range apart.cost {
		if apart.cost[g] < d.last.cost[g] {
			d.last.cost[g], last.apart[g] = apart.cost[g], true
		}
	}
	d.give(apart)
}

// add makes the row with one entity more, for numbers of GPUs from low to high.
func (d *division) add(s step, before row, low, high int) row {
	out := row{low, d.take(high - low + 1)}
	s.low, s.pick = low, make([]int16, high-low+1)
	for g := low; g <= high; g++ {
		least, at := math.Inf(1), int16(-1)
		for k := range s.opts {
			need := s.opts[k].gpus
			if need > g {
				break
			}
			if c := before.cost[g-need-before.low] + s.opts[k].cost; c < least {
				least, at = c, int16(k)
			}
		}
		out.cost[g-low], s.pick[g-low] = least, at
	}
	d.steps = append(d.steps, s)
	return out
}

func (d *division) take(n int) []float64 {
	if k := len(d.free); k > 0 && cap(d.free[k-1]) >= n {
		costs := d.free[k-1][:n]
		d.free = d.free[:k-1]
		return costs
	}
	return make([]float64, n)
}

func (d *division) give(r row) { d.free = append(d.free, r.cost) }

// answer goes back through the steps. Those of a matched pair that may be taken apart are
// three: the first alone, the second alone, and the pair, one or two of which count.
func (d *division) answer() Solution {
	s := Solution{Jobs: make([]Choice, len(d.p.Jobs)), Cost: d.last.cost[0]}
	left := d.p.GPUs
	alone := func(st *step) {
		o := st.opts[st.pick[left-st.low]]
		left -= o.gpus
		s.Jobs[st.i] = Choice{o.gpus, None, 0}
	}
	for k := len(d.steps) - 1; k >= 0; k-- {
		st := &d.steps[k]
		switch {
		case st.j == None:
			alone(st)
		case st.apart != nil && st.apart[left-st.low]:
			alone(&d.steps[k-1])
			alone(&d.steps[k-2])
			k -= 2
		default:
			o := st.opts[st.pick[left-st.low]]
			left -= o.gpus
			s.Jobs[st.i], s.Jobs[st.j] = Choice{o.gpus, st.j, o.tag}, Choice{o.gpus, st.i, o.tag}
			if st.apart != nil {
				k -= 2
			}
		}
	}
	return s
}
