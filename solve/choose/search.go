package choose

import (
	"math"
	"slices"
)

// way is the cheapest way found to an amount in use: what the picks so far cost
// in regret, which way it came from, and the pick of the last job.
type way struct {
	use    uint64 // by kind, packed
	cost   float64
	before int32
	pick   int32
}

// layer has the ways after one more job, in order of use.
type layer []way

// move is a pick that a job may make.
type move struct {
	pick   int32 // index in jobs[j], or None
	use    uint64
	kind   int
	need   int64
	regret float64
}

// search finds the best answer, or shows that there is no better one than we
// have. Budgets are tried one after the other, each four times the one before:
// what costs less than a budget is found within it, and most often the cost of
// the best answer is far below the gap. It is false when steps were used up.
func (p *problem) search(steps *int64, near float64) (bool, error) {
	shift, ok := p.width()
	if !ok {
		return false, errSize
	}
	top := p.bound
	gap := p.bound - p.value
	budget := max(gap/256, near)
	for {
		whole := budget >= gap
		if whole {
			budget = gap
		}
		found, cost, pick, ok := p.within(budget, shift, steps)
		switch {
		case !ok:
			return false, nil
		case found:
			p.answer, p.value = pick, top-cost
			p.bound = p.value
			return true, nil
		case whole:
			p.bound = p.value
			return true, nil
		}
		p.bound = top - budget
		if p.bound-p.value <= near {
			return true, nil
		}
		budget *= 4
	}
}

// within looks for the answer that costs least, if that is less than budget.
func (p *problem) within(budget float64, shift []uint, steps *int64) (found bool, cost float64, pick []int, ok bool) {
	pick = make([]int, len(p.jobs))
	var free []int // jobs with several moves
	moves := make([][]move, len(p.jobs))
	start := way{}
	used := make([]int64, len(p.capacity))
	for j := range p.jobs {
		moves[j] = p.moves(j, budget, shift)
		if len(moves[j]) > 1 {
			free = append(free, j)
			continue
		}
		m := moves[j][0]
		pick[j] = int(m.pick)
		start.cost += m.regret
		if m.pick != None {
			used[m.kind] += m.need
		}
	}
	for k, u := range used {
		if u > p.capacity[k] {
			return false, 0, nil, true
		}
		start.use += uint64(u) << shift[k]
	}
	slices.SortStableFunc(free, func(a, b int) int { return int(largest(moves[b]) - largest(moves[a])) })
	rest := p.rest(free, moves)
	layers := []layer{{start}}
	s := sweep{p: p, shift: shift, budget: budget}
	for i, j := range free {
		next, fits := s.extend(layers[i], moves[j], rest[i+1], *steps)
		if !fits {
			return false, 0, nil, false
		}
		*steps -= int64(len(next))
		if len(next) == 0 {
			return false, 0, nil, true
		}
		layers = append(layers, next)
	}
	last := layers[len(free)]
	at, least := -1, budget
	for i, w := range last {
		if c := w.cost + s.unsold(w.use, nil); c < least {
			at, least = i, c
		}
	}
	if at < 0 {
		return false, 0, nil, true
	}
	for i := len(free) - 1; i >= 0; i-- {
		w := layers[i+1][at]
		pick[free[i]] = int(w.pick)
		at = int(w.before)
	}
	return true, least, pick, true
}

func largest(moves []move) int64 {
	n := int64(0)
	for _, m := range moves {
		n = max(n, m.need)
	}
	return n
}

// moves are the picks of a job whose regret is within the budget; the best pick
// has none, so there is always one.
func (p *problem) moves(j int, budget float64, shift []uint) []move {
	_, most := p.best(j, p.price)
	var out []move
	if most < budget || most == 0 {
		out = append(out, move{pick: None, regret: most})
	}
	for k, o := range p.jobs[j] {
		r := most - (o.Value - p.price[o.Kind]*float64(o.Need))
		if r < budget || r == 0 {
			out = append(out, move{pick: int32(k), use: uint64(o.Need) << shift[o.Kind], kind: o.Kind, need: o.Need, regret: r})
		}
	}
	return out
}

// rest is, for each number of free jobs that have picked, the most that the
// others can use of each kind.
func (p *problem) rest(free []int, moves [][]move) [][]int64 {
	out := make([][]int64, len(free)+1)
	out[len(free)] = make([]int64, len(p.capacity))
	for i := len(free) - 1; i >= 0; i-- {
		out[i] = slices.Clone(out[i+1])
		for k := range p.capacity {
			n := int64(0)
			for _, m := range moves[free[i]] {
				if m.pick != None && m.kind == k {
					n = max(n, m.need)
				}
			}
			out[i][k] += n
		}
	}
	return out
}

// sweep carries ways from one job to the next.
type sweep struct {
	p      *problem
	shift  []uint
	budget float64
	buffer layer
}

// used is the amount in use of a kind.
func (s *sweep) used(use uint64, kind int) int64 {
	use >>= s.shift[kind]
	if kind+1 < len(s.shift) {
		use &= 1<<(s.shift[kind+1]-s.shift[kind]) - 1
	}
	return int64(use)
}

// unsold is what the capacity costs that stays free even if the remaining jobs
// use all that they can.
func (s *sweep) unsold(use uint64, rest []int64) float64 {
	sum := 0.0
	for k, c := range s.p.capacity {
		left := c - s.used(use, k)
		if rest != nil {
			left -= rest[k]
		}
		if left > 0 {
			sum += s.p.price[k] * float64(left)
		}
	}
	return sum
}

// extend lets one job pick. Each move shifts all ways by the same amount, so that
// they stay in order, and the results are merged. It is false when there would be more
// than limit.
func (s *sweep) extend(from layer, moves []move, rest []int64, limit int64) (layer, bool) {
	var out layer
	for _, m := range moves {
		s.buffer = append(s.buffer[:0], out...)
		have := s.buffer
		out = out[:0]
		i := 0
		for at, w := range from {
			cost := w.cost + m.regret
			if cost >= s.budget || m.pick != None && s.used(w.use, m.kind)+m.need > s.p.capacity[m.kind] {
				continue
			}
			next := way{use: w.use + m.use, cost: cost, before: int32(at), pick: m.pick}
			if cost+s.unsold(next.use, rest) >= s.budget {
				continue
			}
			for i < len(have) && have[i].use < next.use {
				out = append(out, have[i])
				i++
			}
			if i < len(have) && have[i].use == next.use {
				if have[i].cost <= next.cost {
					continue
				}
				i++
			}
			out = append(out, next)
			if int64(len(out)) > limit || len(out) == math.MaxInt32 {
				return nil, false
			}
		}
		out = append(out, have[i:]...)
	}
	return slices.Clone(out), true
}
