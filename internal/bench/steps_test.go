package main

import (
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// mostGrowth is how many times the statements of a decision may be that is about twice as
// many jobs and GPUs. All pairs of jobs would make it 4.
const mostGrowth = 3

// TestDecisionsGrow: no policy looks at all pairs of jobs in a decision. Statements are
// counted by a build of this program, so that a busy machine changes nothing.
func TestDecisionsGrow(t *testing.T) {
	if testing.Short() {
		t.Skip("builds a program with counters")
	}
	bin := filepath.Join(t.TempDir(), "bench")
	packages := "-coverpkg=."
	for _, p := range []string{"policy/...", "place/...", "sched", "state/...", "cluster/...", "perf/...", "solve/...", "tenant", "job"} {
		packages += ",../../" + p
	}
	if out, err := exec.Command("go", "build", "-cover", "-covermode=atomic", packages, "-o", bin, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	out, err := exec.Command(bin, "-steps").Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	seen := 0
	for line := range strings.Lines(string(out)) {
		f := strings.Split(strings.TrimSpace(line), "\t")
		growth, err := strconv.ParseFloat(f[len(f)-1], 64)
		if err != nil || len(f) != 4 {
			t.Fatalf("%q: %v", line, err)
		}
		if seen++; growth > mostGrowth {
			t.Errorf("%s: %s statements of a decision become %s with twice as many jobs on twice as many GPUs", f[0], f[1], f[2])
		}
	}
	if seen != len(questions()) {
		t.Errorf("%d policies were counted, there are %d", seen, len(questions()))
	}
}
