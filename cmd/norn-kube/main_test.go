package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// TestHelp: each verb says in a line and in more what it does, with examples whose flags
// there are.
func TestHelp(t *testing.T) {
	for _, c := range root().Commands() {
		if c.Short == "" || c.Long == "" || c.Example == "" {
			t.Errorf("%s lacks a part of its help", c.Name())
		}
		for line := range strings.SplitSeq(c.Example, "\n") {
			args, ok := strings.CutPrefix(line, "  norn kube "+c.Name())
			if !ok {
				t.Errorf("%q is no example of %s", line, c.CommandPath())
			}
			args, _, _ = strings.Cut(args, " | ")
			if err := fresh(c.Name()).ParseFlags(strings.Fields(strings.ReplaceAll(args, "'", ""))); err != nil {
				t.Errorf("%q: %v", line, err)
			}
		}
		var out, errOut bytes.Buffer
		if code := execute(t.Context(), []string{c.Name(), "--help"}, &out, &errOut); code != 0 || !strings.Contains(out.String(), "norn kube "+c.Name()) {
			t.Errorf("%s --help: exit code %d, %s%s", c.Name(), code, out.String(), errOut.String())
		}
	}
	for line, want := range map[string]string{"up --polcy x": "norn kube up --help", "upp": "no verb"} {
		var out, errOut bytes.Buffer
		if code := execute(t.Context(), strings.Fields(line), &out, &errOut); code != 2 || !strings.Contains(errOut.String(), want) {
			t.Errorf("%s: exit code %d, %s", line, code, errOut.String())
		}
	}
}

// fresh is a verb whose flags nobody has set.
func fresh(name string) *cobra.Command {
	for _, c := range root().Commands() {
		if c.Name() == name {
			return c
		}
	}
	return nil
}
