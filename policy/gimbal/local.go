package gimbal

import (
	"math"
	"slices"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
)

// Gang is a packed gang, as calibration sees it.
type Gang struct {
	Job     *job.Job
	Worth   float64 // of a rate of 1
	Least   float64 // rate that it must have: what it lacks goes before all worth
	Correct float64 // what was observed over what is predicted; 0: 1
	Seats   []int   // of its workers
}

// Seat is the place of a worker.
type Seat struct {
	Gang  int // -1: of a gang that is not looked at
	Spot  int
	Job   *job.Job
	Share cluster.Share
}

// Spot is a GPU and who sits there, two at most. One that is not Open is left as it is.
type Spot struct {
	Type  cluster.GPUType
	Seats []int
	Open  bool
}

// Local is packed gangs and all the GPUs that they are on: what is calibrated at once.
type Local struct {
	Sharing perf.Sharing
	Gangs   []Gang
	Seats   []Seat
	Spots   []Spot

	Step int32 // of parts, in thousandths

	rates   []float64 // of gangs, while it settles
	workers []float64 // and of workers
}

// shortfall is what counts for what a gang lacks: more than any worth.
const shortfall = 1e9

// Rate is the rate of a worker.
func (l *Local) Rate(seat int) float64 {
	s := &l.Seats[seat]
	var room [1]perf.Sharer // more sit there only if another policy has left them
	others := room[:0]
	for _, o := range l.Spots[s.Spot].Seats {
		if o != seat {
			others = append(others, perf.Sharer{Job: l.Seats[o].Job, Share: l.Seats[o].Share})
		}
	}
	if len(others) == 0 && s.Share.Throttle == 0 {
		return 1
	}
	return perf.Among(l.Sharing, perf.Sharer{Job: s.Job, Share: s.Share}, others, l.Spots[s.Spot].Type)
}

// GangRate is the rate of a gang.
func (l *Local) GangRate(g int) float64 {
	least := math.Inf(1)
	for _, s := range l.Gangs[g].Seats {
		least = min(least, l.Rate(s))
	}
	if c := l.Gangs[g].Correct; c > 0 {
		least *= c
	}
	return least
}

// value is what a gang counts at a rate.
func (l *Local) value(g int, rate float64) float64 {
	return l.Gangs[g].Worth*rate - shortfall*max(0, l.Gangs[g].Least-rate)
}

// Utility is the sum of worth times rate of all gangs, whatever any lacks.
func (l *Local) Utility() (sum float64) {
	for g := range l.Gangs {
		sum += l.Gangs[g].Worth * l.GangRate(g)
	}
	return sum
}

// A split says how two divide a GPU: the first of them gets so many steps, or one of them
// yields.
type split int32

// splits is their number with steps of a thousandth part: 0 to n steps, and two more.
func (l *Local) splits() split { return split(1000/l.Step) + 3 }

// put gives a spot a split, seen from one of its seats.
func (l *Local) put(spot, seat int, x split) {
	a, b := &l.Seats[seat], (*Seat)(nil)
	for _, o := range l.Spots[spot].Seats {
		if o != seat {
			b = &l.Seats[o]
		}
	}
	part := min(1000, int32(x)*l.Step)
	switch n := l.splits(); x {
	case n - 1: // a yields
		part = 0
	case n - 2:
		part = 1000
	}
	a.Share.Milli, b.Share.Milli = part, 1000-part
	a.Share.Throttle, b.Share.Throttle = 0, 0
	switch {
	case x >= l.splits()-2:
	case part == 0:
		a.Share.Throttle = 1000
	case part == 1000:
		b.Share.Throttle = 1000
	}
}

// Settle finds the parts with which the gangs count most: for each gang in turn those of
// all its workers at once, then those of each worker alone, until nothing changes, in
// three sweeps at most. It returns how many it took. A part changes only where that is
// worth something, so that surplus stays where nobody can use it.
func (l *Local) Settle() (sweeps int) {
	l.rates, l.workers = l.rates[:0], l.workers[:0]
	for s := range l.Seats {
		l.workers = append(l.workers, l.Rate(s))
	}
	for g := range l.Gangs {
		l.rates = append(l.rates, l.GangRate(g))
	}
	for sweeps = 1; ; sweeps++ {
		changed := false
		for g := range l.Gangs {
			var open []int
			for _, s := range l.Gangs[g].Seats {
				if l.open(s) {
					open = append(open, s)
				}
			}
			if len(open) > 1 {
				changed = l.try(open) || changed
			}
		}
		for i := range l.Spots {
			if len(l.Spots[i].Seats) == 2 && l.open(l.Spots[i].Seats[0]) {
				changed = l.try(l.Spots[i].Seats[:1]) || changed
			}
		}
		if !changed || sweeps == 3 {
			return sweeps
		}
	}
}

