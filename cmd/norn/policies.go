package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/norn-scheduler/norn/place"
	"github.com/norn-scheduler/norn/policy"
	"github.com/norn-scheduler/norn/policy/need"
	"github.com/norn-scheduler/norn/sched"
)

func policiesCommand() *cobra.Command {
	placements := false
	cmd := &cobra.Command{
		Use:   "policies [NAME]",
		Short: "List the scheduling policies, or the parameters of one",
		Long: `Policies lists the scheduling policies with their sources. Given the name of a policy,
it lists the parameters with units, defaults and meanings. docs/policies has a page for
each policy.`,
		Example: `  norn policies
  norn policies tiresias
  norn policies --placements`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: completePolicyNames,
		RunE: func(cmd *cobra.Command, args []string) error {
			out := cmd.OutOrStdout()
			switch {
			case placements:
				return listPlacements(out)
			case len(args) == 0:
				return listPolicies(out)
			}
			return showPolicy(out, args[0])
		},
	}
	cmd.Flags().BoolVar(&placements, "placements", false, "list the placement strategies instead")
	return cmd
}

func listPolicies(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	for _, e := range policy.Table() {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", e.Name, e.Title, e.Source, strings.Join(e.Needs().Names(), ", "))
	}
	return w.Flush()
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

func showPolicy(out io.Writer, name string) error {
	e, err := policy.ByName(name)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%s: %s\nsource: %s\n", e.Name, e.Title, e.Source)
	if err := showNeeds(out, e.Needs()); err != nil {
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
	_, err = fmt.Fprintf(out, "It notes on jobs, in the event log: %s.\n", strings.Join(fields, ", "))
	return err
}

func listPlacements(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	for _, s := range place.All() {
		fmt.Fprintf(w, "%s\t%s\n", s, place.About(s))
	}
	return w.Flush()
}
