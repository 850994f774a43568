package solver

import "math"

// TwoStage finds a good solution for any number of jobs: a greedy matching on the
// gain of pairs, and then the best division of GPUs among pairs and jobs, in which
// a pair may be taken apart again. Given the matching, the division is the best
// one. It takes time in proportion to the square of the number of jobs, and to
// entities x GPUs x sizes.
func TwoStage(p *Problem) (Solution, error) {
	if err := p.check(); err != nil {
		return Solution{}, err
	}
	d := &division{p: p, row: make([]float64, p.GPUs+1)}
	d.divide(greedy(len(p.Jobs), p.Merges))
	return d.answer(), nil
}

// division is the dynamic program. Its rows have one entry for each number of GPUs
// from 0 to all: the least cost of some entities with no more than so many.
type division struct {
	p     *Problem
	row   []float64
	steps []step
	free  [][]float64 // rows to write on
}

// step is one entity added to a row: what it gets for each number of GPUs.
type step struct {
	i, j  int // j is None for a job alone
	opts  []option
	pick  []int16
	apart []bool // of a pair: where it is better taken apart
}

// divide adds pairs and jobs one by one.
func (d *division) divide(mate []int) {
	var ways []Way
	for i := range d.p.Jobs {
		j := mate[i]
		if j != None && j < i {
			continue
		}
		before := d.row
		alone := d.add(step{i: i, j: None, opts: d.p.options(&d.p.Jobs[i], 0, nil)}, before)
		if j == None {
			d.row = alone
			d.give(before)
			continue
		}
		apart := d.add(step{i: j, j: None, opts: d.p.options(&d.p.Jobs[j], 0, nil)}, alone)
		ways = d.p.Merges.Ways(i, j, ways[:0])
		d.row = d.add(step{i: i, j: j, opts: d.p.pairOptions(ways), apart: make([]bool, len(before))}, before)
		last := &d.steps[len(d.steps)-1]
		for g := range d.row {
			if apart[g] < d.row[g] {
				d.row[g], last.apart[g] = apart[g], true
			}
		}
		d.give(before)
		d.give(alone)
		d.give(apart)
	}
}

// add makes the row with one entity more.
func (d *division) add(s step, row []float64) []float64 {
	out := d.take()
	s.pick = make([]int16, len(row))
	for g := range row {
		least, at := math.Inf(1), int16(-1)
		for k := range s.opts {
			need := s.opts[k].gpus
			if need > g {
				break
			}
			if c := row[g-need] + s.opts[k].cost; c < least {
				least, at = c, int16(k)
			}
		}
		out[g], s.pick[g] = least, at
	}
	d.steps = append(d.steps, s)
	return out
}

func (d *division) take() []float64 {
	if n := len(d.free); n > 0 {
		row := d.free[n-1]
		d.free = d.free[:n-1]
		return row
	}
	return make([]float64, d.p.GPUs+1)
}

func (d *division) give(row []float64) { d.free = append(d.free, row) }

// answer goes back through the steps. Those of a matched pair are three: the first
// alone, the second alone, and the pair, one or two of which count.
func (d *division) answer() Solution {
	s := Solution{Jobs: make([]Choice, len(d.p.Jobs)), Cost: d.row[d.p.GPUs]}
	left := d.p.GPUs
	alone := func(st *step) {
		o := st.opts[st.pick[left]]
		left -= o.gpus
		s.Jobs[st.i] = Choice{o.gpus, None, 0}
	}
	for k := len(d.steps) - 1; k >= 0; k-- {
		st := &d.steps[k]
		switch {
		case st.j == None:
			alone(st)
		case st.apart[left]:
			alone(&d.steps[k-1])
			alone(&d.steps[k-2])
			k -= 2
		default:
			o := st.opts[st.pick[left]]
			left -= o.gpus
			s.Jobs[st.i], s.Jobs[st.j] = Choice{o.gpus, st.j, o.tag}, Choice{o.gpus, st.i, o.tag}
			k -= 2
		}
	}
	return s
}
