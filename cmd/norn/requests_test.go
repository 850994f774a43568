package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/norn-scheduler/norn/sim/serve"
)

// A trace of requests is made, replayed under policies of tokens, and written; what it does not know is told.
func TestRequestsOfTokens(t *testing.T) {
	dir := t.TempDir()
	path, to := filepath.Join(dir, "two.csv"), filepath.Join(dir, "out")
	if out, told, code := norn(t, "trace", "generate", "--like", "requests", "--client", "a:rate=90", "--client", "b:rate=180", "--span", "2m", "-o", path); code != 0 {
		t.Fatal(out, told)
	}
	out, told, code := norn(t, "sim", path, "--policy", "fcfs,vtc,vtc(weights=b:2)", "--out", to)
	if code != 0 || !strings.Contains(out, "540 requests of 2 clients, on a10g-7b") || !strings.Contains(out, "vtc(weights=b:2)") {
		t.Fatalf("%v\n%s", told, out)
	}
	gap := map[string]float64{}
	for _, name := range []string{"fcfs", "vtc"} {
		var s serve.Summary
		b, err := os.ReadFile(filepath.Join(to, name, "summary.json"))
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(b, &s); err != nil || s.Policy != name || len(s.Clients) != 2 || s.Requests != 540 {
			t.Fatalf("%s: %+v, %v", name, s, err)
		}
		gap[name] = s.Gap
		for file, lines := range map[string]int{"requests.csv": 541, "service.csv": 2} {
			b, err := os.ReadFile(filepath.Join(to, name, file))
			if n := strings.Count(string(b), "\n"); err != nil || n < lines {
				t.Errorf("%s of %s: %d lines, %v", file, name, n, err)
			}
		}
	}
	if gap["vtc"]*5 > gap["fcfs"] {
		t.Errorf("gaps %v", gap)
	}
	if out, told, code := norn(t, "sim", path, "--out", to, "--table", "json"); code != 0 || !json.Valid([]byte(out)) {
		t.Errorf("again into the same folder: %v\n%s", told, out)
	}
	for want, args := range map[string][]string{
		"knows only":          {"sim", path, "--cluster", "4x4"},
		"did you mean vtc":    {"sim", path, "--policy", "vct"},
		"is not known; known": {"sim", path, "--server", "abacus"},
		"unknown parameter":   {"sim", path, "--policy", "vtc(speed=2)"},
		"named twice":         {"sim", path, "--policy", "vtc,vtc"},
		"no request is of":    {"sim", path, "--policy", "vtc(weights=x:2)"},
		"at least 1":          {"sim", path, "--clients", "0"},
		"has the file":        {"sim", path, "--out", dir},
		"write a name":        {"trace", "generate", "--like", "requests", "--client", "a"},
		"written as .csv":     {"trace", "generate", "--like", "requests", "-o", filepath.Join(dir, "x.jsonl")},
		"of tokens is not":    {"policies", "--tokens", "srtf"},
	} {
		if out, told, code := norn(t, args...); code == 0 || !strings.Contains(told, want) {
			t.Errorf("%v: %v, want %q\n%s", args, told, want, out)
		}
	}
	for want, args := range map[string][]string{
		"virtual token counters": {"policies", "--tokens"}, "client:weight": {"policies", "--tokens", "vtc"}, `"name": "drr"`: {"policies", "--tokens", "--json"},
	} {
		if out, told, code := norn(t, args...); code != 0 || !strings.Contains(out, want) {
			t.Errorf("%v: %v\n%s", args, told, out)
		}
	}
}
