package gandiva

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/job"
)

// What is noted on a job is read again as it was.
func TestNote(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := note{
			home:  cluster.NodeID(rapid.IntRange(-1, 1<<homeBits-2).Draw(t, "home")),
			parts: rapid.Bool().Draw(t, "parts"), vain: rapid.Bool().Draw(t, "vain"),
			link:  link(rapid.IntRange(int(apart), int(paired)).Draw(t, "link")),
			with:  job.ID(rapid.IntRange(0, 1<<withBits-1).Draw(t, "with")),
			stamp: time.Duration(rapid.Int64Range(0, 1<<stampBits-1).Draw(t, "stamp")) * time.Millisecond,
			rate:  float64(rapid.IntRange(0, 1<<rateBits-1).Draw(t, "rate")) / rateUnit,
			use:   float64(rapid.IntRange(0, 100).Draw(t, "use")) / 100,
		}
		if rapid.Bool().Draw(t, "unknown") {
			n.use = -1
		}
		got := read(n.memo())
		if got.use < 0 && n.use < 0 {
			got.use = n.use
		}
		if got != n {
			t.Fatalf("%+v is read as %+v", n, got)
		}
	})
	if n := read(job.Memo{1, 2}); n != (note{home: cluster.None, with: job.None, use: -1}) {
		t.Errorf("what another policy wrote is read as %+v", n)
	}
}
