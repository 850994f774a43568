package main

import (
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/norn-scheduler/norn/eventlog"
	"github.com/norn-scheduler/norn/eventlog/replay"
	"github.com/norn-scheduler/norn/policy"
	"github.com/norn-scheduler/norn/trace"
	"github.com/norn-scheduler/norn/trace/clusterspec"
)

// completer answers the shell with what may be written at a place.
type completer = func(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective)

// words completes one of a few words.
func words(list ...string) completer {
	return func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return list, cobra.ShellCompDirectiveNoFileComp
	}
}

// complete registers completers of flags. A name that is no flag is a mistake of
// this program, which a test finds.
func complete(cmd *cobra.Command, flags map[string]completer) {
	for name, c := range flags {
		if err := cmd.RegisterFlagCompletionFunc(name, c); err != nil {
			panic(err)
		}
	}
}

func policyNames() []string {
	var names []string
	for _, e := range policy.Table() {
		names = append(names, e.Name)
	}
	return names
}

func flagNames(cmd *cobra.Command) []string {
	var names []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
	return names
}

func formatNames() []string {
	var names []string
	for _, f := range append(trace.Formats(), replay.Format()) {
		names = append(names, cobra.CompletionWithDesc(f.Name, f.Title))
	}
	return names
}

func likeNames() []string { return strings.Split(likes, ", ") }

// likes are the logs that can be imitated, as a user writes them.
const likes = "philly, venus, itp, pai, pollux"

// completeList completes the last of several names that are joined by commas.
func completeList(names func() []string) completer {
	return func(_ *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) {
		before := begun[:strings.LastIndexByte(begun, ',')+1]
		var out []string
		for _, n := range names() {
			if !strings.Contains(","+before, ","+n+",") {
				out = append(out, before+n)
			}
		}
		return out, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
	}
}

// completePolicyNames completes the name of one policy.
func completePolicyNames(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var out []string
	for _, e := range policy.Table() {
		out = append(out, cobra.CompletionWithDesc(e.Name, e.Title))
	}
	return out, cobra.ShellCompDirectiveNoFileComp
}

// completeSetting completes policy.param=, and behind it the values of a
// parameter that has a few.
func completeSetting(_ *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) {
	target, _, valued := strings.Cut(begun, "=")
	var out []string
	for _, e := range policy.Table() {
		for _, p := range e.New().Params() {
			name := e.Name + "." + p.Name
			switch {
			case !valued:
				out = append(out, cobra.CompletionWithDesc(name+"=", p.Doc))
			case name == target && strings.Contains(p.Unit, "|"):
				for v := range strings.SplitSeq(p.Unit, "|") {
					out = append(out, name+"="+v)
				}
			case name == target && (p.Default == "true" || p.Default == "false"):
				out = append(out, name+"=true", name+"=false")
			}
		}
	}
	return out, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
}

// completeCluster completes presets, and files beside them.
func completeCluster(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	var out []string
	for _, p := range clusterspec.Presets() {
		out = append(out, cobra.CompletionWithDesc(p.Name, p.About))
	}
	return out, cobra.ShellCompDirectiveDefault
}

// completeJob completes the jobs of the log that was named before.
func completeJob(_ *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
	if len(args) == 0 {
		return nil, cobra.ShellCompDirectiveDefault
	}
	var out []string
	if log, err := eventlog.Open(args[0]); err == nil && len(args) == 1 {
		defer log.Close()
		if list, err := replay.Jobs(log.Reader); err == nil {
			for _, b := range list.Jobs {
				if strings.HasPrefix(b.Job, begun) {
					out = append(out, b.Job)
				}
			}
		}
	}
	return out, cobra.ShellCompDirectiveNoFileComp
}
