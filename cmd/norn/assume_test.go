package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestAssumeTuning: any trace runs under ymir as fine-tuning jobs, and the user is told
// what was assumed; another word is refused.
func TestAssumeTuning(t *testing.T) {
	path := filepath.Join(t.TempDir(), "jobs.csv")
	if out, told, code := norn(t, "trace", "generate", "--like", "philly", "--jobs", "100", "-o", path); code != 0 {
		t.Fatalf("%d\n%s\n%s", code, out, told)
	}
	out, told, code := norn(t, "sim", path, "--cluster", "8x4", "--policy", "ymir", "--assume", "tuning")
	if code != 0 || !strings.Contains(out, "ymir") || !strings.Contains(told, "100 jobs tune was not told") {
		t.Errorf("%d\n%s\n%s", code, out, told)
	}
	if _, told, code = norn(t, "sim", "--assume", "tunning"); code == 0 || !strings.Contains(told, ", tuning") {
		t.Errorf("%d\n%s", code, told)
	}
}

// TestAssumeStages: jobs of any trace that tell no stages are given some, so that muri
// groups them; without, it cannot.
func TestAssumeStages(t *testing.T) {
	preempted := func(args ...string) string {
		out, told, code := norn(t, append([]string{"sim", "--cluster", "4x8", "--policy", "muri-s", "--table", "csv"}, args...)...)
		if code != 0 || strings.Contains(told, "jobs do in an iteration was not told") != (len(args) > 0) {
			t.Fatalf("%d\n%s", code, told)
		}
		return out
	}
	if with, without := preempted("--assume", "stages"), preempted(); with == without {
		t.Errorf("the same result with stages and without:\n%s", with)
	}
}

// TestAssumeGoodput: jobs of any trace that do not tell what they train are taken to
// choose their own batch sizes on any number of GPUs, and the user is told.
func TestAssumeGoodput(t *testing.T) {
	trace := filepath.Join(t.TempDir(), "jobs.csv")
	if err := os.WriteFile(trace, []byte("id,submit,gpus,duration\na,0,2,600\nb,30,1,900\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	out, told, code := norn(t, "sim", trace, "--cluster", "2x4", "--policy", "pollux", "--policy", "fifo", "--assume", "goodput", "--table", "csv")
	if code != 0 || !strings.Contains(out, "pollux") || !strings.Contains(told, "2 jobs train, or how it scales,") {
		t.Errorf("%d\n%s\n%s", code, out, told)
	}
}

// TestPairs: jobs that share a GPU run as a table of measured pairs says, and those that
// tell no model are given one of it, which the user is told; a table that is none is
// refused with its name.
func TestPairs(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pairs.csv")
	table := func(speed string) string {
		if err := os.WriteFile(path, []byte("model,beside,speed\na,a,"+speed+"\n"), 0o666); err != nil {
			t.Fatal(err)
		}
		out, told, code := norn(t, "sim", "--cluster", "2x8", "--limit", "200", "--policy", "bsbf(share=first-fit)", "--pairs", path, "--table", "csv")
		if code != 0 || !strings.Contains(told, "was not told: each was taken to train one of the 1 model in "+path) {
			t.Fatalf("%d\n%s", code, told)
		}
		return out
	}
	if light, heavy := table("0.99"), table("0.3"); light == heavy {
		t.Errorf("the same result whatever the pairs are:\n%s", light)
	}
	if err := os.WriteFile(path, []byte("a,b\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	if _, told, code := norn(t, "sim", "--pairs", path); code == 0 || !strings.Contains(told, path+": is no table of pairs") {
		t.Errorf("%d\n%s", code, told)
	}
}

// TestAssumeBatches: jobs of any trace are taken to train with the batches that they are
// told, by tuning or by adding gradients up, and the user is told.
func TestAssumeBatches(t *testing.T) {
	for _, assume := range []string{"tasks", "batches"} {
		out, told, code := norn(t, "sim", "--cluster", "16x8", "--policy", "iadeep,gimbal", "--assume", assume, "--slowdown", "parts")
		if code != 0 || !strings.Contains(out, "iadeep") || !strings.Contains(told, "jobs train was not told") {
			t.Errorf("%s: %d\n%s\n%s", assume, code, out, told)
		}
	}
	if _, told, code := norn(t, "sim", "--slowdown", "much"); code == 0 || !strings.Contains(told, "write demands, parts, gaps or services") {
		t.Errorf("%d\n%s", code, told)
	}
}
