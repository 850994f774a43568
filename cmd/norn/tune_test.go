package main

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
)

// TestTune tunes a policy on the built-in jobs and on a log, as a table and as JSON, and the settings that
// come of it are taken by norn sim.
func TestTune(t *testing.T) {
	out, _ := works(t, "tune", "--policy", "tiresias", "--trials", "20", "--explain", "-q")
	for _, want := range []string{"% lower than with the settings that it has", "1050 jobs", "450 later jobs", "20 proposals simulated", "without it"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is missing in\n%s", want, out)
		}
	}
	dir := filepath.Join(t.TempDir(), "out")
	works(t, "sim", "--policy", "fifo", "-q", "-o", dir)
	text, _ := works(t, "tune", filepath.Join(dir, "fifo", "events.log.zst"), "--policy", "tiresias(promote=8)", "--trials", "12", "--later", "0", "--objective", "p99-jct", "--json", "-q")
	var got tunedObject
	if err := json.Unmarshal([]byte(text), &got); err != nil {
		t.Fatal(err)
	}
	if got.Objective != "p99-jct" || got.Default != "tiresias(promote=8)" || got.Jobs != 1500 || got.Later != 0 || got.LaterWas != nil || got.Is > got.Was || len(got.Trials) < 12 {
		t.Errorf("%+v", got)
	}
	if !strings.Contains(got.Best, "promote=8") {
		t.Errorf("%s has not what was set", got.Best)
	}
	works(t, "sim", "--policy", got.Best, "-q")
	for want, args := range map[string][]string{
		"name the policy": {}, "--trials 0": {"--trials", "0"}, "--objective": {"--objective", "mean"}, "--later 1": {"--later", "1"}, "a flag of norn sim": {"--grow", "1"},
	} {
		if len(args) > 0 {
			args = append(args, "--policy", "tiresias")
		}
		if _, errOut, code := norn(t, append([]string{"tune"}, args...)...); code != exitUsage || !strings.Contains(errOut, want) {
			t.Errorf("%v: %d %s", args, code, errOut)
		}
	}
	if _, errOut, code := norn(t, "tune", "--policy", "srtf(place=pack,victims=order)"); code != exitFailed || !strings.Contains(errOut, "no settings to try") {
		t.Errorf("%d %s", code, errOut)
	}
}
