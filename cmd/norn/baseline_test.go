package main

import (
	"encoding/csv"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// account is an export of sacct: two jobs that ran one after the other for an hour each, one
// that waits still.
const account = `JobID|User|Account|Submit|Start|State|ElapsedRaw|NNodes|AllocTRES
1|ann|nlp|2026-01-01T10:00:00|2026-01-01T10:00:00|COMPLETED|3600|1|cpu=8,gres/gpu=8
2|bob|vision|2026-01-01T10:00:00|2026-01-01T11:00:00|COMPLETED|60|1|cpu=8,gres/gpu=8
3|bob|vision|2026-01-01T10:30:00|2026-01-01T11:01:00|COMPLETED|60|1|cpu=8,gres/gpu=8
4|bob|vision|2026-01-01T10:40:00|2026-01-01T11:02:00|RUNNING|60|1|cpu=8,gres/gpu=8
`

// TestAsItWas: sacct knows when jobs started, so its line is the first one, and the
// simulation of fifo is held against it; the job that ran on is no part of it.
func TestAsItWas(t *testing.T) {
	path := file(t, "jobs.txt", account)
	out, _ := works(t, "sim", path, "--cluster", "1x8", "--policy", "srtf,fifo", "-q", "--out", filepath.Join(t.TempDir(), "out"))
	for _, want := range []string{
		"srtf (knew true run times): mean completion time ", "\nas it was       51m", "As it was: the trace tells when 3 of 4 jobs started.",
		"Simulated fifo waits for 30m20s on average, your cluster for 30m20s; its mean completion time is off by 0%.",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	if strings.Index(out, "\nas it was") > strings.Index(out, "\nsrtf *") {
		t.Errorf("as it was is not first:\n%s", out)
	}
	rows, err := csv.NewReader(strings.NewReader(must(t, "sim", path, "--cluster", "1x8", "--policy", "srtf", "-q", "--table", "csv", "--baseline", "as-was"))).ReadAll()
	if err != nil || len(rows) != 3 || rows[1][0] != "as it was" || rows[2][slices.Index(rows[0], "baseline")] != "as it was" || !strings.HasPrefix(rows[2][slices.Index(rows[0], "jct_mean_change")], "-0.") {
		t.Errorf("%q, %v", rows, err)
	}
	if faster := must(t, "sim", path, "--cluster", "1x8", "--policy", "fifo", "-q", "--load", "2"); strings.Contains(faster, "as it was") {
		t.Errorf("jobs that come faster than they did have no such line:\n%s", faster)
	}
}

// must is what a command prints that works.
func must(t *testing.T, args ...string) string {
	t.Helper()
	out, _ := works(t, args...)
	return out
}

// TestBaseline: beside a baseline times are changes in per cent, with who gains and who loses;
// one that is not named is simulated, too, and has the settings that it is given.
func TestBaseline(t *testing.T) {
	path, dir := file(t, "jobs.csv", jobs), filepath.Join(t.TempDir(), "out")
	out, _ := works(t, "sim", path, "--cluster", "1x8", "--policy", "srtf", "--baseline", "fifo", "--set", "fifo.mode=skip", "-q", "--out", dir)
	for _, want := range []string{"from fifo(mode=skip)", "Times of other rows are changes from fifo(mode=skip), of the jobs that ended in both.", "\nGPUS ", "\nLENGTH ", "\nUSER "} {
		if !strings.Contains(out, want) && want != "\nUSER " {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	var read struct {
		Verdict, Baseline string
		Runs              []struct {
			Name   string  `json:"name"`
			Change float64 `json:"jct_mean_change"`
		}
		Sizes []struct{ Name string }
	}
	text, err := os.ReadFile(filepath.Join(dir, "comparison.json"))
	if err == nil {
		err = json.Unmarshal(text, &read)
	}
	if err != nil || read.Baseline != "fifo(mode=skip)" || len(read.Runs) != 2 || read.Runs[0].Change != 0 || !strings.HasPrefix(out, read.Verdict) || len(read.Sizes) < 2 {
		t.Errorf("%s, %v", text, err)
	}
	out, errOut := works(t, "sim", path, "--cluster", "1x8", "--policy", "srtf,las", "--baseline", "as-was")
	if !strings.Contains(out, "changes from srtf,") || !strings.Contains(errOut, "the trace does not tell when jobs started") {
		t.Errorf("%s\n%s", out, errOut)
	}
	// It is told before the first run, of which the first that is heard here is that its program fails.
	_, errOut = works(t, "sim", path, "--cluster", "1x8", "--policy", "exec(false)", "--baseline", "as-was")
	if at, fails := strings.Index(errOut, "the trace does not tell"), strings.Index(errOut, "its greeting"); at < 0 || fails < at {
		t.Errorf("%s", errOut)
	}
	for _, wrong := range [][2]string{{"las,drf", "name one policy, or as-was"}, {"nonsense", "unknown policy"}} {
		if _, errOut, code := norn(t, "sim", path, "--cluster", "1x8", "--policy", "srtf", "--baseline", wrong[0]); code == 0 || !strings.Contains(errOut, wrong[1]) {
			t.Errorf("%s: exit code %d, %s", wrong[0], code, errOut)
		}
	}
}

// TestGrow: how many nodes are enough stands beneath the table, in a file of --out, and alone
// in tables for programs. What is tried on other clusters is in no other figure.
func TestGrow(t *testing.T) {
	path, dir := file(t, "jobs.csv", jobs), filepath.Join(t.TempDir(), "out")
	args := []string{"sim", path, "--cluster", "1x8", "--policy", "fifo,srtf", "-q", "--grow", "1,1x4"}
	out, _ := works(t, append(args, "--out", dir)...)
	plain, _ := works(t, args[:len(args)-2]...)
	rest, told := strings.CutPrefix(out, strings.TrimRight(plain, "\n"))
	if !told || !strings.Contains(rest, "How many GPUs are enough") || strings.Count(rest, "+1 node ") < 2 || strings.Count(rest, "as it is") < 2 {
		t.Errorf("%s\nbeneath\n%s", rest, plain)
	}
	rows, err := csv.NewReader(strings.NewReader(must(t, append(args, "--table", "csv")...))).ReadAll()
	if err != nil || len(rows) != 7 || rows[0][1] != "growth" || rows[2][1] != "+1x4" || rows[3][2] != "16" {
		t.Errorf("%q, %v", rows, err)
	}
	for _, name := range []string{"nodes.csv", "report.html", "srtf/jobs.csv", "srtf,_+1_node/jobs.csv"} {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Size() == 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, errOut, code := norn(t, "sim", path, "--cluster", "1x8", "--grow", "-1"); code != exitUsage || !strings.Contains(errOut, "--grow: without 1 node there is no node") {
		t.Error(errOut)
	}
}
