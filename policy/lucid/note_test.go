package lucid

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/sched"
	"github.com/norn-scheduler/norn/sim/simtest"
)

// TestNote: a note is read as it was written.
func TestNote(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := note{
			measured: time.Duration(rapid.Int64Range(-1, 1<<60).Draw(t, "measured")),
			lent:     cluster.NodeID(rapid.Int32Min(cluster.None).Draw(t, "lent")), apart: rapid.Bool().Draw(t, "apart"),
		}
		if out, ok := sched.Recall[note](simtest.Noted(t, &in)); out != in || ok == (in == note{measured: -1, lent: cluster.None}) {
			t.Fatalf("%+v became %+v, %v", in, out, ok)
		}
	})
}
