package gimbal

import (
	"reflect"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/sched"
	"github.com/norn-scheduler/norn/sim/simtest"
)

// TestNote: a note is read as it was written, to the nanosecond.
func TestNote(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		at := func(name string) time.Duration { return time.Duration(rapid.Int64Range(never, 1<<60).Draw(t, name)) }
		in := note{correction: rapid.IntRange(-100, 100).Draw(t, "correction"), paused: at("paused"), swapped: at("swapped"), evicted: rapid.Bool().Draw(t, "evicted")}
		for range rapid.IntRange(0, 5).Draw(t, "partners") {
			in.partners = append(in.partners, neighbour{cluster.DeviceID(rapid.Int32Min(cluster.None).Draw(t, "device")), job.ID(rapid.Int32Min(-1).Draw(t, "job"))})
		}
		if out, ok := sched.Recall[note](simtest.Noted(t, &in)); !reflect.DeepEqual(out, in) || ok == reflect.DeepEqual(in, nothing()) {
			t.Fatalf("%+v became %+v, %v", in, out, ok)
		}
	})
}
