package main

import (
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/norn-scheduler/norn/eventlog"
	"github.com/norn-scheduler/norn/experiment"
	"github.com/norn-scheduler/norn/report"
)

// prepare begins the folder of --out and says where the event logs go. The folder is nil
// where nothing is to be written.
func (f *simFlags) prepare(cmd *cobra.Command, x *experiment.Experiment, args []string) error {
	packings := map[string]eventlog.Compression{"gz": eventlog.Gzip, "zst": eventlog.Zstd}
	to := &experiment.Folder{Path: f.out, Packing: packings[f.packing], NoLogs: f.packing == "none"}
	if len(args) > 0 && args[0] != "-" && to.Contains(args[0]) {
		return misused("--out %s: the folder has the file that is read, and a run replaces all of it: name another folder", f.out)
	}
	from, err := origin(cmd, strings.Join(args, ""))
	if err != nil {
		return err
	}
	if err := to.Begin(); err != nil {
		return fmt.Errorf("--out %w", err)
	}
	f.to, f.made = to, from
	x.Report = report.Options{Series: true, Intervals: true}
	x.Log = func(c experiment.Choice) (experiment.Log, error) { return to.Log(c.String()) }
	return nil
}

// results writes the page and the table, and puts all files in their place.
func (f *simFlags) results(cmd *cobra.Command, x *experiment.Experiment, outcomes []*experiment.Outcome, whole bool) error {
	if err := f.table(cmd.OutOrStdout(), outcomes); err != nil {
		return err
	}
	if f.to == nil {
		return nil
	}
	path, err := f.to.WritePage(x.Meta(), experiment.Named(outcomes))
	if err != nil || !whole {
		return err
	}
	if err := f.to.Commit(); err != nil || f.quiet {
		return err
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "norn: wrote %s\n", path)
	if f.packing != "none" {
		fmt.Fprintf(cmd.ErrOrStderr(), "norn: norn explain %s JOB tells the life of one job\n", f.to.Final(outcomes[0].Choice.String()))
	}
	return nil
}

// pipedWidth is the width of tables that no terminal bounds: enough for all
// columns and for names of variants with all their settings.
const pipedWidth = 1000

func (f *simFlags) table(out io.Writer, outcomes []*experiment.Outcome) error {
	t := report.Compare(experiment.Named(outcomes))
	switch f.format {
	case "markdown":
		return t.WriteMarkdown(out)
	case "csv":
		return t.WriteCSV(out)
	case "json":
		return t.WriteJSON(out)
	}
	opt := report.TextOptions{Width: pipedWidth}
	if file, ok := out.(*os.File); ok && term.IsTerminal(int(file.Fd())) {
		opt.Color = os.Getenv("NO_COLOR") == ""
		if w, _, err := term.GetSize(int(file.Fd())); err == nil && w > 0 {
			opt.Width = w
		}
	}
	return t.WriteText(out, opt)
}
