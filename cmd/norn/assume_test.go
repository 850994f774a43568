package main

import (
	"strings"
	"testing"
)

// TestAssumeTuning: any trace runs under ymir as fine-tuning jobs, and the user is told
// what was assumed; another word is refused.
func TestAssumeTuning(t *testing.T) {
	out, told, code := norn(t, "sim", "--cluster", "8x4", "--policy", "ymir", "--assume", "tuning")
	if code != 0 || !strings.Contains(out, "ymir") || !strings.Contains(told, "1500 jobs tune was not told") {
		t.Errorf("%d\n%s\n%s", code, out, told)
	}
	if _, told, code = norn(t, "sim", "--assume", "tunning"); code == 0 || !strings.Contains(told, "write dlrm, stages or tuning") {
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
