package main

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/norn-scheduler/norn/eventlog"
	"github.com/norn-scheduler/norn/experiment/foreign"
	"github.com/norn-scheduler/norn/internal/fileio"
	"github.com/norn-scheduler/norn/report"
)

// unrecorded are the flags that do not bear on a result, or are told of in other places.
func unrecorded() []string {
	return []string{"policy", "set", "out", "table", "log", "quiet", "from-summary", "baseline", "output", "json", "decisions"}
}

// filed are the flags whose value may be a file.
func filed() []string {
	return []string{"cluster", "speeds", "believed-speeds", "variability", "believed-variability", "pairs", "sockets", "data", "profile", "loans"}
}

// origin is what a run is made from, but for its policy. The trace is named by its path,
// which is empty for the built-in one.
func origin(cmd *cobra.Command, trace string) (*report.Origin, error) {
	o := &report.Origin{Norn: version(), Command: cmd.Name(), Trace: report.Input{Path: trace}, Flags: []report.Flag{}}
	var err error
	if trace != "" && trace != "-" {
		if o.Trace.SHA256, err = fileio.Hash(trace); err != nil {
			return nil, err
		}
	}
	for _, f := range given(cmd, unrecorded()) {
		o.Flags = append(o.Flags, report.Flag{Name: f.Name, Value: f.Value})
		if _, missing := os.Stat(f.Value); missing != nil || !slices.Contains(filed(), f.Name) {
			continue
		}
		in := report.Input{Flag: f.Name, Path: f.Value}
		if in.SHA256, err = fileio.Hash(f.Value); err != nil {
			return nil, err
		}
		o.Inputs = append(o.Inputs, in)
	}
	return o, nil
}

// given are the flags that were given, but for some, in order of their names; those with
// several values once for each.
func given(cmd *cobra.Command, but []string) (out []eventlog.Setting) {
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if slices.Contains(but, f.Name) {
			return
		}
		for _, v := range valuesOf(f) {
			out = append(out, eventlog.Setting{Name: f.Name, Value: v})
		}
	})
	return out
}

// valuesOf are the values that were given to a flag.
func valuesOf(f *pflag.Flag) []string {
	if several, ok := f.Value.(pflag.SliceValue); ok {
		return several.GetSlice()
	}
	return []string{f.Value.String()}
}

// again sets the flags that a result was made with, but for those that were given anew,
// and returns the arguments. It fails where what is to be read is no longer what it was.
func (f *simFlags) again(cmd *cobra.Command, args []string) ([]string, error) {
	file, err := os.Open(f.from)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	o, err := report.ReadOrigin(file)
	if err != nil {
		return nil, fmt.Errorf("%s %w", f.from, err)
	}
	if o.Command != cmd.Name() {
		return nil, fmt.Errorf("%s was written by norn %s: --from-summary repeats only results of norn sim", f.from, o.Command)
	}
	if len(args) == 0 && o.Trace.Path == "-" {
		return nil, misused("--from-summary %s: the trace was read from standard input: name it, or - for standard input", f.from)
	}
	if len(args) == 0 && o.Trace.Path != "" {
		args = []string{o.Trace.Path}
	}
	if err := f.restore(cmd, o); err != nil {
		return nil, fmt.Errorf("%s: %w", f.from, err)
	}
	if len(args) > 0 {
		o.Inputs = append(o.Inputs, report.Input{Path: args[0], SHA256: o.Trace.SHA256})
	}
	for _, in := range o.Inputs {
		if in.Flag != "" && !slices.Contains(valuesOf(cmd.Flag(in.Flag)), in.Path) {
			continue // another one was given
		}
		have, err := fileio.Hash(in.Path)
		if err != nil {
			return nil, err
		}
		if have != in.SHA256 && have != "" && in.SHA256 != "" {
			return nil, fmt.Errorf("%s has changed since the result was made: its SHA-256 is %s, and was %s", in.Path, have, in.SHA256)
		}
	}
	if v := version(); v != o.Norn && !f.quiet {
		remark(cmd, "%s was written by norn %s, this is %s", f.from, o.Norn, v)
	}
	return args, nil
}

// restore sets the flags that a result was made with and that were not given anew.
func (f *simFlags) restore(cmd *cobra.Command, o *report.Origin) error {
	fl := cmd.Flags()
	anew := func(name string) bool { return fl.Changed(name) }
	if !anew("policy") {
		if strings.HasPrefix(o.Policy, foreign.Name+"(") {
			return misused("it was made under %s, and no program is started because a file names it: name it with --policy %s", o.Policy, shellWord(o.Policy))
		}
		f.policies = []string{o.Policy}
	}
	var was []report.Flag
	for _, r := range o.Flags {
		switch known := fl.Lookup(r.Name); {
		case known == nil || slices.Contains(unrecorded(), r.Name):
			return fmt.Errorf("norn sim has no flag --%s: %s was written by another version, %s", r.Name, f.from, o.Norn)
		case !anew(r.Name):
			was = append(was, r)
		}
	}
	for _, r := range was {
		if err := fl.Set(r.Name, r.Value); err != nil {
			return err
		}
	}
	return nil
}
