package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/norn-scheduler/norn/internal/published"
)

// runValidate runs norn validate and returns what it writes.
func runValidate(t *testing.T, args ...string) (string, error) {
	t.Helper()
	cmd := root()
	var out bytes.Buffer
	cmd.SetOut(&out)
	cmd.SetErr(&out)
	cmd.SetArgs(append([]string{"validate"}, args...))
	err := cmd.ExecuteContext(t.Context())
	return out.String(), err
}

// validateFolder holds a small trace, results that are equal and that differ, and
// a manifest of all verdicts.
func validateFolder(t *testing.T) string {
	t.Helper()
	folder := t.TempDir()
	for name, text := range map[string]string{
		"trace.csv": "job_id,num_gpu,submit_time,duration\n0,8,0,10\n1,8,1,5\n",
		"same.csv":  "job_id,submit,start,end,preempt\n0,0,0,10,0\n1,1,10,15,0\n",
		"near.csv":  "job_id,submit,start,end,preempt\n0,0,0,10,1\n1,1,10,15.5,0\n2,9,9,9,0\n",
		"good.csv": "simulator,trace,format,cluster,policy,result,match,note\n" +
			"tiresias,trace.csv,tiresias,n1g8,fifo-count,same.csv,exact,\n" +
			"tiresias,trace.csv,tiresias,n1g8,fjf-count,near.csv,info,\n" +
			"slurm,trace.csv,slurm,n1g8,backfill,same.csv,exact,\n",
		"bad.csv": "simulator,trace,format,cluster,policy,result,match,note\n" +
			"tiresias,trace.csv,tiresias,n1g8,fifo-count,same.csv,exact,\n" +
			"tiresias,trace.csv,tiresias,n1g8,fifo-yarn,near.csv,mean:1%,\n" +
			"tiresias,none.csv,tiresias,n1g8,fifo-yarn,same.csv,exact,\n",
	} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return folder
}

// squeezed is a text with runs of blanks made one.
func squeezed(s string) string { return regexp.MustCompile(` +`).ReplaceAllString(s, " ") }

func TestValidateManifest(t *testing.T) {
	folder := validateFolder(t)
	for _, c := range []struct {
		args  []string
		fails bool
		want  []string
		not   string
	}{
		{
			[]string{"--manifest", folder + "/good.csv"}, false, []string{
				"simulator trace cluster policy jobs equal largest s mean JCT makespan match verdict\n",
				"tiresias trace n1g8 fifo-count 2 2 0 0.000% 0.000% exact ok\n",
				"tiresias trace n1g8 fjf-count 3 1 0.5 ", " info info: job 0 is preempted 0 times, there 1\n",
				"slurm trace n1g8 backfill - - - - - exact not there yet: the simulator slurm\n",
				"\n1 ok, 0 differ, 1 for reading only differ, 1 skipped as not there yet\n",
			}, "",
		},
		{[]string{"--manifest", folder + "/good.csv", "--only", "slurm"}, false, []string{"\n0 ok, 0 differ, 0 for reading only differ, 1 skipped as not there yet\n"}, "fifo-count"},
		{[]string{"--manifest", folder + "/good.csv", "--match", "info"}, false, []string{"fjf-count", "\n0 ok, 0 differ, 1 for"}, "fifo-count"},
		{
			[]string{"--manifest", folder + "/bad.csv"}, true, []string{
				"fifo-count 2 2 0 0.000% 0.000% exact ok\n", "fifo-yarn 3 1 0.5 ", "mean:1% differs: ",
				"fifo-yarn - - - - - exact differs: open ", "\n1 ok, 2 differ, 0 for reading only differ, 0 skipped as not there yet\n",
			}, "",
		},
	} {
		out, err := runValidate(t, c.args...)
		if errors.Is(err, errQuiet) != c.fails || !c.fails && err != nil {
			t.Errorf("%v: error %v", c.args, err)
		}
		for _, want := range c.want {
			if !strings.Contains(squeezed(out), want) {
				t.Errorf("%v: does not say %q:\n%s", c.args, want, out)
			}
		}
		if c.not != "" && strings.Contains(out, c.not) {
			t.Errorf("%v: says %q:\n%s", c.args, c.not, out)
		}
	}
}

func TestValidateManifestJSON(t *testing.T) {
	folder := validateFolder(t)
	out, err := runValidate(t, "--manifest", folder+"/good.csv", "--json")
	if err != nil {
		t.Fatal(err)
	}
	var r validateReport
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if r.OK != 1 || r.Info != 1 || r.Absent != 1 || r.Differs != 0 || len(r.Runs) != 3 {
		t.Fatalf("%+v", r)
	}
	a, b, c := r.Runs[0], r.Runs[1], r.Runs[2]
	if a.Verdict != "ok" || a.Jobs != 2 || a.Equal != 2 || *a.Largest != 0 || a.Difference != "" {
		t.Errorf("%+v", a)
	}
	if b.Verdict != "info" || b.Jobs != 3 || b.Equal != 1 || b.Missing != 1 || b.Preempt != 1 || *b.Largest != 0.5 || b.Difference == "" {
		t.Errorf("%+v", b)
	}
	if c.Verdict != "not there yet" || c.Largest != nil || c.Absent == "" {
		t.Errorf("%+v", c)
	}
}

