package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/norn-scheduler/norn/sim/dag"
)

// A trace of graphs of stages is made, replayed under policies of stages, and written; what it does not know is told.
func TestGraphsOfStages(t *testing.T) {
	dir := t.TempDir()
	path, to := filepath.Join(dir, "dags.jsonl"), filepath.Join(dir, "out")
	if out, told, code := norn(t, "trace", "generate", "--like", "tpch", "--jobs", "12", "--initial", "4", "-o", path); code != 0 {
		t.Fatal(out, told)
	}
	out, told, code := norn(t, "sim", path, "--policy", "fifo,decima,weighted(alpha=-0.5)", "--out", to)
	if code != 0 || !strings.Contains(out, "12 graphs of stages, on 50 executors") || !strings.Contains(out, "weighted(alpha=-0.5)") {
		t.Fatalf("%v\n%s", told, out)
	}
	mean := map[string]float64{}
	for _, name := range []string{"fifo", "decima"} {
		var s dag.Summary
		b, err := os.ReadFile(filepath.Join(to, name, "summary.json"))
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(b, &s); err != nil || s.Policy != name || s.Jobs != 12 {
			t.Fatalf("%s: %+v, %v", name, s, err)
		}
		mean[name] = s.Mean
		if b, err := os.ReadFile(filepath.Join(to, name, "jobs.csv")); err != nil || strings.Count(string(b), "\n") != 13 {
			t.Errorf("jobs of %s: %v", name, err)
		}
	}
	if mean["decima"] >= mean["fifo"] {
		t.Errorf("means %v", mean)
	}
	for want, args := range map[string][]string{
		"knows only":          {"sim", path, "--cluster", "4x4"},
		"did you mean fair":   {"sim", path, "--policy", "fiar"},
		"write 1 to 10000":    {"sim", path, "--executors", "0"},
		"unknown parameter":   {"sim", path, "--policy", "fair(speed=2)"},
		"named twice":         {"sim", path, "--policy", "fair,fair"},
		"with one seed":       {"sim", path, "--seed", "1,2"},
		"has the file":        {"sim", path, "--out", dir},
		"no such file":        {"sim", path, "--weights", filepath.Join(dir, "none")},
		"--jobs N":            {"trace", "generate", "--like", "tpch"},
		"written as .jsonl":   {"trace", "generate", "--like", "tpch", "--jobs", "1", "-o", filepath.Join(dir, "x.csv")},
		"of stages is not":    {"policies", "--stages", "srtf"},
		"name the file":       {"train", "decima"},
		"of 2 at least":       {"train", "decima", "--out", path, "--agents", "1"},
		"invalid character":   {"train", "decima", "--out", filepath.Join(to, "fifo", "jobs.csv")},
		"weights, and the ne": {"train", "decima", "--out", filepath.Join(to, "fifo", "summary.json")},
	} {
		if out, told, code := norn(t, args...); code == 0 || !strings.Contains(told, want) {
			t.Errorf("%v: %v, want %q\n%s", args, told, want, out)
		}
	}
	if out, told, code := norn(t, "policies", "--stages", "weighted"); code != 0 || !strings.Contains(out, "alpha") {
		t.Errorf("%v\n%s", told, out)
	}
}

// A training is interrupted by its time, goes on, and its weights are those that decima runs with.
func TestTrain(t *testing.T) {
	dir := t.TempDir()
	weights, path := filepath.Join(dir, "w.json"), filepath.Join(dir, "dags.jsonl")
	args := []string{"train", "decima", "--out", weights, "--agents", "2", "--imitate", "1", "--iterations", "1", "--executors", "5", "--gap", "120s", "--quiet"}
	for _, hours := range []string{"1e-9", "1"} {
		if out, told, code := norn(t, append(args, "--hours", hours)...); code != 0 {
			t.Fatal(out, told)
		}
	}
	c, err := readWeights(weights)
	if err != nil || c.Iteration != 2 {
		t.Fatalf("iteration %d, %v", c.Iteration, err)
	}
	if out, told, code := norn(t, "trace", "generate", "--like", "tpch", "--jobs", "3", "-o", path); code != 0 {
		t.Fatal(out, told)
	}
	if out, told, code := norn(t, "sim", path, "--policy", "decima", "--weights", weights); code != 0 {
		t.Errorf("%v\n%s", told, out)
	}
	if _, told, code := norn(t, append(args, "--hours", "0", "--curve", filepath.Join(dir, "c.svg"))...); code == 0 || !strings.Contains(told, "no points yet") {
		t.Error(told)
	}
	c.Curve = []dag.Point{{Iteration: 20, Relative: 2, Validated: 3}, {Iteration: 40, Relative: 1, Validated: 2}}
	for name, want := range map[string]string{"c.svg": "", "c.txt": "ends in .svg"} {
		if err := drawCurve(filepath.Join(dir, name), c); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, told, code := norn(t, append(args, "--seed", "4")...); code == 0 || !strings.Contains(told, "begun with --seed 0") {
		t.Error(told)
	}
}
