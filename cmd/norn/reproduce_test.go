package main

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/norn-scheduler/norn/experiment/reproduce"
)

// TestReproduce holds a policy against its paper on generated workloads, which need no
// data, and finds the figures that its commands give.
func TestReproduce(t *testing.T) {
	out, told := works(t, "reproduce", "rmixer", "--quick", "--json")
	var rows []reproduce.Row
	if err := json.Unmarshal([]byte(out), &rows); err != nil || len(rows) < 5 {
		t.Fatalf("%d rows, %v", len(rows), err)
	}
	if !strings.Contains(told, "claims are within their tolerances") || !strings.Contains(told, "studies") {
		t.Errorf("%q", told)
	}
	dir := t.TempDir()
	for i, command := range strings.Split(rows[0].Commands[0], "; ") {
		words, err := shellWords(command)
		if err != nil {
			t.Fatal(err)
		}
		for j := range words {
			if words[j] == reproduce.TraceFile || words[j] == reproduce.ClusterFile {
				words[j] = filepath.Join(dir, words[j])
			}
		}
		if words[0] == "printf" {
			if err := os.WriteFile(words[3], []byte(strings.ReplaceAll(words[1], `\n`, "\n")), 0o666); err != nil {
				t.Fatal(err)
			}
			continue
		}
		out, _ = works(t, append(words[1:], map[string][]string{"sim": {"--table", "json"}}[words[1]]...)...)
		if i == 2 {
			var runs []struct {
				Makespan float64 `json:"makespan_s"`
			}
			if err := json.Unmarshal([]byte(out), &runs); err != nil || len(runs) != 2 {
				t.Fatalf("%v, %s", err, out)
			}
			if ratio := runs[1].Makespan / runs[0].Makespan; math.Abs(ratio/rows[0].Ratios[0]-1) > 0.001 || math.Abs(runs[0].Makespan/rows[0].Figures[0]-1) > 0.001 {
				t.Errorf("%q gives %v and %v, norn reproduce %v and %v", command, ratio, runs[0].Makespan, rows[0].Ratios[0], rows[0].Figures[0])
			}
		}
	}
}

// TestReproduceAgainst fails where a record was better, and not where it was the same.
func TestReproduceAgainst(t *testing.T) {
	out, _ := works(t, "reproduce", "rmixer", "--quick", "--json", "-q")
	same := file(t, "same.json", out)
	if _, told := works(t, "reproduce", "rmixer", "--quick", "-q", "--against", same); told != "" {
		t.Errorf("%q", told)
	}
	var rows []reproduce.Row
	if err := json.Unmarshal([]byte(out), &rows); err != nil {
		t.Fatal(err)
	}
	rows[1].Ours *= 1.5
	text, err := json.Marshal(rows)
	if err != nil {
		t.Fatal(err)
	}
	_, told, code := norn(t, "reproduce", "rmixer", "--quick", "-q", "--against", file(t, "better.json", string(text)))
	if code != exitFailed || !strings.Contains(told, rows[1].ID) || strings.Contains(told, rows[0].ID+":") {
		t.Errorf("exit code %d, %q", code, told)
	}
}

// TestReproduceList shows what there is, and of one system how to do it by oneself.
func TestReproduceList(t *testing.T) {
	all, _ := works(t, "reproduce", "--list")
	for _, system := range reproduce.Systems(reproduce.Studies()) {
		if !strings.Contains(all, system+": ") {
			t.Errorf("%s is not listed", system)
		}
	}
	one, _ := works(t, "reproduce", "lucid", "--list")
	if strings.Contains(all, "norn sim $NORN_DATA") || !strings.Contains(one, "norn sim $NORN_DATA/data/philly/") || strings.Contains(one, "muri") {
		t.Errorf("%s", one)
	}
}

// TestReproduceNoData: what is not at hand is said, and not counted.
func TestReproduceNoData(t *testing.T) {
	out, told := works(t, "reproduce", "pop", "--data", t.TempDir())
	if !strings.Contains(out, "no data: golden/inputs/gavel_gen300s.trace.gz") || !strings.Contains(told, "norn: 0 of 0 claims are within their tolerances; of 3 the data is not at hand") {
		t.Errorf("%s, %s", out, told)
	}
	for line, want := range map[string]string{
		"reproduce":             "name a system, or write --all",
		"reproduce lucid --all": "not both",
		"reproduce lucit":       "mean lucid?",
		"reproduce lucid --against none-at-all.json": "none-at-all.json",
	} {
		if out, errOut, code := norn(t, strings.Fields(line)...); code == 0 || out != "" || !strings.Contains(errOut, want) {
			t.Errorf("norn %s: exit code %d, %q, %q", line, code, out, errOut)
		}
	}
}
