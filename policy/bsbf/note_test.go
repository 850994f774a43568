package bsbf

import (
	"testing"

	"github.com/norn-scheduler/norn/sched"
	"github.com/norn-scheduler/norn/sim/simtest"
)

// TestNote: a note is read as it was written.
func TestNote(t *testing.T) {
	in := note{evicted: true}
	if out, ok := sched.Recall[note](simtest.Noted(t, &in)); !ok || out != in {
		t.Errorf("%+v became %+v, %v", in, out, ok)
	}
}
