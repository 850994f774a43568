package gavel

import (
	"encoding/binary"
	"math"
	"slices"

	"github.com/norn-scheduler/norn/solve/blocks"
	"github.com/norn-scheduler/norn/solve/pairs"
)

// Pair is two jobs of one size that share GPUs (space sharing), by their places in
// Problem.Jobs, A < B.
type Pair struct{ A, B int }

// together is the steps per second of two jobs that share GPUs of a type. ok is false
// where they cannot, or where they do not gain by it: then they may as well take turns.
func (p *Problem) together(a, b *Job, t int) (sa, sb float64, ok bool) {
	if a.Kind < 0 || b.Kind < 0 || a.Size != b.Size || !p.fits(a, t) || !p.fits(b, t) {
		return 0, 0, false
	}
	fa, fb := p.Beside[a.Kind][b.Kind][t], p.Beside[b.Kind][a.Kind][t]
	return fa * a.Speed[t], fb * b.Speed[t], fa > 0 && fb > 0 && fa+fb > 1+1e-9
}

// Throughputs is the steps per second of each job with an allocation, its pairs
// included.
func (p *Problem) Throughputs(a Allocation) []float64 {
	sums := make([]float64, len(p.Jobs))
	for m := range p.Jobs {
		sums[m] = p.Jobs[m].throughput(a[m])
	}
	for i, x := range a[len(p.Jobs):] {
		pair := p.Pairs[i]
		for t, v := range x {
			if v > 0 {
				sa, sb, _ := p.together(&p.Jobs[pair.A], &p.Jobs[pair.B], t)
				sums[pair.A] += sa * v
				sums[pair.B] += sb * v
			}
		}
	}
	return sums
}

// class is jobs for which a program is the same, so that it has an answer in which all
// of them have the same: one block stands for them.
type class struct {
	jobs []int
	j    *Job
	goal goal
	gain []float64 // by type: what a step per second is worth
}

// packing is a program with pairs, which are found as they are needed: at the prices of
// one answer those are added that would make it better, until there are none.
type packing struct {
	p       *Problem
	classes []class
	of      []int // by job: its class, or -1
	row     []int // by type: the joint row, or -1
	lp      pairs.Program
	types   [][]int // by class: of its variables
	known   map[column]bool
	columns []column
}

// column is a pair of classes on a type, a <= b.
type column struct{ a, b, t int }

// packed is program for jobs that may share.
func (p *Problem) packed(level float64, gain func(j *Job, t int) float64, goals func(m int) goal) (*outcome, error) {
	k := packing{p: p, known: map[column]bool{}}
	k.classify(gain, goals)
	k.write(level)
	out := &outcome{Allocation: p.nothing(), prices: make([]float64, len(p.Jobs)), slacks: make([]float64, len(p.Jobs))}
	if len(k.classes) == 0 {
		return out, nil
	}
	for _, pair := range p.Pairs { // found worth it before
		for t := range p.Capacity {
			k.add(k.of[pair.A], k.of[pair.B], t)
		}
	}
	s, err := k.solve()
	if err != nil {
		return nil, err
	}
	out.level = s.Level
	for c := range k.classes {
		for _, m := range k.classes[c].jobs {
			out.prices[m], out.slacks[m] = s.Prices[c], s.Slacks[c]
		}
	}
	out.Allocation = k.deal(s)
	return out, nil
}

// classify finds the classes, in order of their first jobs.
func (k *packing) classify(gain func(j *Job, t int) float64, goals func(m int) goal) {
	p := k.p
	k.of = make([]int, len(p.Jobs))
	seen := map[string]int{}
	var key []byte
	for m := range p.Jobs {
		j := &p.Jobs[m]
		if k.of[m] = -1; p.fastest(j) == 0 {
			continue
		}
		c := class{j: j, goal: goal{none: true}, gain: make([]float64, len(p.Capacity))}
		if goals != nil {
			c.goal = goals(m)
		}
		key = binary.AppendVarint(key[:0], int64(j.Kind))
		number := func(v float64) { key = binary.LittleEndian.AppendUint64(key, math.Float64bits(v)) }
		for t, s := range j.Speed {
			if gain != nil {
				c.gain[t] = gain(j, t) * (1 + 1e-3*(nudge(j, t)-1))
			}
			number(s)
			number(c.gain[t])
		}
		number(j.Size)
		if !c.goal.none {
			number(c.goal.rate)
			number(c.goal.floor)
			number(c.goal.step)
		}
		i, ok := seen[string(key)]
		if !ok {
			i = len(k.classes)
			seen[string(key)] = i
			k.classes = append(k.classes, c)
		}
		k.classes[i].jobs = append(k.classes[i].jobs, m)
		k.of[m] = i
	}
}

