package main

import (
	"path/filepath"
	"strings"
	"testing"
)

// TestPlanManaged asks of a history what idle nodes that sleep, and jobs that are moved together, would have
// changed: rows of their own, beside the check, which has neither.
func TestPlanManaged(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "out")
	works(t, "sim", "--policy", "fifo(place=consolidated)", "-q", "-o", dir)
	log := filepath.Join(dir, "fifo(place=consolidated)", "events.log.zst")
	out, errOut := works(t, "plan", "--log", log, "--sleep", "vanilla")
	for _, want := range []string{"fifo(place=consolidated), simulated", "fifo(place=consolidated), idle nodes asleep", "is off by 0.0%"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is missing in\n%s", want, out)
		}
	}
	if !strings.Contains(errOut, "wakes a day") || !strings.Contains(errOut, "kWh instead of") || strings.Contains(out, "With another number of GPUs") {
		t.Errorf("%s\n%s", errOut, out)
	}
	out, errOut = works(t, "plan", "--log", log, "--policy", "srtf(place=consolidated)", "--defrag", "2", "--add-nodes", "1x8")
	if !strings.Contains(out, "srtf(place=consolidated), +1x8, jobs moved together") || !strings.Contains(errOut, "defragmentation: ") {
		t.Errorf("%s\n%s", errOut, out)
	}
	for _, bad := range [][]string{{"--sleep", "nap"}, {"--defrag", "0.5"}} {
		if _, errOut, code := norn(t, append([]string{"plan", "--log", log}, bad...)...); code != exitUsage || !strings.Contains(errOut, bad[0]) {
			t.Errorf("%v: %d %s", bad, code, errOut)
		}
	}
}
