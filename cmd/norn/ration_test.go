package main

import (
	"path/filepath"
	"strings"
	"testing"
)

// TestAssumeCPU: jobs of any trace are given models, and nodes cores and memory, where
// they tell none, so that synergy makes a difference; the user is told of both.
func TestAssumeCPU(t *testing.T) {
	run := func(args ...string) (out, told string) {
		out, told, code := norn(t, append([]string{"sim", "--limit", "300", "--policy", "synergy(share=proportional),synergy", "--table", "csv"}, args...)...)
		if code != 0 {
			t.Fatalf("%d\n%s", code, told)
		}
		return out, told
	}
	rows := func(out string) (proportional, tune string) {
		lines := strings.Split(strings.TrimSpace(out), "\n")
		if len(lines) != 3 {
			t.Fatalf("%q", out)
		}
		_, proportional, _ = strings.Cut(lines[1], ")")
		_, tune, _ = strings.Cut(lines[2], "synergy")
		proportional, _, _ = strings.Cut(proportional, ",oracle,") // what was lacking stands behind
		tune, _, _ = strings.Cut(tune, ",oracle,")
		return strings.Trim(proportional, `"`), strings.Trim(tune, `"`)
	}
	out, told := run("--cluster", "8x8", "--assume", "cpu")
	if a, b := rows(out); a == b || !strings.Contains(told, "what 300 jobs train, or what it needs of cores and memory,") || !strings.Contains(told, "and 8 nodes to have 3 cores and 62.50GiB for each GPU") {
		t.Errorf("%s\n%s", out, told)
	}
	if _, told = run("--cluster", "synergy", "--assume", "cpu"); strings.Contains(told, "nodes to have") {
		t.Errorf("%s", told)
	}
	out, _ = run("--cluster", "8x8")
	if a, b := rows(out); a != b {
		t.Errorf("without anything known of cores and memory:\n%s", out)
	}
}

// TestGenerateSynergy: the workload of Synergy's evaluation, and what cannot be asked of it.
func TestGenerateSynergy(t *testing.T) {
	path := filepath.Join(t.TempDir(), "w.csv")
	works(t, "trace", "generate", "--like", "synergy", "--jobs", "50", "--mix", "0,0,100", "--gangs", "-o", path)
	out, _ := works(t, "sim", path, "-c", "synergy", "-p", "synergy", "--assume", "cpu", "--table", "csv")
	if !strings.Contains(out, "synergy") {
		t.Errorf("%s", out)
	}
	for _, args := range [][]string{{"--mix", "1,2"}, {"--mix", "50,20,20", "--jobs", "5"}, {"--jobs", "5", "--per-hour", "0"}, {}} {
		if _, errOut, code := norn(t, append([]string{"trace", "generate", "--like", "synergy"}, args...)...); code == 0 || errOut == "" {
			t.Errorf("%q was let through", args)
		}
	}
}
