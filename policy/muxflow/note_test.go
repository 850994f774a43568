package muxflow

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/norn-scheduler/norn/sched"
	"github.com/norn-scheduler/norn/sim/simtest"
)

// TestNote: a note is read as it was written, to the bit.
func TestNote(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		count := func(name string, most int) int { return rapid.IntRange(0, most).Draw(t, name) }
		in := note{
			over: rapid.Bool().Draw(t, "over"), times: count("times", 1000), since: time.Duration(rapid.Int64Range(-1, 1<<60).Draw(t, "since")),
			day: count("day", 1e6), peak: count("peak", 100), before: count("before", 100),
			evicted: rapid.Bool().Draw(t, "evicted"),
		}
		if out, ok := sched.Recall[note](simtest.Noted(t, &in)); out != in || ok == (in == note{since: -1}) {
			t.Fatalf("%+v became %+v, %v", in, out, ok)
		}
	})
}
