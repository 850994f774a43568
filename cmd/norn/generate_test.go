package main

import (
	"encoding/csv"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// A batch of recommendation jobs goes through a file with all that is told of
// them. On one GPU and a host device, rmixer runs it several times as fast as
// one job at a time. explain lists the jobs beside which a job ran.
func TestGenerateDLRM(t *testing.T) {
	dir := t.TempDir()
	batch, site := filepath.Join(dir, "batch.jsonl"), file(t, "site.yaml", `
gpu-types: [{name: V100, memory: 16160MiB}, {name: cpu, host: true}]
nodes: [{count: 1, gpus: [{type: V100, count: 1}, {type: cpu, count: 1}]}]
`)
	works(t, "trace", "generate", "--like", "dlrm", "--list", "balance", "--seed", "1", "-o", batch)
	out, _ := works(t, "sim", batch, "-c", site, "-q", "--table", "csv", "-p", "rmixer(beta=4,batch-window=0),rmixer(job-policy=monolithic)", "-o", filepath.Join(dir, "out"))
	rows, err := csv.NewReader(strings.NewReader(out)).ReadAll()
	if err != nil || len(rows) != 3 {
		t.Fatalf("%q, %v", out, err)
	}
	at := slices.Index(rows[0], "makespan_s")
	makespan := func(row []string) (s float64) {
		if at >= 0 {
			fmt.Sscan(row[at], &s)
		}
		return s
	}
	if mix, one := makespan(rows[1]), makespan(rows[2]); !(mix > 0 && one > 3*mix) {
		t.Errorf("makespan %v s, one job at a time %v s\n%s", mix, one, out)
	}
	told, _ := works(t, "explain", filepath.Join(dir, "out", "rmixer(beta=4,batch-window=0)"), "difm-22")
	waited, _ := works(t, "explain", filepath.Join(dir, "out", "rmixer(beta=4,batch-window=0)"), "bst-17")
	told += waited
	for _, want := range []string{"waits: ", "which runs ", ", beside ", "times its reference speed", "it shared its GPUs for "} {
		if !strings.Contains(told, want) {
			t.Errorf("no %q in\n%s", want, told)
		}
	}
	for _, args := range [][]string{
		{"trace", "generate", "--like", "dlrm", "--list", "memry"}, {"trace", "generate", "--like", "dlrm", "--gap", "x"}, {"trace", "generate", "--like", "dlrm", "--outliers", "25"}, {"sim", "--assume", "vision"},
	} {
		if _, errOut, code := norn(t, args...); code == 0 || errOut == "" {
			t.Errorf("%q was let through", args)
		}
	}
}

// Undeclared properties of jobs are assumed on request, and the user is told.
func TestAssume(t *testing.T) {
	jobs := file(t, "jobs.csv", "job,submit,gpus,duration\na,0,1,100\nb,0,1,100\nc,0,2,100\n")
	_, errOut := works(t, "sim", jobs, "-c", "1x2", "-p", "rmixer", "--assume", "dlrm")
	if !strings.Contains(errOut, "what 2 jobs demand was not told") {
		t.Errorf("%q", errOut)
	}
}

// A data centre of four kinds of jobs is made and run on the cluster of the examples. The table
// tells each kind, and services that own their GPUs are kept within their targets.
func TestGenerateDatacenter(t *testing.T) {
	dir := t.TempDir()
	jobs := filepath.Join(dir, "jobs.jsonl")
	works(t, "trace", "generate", "--like", "datacenter", "--gpus", "128", "--span", "1d", "--seed", "1", "-o", jobs)
	out, _ := works(t, "sim", jobs, "-c", "../../examples/datacenter.yaml", "--assume", "datacenter", "-q", "-p", "fifo(mode=skip),muxflow,lyra", "-o", filepath.Join(dir, "out"))
	kept := map[string]string{}
	for line := range strings.Lines(out) {
		if f := strings.Fields(line); len(f) > 3 && f[0] == "inference" {
			kept[f[1]] = f[len(f)-3]
		}
	}
	if len(kept) != 3 || kept["muxflow"] != "100.0%" {
		t.Errorf("services within their targets: %v\n%s", kept, out)
	}
	for _, want := range []string{"\ntraining ", "\nfine-tuning ", "\ngraph ", "within target"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	page, err := os.ReadFile(filepath.Join(dir, "out", "report.html"))
	if err != nil || !strings.Contains(string(page), "Jobs by kind") {
		t.Errorf("the page does not tell kinds, %v", err)
	}
	for _, args := range [][]string{{"--jobs", "5"}, {"--gpus", "2"}, {"--serving", "2"}, {"--span", "x"}} {
		if _, errOut, code := norn(t, append([]string{"trace", "generate", "--like", "datacenter"}, args...)...); code == 0 || errOut == "" {
			t.Errorf("%q was let through", args)
		}
	}
}
