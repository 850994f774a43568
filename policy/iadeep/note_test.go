package iadeep

import (
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"github.com/norn-scheduler/norn/sched"
	"github.com/norn-scheduler/norn/sim/simtest"
)

// TestNote: a note is read as it was written, to the bit.
func TestNote(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := note{
			jobs: rapid.IntRange(0, 100).Draw(t, "jobs"), joint: rapid.Bool().Draw(t, "joint"),
			sum: rapid.Float64Range(-10, 1000).Draw(t, "sum"), evicted: rapid.Bool().Draw(t, "evicted"),
		}
		if n := rapid.IntRange(0, 50).Draw(t, "trials"); n > 0 {
			in.values = rapid.SliceOfN(rapid.Float64Range(0, 1000), n, n).Draw(t, "values")
		}
		if n := rapid.IntRange(0, 5).Draw(t, "others"); n > 0 {
			in.with = rapid.SliceOfN(rapid.SampledFrom([]string{"", "vgg16", `a "b"`, "ü"}), n, n).Draw(t, "with")
		}
		if out, ok := sched.Recall[note](simtest.Noted(t, &in)); !reflect.DeepEqual(out, in) || ok == reflect.DeepEqual(in, note{}) {
			t.Fatalf("%+v became %+v, %v", in, out, ok)
		}
	})
}
