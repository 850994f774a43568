package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestExec: a program that fails is told of, and fifo decides in its place; a program that
// is not there is an error; and none is started because a file names it.
func TestExec(t *testing.T) {
	dir := t.TempDir()
	program := filepath.Join(dir, "mine")
	if err := os.WriteFile(program, []byte("#!/bin/sh\necho '{\"hello\":1}'\necho ran >>\"$0.ran\"\necho oh dear >&2\nsleep 60\n"), 0o777); err != nil {
		t.Fatal(err)
	}
	jobs := file(t, "jobs.csv", "job,submit,duration,gpus\na,0,100,4\nb,10,300,4\nc,20,20,4\n")
	out := filepath.Join(dir, "out")
	table, errOut, code := norn(t, "sim", jobs, "--cluster", "1x4", "--policy", "fifo,exec("+program+",budget=200ms,tries=1)", "--out", out)
	if code != 0 || !strings.Contains(table, "makes no difference") {
		t.Errorf("%d\n%s", code, table)
	}
	for _, want := range []string{
		"exec(" + program + "): oh dear\n", "it did not answer within 200ms", "first in, first out (fifo) decides from here on, at 0s\n",
		"the program failed at 0s, and first in, first out (fifo) has decided from then on",
	} {
		if !strings.Contains(errOut, want) {
			t.Errorf("%q is not in\n%s", want, errOut)
		}
	}
	ran, err := os.ReadFile(program + ".ran")
	if err != nil || string(ran) != "ran\n" {
		t.Fatalf("%q, %v", ran, err)
	}
	summaries, err := filepath.Glob(filepath.Join(out, "exec*", "summary.json"))
	if err != nil || len(summaries) != 1 {
		t.Fatal(summaries, err)
	}
	log := filepath.Join(filepath.Dir(summaries[0]), "events.log.zst")
	if err := os.Chmod(program, 0o777); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		want string
		args []string
	}{
		{"no program is started because a file names it", []string{"sim", "--from-summary", summaries[0]}},
		{"there is no program ./nothing", []string{"sim", jobs, "--policy", "exec(./nothing)"}},
		{"name the program: exec(./mine.py)", []string{"sim", jobs, "--policy", "exec"}},
		{"may be written by others (mode 777)", []string{"up", "--policy", "exec(" + program + ")", "--state", dir}},
		{"come to more than 1m", []string{"up", "--policy", "exec(" + program + ",begin=1m)", "--state", dir}},
	} {
		if _, errOut, code := norn(t, c.args...); code == 0 || !strings.Contains(errOut, c.want) {
			t.Errorf("%v: %d, %s", c.args, code, errOut)
		}
	}
	if _, errOut, code := norn(t, "plan", "--log", log); code != 0 || !strings.Contains(errOut, `cannot be simulated here, so the simulation is not checked: exec(`+program+`,budget=200ms,tries=1): a program that decides is started only where a command line names it`) {
		t.Errorf("%d: %s", code, errOut)
	}
	if again, err := os.ReadFile(program + ".ran"); err != nil || string(again) != string(ran) {
		t.Errorf("the program was started: %q, %v", again, err)
	}
	if about, _, code := norn(t, "policies", "exec"); code != 0 || !strings.Contains(about, "budget") {
		t.Errorf("%d: %s", code, about)
	}
}
