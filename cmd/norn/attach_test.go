package main

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/norn-scheduler/norn/api"
)

// TestTyping: what is typed goes to the job until the detach key, which leaves it, or until
// an input ends that is no terminal, of which the job is told by ctrl-d.
func TestTyping(t *testing.T) {
	for _, c := range []struct {
		typed  string
		want   []string
		leaves bool
	}{
		{"ls\r\x1dgone", []string{`input 7 "ls\r" 0x0`}, true},
		{"\x03\x04", []string{`input 7 "\x03\x04" 0x0`, `input 7 "\x04" 0x0`}, false},
		{"", []string{`input 7 "\x04" 0x0`}, false},
	} {
		f := &fake{}
		ctx, leave := context.WithCancelCause(t.Context())
		s := &seat{in: strings.NewReader(c.typed), out: io.Discard, remarks: io.Discard}
		s.types(ctx, f, "7", leave)
		if !slices.Equal(f.asked, c.want) || errors.Is(context.Cause(ctx), errDetached) != c.leaves {
			t.Errorf("%q: %q, left: %v", c.typed, f.asked, context.Cause(ctx))
		}
		leave(nil)
	}
}

// TestRunHere: norn run hands in one job and ends with its exit code; an array is refused.
func TestRunHere(t *testing.T) {
	f := &fake{output: map[string]string{"17/1": "hello\n"}, list: []api.Job{{ID: "17", State: api.Failed, Run: 1, Exit: &api.Exit{Code: 3}}}}
	out, errOut, code := liveIn(t.Context(), shellOf(f), "run", "--gpus", "2", "--", "python", "train.py")
	if code != 3 || out != "hello\n" || errOut != "norn: job 17\nnorn: job 17 failed with exit code 3\n" || len(f.submitted) != 1 || f.submitted[0].GPUs.Ask != 2 || f.submitted[0].PTY {
		t.Errorf("%d, %q, %q, %+v", code, out, errOut, f.submitted)
	}
	if _, errOut, code := liveIn(t.Context(), shellOf(f), "run", "--array", "1-3", "--", "true"); code != exitUsage || !strings.Contains(errOut, "an array is for norn submit") {
		t.Errorf("%d, %q", code, errOut)
	}
	f = busy()
	if got := submittedBy(t, shellOf(f), f, "--pty", "--", "bash"); !got.PTY {
		t.Errorf("%+v", got)
	}
}