// open tells whether the part of a worker may be changed.
func (l *Local) open(seat int) bool {
	s := &l.Spots[l.Seats[seat].Spot]
	return s.Open && len(s.Seats) == 2
}

// trial is what is known while splits are tried for some workers.
type trial struct {
	seats   []int // that change: the workers, and those beside them
	unlike  []int // those of them that may have other rates than the others, as long as all splits are equal
	was     []cluster.Share
	gangs   []int     // of theirs
	without []float64 // of each gang: the least rate of its other workers
	rates   []float64 // of each gang, with the best split
}

// pair is what the rates of two workers on a GPU follow from, beside their parts.
type pair struct {
	one, other        *job.Job
	memory, beside    unit.Bytes
	batch, otherBatch int32
	gang, otherGang   int
	typ               cluster.GPUType
}

// pair is a worker on a spot of two and the one beside it.
func (l *Local) pair(seat int) pair {
	s := &l.Seats[seat]
	spot := &l.Spots[s.Spot]
	o := &l.Seats[spot.Seats[0]+spot.Seats[1]-seat]
	return pair{s.Job, o.Job, s.Share.Memory, o.Share.Memory, s.Share.Batch, o.Share.Batch, s.Gang, o.Gang, spot.Type}
}

// begin lists what changes when some workers get other parts.
func (l *Local) begin(seats []int) *trial {
	t := &trial{}
	var pairs []pair
	for _, s := range seats {
		if x := l.pair(s); !slices.Contains(pairs, x) {
			pairs = append(pairs, x)
			t.unlike = append(t.unlike, l.Spots[l.Seats[s].Spot].Seats...)
		}
		for _, o := range l.Spots[l.Seats[s].Spot].Seats {
			t.seats, t.was = append(t.seats, o), append(t.was, l.Seats[o].Share)
			if g := l.Seats[o].Gang; g >= 0 && !slices.Contains(t.gangs, g) {
				t.gangs = append(t.gangs, g)
			}
		}
	}
	changes := map[int]bool{}
	for _, s := range t.seats {
		changes[s] = true
	}
	for _, g := range t.gangs {
		least := math.Inf(1)
		for _, s := range l.Gangs[g].Seats {
			if !changes[s] {
				least = min(least, l.workers[s])
			}
		}
		t.without = append(t.without, least)
	}
	return t
}

// sum is what the gangs count with the parts that they have now.
func (l *Local) sum(t *trial) (sum float64) {
	t.rates = append(t.rates[:0], t.without...)
	for _, s := range t.unlike {
		if i := slices.Index(t.gangs, l.Seats[s].Gang); i >= 0 && t.rates[i] > 0 {
			t.rates[i] = min(t.rates[i], l.Rate(s))
		}
	}
	for i, g := range t.gangs {
		if c := l.Gangs[g].Correct; c > 0 {
			t.rates[i] *= c
		}
		sum += l.value(g, t.rates[i])
	}
	return sum
}

// try tries all splits for some workers of one gang, the same for each, and keeps the
// best; false when that is what they have.
func (l *Local) try(seats []int) bool {
	t := l.begin(seats)
	before := 0.0
	for _, g := range t.gangs {
		before += l.value(g, l.rates[g])
	}
	best, most := split(-1), before+1e-9*math.Abs(before)+1e-15
	for x := range l.splits() {
		for _, s := range seats {
			l.put(l.Seats[s].Spot, s, x)
		}
		if sum := l.sum(t); sum > most {
			best, most = x, sum
		}
	}
	if best < 0 {
		for i, s := range t.seats {
			l.Seats[s].Share = t.was[i]
		}
		return false
	}
	for _, s := range seats {
		l.put(l.Seats[s].Spot, s, best)
	}
	for _, s := range t.seats {
		l.workers[s] = l.Rate(s)
	}
	l.sum(t)
	for i, g := range t.gangs {
		l.rates[g] = t.rates[i]
	}
	return true
}

// Straggler is the slowest worker of a gang, and the ratio of its step time to the
// median.
func (l *Local) Straggler(g int) (seat int, ratio float64) {
	var rates []float64
	least := math.Inf(1)
	for _, s := range l.Gangs[g].Seats {
		r := l.Rate(s)
		rates = append(rates, r)
		if r < least {
			seat, least = s, r
		}
	}
	slices.Sort(rates)
	if least == 0 {
		return seat, math.Inf(1)
	}
	return seat, rates[len(rates)/2] / least
}
