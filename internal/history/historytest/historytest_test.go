package historytest_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/norn-scheduler/norn/internal/history/historytest"
)

// TestCompare: what may differ from world to world is no difference, all else is
// one.
func TestCompare(t *testing.T) {
	expected := strings.Split(`0 submit a
0 start a on n0[0-3]
10 submit b
10 preempt a kept=10: makes room for job b, which goes first
10 start b on n0[0-3]
12 wait b: needs 4 GPUs; 1 free; expected to fit at 40s
30 end b done
30 start a on n0[0-3]
40 end a done`, "\n")
	happened := strings.Split(`0.1 submit a
0.1 start a on n0[0-3] delay=0.5
1 submit b
1 preempt a kept=0.9: makes room for job b, which goes first
1 assign b on n0[0-3]
1.2 gone a
1.2 start b on n0[0-3]
1.2 wait a: jobs of higher priority take the GPUs
1.4 wait b: needs 4 GPUs; 1 free; expected to fit at 4s
1.5 wait b: needs 4 GPUs; 1 free; expected to fit at 5s
3 end b done
3 start a on n0[0-3]
4 end a done`, "\n")
	if diff := historytest.Compare(expected, happened); diff != "" {
		t.Error(diff)
	}
	for i := range happened {
		what := strings.Fields(happened[i])[1]
		if what == "gone" || what == "assign" || what == "wait" {
			continue
		}
		if diff := historytest.Compare(expected, slices.Delete(slices.Clone(happened), i, i+1)); diff == "" {
			t.Errorf("without %q there is no difference", happened[i])
		}
		if diff := historytest.Compare(expected, slices.Insert(slices.Clone(happened), i, happened[i])); diff == "" {
			t.Errorf("with %q twice there is no difference", happened[i])
		}
	}
	happened[10] = "3 end b failed"
	if historytest.Compare(expected, happened) == "" {
		t.Error("another outcome is no difference")
	}
}
