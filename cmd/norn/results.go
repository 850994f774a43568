package main

import (
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/norn-scheduler/norn/eventlog"
	"github.com/norn-scheduler/norn/experiment"
	"github.com/norn-scheduler/norn/report"
)

// folder is where the files of --out go.
func (f *simFlags) folder() experiment.Folder {
	packings := map[string]eventlog.Compression{"gz": eventlog.Gzip, "zst": eventlog.Zstd}
	return experiment.Folder{Path: f.out, Packing: packings[f.packing], NoLogs: f.packing == "none"}
}

// prepare makes the output folders and says where the event logs go.
func (f *simFlags) prepare(x *experiment.Experiment, compared []experiment.Choice, args []string) error {
	to := f.folder()
	for _, c := range compared {
		if len(args) > 0 && to.Holds(args[0], c.String()) {
			return misused("--out %s: the log of %s would overwrite the log that is read: name another folder", f.out, c)
		}
	}
	for _, c := range compared {
		if err := to.Make(c.String()); err != nil {
			return err
		}
	}
	x.Report = report.Options{Series: true, Intervals: true}
	x.Log = func(c experiment.Choice) (experiment.Log, error) { return to.Log(c.String()) }
	return nil
}

// results writes the page and the table.
func (f *simFlags) results(cmd *cobra.Command, x *experiment.Experiment, outcomes []*experiment.Outcome) error {
	if err := f.table(cmd.OutOrStdout(), outcomes); err != nil {
		return err
	}
	if f.out == "" {
		return nil
	}
	path, err := f.folder().WritePage(x.Meta(), experiment.Named(outcomes))
	if err != nil || f.quiet {
		return err
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "norn: wrote %s\n", path)
	if f.packing != "none" {
		fmt.Fprintf(cmd.ErrOrStderr(), "norn: norn explain %s JOB tells the life of one job\n", f.folder().Of(outcomes[0].Choice.String()))
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