func TestValidateOne(t *testing.T) {
	folder := validateFolder(t)
	run := []string{"tiresias", "--trace", folder + "/trace.csv", "--cluster", "n1g8", "--policy", "fifo-count"}
	out, err := runValidate(t, append(run, "--against", folder+"/same.csv", "--out", folder+"/mine.csv.gz")...)
	want := "jobs 2, equal 2, largest difference 0 s, mean JCT difference 0.000%, makespan difference 0.000%\nevery start and end is equal\n"
	if err != nil || out != want {
		t.Errorf("%v, %s", err, out)
	}
	// The written file is a result to compare with.
	if out, err = runValidate(t, append(run, "--against", folder+"/mine.csv.gz")...); err != nil || out != want {
		t.Errorf("%v, %s", err, out)
	}
	out, err = runValidate(t, append(run, "--against", folder+"/near.csv")...)
	if !errors.Is(err, errQuiet) || !strings.Contains(out, "jobs 3, equal 1, largest difference 0.5 s") ||
		!strings.Contains(out, "1 jobs end only there") || !strings.Contains(out, "first difference: job 0 is preempted 0 times, there 1") {
		t.Errorf("%v, %s", err, out)
	}
	if _, err = runValidate(t, append(run, "--against", folder+"/near.csv", "--match", "info")...); err != nil {
		t.Errorf("a result for reading only: %v", err)
	}
	out, err = runValidate(t, append(run, "--against", folder+"/same.csv", "--json")...)
	var r validateRun
	if json.Unmarshal([]byte(out), &r) != nil || err != nil || r.Verdict != "ok" || r.Equal != 2 {
		t.Errorf("%v, %s", err, out)
	}
}

func TestValidateErrors(t *testing.T) {
	folder := validateFolder(t)
	trace := []string{"--trace", folder + "/trace.csv"}
	full := func(args ...string) []string { return append(append(args, trace...), "--out", folder+"/out.csv") }
	for _, c := range []struct {
		args []string
		want string
	}{
		{nil, "tiresias, muri, lucid, pai"},
		{[]string{"slurm"}, `unknown simulator "slurm"; known are: tiresias, muri, lucid, pai`},
		{[]string{"tiresias"}, "tiresias needs --trace"},
		{full("tiresias", "--cluster", "n1g8"), "tiresias needs --policy"},
		{append([]string{"tiresias", "--cluster", "n1g8", "--policy", "fifo-count"}, trace...), "--against or --out"},
		{full("tiresias", "--cluster", "n1g8", "--policy", "lifo"), `unknown policy of tiresias "lifo"; known are: fifo-count, `},
		{full("tiresias", "--cluster", "earth", "--policy", "fifo-count"), `unknown cluster "earth": write nNgG`},
		{full("lucid", "--cluster", "earth", "--policy", "fifo"), "venus-15vc"},
		{full("pai", "--cluster", "earth", "--policy", "SJF"), "hetero"},
		{[]string{"tiresias", "--manifest", folder + "/good.csv"}, "--only"},
		{append([]string{"--manifest", folder + "/good.csv"}, trace...), "--manifest names"},
		{[]string{"--manifest", folder + "/none.csv"}, "none.csv"},
		{[]string{"--manifest", folder + "/good.csv", "--only", "earth"}, `unknown simulator "earth"; known are: tiresias, slurm`},
		{[]string{"--manifest", folder + "/good.csv", "--match", "near"}, `unknown match "near"; known are: exact, mean, info`},
		{[]string{"--manifest", folder + "/good.csv", "--match", "mean"}, "has no such line"},
		{[]string{"--manifest", folder + "/trace.csv"}, `has no column "simulator"`},
		{full("tiresias", "--cluster", "n1g8", "--policy", "fifo-count", "--match", "mean:x"), "--match"},
	} {
		if out, err := runValidate(t, c.args...); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: error %v, want one that says %s; %s", c.args, err, c.want, out)
		}
	}
}

func TestValidateList(t *testing.T) {
	out, err := runValidate(t, "--list")
	for _, s := range published.Simulators() {
		if err != nil || !strings.Contains(out, s.Name+" ") || !strings.Contains(out, s.Source) {
			t.Errorf("%v: %s is missing:\n%s", err, s.Name, out)
		}
		one, err := runValidate(t, "--list", s.Name)
		if err != nil || !strings.Contains(one, s.Clusters) {
			t.Errorf("%s: %v\n%s", s.Name, err, one)
		}
		for _, p := range s.Policies {
			if !strings.Contains(one, "\n"+p.Name) || !strings.Contains(one, p.Note) {
				t.Errorf("%s is missing:\n%s", p.Name, one)
			}
		}
	}
}

// TestValidateMisused: what was written wrongly is told as that, with the way to the help.
func TestValidateMisused(t *testing.T) {
	for _, args := range [][]string{
		{}, {"nobodys"}, {"tiresias"}, {"--manifest", "m.csv", "tiresias"}, {"--manifest", "m.csv", "--policy", "x"},
		{"tiresias", "--trace", "t", "--cluster", "n1g4", "--policy", "p", "--against", "r", "--match", "nearly"},
	} {
		if _, told, code := norn(t, append([]string{"validate"}, args...)...); code != 2 || !strings.Contains(told, "norn validate --help says more") {
			t.Errorf("%v: %d %s", args, code, told)
		}
	}
}
