package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/norn-scheduler/norn/report"
)

// TestFromSummary: a summary tells what its run was made from, and the run can be made
// again, to the last byte, on the same trace only.
func TestFromSummary(t *testing.T) {
	dir := t.TempDir()
	jobs := filepath.Join(dir, "jobs.csv")
	text, _ := works(t, "trace", "generate", "--like", "philly", "--jobs", "60", "--gpus", "16", "--seed", "3")
	if err := os.WriteFile(jobs, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	read := func(path string) string {
		t.Helper()
		b, err := os.ReadFile(filepath.Join(dir, path))
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	first, again := filepath.Join(dir, "first"), filepath.Join(dir, "again")
	works(t, "sim", jobs, "--cluster", "2x8:V100", "--policy", "fifo(mode=skip),tiresias", "--set", "tiresias.limits=600,6000", "--seed", "7",
		"--job-mtbf", "10h", "--cost", "start=10s,restore=20s", "--estimates", "oracle+20%", "--out", first)
	for _, policy := range []string{"fifo(mode=skip)", "tiresias(limits=600,6000)"} {
		summary := filepath.Join(first, policy, "summary.json")
		works(t, "sim", "--from-summary", summary, "--out", again)
		for _, name := range []string{"jobs.csv", "summary.json", "events.log.zst"} {
			if read(filepath.Join("first", policy, name)) != read(filepath.Join("again", policy, name)) {
				t.Errorf("%s: %s is another one", policy, name)
			}
		}
		if entries, err := os.ReadDir(again); err != nil || len(entries) != 3 {
			t.Errorf("%s: %v, %v", policy, entries, err)
		}
	}
	summary := filepath.Join(first, "fifo(mode=skip)", "summary.json")
	o, err := report.ReadOrigin(strings.NewReader(read("first/fifo(mode=skip)/summary.json")))
	if err != nil || o.Command != "sim" || o.Trace.Path != jobs || len(o.Trace.SHA256) != 64 || o.Policy != "fifo(mode=skip)" || o.Norn != version() {
		t.Errorf("%+v, %v", o, err)
	}

	// Flags that are given anew take precedence over the recorded ones.
	works(t, "sim", "--from-summary", summary, "--seed", "8", "--out", again)
	if read("first/fifo(mode=skip)/jobs.csv") == read("again/fifo(mode=skip)/jobs.csv") {
		t.Error("another seed changes nothing")
	}
	copied := filepath.Join(dir, "copied.csv")
	if err := os.WriteFile(copied, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	works(t, "sim", copied, "--from-summary", summary, "--out", again)
	if read("first/fifo(mode=skip)/jobs.csv") != read("again/fifo(mode=skip)/jobs.csv") {
		t.Error("the same trace in another place is another one")
	}

	// The built-in trace has no path, a cluster may be a file.
	machines := file(t, "machines.yaml", "nodes:\n  - count: 8\n    gpus: [{type: V100, count: 8}]\n")
	works(t, "sim", "--policy", "srtf", "--cluster", machines, "--out", again)
	works(t, "sim", "--from-summary", filepath.Join(again, "srtf", "summary.json"), "--out", first)
	if read("first/srtf/summary.json") != read("again/srtf/summary.json") {
		t.Error("the built-in trace is another one")
	}

	for name, change := range map[string]string{jobs: text + "x", machines: "nodes:\n  - count: 9\n    gpus: [{type: V100, count: 8}]\n"} {
		if err := os.WriteFile(name, []byte(change), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	works(t, "sim", copied, "--cluster", "2x8", "--policy", "fifo", "--out", first)
	old := file(t, "old.json", `{"jobs":{"submitted":3}}`)
	planned := file(t, "planned.json", `{"made":{"command":"plan","policy":"fifo"}}`)
	later := file(t, "later.json", `{"made":{"norn":"v9","command":"sim","policy":"fifo","flags":[{"name":"warp","value":"9"}]}}`)
	piped := file(t, "piped.json", `{"made":{"command":"sim","policy":"fifo","trace":{"path":"-"}}}`)
	moved := file(t, "moved.json", strings.ReplaceAll(read("first/fifo/summary.json"), copied, copied+".gone"))
	changed := file(t, "changed.json", strings.ReplaceAll(read("first/fifo/summary.json"), copied, jobs))
	for summary, want := range map[string]string{
		changed: jobs + " has changed since the result was made: its SHA-256 is ", filepath.Join(again, "srtf", "summary.json"): machines + " has changed since the result was made",
		old: "does not tell what the run was made from", planned: "was written by norn plan", later: "norn sim has no flag --warp", piped: "name it, or -",
		moved: "copied.csv.gone: no such file", filepath.Join(first, "fifo", "jobs.csv"): "is no summary of a run", filepath.Join(dir, "none"): "no such file",
	} {
		if _, errOut, code := norn(t, "sim", "--from-summary", summary); code == 0 || !strings.Contains(errOut, want) {
			t.Errorf("%s: exit code %d, %q, want %q", summary, code, errOut, want)
		}
	}
}
