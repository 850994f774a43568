package main

import (
	"cmp"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// mostGrowth is how many times the statements of a decision may be that is about twice as
// many jobs and GPUs. All pairs of jobs would make it 4.
const mostGrowth = 3

// mostRunGrowth is how many times the statements may be that a run takes for each of its
// jobs, where there are four times as many jobs on four times as many GPUs. A look at all
// running jobs at each event would make it 4.
const mostRunGrowth = 1.4

// TestGrowth: no policy looks at all pairs of jobs in a decision, and a run of many jobs on many
// GPUs takes about as much for each job as a small one. Statements are counted by a build of this
// program, so that a busy machine changes nothing.
func TestGrowth(t *testing.T) {
	if testing.Short() {
		t.Skip("builds a program with counters")
	}
	t.Parallel()
	bin := counting(t)
	t.Run("decisions", func(t *testing.T) {
		t.Parallel()
		grows(t, bin, func(int) float64 { return mostGrowth }, len(questions()), "twice", "-steps")
	})
	t.Run("runs", func(t *testing.T) {
		t.Parallel()
		runs := longRuns()
		grows(t, bin, func(i int) float64 { return cmp.Or(runs[i].grows, mostRunGrowth) }, len(runs), "four times", "-steps", "-runs")
	})
}

// counting builds this program so that it counts its statements.
func counting(t *testing.T) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "bench")
	packages := "-coverpkg=."
	for _, p := range []string{"policy/...", "place/...", "sched", "state/...", "cluster/...", "perf/...", "solve/...", "tenant", "job"} {
		packages += ",../../" + p
	}
	if out, err := exec.Command("go", "build", "-cover", "-covermode=atomic", packages, "-o", path, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return path
}

// grows has a program count statements at two sizes, and demands that those of each line, by its
// number, are at most so many times as many.
func grows(t *testing.T, bin string, most func(int) float64, lines int, times string, args ...string) {
	t.Helper()
	out, err := exec.Command(bin, args...).Output()
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
		if seen < lines && growth > most(seen) {
			t.Errorf("%s: %s statements become %s with %s as many jobs on %s as many GPUs", f[0], f[1], f[2], times, times)
		}
		seen++
	}
	if seen != lines {
		t.Errorf("%d policies were counted, there are %d", seen, lines)
	}
}
