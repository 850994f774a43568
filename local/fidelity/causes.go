package fidelity

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// Difference is a decision on which the two worlds do not agree.
type Difference struct {
	What      string        // the 2nd stop of job 17
	Sort      Sort          //
	Live, Sim time.Duration // when; -1: never
	Cause     string

	what What
}

// Sort is how a decision differs.
type Sort uint8

// The sorts of differences.
const (
	Missing Sort = iota // simulated, not live
	Extra               // live, not simulated
	Moved               // in both, in another order
)

func (s Sort) String() string { return [...]string{"missing", "extra", "moved"}[s] }

// when is the first time at which the decision was made in either world.
func (d *Difference) when() time.Duration {
	switch {
	case d.Live < 0:
		return d.Sim
	case d.Sim < 0:
		return d.Live
	}
	return min(d.Live, d.Sim)
}

// differences lists the decisions on which the worlds do not agree, in order of
// time, with their causes.
func differences(real, virtual *History, moved map[What]bool, noise time.Duration) []Difference {
	here, there := times(real), times(virtual)
	var out []Difference
	add := func(w What, sort Sort) {
		d := Difference{What: name(w, real), Sort: sort, Live: -1, Sim: -1, what: w}
		if at, ok := here[w]; ok {
			d.Live = at
		}
		if at, ok := there[w]; ok {
			d.Sim = at
		}
		out = append(out, d)
	}
	for _, m := range real.Moments {
		if _, ok := there[m.What]; m.Kind.Decided() && (!ok || moved[m.What]) {
			add(m.What, map[bool]Sort{false: Extra, true: Moved}[ok])
		}
	}
	for _, m := range virtual.Moments {
		if _, ok := here[m.What]; m.Kind.Decided() && !ok {
			add(m.What, Missing)
		}
	}
	slices.SortStableFunc(out, func(a, b Difference) int { return cmp.Compare(a.when(), b.when()) })
	explain(out, real, ties(real, virtual), noise)
	return out
}

// name says which decision it is.
func name(w What, h *History) string {
	nth := ""
	if w.N > 1 {
		nth = fmt.Sprintf("%d. ", w.N)
	}
	return fmt.Sprintf("%s%s of job %s", nth, w.Kind, h.Jobs[w.Job].Key)
}

// tie is a pair of things that happen in another order in the other world.
type tie struct {
	a, b      What
	live, sim time.Duration // from a to b; one of them is negative
	at        time.Duration // when the second of them happens, in the world that has it earlier
}

// apart is how far the two are apart where they are farther apart.
func (t *tie) apart() time.Duration { return max(t.live.Abs(), t.sim.Abs()) }

// ties are the pairs of things that happen in different orders, in order of time:
// two that come from the world, or two that were decided.
func ties(real, virtual *History) []tie {
	there := times(virtual)
	var both []Moment
	for _, m := range real.Moments {
		if _, ok := there[m.What]; ok {
			both = append(both, m)
		}
	}
	var out []tie
	for i, a := range both {
		for _, b := range both[i+1:] {
			if there[b.What] >= there[a.What] || a.Kind.Decided() != b.Kind.Decided() {
				continue
			}
			out = append(out, tie{
				a: a.What, b: b.What, live: b.At - a.At, sim: there[b.What] - there[a.What], at: min(b.At, there[a.What]),
			})
		}
	}
	slices.SortStableFunc(out, func(a, b tie) int { return cmp.Compare(a.at, b.at) })
	return out
}

// explain says of each difference what it comes from: two things that happened at
// nearly the same time just before, something that went wrong, or, once the worlds
// differ, the difference before. Noise is by how much the same transition took
// different times.
func explain(all []Difference, real *History, ties []tie, noise time.Duration) {
	const window = 10 // times noise: for so long a tie may wait for a decision
	for i := range all {
		d := &all[i]
		from, to := d.when()-window*noise, d.when()+noise
		t, o := lastTie(ties, from, to, noise, func(t *tie) bool { return !t.a.Kind.Decided() }), lastOdd(real, from, to)
		if t == nil && o == nil {
			t = lastTie(ties, from, to, noise, func(t *tie) bool { return t.a == d.what || t.b == d.what })
		}
		switch {
		case t != nil:
			d.Cause = fmt.Sprintf("%s and %s come at nearly the same time: the second %s the first live, %s it simulated",
				name(t.a, real), name(t.b, real), side(t.live), side(t.sim))
		case o != nil:
			d.Cause = fmt.Sprintf("job %s live: %s", real.Jobs[o.Job].Key, o.Text)
		case i > 0:
			d.Cause = "follows from the one before"
		default:
			d.Cause = "what the policy goes by (remaining time, service, a moment of its own) was as good as equal"
		}
	}
}

func side(d time.Duration) string {
	if d < 0 {
		return d.Abs().Round(10*time.Microsecond).String() + " ahead of"
	}
	return d.Round(10*time.Microsecond).String() + " behind"
}

// lastTie is the last near tie of a sort within a time; nil: there is none.
func lastTie(ties []tie, from, to, noise time.Duration, of func(*tie) bool) *tie {
	var last *tie
	for i := range ties {
		if t := &ties[i]; t.at >= from && t.at <= to && t.apart() <= 2*noise && of(t) {
			last = t
		}
	}
	return last
}

func lastOdd(h *History, from, to time.Duration) *Odd {
	var last *Odd
	for i := range h.Odd {
		if o := &h.Odd[i]; o.At >= from && o.At <= to {
			last = o
		}
	}
	return last
}

// noise is by how much transitions of one sort took different times, and jobs were
// submitted late.
func (c *Costs) noise() time.Duration {
	most := c.Lag.Most
	for _, s := range []Span{c.Start, c.Restore, c.Checkpoint, c.Leave} {
		most = max(most, s.Most-s.Least)
	}
	return most
}
