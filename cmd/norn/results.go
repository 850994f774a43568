package main

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"

	"github.com/norn-scheduler/norn/eventlog"
	"github.com/norn-scheduler/norn/experiment"
	"github.com/norn-scheduler/norn/experiment/foreign"
	"github.com/norn-scheduler/norn/report"
)

// prepare begins the folder of --out and says where the event logs go. The folder is nil
// where nothing is to be written.
func (f *simFlags) prepare(cmd *cobra.Command, x *experiment.Experiment, args []string) error {
	packings := map[string]eventlog.Compression{"gz": eventlog.Gzip, "zst": eventlog.Zstd}
	to := &experiment.Folder{Path: f.out, Packing: packings[f.packing], NoLogs: f.packing == "none"}
	if len(args) > 0 && args[0] != "-" {
		if err := f.spares(to, args[0]); err != nil {
			return err
		}
	}
	from, err := origin(cmd, strings.Join(args, ""))
	if err != nil {
		return err
	}
	if err := to.Begin(); err != nil {
		return fmt.Errorf("--out %w", err)
	}
	f.to, f.made = to, from
	x.Report, x.Timed = report.Options{Series: true, Intervals: true}, f.timed
	x.Log = to.Log
	return nil
}

// spares refuses a folder of --out that has the file which is read.
func (f *simFlags) spares(to *experiment.Folder, path string) error {
	if to.Contains(path) {
		return misused("--out %s: the folder has the file that is read, and a run replaces all of it: name another folder", f.out)
	}
	return nil
}

// into replays a trace of a kind that is not of jobs, and puts the files of --out in their place.
// Other flags than those that are known mean nothing for it, and are refused.
func (f *simFlags) into(cmd *cobra.Command, path, kind string, known []string, run func(*cobra.Command, string) error) error {
	if err := knowsOnly(cmd, path, kind, known); err != nil {
		return err
	}
	if f.out == "" {
		return run(cmd, path)
	}
	to := &experiment.Folder{Path: f.out}
	if err := f.spares(to, path); err != nil {
		return err
	}
	if err := to.Begin(); err != nil {
		return fmt.Errorf("--out %w", err)
	}
	f.to = to
	defer to.Keep()
	if err := run(cmd, path); err != nil {
		return err
	}
	return to.Commit()
}

// knowsOnly refuses flags that mean nothing for a trace of some kind.
func knowsOnly(cmd *cobra.Command, path, kind string, known []string) (err error) {
	cmd.Flags().Visit(func(flag *pflag.Flag) {
		if !slices.Contains(known, flag.Name) && err == nil {
			err = misused("--%s: %s is %s, which knows only --%s", flag.Name, path, kind, strings.Join(known, ", --"))
		}
	})
	return err
}

// results writes the page and the table, and puts all files in their place.
func (f *simFlags) results(cmd *cobra.Command, x *experiment.Experiment, jobs *experiment.Prepared, outcomes []*experiment.Outcome, whole bool) error {
	c, err := jobs.Compare(outcomes, f.beside, x.Report)
	if err != nil {
		return err
	}
	if err := f.table(cmd.OutOrStdout(), c); err != nil {
		return err
	}
	if f.to == nil {
		return nil
	}
	if err := f.to.WriteComparison(c.Comparison); err != nil {
		return err
	}
	meta := x.Meta()
	meta.Comparison, meta.Begins = c.Comparison, jobs.Begins()
	path, err := f.to.WritePage(meta, c.All)
	if err != nil || !whole {
		return err
	}
	if err := f.to.Commit(); err != nil || f.quiet {
		return err
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "norn: wrote %s\n", path)
	if f.packing != "none" {
		fmt.Fprintf(cmd.ErrOrStderr(), "norn: norn explain %s JOB tells the life of one job\n", f.to.Final(outcomes[0].Name))
	}
	return nil
}

// pipedWidth is the width of tables that no terminal bounds: enough for all
// columns and for names of variants with all their settings.
const pipedWidth = 1000

// table writes the comparison as it was asked for: for readers with a sentence on top, and
// with who gains and loses where a baseline was named.
func (f *simFlags) table(out io.Writer, c *experiment.Compared) error {
	t := report.Compare(c.All)
	t.Against(c.Comparison, f.baseline != "")
	switch f.format {
	case "markdown":
		fmt.Fprintf(out, "%s\n\n", report.Markdown(c.Verdict()))
		return t.WriteMarkdown(out)
	case "csv":
		if len(c.Grown) > 0 {
			return c.WriteGrowthsCSV(out)
		}
		return t.WriteCSV(out)
	case "json":
		if len(c.Grown) > 0 {
			return c.WriteGrowthsJSON(out)
		}
		return t.WriteJSON(out)
	}
	opt := report.TextOptions{Width: pipedWidth}
	if file, ok := out.(*os.File); ok && term.IsTerminal(int(file.Fd())) {
		opt.Color = os.Getenv("NO_COLOR") == ""
		if w, _, err := term.GetSize(int(file.Fd())); err == nil && w > 0 {
			opt.Width = w
		}
	}
	report.WriteLines(out, []string{c.Verdict()}, opt.Width)
	fmt.Fprintln(out)
	err := t.WriteText(out, opt)
	if err == nil {
		err = report.WriteKinds(out, c.All, opt.Width)
	}
	lines := c.Checks()
	if text := c.Waits(); text != "" {
		lines = append(lines, text)
	}
	if err == nil && len(lines) > 0 {
		fmt.Fprintln(out)
		err = report.WriteLines(out, lines, opt.Width)
	}
	if err == nil {
		err = c.WriteGrowths(out, opt.Width)
	}
	if err != nil || f.baseline == "" {
		return err
	}
	return c.WriteClasses(out, opt.Width)
}

// against finds the baseline among the policies that are compared, by the name that it has
// with all its settings; one that is not there is compared, too.
func (f *simFlags) against() ([]experiment.Choice, error) {
	if f.baseline == "" || f.baseline == experiment.AsWas {
		f.beside = f.baseline
		return simulated(f.policies, f.settings)
	}
	one, err := experiment.ParseChoices(f.baseline, foreign.Entry())
	if err != nil || len(one) != 1 {
		return nil, misused("--baseline %s: name one policy, or %s", f.baseline, experiment.AsWas)
	}
	plain, err := simulated(f.policies, nil)
	if err != nil {
		return nil, err
	}
	at := slices.IndexFunc(plain, func(c experiment.Choice) bool { return c.String() == one[0].String() })
	policies := f.policies
	if at < 0 {
		at = 0
		policies = append([]string{f.baseline}, policies...)
		if len(f.policies) == 0 {
			policies = append(policies, defaultPolicies...)
		}
	}
	all, err := simulated(policies, f.settings)
	if err == nil {
		f.beside = all[at].String()
	}
	return all, err
}
