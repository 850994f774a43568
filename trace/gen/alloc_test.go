package gen

import (
	"testing"

	"github.com/norn-scheduler/norn/trace"
)

// TestMemory: jobs cost next to no allocation, and a generator holds no more
// after many jobs than after few.
func TestMemory(t *testing.T) {
	for l := range likes {
		g, err := New(Options{Like: l, Jobs: 300_000, Seed: 1})
		if err != nil {
			t.Fatal(err)
		}
		var e trace.Entry
		next := func() {
			for range 1000 {
				if err := g.Next(&e); err != nil {
					t.Fatal(err)
				}
			}
		}
		if allocs := testing.AllocsPerRun(100, next) / 1000; allocs > .3 {
			t.Errorf("%v: %.2f allocations a job", l, allocs)
		}
		before := len(g.active)
		for range 150 {
			next()
		}
		if len(g.active) > 2*before+20 {
			t.Errorf("%v: %d sessions at once after few jobs, %d after many", l, before, len(g.active))
		}
	}
}
