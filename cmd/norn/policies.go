package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/norn-scheduler/norn/experiment"
	"github.com/norn-scheduler/norn/experiment/foreign"
	"github.com/norn-scheduler/norn/internal/grid"
	"github.com/norn-scheduler/norn/place"
	"github.com/norn-scheduler/norn/policy"
	"github.com/norn-scheduler/norn/policy/need"
	"github.com/norn-scheduler/norn/sched"
)

// policiesFlags is what norn policies was asked.
type policiesFlags struct {
	trace      simFlags // what --suggest looks at
	placements bool
	tokens     bool
	stages     bool
	suggest    string
	json       bool
}

func policiesCommand() *cobra.Command {
	f := new(policiesFlags)
	cmd := &cobra.Command{
		Use:   "policies [NAME]",
		Short: "List the scheduling policies, or the parameters of one",
		Long: `Policies lists the scheduling policies: what each lives on, what it does besides starting
jobs, and what it is. Given the name of a policy, it lists the parameters with units,
defaults and meanings. docs/policies has a page for each policy.

LIVES ON: times are estimates of run times, elastic is jobs that may change their size,
types is several GPU types, profiles is anything that is measured of jobs (use of GPUs,
stages, speeds of pairs, models), tenants is tenants or users, their quotas and classes,
and history is jobs that resemble earlier ones. Some are needed together, of others one
suffices: norn policies NAME says which.

With --suggest it plays a trace under fifo, looks at what its jobs tell, and names three
policies to try, with the reason for each.`,
		Example: `  norn policies
  norn policies tiresias
  norn policies --suggest jobs.csv --cluster 16x8:V100
  norn policies --json
  norn policies --tokens
  norn policies --placements`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: completePolicyNames,
		RunE:              f.run,
	}
	f.trace.command().Flags().VisitAll(func(flag *pflag.Flag) {
		if !slices.Contains([]string{"policy", "set", "out", "table", "log", "from-summary", "seed"}, flag.Name) {
			cmd.Flags().AddFlag(flag)
		}
	})
	cmd.Flags().BoolVar(&f.placements, "placements", false, "list the placement strategies instead")
	cmd.Flags().BoolVar(&f.tokens, "tokens", false, "list the policies for requests to a server of a language model instead, which share its tokens among clients")
	cmd.Flags().BoolVar(&f.stages, "stages", false, "list the policies for graphs of stages instead, which share executors among them")
	cmd.Flags().StringVar(&f.suggest, "suggest", "", "name three policies to try on this trace; other flags say how it is read, and the cluster")
	cmd.Flags().BoolVar(&f.json, "json", false, "write JSON: an array of policies, or of suggestions")
	return cmd
}

func (f *policiesFlags) run(cmd *cobra.Command, args []string) error {
	out := cmd.OutOrStdout()
	switch {
	case f.suggest != "" && (len(args) > 0 || f.placements):
		return misused("--suggest names policies by itself: leave out the name of a policy, and --placements")
	case f.suggest != "":
		return f.advise(cmd)
	case f.placements:
		return listPlacements(out)
	case f.tokens:
		return listTokens(out, args, f.json)
	case f.stages:
		return listStages(out, args, f.json)
	case len(args) == 0 && f.json:
		return writePolicies(out, policy.Table())
	case len(args) == 0:
		return listPolicies(out, widthOf(cmd))
	}
	e, err := policy.ByName(args[0])
	if args[0] == foreign.Name {
		e, err = foreign.Entry(), nil
	}
	if err != nil {
		return err
	}
	if f.json {
		return writePolicies(out, []policy.Entry{e})
	}
	return showPolicy(out, e)
}

