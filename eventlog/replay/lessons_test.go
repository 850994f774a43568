package replay_test

import (
	"bytes"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/norn-scheduler/norn/eventlog"
	"github.com/norn-scheduler/norn/eventlog/replay"
	"github.com/norn-scheduler/norn/policy"
	"github.com/norn-scheduler/norn/sim/simtest"
	"github.com/norn-scheduler/norn/tenant"
)

// TestLessonsAcrossLogs: what was learnt of random jobs that share devices is told by a
// log, and by several that lie one behind the other as by the whole, with the same events.
func TestLessonsAcrossLogs(t *testing.T) {
	pairs := 0
	rapid.Check(t, func(t *rapid.T) {
		shape := simtest.Shape{Packed: true, Shared: true}
		w := simtest.Draw(t, shape)
		w.Fresh(t, shape, rapid.SliceOfN(rapid.IntRange(1, 3), 1, 2).Draw(t, "nodes"))
		if w.Tenants == nil {
			w.Tenants = tenant.NewTree(time.Minute)
		}
		e, err := policy.ByName(rapid.SampledFrom([]string{"rmixer", "bsbf", "lucid"}).Draw(t, "policy"))
		if err != nil {
			t.Fatal(err)
		}
		p, err := e.New().Policy()
		if err != nil {
			t.Fatal(err)
		}
		log := newLogged(t, w.Cluster, w.Tenants, eventlog.Plain)
		s := play(t, &w, p, simtest.Source(w.Jobs), log)
		whole := log.bytes(t)
		first := strings.Count(string(whole[:max(0, bytes.Index(whole, []byte(`"e":"submit"`)))]), "\n")
		at := rapid.SliceOfNDistinct(rapid.IntRange(max(1, min(events(whole)-1, first)), events(whole)-1), 1, 3, rapid.ID).Draw(t, "at")
		slices.Sort(at)
		parts := split(t, whole, rapid.Bool().Draw(t, "torn"), at...)
		if a, b := told(t, whole), told(t, parts); a != b {
			t.Fatalf("events\n%s\nof the parts\n%s", a, b)
		}
		for _, text := range [][]byte{whole, parts} {
			r, err := eventlog.NewReader(bytes.NewReader(text), "test.log")
			if err != nil {
				t.Fatal(err)
			}
			all, torn, err := replay.Lessons(r)
			if err != nil || torn || len(all) != len(s.Learnt()) {
				t.Fatalf("%d lessons (%v, %v), %d were learnt", len(all), torn, err, len(s.Learnt()))
			}
			got := maps.Clone(s.Learnt())
			for i, x := range all {
				for p, f := range s.Learnt() {
					if p.Job == x.Job && p.Beside == x.Beside && p.Type == x.Type && f == x.Speed && x.Times > 0 {
						delete(got, p)
					}
				}
				if i > 0 && x.Speed < all[i-1].Speed {
					t.Fatalf("the lessons are not in order: %+v", all)
				}
			}
			if len(got) > 0 {
				t.Fatalf("of %v nothing is told, or something else: %+v", got, all)
			}
			pairs += len(all)
		}
	})
	if pairs == 0 && !testing.Short() {
		t.Error("nothing was ever learnt")
	}
}
