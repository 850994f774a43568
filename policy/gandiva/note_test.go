package gandiva

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/sched"
	"github.com/norn-scheduler/norn/sim/simtest"
)

// A note on a job is read again as it was.
func TestNote(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := note{
			home:  cluster.NodeID(rapid.Int32Min(-1).Draw(t, "home")),
			parts: rapid.Bool().Draw(t, "parts"), vain: rapid.Bool().Draw(t, "vain"), used: rapid.Bool().Draw(t, "used"),
			link:  rapid.SampledFrom([]link{apart, failed, trying, paired}).Draw(t, "link"),
			with:  job.ID(rapid.Int32Min(-1).Draw(t, "with")),
			stamp: time.Duration(rapid.Int64Range(-1, 1<<60).Draw(t, "stamp")),
			rate:  rapid.Float64Range(0, 1e6).Draw(t, "rate"), use: rapid.Float64Range(0, 1).Draw(t, "use"),
		}
		if got, _ := sched.Recall[note](simtest.Noted(t, &n)); got != n {
			t.Fatalf("%+v is read as %+v", n, got)
		}
	})
}

// TestGone: a job whose other one has ended is left alone, whether that one is still known
// or not.
func TestGone(t *testing.T) {
	g := policy{place: []int32{0, 0}} // job 1 is known and has ended
	for _, with := range []job.ID{1, 7, job.None} {
		for _, l := range []link{trying, paired} {
			m := member{note: note{link: l, with: with}}
			if g.checkPair(&m); m.note.link != apart || !m.changed {
				t.Errorf("with job %d: %+v", with, m.note)
			}
		}
	}
}