// kinds are the words under which the list of policies tells what each lives on.
func kinds() []struct {
	word string
	any  need.Set
} {
	return []struct {
		word string
		any  need.Set
	}{
		{"times", need.Of(need.RunTimes, need.Predictions)},
		{"history", need.Of(need.History)},
		{"elastic", need.Of(need.Elastic)},
		{"types", need.Of(need.Types, need.Kinds)},
		{"profiles", need.Of(need.Reports, need.Batches, need.Stages, need.Use, need.Memory, need.Pairs, need.Processors, need.Spread, need.Models, need.Rations, need.Backbones)},
		{"tenants", need.Of(need.Tenants, need.Users, need.Quotas, need.Classes)},
		{"services", need.Of(need.Services)},
		{"deadlines", need.Of(need.Deadlines)},
		{"priorities", need.Of(need.Priorities)},
		{"parts", need.Of(need.Parts)},
	}
}

// livesOn are the words of a list of needs.
func livesOn(needs need.List) []string {
	var out []string
	for _, k := range kinds() {
		if slices.ContainsFunc(needs, func(n need.Need) bool { return n.Any&k.any != 0 }) {
			out = append(out, k.word)
		}
	}
	return out
}

// listPolicies lists all policies in columns that are as wide as the terminal, at least 80
// cells and at most 120. Cells go on in the next line.
func listPolicies(out io.Writer, width int) error {
	const name, lives, does, gap = 12, 9, 8, 2
	what := min(max(width, 80), 120) - name - lives - does - 3*gap
	line := func(cells ...string) {
		text := fmt.Sprintf("%-*s  %-*s  %-*s  %s", name, cells[0], lives, cells[1], does, cells[2], cells[3])
		fmt.Fprintln(out, strings.TrimRight(text, " "))
	}
	line("POLICY", "LIVES ON", "DOES", "WHAT IT IS")
	for _, e := range policy.Table() {
		columns := [][]string{{e.Name}, livesOn(e.Needs()), e.Acts.Names(), wrap(e.Title+" ["+e.Source+"]", what)}
		lines := 0
		for _, c := range columns {
			lines = max(lines, len(c))
		}
		for i := range lines {
			cells := make([]string, len(columns))
			for k, c := range columns {
				if i < len(c) {
					cells[k] = c[i]
				}
			}
			line(cells...)
		}
	}
	_, err := fmt.Fprintln(out, "\nnorn policies NAME lists the parameters of one, and what it does without what it\nlives on. --suggest TRACE names three to try, and --json is for programs.\nA program of your own, in any language, is a policy, too: norn policies exec.")
	return err
}

// wrap breaks a text between words into lines of at most so many characters. A longer word
// has a line of its own.
func wrap(text string, width int) []string {
	var lines []string
	line := ""
	for _, word := range strings.Fields(text) {
		switch {
		case line == "":
			line = word
		case utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) <= width:
			line += " " + word
		default:
			lines, line = append(lines, line), word
		}
	}
	return append(lines, line)
}

// policyJSON is a policy as programs read it.
type policyJSON struct {
	Name       string      `json:"name"`
	Title      string      `json:"title"`
	Source     string      `json:"source"`
	LivesOn    []needJSON  `json:"lives_on"`
	Does       []string    `json:"does"` // of preempts, shares, resizes, merges
	Parameters []paramJSON `json:"parameters"`
}

// needJSON is something that a policy lives on.
type needJSON struct {
	What    string `json:"what"`
	Without string `json:"without"` // what the policy does without it
	Get     string `json:"get"`     // how a simulation gets it
}

type paramJSON struct {
	Name    string `json:"name"`
	Default string `json:"default"`
	Unit    string `json:"unit"` // or the values that it may have
	Doc     string `json:"doc"`
}

func writePolicies(out io.Writer, entries []policy.Entry) error {
	all := []policyJSON{}
	for _, e := range entries {
		p := policyJSON{Name: e.Name, Title: e.Title, Source: e.Source, LivesOn: []needJSON{}, Does: append([]string{}, e.Acts.Names()...), Parameters: []paramJSON{}}
		for _, n := range e.Needs() {
			p.LivesOn = append(p.LivesOn, needJSON{n.Any.String(), n.Without, n.Any.Get()})
		}
		for _, s := range e.New().Params() {
			p.Parameters = append(p.Parameters, paramJSON{s.Name, s.Default, s.Unit, s.Doc})
		}
		all = append(all, p)
	}
	return writeJSON(out, all)
}

