package main

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestModel asks for the plans of a model with 39 billion parameters, in all forms, and
// simulates jobs by the speeds.
func TestModel(t *testing.T) {
	ask := []string{"model", "--layers", "48", "--hidden", "8192", "--heads", "64", "--batch", "256", "--gpus", "64"}
	out, _ := works(t, ask...)
	if !strings.Contains(out, "39.09 billion parameters") || len(strings.Split(out, "\n")) < 13 {
		t.Errorf("%s", out)
	}
	out, _ = works(t, append(ask, "--json", "--top", "0", "--tokens", "1e9", "--price", "2")...)
	var rows []planRow
	if err := json.Unmarshal([]byte(out), &rows); err != nil || len(rows) < 10 {
		t.Fatalf("%v: %d plans", err, len(rows))
	}
	for i, r := range rows {
		iterations := math.Ceil(1e9 / (256 * 2048))
		if r.Tensor*r.Data*r.Pipeline != 64 || !r.Fits || r.Memory > 80 || i > 0 && r.Iteration < rows[i-1].Iteration || math.Abs(r.Days*86400-iterations*r.Iteration) > 1e-6 || math.Abs(r.Cost-r.Days*24*64*2) > 1e-6 {
			t.Errorf("plan %d is %+v", i, r)
		}
	}
	csv, _ := works(t, append(ask, "--csv")...)
	if lines := strings.Split(strings.TrimSpace(csv), "\n"); len(lines) != 11 || !strings.HasPrefix(lines[0], "gpus,tensor,data,pipe,micro,recompute,iteration_s") {
		t.Errorf("%s", csv)
	}
	speeds := filepath.Join(t.TempDir(), "speeds.json")
	works(t, "model", "--layers", "24", "--hidden", "2048", "--heads", "16", "--batch", "64", "--gpus", "1,2,4", "--speeds", speeds, "--name", "gpt")
	var table map[string]map[string]map[string]float64
	content, err := os.ReadFile(speeds)
	if err == nil {
		err = json.Unmarshal(content, &table)
	}
	one, four := table["a100"]["('gpt', 1)"]["null"], table["a100"]["('gpt', 4)"]["null"]
	if err != nil || !(four > 2*one && four < 4*one && one > 0) {
		t.Errorf("%v: 1 GPU runs at %v, 4 at %v", err, one, four)
	}
	jobs := file(t, "jobs.csv", "id,name,submit,duration,gpus\na,gpt,0,1000,4\n")
	out, _ = works(t, "sim", jobs, "--cluster", "1x4:A100", "--policy", "fifo", "--speeds", speeds)
	if !strings.Contains(out, "fifo") {
		t.Errorf("%s", out)
	}
}

func TestModelMistakes(t *testing.T) {
	for line, want := range map[string]string{
		"model --hidden 1024": "--layers is missing",
		"model --layers 3 --hidden 1024 --heads 16 --batch 7 --gpus 5":                   "no plan splits 3 layers, 16 heads and a global batch of 7 evenly over 5 GPUs",
		"model --layers 2 --hidden 1024 --heads 16 --batch 8 --gpus 1 --recompute never": "write on, off or auto",
		"model --layers 2 --hidden 1024 --heads 16 --batch 8 --gpus 1 --gpu none.json":   "there is no profile of none.json",
		"model --layers 2 --hidden 1024 --heads 16 --batch 8 --gpus 1 --speeds a.json":   "--speeds and --name go together",
		"model fit none.csv":              "none.csv",
		"model check none.csv --gpu a100": "none.csv",
	} {
		_, errOut, code := norn(t, strings.Fields(line)...)
		if code == 0 || !strings.Contains(errOut, want) {
			t.Errorf("norn %s: %d, %s; want %q", line, code, errOut, want)
		}
	}
}

// TestModelFit fits a profile to some iterations and finds them again.
func TestModelFit(t *testing.T) {
	measured := file(t, "m.csv", "global batch,micro batch,hidden size,attention heads,# layers,sequence length,tensor parallelism,data parallelism,pipeline parallelism,iteration time (ms)\n"+
		"16,8,1024,16,24,1024,1,1,2,372.16\n32,4,1024,16,24,1024,2,2,2,219.73\n16,4,2048,16,24,1024,1,2,2,410.49\n32,4,1024,16,24,1024,2,2,2,219.73\n")
	to := filepath.Join(t.TempDir(), "p.json")
	out, _ := works(t, "model", "fit", measured, "--rows", "odd", "--gpu", "A200", "--out", to)
	if !strings.Contains(out, "the other rows") {
		t.Errorf("%s", out)
	}
	out, _ = works(t, "model", "check", measured, "--gpu", to, "--json")
	var rows []accuracyRow
	if err := json.Unmarshal([]byte(out), &rows); err != nil || len(rows) != 3 || rows[0].Count != 4 || rows[0].Mean > .1 || rows[2].Mean > .001 {
		t.Errorf("%v: %+v", err, rows)
	}
	if text, err := os.ReadFile(to); err != nil || !strings.Contains(string(text), `"gpu": "A200"`) {
		t.Errorf("%v: %s", err, text)
	}
}