// write writes the program without pairs.
func (k *packing) write(level float64) {
	p := k.p
	k.lp.Level = level
	k.row = make([]int, len(p.Capacity))
	for t, w := range p.Capacity {
		if k.row[t] = -1; w > 0 {
			k.row[t] = len(k.lp.Limits)
			k.lp.Limits = append(k.lp.Limits, w)
		}
	}
	for i := range k.classes {
		c := &k.classes[i]
		n := float64(len(c.jobs))
		b := blocks.Block{Cap: n, Goal: !c.goal.none, Floor: n * c.goal.floor, Step: n * c.goal.step}
		var types []int
		for t := range p.Capacity {
			if k.row[t] >= 0 && p.fits(c.j, t) {
				b.Vars = append(b.Vars, blocks.Var{Row: k.row[t], Use: c.j.Size, Rate: c.goal.rate * c.j.Speed[t], Gain: c.gain[t] * c.j.Speed[t]})
				types = append(types, t)
			}
		}
		k.lp.Blocks = append(k.lp.Blocks, b)
		k.types = append(k.types, types)
	}
}

// pair is a pair of classes on a type as a variable.
func (k *packing) pair(c column) (v pairs.Pair, ok bool) {
	a, b := &k.classes[c.a], &k.classes[c.b]
	if k.row[c.t] < 0 || c.a == c.b && len(a.jobs) < 2 {
		return v, false
	}
	sa, sb, ok := k.p.together(a.j, b.j, c.t)
	return pairs.Pair{
		A: c.a, B: c.b, Row: k.row[c.t], Use: a.j.Size, Gain: sa*a.gain[c.t] + sb*b.gain[c.t], RateA: a.goal.rate * sa, RateB: b.goal.rate * sb,
	}, ok
}

// add adds a pair of classes, if it is none yet and can be one.
func (k *packing) add(a, b, t int) bool {
	c := column{min(a, b), max(a, b), t}
	if c.a < 0 || k.known[c] {
		return false
	}
	v, ok := k.pair(c)
	if ok {
		k.known[c] = true
		k.columns = append(k.columns, c)
		k.lp.Pairs = append(k.lp.Pairs, v)
	}
	return ok
}

// The gain that a pair must promise to be added: so much more than it takes. As
// long as there are such that promise a lot, answers need not be exact.
const (
	promise      = 1e-6
	roughPromise = 0.02
	mostColumns  = 3 // that are added for a class at a time
	mostPasses   = 60
)

// solve solves, with all the pairs that it takes.
func (k *packing) solve() (*pairs.Solution, error) {
	rough := true
	for pass := 0; ; pass++ {
		s, err := pairs.Solve(&k.lp, rough)
		if err != nil && !rough {
			return nil, err
		}
		least := promise
		if rough {
			least = roughPromise
		}
		if err == nil && pass < mostPasses && k.extend(s, least) {
			continue
		}
		if !rough {
			return s, nil
		}
		rough = false
	}
}

// bid is a pair of classes and what it promises.
type bid struct {
	column
	worth float64
}

// extend adds the pairs that promise most at the prices of an answer. It is false where
// there are none.
func (k *packing) extend(s *pairs.Solution, least float64) bool {
	best := make([][]bid, len(k.classes))
	for a := range k.classes {
		for b := a; b < len(k.classes); b++ {
			if k.classes[a].j.Size != k.classes[b].j.Size {
				continue
			}
			for t := range k.row {
				c := column{a, b, t}
				v, ok := k.pair(c)
				if !ok {
					continue
				}
				cost := s.Caps[a] + s.Caps[b] + v.Use*s.Limits[v.Row]
				if w := s.Worth(&v); w > least*cost && !k.known[c] {
					x := bid{c, w / cost}
					best[a], best[b] = keepBest(best[a], x), keepBest(best[b], x)
				}
			}
		}
	}
	any := false
	for _, list := range best {
		for _, x := range list {
			any = k.add(x.a, x.b, x.t) || any
		}
	}
	return any
}

// keepBest puts a bid into a list of the best, which stays short.
func keepBest(list []bid, x bid) []bid {
	at := len(list)
	for at > 0 && list[at-1].worth < x.worth {
		at--
	}
	if at == mostColumns {
		return list
	}
	list = slices.Insert(list, at, x)
	return list[:min(len(list), mostColumns)]
}
