package main

import (
	"path/filepath"
	"strings"
	"testing"
)

// TestSleep: nodes that sleep are told of in the table, and when the log is replayed they are those of
// the replay and not those of the log.
func TestSleep(t *testing.T) {
	out := filepath.Join(t.TempDir(), "out")
	slept, _ := works(t, "sim", "--policy", "srtf", "--sleep", "vanilla", "--table", "csv", "-q", "-o", out)
	if !strings.Contains(slept, "energy_kwh") || strings.Contains(slept, ",,,") {
		t.Errorf("%s", slept)
	}
	log := filepath.Join(out, "srtf", "events.log.zst")
	awake, _ := works(t, "sim", "--policy", "srtf", "--table", "csv", "-q")
	if again, _ := works(t, "sim", log, "--policy", "srtf", "--table", "csv", "-q"); again != awake {
		t.Errorf("%s\nis not what comes of the trace:\n%s", again, awake)
	}
	if again, _ := works(t, "sim", log, "--policy", "srtf", "--sleep", "vanilla", "--table", "csv", "-q"); again != slept {
		t.Errorf("%s\nis not what came of it before:\n%s", again, slept)
	}
	for _, bad := range [][]string{{"--sleep", "nap"}, {"--sleep", "ces(buffer=-1)"}, {"--boot", "x"}} {
		if _, errOut, code := norn(t, append([]string{"sim"}, bad...)...); code != exitUsage || !strings.Contains(errOut, bad[0]) {
			t.Errorf("%v: %d %s", bad, code, errOut)
		}
	}
}
