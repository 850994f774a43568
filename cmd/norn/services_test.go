package main

import (
	"strings"
	"testing"

	"github.com/norn-scheduler/norn/internal/longtest"
)

// TestAssumeServices: any trace runs beside services, of which the user is told.
func TestAssumeServices(t *testing.T) {
	longtest.Skip(t)
	out, told, code := norn(t, "sim", "--cluster", "4x8:V100", "--assume", "services", "--policy", "muxflow", "--table", "csv")
	if code != 0 || !strings.Contains(told, "32 services were put on the GPUs") || !strings.Contains(out, "muxflow") {
		t.Errorf("%d\n%s\n%s", code, out, told)
	}
}
