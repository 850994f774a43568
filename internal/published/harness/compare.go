package harness

import (
	"fmt"
	"math"
	"sort"
	"strings"
)

// Tolerance is by how much two times may differ and still be equal: relative to
// the time since the first submission, and at least that many seconds.
const Tolerance = 1e-6

// Comparison is how far one Result agrees with another.
type Comparison struct {
	Jobs    int // rows of the Result that is held against
	Equal   int // of these, rows with equal start and end
	Preempt int // rows with a different number of preemptions, where both tell it

	Largest  float64 // largest difference of a start or an end, seconds
	MeanJCT  float64 // mean JCT here over the mean JCT there, less one
	Makespan float64 // makespan here over the makespan there, less one
	Score    float64 // the same of the mean of a score of allocations, that which differs most; 0 where none does by more than Tolerance

	Missing, Extra int    // rows that only the other, or only this Result has
	First          string // the first difference in words; empty when there is none
}

// Exact tells whether both Results have the same rows, equal in start and end.
func (c *Comparison) Exact() bool {
	return c.Equal == c.Jobs && c.Missing == 0 && c.Extra == 0
}

// Within tells whether mean JCT, makespan and mean scores agree within that many per cent.
func (c *Comparison) Within(percent float64) bool {
	return math.Abs(c.MeanJCT)*100 <= percent && math.Abs(c.Makespan)*100 <= percent && math.Abs(c.Score)*100 <= percent
}

// Compare holds a Result against another one. Rows belong together when they
// have the same key; of several rows with one key, the first to end belong
// together.
func Compare(got, want *Result) Comparison {
	c := Comparison{Jobs: len(want.Rows), MeanJCT: ratio(got.MeanJCT(), want.MeanJCT()), Makespan: ratio(got.Makespan(), want.Makespan())}
	for _, name := range want.Scores {
		there, ok := want.meanScore(name)
		here, also := got.meanScore(name)
		if off := ratio(here, there); ok && also && math.Abs(off) > max(Tolerance, math.Abs(c.Score)) {
			c.Score = off
			c.note("the mean %s is %.4g, there %.4g", name, here, there)
		}
	}
	a, b := byKey(got.Rows), byKey(want.Rows)
	first := math.Inf(1)
	for i := range want.Rows {
		first = min(first, want.Rows[i].Submit)
	}
	for len(a) > 0 || len(b) > 0 {
		switch {
		case len(b) == 0 || len(a) > 0 && a[0].Key < b[0].Key:
			c.Extra++
			c.note("job %s ends here, but not there", a[0].Key)
			a = a[1:]
		case len(a) == 0 || b[0].Key < a[0].Key:
			c.Missing++
			c.note("job %s ends there, but not here", b[0].Key)
			b = b[1:]
		default:
			c.pair(a[0], b[0], first)
			a, b = a[1:], b[1:]
		}
	}
	return c
}

func (c *Comparison) pair(a, b *Row, first float64) {
	told := !math.IsNaN(b.Start)
	if told {
		c.Largest = max(c.Largest, math.Abs(a.Start-b.Start))
	}
	c.Largest = max(c.Largest, math.Abs(a.End-b.End))
	if (!told || same(a.Start-first, b.Start-first)) && same(a.End-first, b.End-first) {
		c.Equal++
	} else {
		c.note("job %s runs from %v to %v, there from %v to %v", a.Key, a.Start, a.End, b.Start, b.End)
	}
	if a.Preempt >= 0 && b.Preempt >= 0 && a.Preempt != b.Preempt {
		c.Preempt++
		c.note("job %s is preempted %d times, there %d", a.Key, a.Preempt, b.Preempt)
	}
}

func (c *Comparison) note(format string, args ...any) {
	if c.First == "" {
		c.First = fmt.Sprintf(format, args...)
	}
}

func same(a, b float64) bool {
	return math.Abs(a-b) <= Tolerance*max(1, math.Abs(a), math.Abs(b))
}

func ratio(a, b float64) float64 {
	if a == b {
		return 0
	}
	return a/b - 1
}

// byKey lists the rows by key, then by end, start and place.
func byKey(rows []Row) []*Row {
	out := make([]*Row, len(rows))
	inOrder := true
	for i := range rows {
		out[i] = &rows[i]
		inOrder = inOrder && (i == 0 || rows[i-1].Key < rows[i].Key)
	}
	if inOrder {
		return out
	}
	sort.SliceStable(out, func(i, j int) bool {
		a, b := out[i], out[j]
		switch {
		case a.Key != b.Key:
			return strings.Compare(a.Key, b.Key) < 0
		case a.End != b.End:
			return a.End < b.End
		}
		return a.Start < b.Start
	})
	return out
}
