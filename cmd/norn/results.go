package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/norn-scheduler/norn/eventlog"
	"github.com/norn-scheduler/norn/report"
	"github.com/norn-scheduler/norn/run"
)

// prepare makes the output folders and says where the event logs go.
func (f *simFlags) prepare(x *run.Experiment, compared []run.Choice, args []string) error {
	for _, c := range compared {
		if len(args) > 0 && f.overwrites(args[0], c) {
			return misused("--out %s: the log that is read lies where that of %s would be written: name another folder", f.out, c)
		}
	}
	x.Report = report.Options{Series: true, Intervals: true}
	for _, c := range compared {
		if err := os.MkdirAll(f.folder(c), 0o777); err != nil {
			return err
		}
		old, _ := filepath.Glob(filepath.Join(f.folder(c), "events.log*")) // the pattern is well formed
		for _, path := range old {
			if err := os.Remove(path); err != nil {
				return err
			}
		}
	}
	ending, packing := "", eventlog.Plain
	switch f.packing {
	case "none":
		return nil
	case "gz":
		ending, packing = ".gz", eventlog.Gzip
	case "zst":
		ending, packing = ".zst", eventlog.Zstd
	}
	x.Log = func(c run.Choice) (run.Log, error) {
		file, err := os.Create(filepath.Join(f.folder(c), "events.log"+ending))
		return run.Log{WriteCloser: file, Compression: packing}, err
	}
	return nil
}

// overwrites tells whether a trace, or the log in a folder, lies where the files
// of a choice go.
func (f *simFlags) overwrites(path string, c run.Choice) bool {
	return same(path, f.folder(c)) || same(filepath.Dir(path), f.folder(c))
}

// folder is where the files of a choice go.
func (f *simFlags) folder(c run.Choice) string {
	safe := strings.Map(func(r rune) rune {
		if strings.ContainsRune(`/\:*?"<>| `, r) {
			return '_'
		}
		return r
	}, c.String())
	return filepath.Join(f.out, safe)
}

// files writes the files of one choice but the event log.
func (f *simFlags) files(o *run.Outcome) error {
	err := create(filepath.Join(f.folder(o.Choice), "jobs.csv"), func(w io.Writer) error { return report.WriteJobs(w, o.State) })
	if err != nil {
		return err
	}
	return create(filepath.Join(f.folder(o.Choice), "summary.json"), o.Result.WriteSummary)
}

// create writes a file.
func create(path string, write func(io.Writer) error) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	err = write(file)
	if e := file.Close(); err == nil {
		err = e
	}
	return err
}

// results writes the page and the table.
func (f *simFlags) results(cmd *cobra.Command, x *run.Experiment, outcomes []*run.Outcome) error {
	if err := f.table(cmd.OutOrStdout(), outcomes); err != nil {
		return err
	}
	if f.out == "" {
		return nil
	}
	path := filepath.Join(f.out, "report.html")
	meta := report.Meta{
		Title: "Norn: " + x.Header.Trace, Trace: x.Header.Trace, Cluster: x.Header.Cluster,
		Seed: fmt.Sprint(f.seed), Estimates: x.Estimate.String(), Conditions: conditionsText(x.Header.Conditions),
	}
	err := create(path, func(w io.Writer) error { return report.WriteHTML(w, meta, named(outcomes)) })
	if err != nil || f.quiet {
		return err
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "norn: wrote %s\n", path)
	if f.packing != "none" {
		fmt.Fprintf(cmd.ErrOrStderr(), "norn: norn explain %s JOB tells the life of one job\n", f.folder(outcomes[0].Choice))
	}
	return nil
}

// pipedWidth is the width of tables that no terminal bounds: enough for all
// columns and for names of variants with all their settings.
const pipedWidth = 1000

func (f *simFlags) table(out io.Writer, outcomes []*run.Outcome) error {
	t := report.Compare(named(outcomes))
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

// conditionsText are conditions as the page shows them.
func conditionsText(all []eventlog.Setting) string {
	var parts []string
	for _, s := range all {
		parts = append(parts, s.String())
	}
	return strings.Join(parts, ", ")
}
