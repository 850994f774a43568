package main

import (
	"encoding/csv"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// sweepFile writes the file of a sweep, beside a trace jobs.csv.
func sweepFile(t *testing.T, text string) (dir, path string) {
	t.Helper()
	path = file(t, "exp.yaml", text)
	dir = filepath.Dir(path)
	if err := os.WriteFile(filepath.Join(dir, "jobs.csv"), []byte(jobs), 0o666); err != nil {
		t.Fatal(err)
	}
	return dir, path
}

// listed is what --list says of a sweep.
func listedRuns(t *testing.T, path string) string {
	t.Helper()
	out, _ := works(t, "sweep", path, "--list")
	return strings.TrimSpace(strings.TrimPrefix(out, path+": "))
}

// TestSweep: a sweep over generated traces, loads, parameters and a flag with several values. Each figure
// is what norn sim tells of the same run.
func TestSweep(t *testing.T) {
	dir, path := sweepFile(t, `trace: {like: philly, jobs: 60, gpus: 16}
cluster: 2x8
policy: [fifo, {tiresias: {promote: [2, 8]}}]
seed: 5-6
load: [1, 2]
estimates: [oracle, none]
`)
	if got := listedRuns(t, path); got != "24 runs, of which 0 are there" {
		t.Error(got)
	}
	out, errOut := works(t, "sweep", path)
	for _, want := range []string{"philly(jobs=60,gpus=16) on 2x8, load 2, estimates none: 2 seeds (5, 6)\n", "tiresias(promote=8)", "p(rank)", "a paired t-test"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is missing in\n%s", want, out)
		}
	}
	if !strings.Contains(errOut, "exp.results/results.csv, results.parquet and summary.json") {
		t.Error(errOut)
	}
	text, err := os.ReadFile(filepath.Join(dir, "exp.results", "results.csv"))
	if err != nil {
		t.Fatal(err)
	}
	rows, err := csv.NewReader(strings.NewReader(string(text))).ReadAll()
	if err != nil || strings.Join(rows[0], ",") != "trace,cluster,load,estimates,seed,policy,params,metric,value" {
		t.Fatalf("%v %v", rows[0], err)
	}
	trace := filepath.Join(dir, "six.jsonl")
	works(t, "trace", "generate", "--like", "philly", "--jobs", "60", "--gpus", "16", "--seed", "6", "-o", trace)
	alone, _ := works(t, "sim", trace, "--cluster", "2x8", "--policy", "tiresias(promote=8)", "--load", "2", "--estimates", "none", "--seed", "6", "--table", "csv", "-q")
	figures, err := csv.NewReader(strings.NewReader(alone)).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	compared := 0
	for _, row := range rows[1:] {
		if strings.Join(row[2:7], " ") != "2 none 6 tiresias promote=8" {
			continue
		}
		for i, field := range figures[0] {
			if field == row[7] {
				compared++
				if figures[1][i] != row[8] {
					t.Errorf("%s: %s, alone %s", field, row[8], figures[1][i])
				}
			}
		}
	}
	if compared < 13 {
		t.Errorf("%d figures were compared", compared)
	}
	if got := listedRuns(t, path); got != "24 runs, of which 24 are there" {
		t.Error(got)
	}
	again, _ := works(t, "sweep", path, "-q", "--table", "csv")
	if again != string(text) {
		t.Error("the same sweep again prints something else")
	}
}

