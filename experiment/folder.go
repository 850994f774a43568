package experiment

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/norn-scheduler/norn/eventlog"
	"github.com/norn-scheduler/norn/internal/fileio"
	"github.com/norn-scheduler/norn/report"
	"github.com/norn-scheduler/norn/state"
)

// Folder is where the files of runs go. Each run has a folder of its own in it, with
// jobs.csv, summary.json and the event log; report.html is about all runs.
type Folder struct {
	Path    string
	Packing eventlog.Compression // of event logs
	NoLogs  bool                 // event logs are not kept
}

// Of is the folder of a run. What a file system may not take in a name becomes _.
func (f Folder) Of(name string) string {
	safe := strings.Map(func(r rune) rune {
		if strings.ContainsRune(`/\:*?"<>| `, r) {
			return '_'
		}
		return r
	}, name)
	return filepath.Join(f.Path, safe)
}

// Holds tells whether a file, or the log in a folder, lies where the files of a run go.
func (f Folder) Holds(path, name string) bool {
	return fileio.Same(path, f.Of(name)) || fileio.Same(filepath.Dir(path), f.Of(name))
}

// Make makes the folder of a run, and takes the event logs of an earlier one out of it.
func (f Folder) Make(name string) error {
	if err := os.MkdirAll(f.Of(name), 0o777); err != nil {
		return err
	}
	old, _ := filepath.Glob(filepath.Join(f.Of(name), "events.log*")) // the pattern is well formed
	for _, path := range old {
		if err := os.Remove(path); err != nil {
			return err
		}
	}
	return nil
}

// Log begins the event log of a run, in its folder, which must be there. It is the empty
// Log where logs are not kept.
func (f Folder) Log(name string) (Log, error) {
	if f.NoLogs {
		return Log{}, nil
	}
	endings := map[eventlog.Compression]string{eventlog.Gzip: ".gz", eventlog.Zstd: ".zst"}
	file, err := os.Create(filepath.Join(f.Of(name), "events.log"+endings[f.Packing]))
	if err != nil {
		return Log{}, err
	}
	return Log{WriteCloser: file, Compression: f.Packing}, nil
}

// Write writes what came of a run: the life of its jobs and its figures.
func (f Folder) Write(name string, s *state.State, r *report.Result) error {
	err := fileio.Create(filepath.Join(f.Of(name), "jobs.csv"), func(w io.Writer) error { return report.WriteJobs(w, s) })
	if err != nil {
		return err
	}
	return fileio.Create(filepath.Join(f.Of(name), "summary.json"), r.WriteSummary)
}

// WritePage writes the page with charts for all runs, and returns where it is.
func (f Folder) WritePage(meta report.Meta, all []report.Named) (path string, err error) {
	path = filepath.Join(f.Path, "report.html")
	return path, fileio.Create(path, func(w io.Writer) error { return report.WriteHTML(w, meta, all) })
}

// Meta says for the page what the experiment is about.
func (x *Experiment) Meta() report.Meta {
	return report.Meta{
		Title: "Norn: " + x.Header.Trace, Trace: x.Header.Trace, Cluster: x.Header.Cluster,
		Seed: fmt.Sprint(x.Seed), Estimates: x.Estimate.String(), Conditions: joined(x.Header.Conditions, ", "),
	}
}

// Named are the results of outcomes under the names of their choices, as tables and
// pages take them. Outcomes that are nil are left out.
func Named(outcomes []*Outcome) []report.Named {
	var out []report.Named
	for _, o := range outcomes {
		if o != nil {
			out = append(out, report.Named{Name: o.Choice.String(), Result: o.Result})
		}
	}
	return out
}
