package antman

import (
	"reflect"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/sched"
	"github.com/norn-scheduler/norn/sim/simtest"
)

// TestNote: a note is read as it was written, to the bit.
func TestNote(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := note{
			step:   time.Duration(rapid.Int64Range(-1, 1<<60).Draw(t, "step")),
			raised: rapid.Bool().Draw(t, "raised"), tooMuch: rapid.IntRange(0, Full).Draw(t, "tooMuch"),
			alone: rapid.Float64Range(0, 100).Draw(t, "alone"), evicted: rapid.Bool().Draw(t, "evicted"),
		}
		for range rapid.IntRange(0, 5).Draw(t, "owners") {
			in.owners = append(in.owners, job.ID(rapid.Int32Min(-1).Draw(t, "owner")))
		}
		if out, ok := sched.Recall[note](simtest.Noted(t, &in)); !reflect.DeepEqual(out, in) || ok == reflect.DeepEqual(in, note{step: -1}) {
			t.Fatalf("%+v became %+v, %v", in, out, ok)
		}
	})
}
