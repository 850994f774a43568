package replica

import "slices"

// Problem is data and those who read it, to be divided among regions.
type Problem struct {
	Supply  [][]float64 // GPUs, by region and type
	Size    []float64   // TB, by data set
	Storage []float64   // TB, by region
	Held    [][]bool    // by data set and region: replicas that there are
	Classes []Class

	Move, Keep float64 // what it costs to copy a TB, and to keep a replica
}

// Class is jobs that read the same data sets and may run on the same types.
type Class struct {
	GPUs  float64 // that they ask for, on average
	Types []bool  // by type
	Reads []int
}

// Answer is where data is to be and which share of each class is served where, by region.
type Answer struct {
	Kept  [][]bool
	Share [][]float64
	Cost  float64
}

// Penalty is what it costs that GPUs of a region are asked for so many times over: much where there are too few.
func Penalty(load float64) float64 {
	over, under := max(0, load-1), max(0, 1-load)
	return 10*over*over + under*under
}

// search is an answer as it takes shape.
type search struct {
	*Problem
	Answer
	room []float64 // TB left, by region
	load [][]float64
	gone map[[2]int]bool // replicas that have made room for others: they are not made again
}

// Solve improves where data is, step by step, as long as a replica more is worth what it costs. Replicas that no
// class needs are dropped for others where storage is short, or where keeping them costs anything.
func (p *Problem) Solve() Answer {
	s := p.start()
	s.balance(nil)
	for all := s.chances(); s.add(all); {
	}
	s.balance(nil)
	s.drop()
	s.Cost = s.cost()
	return s.Answer
}

// start is the answer that moves nothing. Every class begins where its data is, by the GPUs there.
func (p *Problem) start() *search {
	s := &search{Problem: p, room: slices.Clone(p.Storage), gone: map[[2]int]bool{}}
	for d, held := range p.Held {
		s.Kept = append(s.Kept, slices.Clone(held))
		for r := range held {
			if held[r] {
				s.room[r] -= p.Size[d]
			}
		}
	}
	for range p.Supply {
		s.load = append(s.load, make([]float64, len(p.Supply[0])))
	}
	for k := range p.Classes {
		share, sum := make([]float64, len(p.Supply)), 0.0
		for r := range share {
			if s.serves(k, r) {
				share[r] = s.supply(k, r)
				sum += share[r]
			}
		}
		for r := range share {
			if share[r] > 0 {
				share[r] /= sum
			}
		}
		s.Share = append(s.Share, share)
		for r := range share {
			s.shift(k, r, share[r])
		}
	}
	return s
}

// supply is the GPUs of a region that a class may have.
func (p *Problem) supply(k, r int) (n float64) {
	for t, ok := range p.Classes[k].Types {
		if ok {
			n += p.Supply[r][t]
		}
	}
	return n
}

// serves tells whether a region has the data of a class, and GPUs for it.
func (s *search) serves(k, r int) bool {
	return s.supply(k, r) > 0 && !slices.ContainsFunc(s.Classes[k].Reads, func(d int) bool { return !s.Kept[d][r] })
}

// shift changes the load of a region by a share of a class, divided among its types by their numbers.
func (s *search) shift(k, r int, share float64) {
	if share == 0 {
		return
	}
	all := s.supply(k, r)
	for t, ok := range s.Classes[k].Types {
		if ok {
			s.load[r][t] += share * s.Classes[k].GPUs / all // of each type its part of all, over its number
		}
	}
}

// strain is the penalty of a region.
func (s *search) strain(r int) (sum float64) {
	for t, n := range s.Supply[r] {
		if n > 0 {
			sum += Penalty(s.load[r][t])
		}
	}
	return sum
}

// strains is the penalty of all regions.
func (s *search) strains() (sum float64) {
	for r := range s.Supply {
		sum += s.strain(r)
	}
	return sum
}

// cost is what the answer costs.
func (s *search) cost() (sum float64) {
	sum = s.strains()
	for d, held := range s.Kept {
		for r := range held {
			if held[r] {
				if sum += s.Keep; !s.Held[d][r] {
					sum += s.Move * s.Size[d]
				}
			}
		}
	}
	return sum
}

// sweeps is how often shares are balanced at most, least the gain for which it is done again, and crumb a share that
// is none.
const (
	sweeps = 60
	least  = 1e-9
	crumb  = 1e-6
)

// balance moves shares between regions as long as penalties fall: of those classes, or where none are named of all.
func (s *search) balance(classes []int) {
	if classes == nil {
		for k := range s.Classes {
			classes = append(classes, k)
		}
	}
	for range sweeps {
		gain := 0.0
		for _, k := range classes {
			for a := range s.Supply {
				for b := range a {
					if s.serves(k, a) && s.serves(k, b) {
						gain += s.even(k, a, b)
					}
				}
			}
		}
		if gain < least {
			return
		}
	}
}

// even divides what a class has in two regions between them for the least penalty, which is convex in that.
func (s *search) even(k, a, b int) (gain float64) {
	was, sum := s.strain(a)+s.strain(b), s.Share[k][a]+s.Share[k][b]
	old, at := s.Share[k][a], s.Share[k][a]
	try := func(x float64) float64 {
		s.shift(k, a, x-at)
		s.shift(k, b, at-x)
		at = x
		return s.strain(a) + s.strain(b)
	}
	low, high := 0.0, sum
	for range 50 {
		x, y := low+(high-low)/3, high-(high-low)/3
		if try(x) <= try(y) {
			high = y
		} else {
			low = x
		}
	}
	best := (low + high) / 2
	if best < crumb {
		best = 0
	} else if sum-best < crumb {
		best = sum
	}
	if try(best) < was-least/100 {
		s.Share[k][a], s.Share[k][b] = best, sum-best
		return was - try(best)
	}
	try(old)
	return 0
}