// advise names three policies to try on a trace.
func (f *policiesFlags) advise(cmd *cobra.Command) error {
	defer endInTime(cmd.Context())()
	x, src, jobs, err := f.trace.prepared(cmd, []string{f.suggest})
	if err != nil {
		return err
	}
	defer src.Close()
	advice, err := x.Suggest(cmd.Context(), jobs)
	if err != nil {
		return err
	}
	f.trace.remark(cmd.ErrOrStderr(), jobs, src)
	out := cmd.OutOrStdout()
	if f.json {
		list := []map[string]string{}
		for _, s := range advice.Policies {
			list = append(list, map[string]string{"policy": s.Policy, "why": s.Why})
		}
		return writeJSON(out, list)
	}
	fmt.Fprintf(out, "%s\n\n", advice.Waits())
	table := grid.Table{Cols: []grid.Column{{Title: "TRY"}, {Title: "BECAUSE"}}}
	for _, s := range advice.Policies {
		table.Add(s.Policy, s.Why)
	}
	if err := table.Write(out, widthOf(cmd)); err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "\n  %s\n", f.command(cmd, advice))
	return err
}

// command is the simulation that compares what is suggested.
func (f *policiesFlags) command(cmd *cobra.Command, advice *experiment.Advice) string {
	words := []string{"norn", "sim", shellWord(f.suggest)}
	cmd.Flags().Visit(func(flag *pflag.Flag) {
		if flag.Name != "suggest" && flag.Name != "quiet" {
			words = append(words, "--"+flag.Name+"="+shellWord(strings.Trim(flag.Value.String(), "[]")))
		}
	})
	return strings.Join(append(words, "--policy", shellWord(advice.List())), " ")
}

// showNeeds lists what a policy lives on, as it is set by default, and how to get it.
func showNeeds(out io.Writer, needs need.List) error {
	if len(needs) == 0 {
		_, err := fmt.Fprint(out, "lives on: submissions and ends of jobs alone\n\n")
		return err
	}
	fmt.Fprintln(out, "lives on:")
	w := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	for _, n := range needs {
		fmt.Fprintf(w, "  %s\twithout: %s\t%s\n", n.Any, n.Without, n.Any.Get())
	}
	fmt.Fprintln(w)
	return w.Flush()
}

func showPolicy(out io.Writer, e policy.Entry) error {
	does := strings.Join(append([]string{"starts jobs"}, e.Acts.Names()...), ", ")
	fmt.Fprintf(out, "%s: %s\nsource: %s\ndoes: %s\n", e.Name, e.Title, e.Source, does)
	if e.Name == foreign.Name {
		fmt.Fprint(out, "lives on: whatever the program makes of what it is told\n\n")
	} else if err := showNeeds(out, e.Needs()); err != nil {
		return err
	}
	w := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	fmt.Fprintln(w, "PARAMETER\tDEFAULT\tUNIT OR VALUES\tMEANING")
	for _, p := range e.New().Params() {
		def := p.Default
		if def == "" {
			def = "-"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", p.Name, def, p.Unit, p.Doc)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	fmt.Fprintf(out, "\nSet one with --set %s.PARAMETER=VALUE.\n", e.Name)
	if e.Note == nil {
		return nil
	}
	var fields []string
	for _, f := range sched.NoteFields(e.Note()) {
		fields = append(fields, f.Name+" ("+f.Kind+")")
	}
	_, err := fmt.Fprintf(out, "It notes on jobs, in the event log: %s.\n", strings.Join(fields, ", "))
	return err
}

func listPlacements(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	for _, s := range place.All() {
		fmt.Fprintf(w, "%s\t%s\n", s, place.About(s))
	}
	return w.Flush()
}
