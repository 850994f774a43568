package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/norn-scheduler/norn/local/selftest"
)

// selftestFlags are what norn selftest is asked.
type selftestFlags struct {
	only []string
	json bool
	keep bool
}

func selftestCommand() *cobra.Command {
	f := &selftestFlags{}
	var about strings.Builder
	var names []string
	for _, c := range selftest.Names() {
		fmt.Fprintf(&about, "\n  %-12s %s", c[0], c[1])
		names = append(names, c[0])
	}
	cmd := &cobra.Command{
		Use:   "selftest",
		Short: "Test on this machine what Norn promises",
		Long: `Selftest checks whether Norn keeps its promises on this machine. It starts daemons with
state folders of their own and gives them jobs. It prints a line for each check: ok, not
here (the machine lacks what the check needs), or failed, with the reason. The exit code
is 1 if any check has failed.

Selftest takes a minute or two and uses the GPUs meanwhile, so run it when they are idle.
GPU jobs need only NVIDIA's driver. PyTorch is tested if python3 has it. A running daemon
is left alone.

The checks are:` + about.String(),
		Example: `  norn selftest
  norn selftest --only pinned,mps
  norn selftest --json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	cmd.Flags().StringSliceVar(&f.only, "only", nil, "make only these checks")
	cmd.Flags().BoolVar(&f.json, "json", false, "write JSON")
	cmd.Flags().BoolVar(&f.keep, "keep", false, "keep the files of daemons and jobs; they are kept anyway if a check has failed")
	complete(cmd, map[string]completer{"only": completeList(func() []string { return names })})
	return cmd
}

// run makes the checks and tells what came of them.
func (f *selftestFlags) run(cmd *cobra.Command) error {
	for _, name := range f.only {
		if !selftest.Known(name) {
			return misused("--only %s: there is no such check; norn selftest --help lists them", name)
		}
	}
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "norn-st-")
	if err != nil {
		return err
	}
	out := cmd.OutOrStdout()
	var all []selftest.Check
	failed := 0
	err = selftest.Run(cmd.Context(), selftest.Options{Exe: exe, Dir: dir, Only: f.only, Keep: f.keep}, func(c selftest.Check) {
		all = append(all, c)
		if c.Result == selftest.Failed {
			failed++
		}
		if !f.json {
			fmt.Fprintf(out, "%-8s  %-11s  %s\n", c.Result, c.Name, oneLine(c.Text))
		}
	})
	if f.json && err == nil {
		err = writeChecks(out, all, failed)
	}
	switch {
	case failed > 0 || f.keep:
		remark(cmd, "the files of daemons and jobs are in %s", dir)
	default:
		os.RemoveAll(dir)
	}
	if err == nil && failed > 0 {
		return errQuiet
	}
	return err
}

// oneLine is a text without breaks.
func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

// writeChecks writes all checks as JSON.
func writeChecks(out io.Writer, all []selftest.Check, failed int) error {
	type timed struct {
		selftest.Check
		Seconds float64 `json:"seconds"`
	}
	list := make([]timed, len(all))
	for i, c := range all {
		list[i] = timed{c, c.Took.Seconds()}
	}
	e := json.NewEncoder(out)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(map[string]any{"version": version(), "failed": failed, "checks": list})
}
