package local

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
)

// TestLife has every cell of the life of a run: testdata/life.txt.
func TestLife(t *testing.T) {
	datadriven.RunTest(t, "testdata/life.txt", func(t *testing.T, _ *datadriven.TestData) string {
		var b strings.Builder
		for s := range stages {
			for h := range happenings {
				next := life(s, h)
				fmt.Fprintf(&b, "%-9s %-8s -> %-9s %s\n", s, h, next.to, next.do)
			}
		}
		return b.String()
	})
}

// What holds in every cell: what cannot be and what a runner says late change nothing, a
// run ends from wherever it is there, and something is there from its launch to its end.
func TestLifeHolds(t *testing.T) {
	reached := map[stage]bool{noRun: true, late: true} // late is a verdict, not a happening
	for range stages {
		for s := range stages {
			for h := range happenings {
				if reached[s] {
					reached[life(s, h).to] = true
				}
			}
		}
	}
	for s := range stages {
		if !reached[s] {
			t.Errorf("no run is ever %s", s)
		}
		for h := range happenings {
			next := life(s, h)
			switch {
			case (next.do == nothing || next.do == cannotBe) && next.to != s:
				t.Errorf("%s: %s leads to %s, and nothing is done", s, h, next.to)
			case h == isOver && (s.there() != (next.do == conclude) || next.to.there()):
				t.Errorf("%s: %s leads to %s by %s", s, h, next.to, next.do)
			case (h == isUp || h == isStill || h == isOver) && next.do == cannotBe:
				t.Errorf("%s: a runner may say at any time that it %s", s, h)
			case next.do == launch && s.there(), next.do == tell && !s.there(), next.do == thaw && s != frozen:
				t.Errorf("%s: %s leads to %s by %s", s, h, next.to, next.do)
			case h == starts && next.do != cannotBe && !next.to.there():
				t.Errorf("%s: %s leads to %s", s, h, next.to)
			}
		}
	}
}