// TestSweepContent: runs are kept by the content of files, which are beside the file of the sweep.
func TestSweepContent(t *testing.T) {
	dir, path := sweepFile(t, "trace: [jobs.csv, {file: jobs.csv, window: 1m, name: part}]\ncluster: small.yaml\npolicy: fifo\nseed: 1-4\n")
	small := filepath.Join(dir, "small.yaml")
	text, _ := works(t, "cluster", "1x8", "--yaml")
	if err := os.WriteFile(small, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	out, _ := works(t, "sweep", path)
	if !strings.Contains(out, "jobs.csv on small.yaml: seeds change nothing: every figure is the same in each.") {
		t.Error(out)
	}
	more := jobs + "e,200,1,100,blue\n"
	if err := os.WriteFile(filepath.Join(dir, "jobs.csv"), []byte(more), 0o666); err != nil {
		t.Fatal(err)
	}
	if got := listedRuns(t, path); got != "8 runs, of which 0 are there" {
		t.Error(got)
	}
	if err := os.WriteFile(filepath.Join(dir, "jobs.csv"), []byte(jobs), 0o666); err != nil {
		t.Fatal(err)
	}
	if got := listedRuns(t, path); got != "8 runs, of which 8 are there" {
		t.Error(got)
	}
	text, _ = works(t, "cluster", "2x8", "--yaml")
	if err := os.WriteFile(small, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	if got := listedRuns(t, path); got != "8 runs, of which 0 are there" {
		t.Error(got)
	}
}

// TestSweepExample: the example can be read, and asks for as many runs as the page of examples says.
func TestSweepExample(t *testing.T) {
	nowhere := filepath.Join(t.TempDir(), "results")
	out, _ := works(t, "sweep", "../../examples/exp.yaml", "--list", "--out", nowhere)
	if fileThere(nowhere) {
		t.Error("--list has made a folder")
	}
	page, err := os.ReadFile("../../examples/README.md")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out, "720 runs, of which 0 are there") || !strings.Contains(string(page), "an experiment of 720 simulations") {
		t.Error(out)
	}
}

// TestPairsBeside: what stands beside a table of pairs, and is read with it, counts as its content.
func TestPairsBeside(t *testing.T) {
	pairs := file(t, "colocate_info.csv", "model,beside,speed\na,b,0.5\n")
	content := func() string {
		sum, err := newLab(".", nil).content("pairs", pairs)
		if err != nil || sum == "" {
			t.Fatal(sum, err)
		}
		return sum
	}
	alone := content()
	if err := os.WriteFile(filepath.Join(filepath.Dir(pairs), "single_data.csv"), []byte("x"), 0o666); err != nil {
		t.Fatal(err)
	}
	if content() == alone {
		t.Error("a file that is read with the pairs makes no difference")
	}
}

// TestSweepErrors: what is wrong is told with its line, or by the flag that is.
func TestSweepErrors(t *testing.T) {
	for text, want := range map[string]string{
		"policy: fifo\nestimates: [oracle, orcale]":                                 `exp.yaml:2:21: --estimates: "orcale" is not a source of estimates`,
		"policy: fifo\ncluster: 16y8":                                               "exp.yaml:2:10: ",
		"policy: fifo\nnode-mtbf: soon":                                             `exp.yaml:2:12: --node-mtbf: "soon" is not a duration`,
		"policy: fifo\nload: -1":                                                    "exp.yaml:2:7: a load of -1",
		"policy: fifo\npairs: nowhere.csv":                                          "exp.yaml:2:8: ",
		"policy: fifo\nout: x":                                                      `exp.yaml:2:1: a sweep has no key "out"`,
		"policy: fifo\ntrace: {like: phily, jobs: 3}":                               "exp.yaml:2:8: --like: ",
		"policy: fifo\ntrace: {like: requests}":                                     "requests are no jobs",
		"policy: fifo\ntrace: {like: philly, jobs: 3}":                              "name the cluster for philly(jobs=3)",
		"policy: fifo\ntrace: jobs.csv":                                             "name the cluster for",
		"policy: fifo\ntrace: nowhere.csv\ncluster: 1x8":                            "nowhere.csv: no such file",
		"policy: fifo\ntrace: '-'\ncluster: 1x8":                                    "a sweep reads a trace several times",
		"policy: fifo\ntrace: {file: jobs.csv, window: 1d}\ncluster: 1x8":           "jobs.csv: a window of 1d is as long as the trace, 3m: write a shorter one",
		"policy: fifo\ntrace: {file: jobs.csv, window: 1m}\ncluster: 1x8\nfrom: 1m": "a window and from or to exclude each other",
	} {
		_, path := sweepFile(t, text)
		_, errOut, code := norn(t, "sweep", path)
		if code == 0 || !strings.Contains(errOut, want) {
			t.Errorf("%q\n have %s want %s", text, errOut, want)
		}
	}
	for _, args := range [][]string{{"--table", "html"}, {"--at-once", "-1"}, {"--memory", "much"}, {"--memory", "0"}} {
		_, path := sweepFile(t, "policy: fifo")
		if _, errOut, code := norn(t, append([]string{"sweep", path}, args...)...); code != exitUsage {
			t.Errorf("%v: exit code %d, %s", args, code, errOut)
		}
	}
}

// TestSeeds: norn sim with several seeds compares means, and says where seeds change nothing.
func TestSeeds(t *testing.T) {
	path := file(t, "jobs.csv", jobs)
	out, _ := works(t, "sim", path, "--cluster", "1x8", "--policy", "fifo,srtf", "--seed", "1,2,3", "--job-mtbf", "1h", "--baseline", "srtf", "--table", "json")
	var groups []struct {
		Trace, Cluster, Baseline string
		Seeds                    []uint64
		Policies                 []struct {
			Policy  string
			Metrics map[string]struct {
				N      int
				Mean   float64
				Versus *struct {
					N int
					T *float64 `json:"p_t"`
				}
			}
		}
	}
	if err := json.Unmarshal([]byte(out), &groups); err != nil {
		t.Fatal(err)
	}
	if len(groups) != 1 || groups[0].Trace != path || groups[0].Cluster != "1x8" || groups[0].Baseline != "srtf" || len(groups[0].Seeds) != 3 {
		t.Fatalf("%+v", groups)
	}
	fifo := groups[0].Policies[0].Metrics["jct_mean_s"]
	if fifo.N != 3 || fifo.Versus == nil || fifo.Versus.N != 3 || groups[0].Policies[1].Metrics["jct_mean_s"].Versus != nil {
		t.Errorf("%+v", fifo)
	}
	sum := 0.0
	for _, seed := range []string{"1", "2", "3"} {
		alone, _ := works(t, "sim", path, "--cluster", "1x8", "--policy", "fifo", "--seed", seed, "--job-mtbf", "1h", "--table", "json")
		var rows []struct {
			JCT float64 `json:"jct_mean_s"`
		}
		if err := json.Unmarshal([]byte(alone), &rows); err != nil {
			t.Fatal(err)
		}
		sum += rows[0].JCT
	}
	if mean := sum / 3; mean < fifo.Mean*(1-1e-12) || mean > fifo.Mean*(1+1e-12) {
		t.Errorf("mean %v, of the seeds alone %v", fifo.Mean, mean)
	}
	out, _ = works(t, "sim", path, "--cluster", "1x8", "--policy", "fifo", "--seed", "1-2")
	if !strings.Contains(out, path+" on 1x8: seeds change nothing: every figure is the same in each.") {
		t.Error(out)
	}
	for _, args := range [][]string{{"--out", t.TempDir()}, {"--grow", "1"}, {"--table", "markdown"}, {"--baseline", "as-was"}} {
		if _, errOut, code := norn(t, append([]string{"sim", path, "--cluster", "1x8", "--seed", "1-2"}, args...)...); code != exitUsage || !strings.Contains(errOut, "--seed 1,2: several seeds do not go with "+args[0]) {
			t.Errorf("%v: exit code %d, %s", args, code, errOut)
		}
	}
	if _, errOut, code := norn(t, "sim", path, "--cluster", "1x8", "--seed", "1,x"); code != exitUsage || !strings.Contains(errOut, `"x" is no seed`) {
		t.Errorf("%d, %s", code, errOut)
	}
	out, _ = works(t, "sim", path, "--cluster", "1x8", "--policy", "tiresias(promote=2|8)", "--table", "csv", "-q")
	if !strings.Contains(out, "\ntiresias(promote=2),") || !strings.Contains(out, "\ntiresias(promote=8),") {
		t.Error(out)
	}
}
