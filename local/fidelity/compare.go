package fidelity

import (
	"slices"
	"time"

	"github.com/norn-scheduler/norn/job"
)

// Result is both worlds side by side.
type Result struct {
	Policy string
	Scaled string // its settings in compressed time
	Costs  Costs

	Live, Sim Figures
	Off       float64 // mean JCT, live over simulated, less 1
	// Of the difference of the mean JCTs, what was spent with devices and what
	// waiting.
	OffHeld, OffWait time.Duration
	Largest          Apart // the job whose JCT differs most

	Tau        float64 // Kendall's, of the orders of completion: 1 where they are the same
	FirstEnd   *Other  // the first place at which they are not; nil: none
	Starts     Matched
	Stops      Matched
	InOrder    int // matched decisions that were made in the same order in both worlds
	Decisions  Span
	Odd        []string // what went wrong live
	Difference []Difference
}

// Figures are those of one world.
type Figures struct {
	Jobs             int
	MeanJCT, MeanRun time.Duration // MeanRun: with devices
	Makespan         time.Duration
	Starts, Stops    int // decided
}

// Matched counts decisions: the n-th start of a job matches its n-th start in the
// other world.
type Matched struct {
	Both    int
	Missing int // simulated, not live
	Extra   int // live, not simulated
}

// Apart is a job in both worlds.
type Apart struct {
	Job       string
	Live, Sim time.Duration // JCT
}

// Other is a place in the order of completion that different jobs have.
type Other struct {
	Place     int // from 1
	Live, Sim string
	By        time.Duration // that the two end apart from each other, live
}

func figures(h *History) Figures {
	f := Figures{Jobs: len(h.Jobs)}
	if f.Jobs == 0 {
		return f
	}
	for i := range h.Jobs {
		f.MeanJCT += h.Jobs[i].JCT()
		f.MeanRun += h.Jobs[i].Held()
		f.Makespan = max(f.Makespan, h.Jobs[i].End)
	}
	f.MeanJCT /= time.Duration(f.Jobs)
	f.MeanRun /= time.Duration(f.Jobs)
	for i := range h.Moments {
		switch h.Moments[i].Kind {
		case Start:
			f.Starts++
		case Stop:
			f.Stops++
		}
	}
	return f
}

// compare holds two histories of the same jobs against each other.
func compare(real, virtual *History, costs *Costs) *Result {
	r := &Result{Costs: *costs, Live: figures(real), Sim: figures(virtual)}
	r.Off = float64(r.Live.MeanJCT)/float64(r.Sim.MeanJCT) - 1
	r.OffHeld = r.Live.MeanRun - r.Sim.MeanRun
	r.OffWait = r.Live.MeanJCT - r.Sim.MeanJCT - r.OffHeld
	for i := range real.Jobs {
		a := Apart{real.Jobs[i].Key, real.Jobs[i].JCT(), virtual.Jobs[i].JCT()}
		if (a.Live - a.Sim).Abs() > (r.Largest.Live - r.Largest.Sim).Abs() {
			r.Largest = a
		}
	}
	r.Tau, r.FirstEnd = completions(real, virtual)
	for _, o := range real.Odd {
		r.Odd = append(r.Odd, "job "+real.Jobs[o.Job].Key+" at "+o.At.Round(time.Millisecond).String()+": "+o.Text)
	}
	r.decisions(real, virtual, costs)
	return r
}

// completions compares the orders in which jobs end.
func completions(real, virtual *History) (tau float64, first *Other) {
	order := func(h *History) []job.ID {
		ids := make([]job.ID, len(h.Jobs))
		for i := range ids {
			ids[i] = job.ID(i)
		}
		slices.SortStableFunc(ids, func(a, b job.ID) int { return int(h.Jobs[a].End - h.Jobs[b].End) })
		return ids
	}
	a, b := order(real), order(virtual)
	for i := range a {
		if a[i] != b[i] {
			x, y := &real.Jobs[a[i]], &real.Jobs[b[i]]
			first = &Other{i + 1, x.Key, y.Key, y.End - x.End}
			break
		}
	}
	return kendall(a, b), first
}

// kendall is Kendall's tau of two orders of the same things: pairs that stand in
// the same order less those that do not, over all pairs.
func kendall(a, b []job.ID) float64 {
	place := make(map[job.ID]int, len(b))
	for i, id := range b {
		place[id] = i
	}
	same, pairs := 0, 0
	for i := range a {
		for j := range i {
			pairs++
			if place[a[j]] < place[a[i]] {
				same++
			} else {
				same--
			}
		}
	}
	if pairs == 0 {
		return 1
	}
	return float64(same) / float64(pairs)
}

// decisions compares what the policy decided.
func (r *Result) decisions(real, virtual *History, costs *Costs) {
	at := times(virtual)
	var both []Moment // live
	var apart []time.Duration
	count := func(k Kind) *Matched {
		if k == Start {
			return &r.Starts
		}
		return &r.Stops
	}
	for _, m := range real.Moments {
		if !m.Kind.Decided() {
			continue
		}
		if there, ok := at[m.What]; ok {
			count(m.Kind).Both++
			both = append(both, m)
			apart = append(apart, (m.At - there).Abs())
		} else {
			count(m.Kind).Extra++
		}
	}
	here := times(real)
	for _, m := range virtual.Moments {
		if _, ok := here[m.What]; !ok && m.Kind.Decided() {
			count(m.Kind).Missing++
		}
	}
	r.Decisions = spanOf(apart)
	moved := outOfOrder(both, virtual)
	r.InOrder = len(both) - len(moved)
	r.Difference = differences(real, virtual, moved, costs.noise())
}

// times is when everything happened.
func times(h *History) map[What]time.Duration {
	out := make(map[What]time.Duration, len(h.Moments))
	for _, m := range h.Moments {
		out[m.What] = m.At
	}
	return out
}

// outOfOrder are the moments that must be moved, as few as possible, to have the
// others in the order of the other world.
func outOfOrder(both []Moment, virtual *History) map[What]bool {
	place := make(map[What]int, len(virtual.Moments))
	for i, m := range virtual.Moments {
		place[m.What] = i
	}
	// The longest rising subsequence: tails[k] ends the best one of length k+1.
	var tails []int
	before := make([]int, len(both))
	for i, m := range both {
		k, _ := slices.BinarySearchFunc(tails, place[m.What], func(at, want int) int { return place[both[at].What] - want })
		before[i] = -1
		if k > 0 {
			before[i] = tails[k-1]
		}
		if k == len(tails) {
			tails = append(tails, i)
		} else {
			tails[k] = i
		}
	}
	moved := make(map[What]bool, len(both))
	for _, m := range both {
		moved[m.What] = true
	}
	if len(tails) > 0 {
		for i := tails[len(tails)-1]; i >= 0; i = before[i] {
			delete(moved, both[i].What)
		}
	}
	return moved
}