// readers are the classes that a data set keeps from a region: all else that they read is there.
func (s *search) readers(d, r int) (out []int) {
	for k := range s.Classes {
		reads := s.Classes[k].Reads
		if slices.Contains(reads, d) && s.supply(k, r) > 0 && !slices.ContainsFunc(reads, func(o int) bool { return o != d && !s.Kept[o][r] }) {
			out = append(out, k)
		}
	}
	return out
}

// chance is a replica that may be worth making, with what it was worth when it was last tried.
type chance struct {
	d, r int
	gain float64
}

// chances are the replicas that some class could use.
func (s *search) chances() (out []chance) {
	for d := range s.Kept {
		for r := range s.Kept[d] {
			if !s.Kept[d][r] && slices.Contains(s.Kept[d], true) {
				out = append(out, chance{d, r, s.worth(d, r)})
			}
		}
	}
	return out
}

// worth is what a replica would lower the cost by; 0 where it cannot be made.
func (s *search) worth(d, r int) float64 {
	classes := s.readers(d, r)
	if len(classes) == 0 || s.gone[[2]int{d, r}] || s.room[r]+s.spare(r, classes) < s.Size[d] {
		return 0
	}
	return s.tried(d, r, classes)
}

// add adds the replica that lowers the cost most, and tells whether there was one. What a replica is worth mostly falls
// as others are made, so that only those are tried again that seem to be worth the most. Once none of them is worth
// anything, all are.
func (s *search) add(all []chance) bool {
	for fresh := false; ; {
		best := -1
		for i := range all {
			if !s.Kept[all[i].d][all[i].r] && all[i].gain > least && (best < 0 || all[i].gain > all[best].gain) {
				best = i
			}
		}
		if best < 0 {
			if fresh {
				return false
			}
			for i := range all {
				if all[i].gain = 0; !s.Kept[all[i].d][all[i].r] {
					all[i].gain = s.worth(all[i].d, all[i].r)
				}
			}
			fresh = true
			continue
		}
		c := &all[best]
		if now := s.worth(c.d, c.r); now < c.gain-least {
			c.gain = now
			continue
		}
		s.makeRoom(c.d, c.r, s.readers(c.d, c.r))
		s.Kept[c.d][c.r] = true
		s.room[c.r] -= s.Size[c.d]
		s.balance(s.readersOf(c.d))
		return true
	}
}

// readersOf are the classes that read a data set.
func (s *search) readersOf(d int) (out []int) {
	for k := range s.Classes {
		if slices.Contains(s.Classes[k].Reads, d) {
			out = append(out, k)
		}
	}
	return out
}

// tried is what a replica would lower the cost by, with nothing but the shares of these classes changed.
func (s *search) tried(d, r int, classes []int) float64 {
	was, shares, loads := s.strains(), make([][]float64, len(classes)), make([][]float64, len(s.load))
	for i, k := range classes {
		shares[i] = slices.Clone(s.Share[k])
	}
	for i := range loads {
		loads[i] = slices.Clone(s.load[i])
	}
	s.Kept[d][r] = true
	s.balance(classes)
	gain := was - s.strains() - s.Keep
	if !s.Held[d][r] {
		gain -= s.Move * s.Size[d]
	}
	s.Kept[d][r] = false
	for i, k := range classes {
		s.Share[k] = shares[i]
	}
	s.load = loads
	return gain
}

// idle tells whether a replica may be dropped: there is another, and no class is served by it.
func (s *search) idle(d, r int) bool {
	copies := 0
	for _, held := range s.Kept[d] {
		if held {
			copies++
		}
	}
	return s.Kept[d][r] && copies > 1 && !slices.ContainsFunc(s.readersOf(d), func(k int) bool { return s.Share[k][r] > 0 })
}

// gives tells whether a replica may make room for what some classes are to read there.
func (s *search) gives(d, r int, classes []int) bool {
	return s.idle(d, r) && !slices.ContainsFunc(classes, func(k int) bool { return slices.Contains(s.Classes[k].Reads, d) })
}

// spare is the storage of a region that replicas take which may make room.
func (s *search) spare(r int, classes []int) (sum float64) {
	for d := range s.Kept {
		if s.gives(d, r, classes) {
			sum += s.Size[d]
		}
	}
	return sum
}

// makeRoom drops replicas of a region until a data set fits, the largest first.
func (s *search) makeRoom(d, r int, classes []int) {
	for s.room[r] < s.Size[d] {
		most, at := -1.0, -1
		for o := range s.Kept {
			if s.gives(o, r, classes) && s.Size[o] > most {
				most, at = s.Size[o], o
			}
		}
		if at < 0 {
			return
		}
		s.Kept[at][r], s.gone[[2]int{at, r}] = false, true
		s.room[r] += s.Size[at]
	}
}

// drop drops replicas that cost more than they are worth.
func (s *search) drop() {
	if s.Keep <= 0 {
		return
	}
	for d := range s.Kept {
		for r := range s.Kept[d] {
			if s.idle(d, r) {
				s.Kept[d][r] = false
				s.room[r] += s.Size[d]
			}
		}
	}
}
