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
	if _, told, code = norn(t, "sim", "--assume", "tunning"); code == 0 || !strings.Contains(told, "write dlrm or tuning") {
		t.Errorf("%d\n%s", code, told)
	}
}
