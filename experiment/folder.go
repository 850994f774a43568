package experiment

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/norn-scheduler/norn/eventlog"
	"github.com/norn-scheduler/norn/internal/fileio"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/report"
	"github.com/norn-scheduler/norn/sim/serve"
	"github.com/norn-scheduler/norn/state"
	"github.com/norn-scheduler/norn/trace"
)

// Folder is where the files of runs go. Each run has a folder of its own in it,
// with jobs.csv, series.csv, held.csv, summary.json and the event log; report.html, comparison.json and, where there are
// clusters of several sizes, nodes.csv are about all runs.
// It is written as a whole: Begin makes PATH.partial, into which everything
// goes, and Commit puts that in the place of PATH, and of all that an earlier
// run left there. The files of an interrupted run stay in PATH.partial until
// the next one begins.
type Folder struct {
	Path    string
	Packing eventlog.Compression // of event logs
	NoLogs  bool                 // event logs are not kept

	partial string
	lock    *os.File
}

// Names of files in a folder.
const (
	lockName   = ".lock" // locked as long as a run writes
	pageName   = "report.html"
	sidesName  = "comparison.json"
	growthName = "nodes.csv"
	jobsName   = "jobs.csv"
	seriesName = "series.csv"
	heldName   = "held.csv"

	decisionsName = "decisions.csv" // where they were timed
	summaryName   = "summary.json"

	requestsName = "requests.csv" // of a trace of requests, in place of jobs
	serviceName  = "service.csv"
	logName      = "events.log"
)

// packed are the endings of event logs.
var packed = map[eventlog.Compression]string{eventlog.Plain: "", eventlog.Gzip: ".gz", eventlog.Zstd: ".zst"}

// Begin makes the folder that is written. It fails, before anything is changed, where the
// folder that it is to replace holds anything that no run has written, or cannot be
// replaced, and where another run writes.
func (f *Folder) Begin() error {
	path, err := resolve(f.Path)
	if err != nil {
		return err
	}
	here, err := os.Getwd()
	if err == nil && inside(here, path) {
		return fmt.Errorf("%s is the working directory, or holds it: name another folder, since a run replaces all of it", f.Path)
	}
	if !fileio.SameDevice(filepath.Dir(path), path) {
		return fmt.Errorf("%s is the root of a file system, which cannot be replaced: name a folder in it", f.Path)
	}
	f.partial = path + ".partial"
	for _, dir := range []string{path, f.partial} {
		if err := replaceable(dir); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(f.partial, 0o777); err != nil {
		return err
	}
	f.lock, err = fileio.Lock(filepath.Join(f.partial, lockName))
	if errors.Is(err, fileio.ErrLocked) {
		return fmt.Errorf("another run writes into %s: wait for it, or name another folder", f.Path)
	}
	if err != nil {
		return err
	}
	return f.clear()
}

// resolve is a path from the root of the file system, without symbolic links as far as it
// is there.
func resolve(path string) (string, error) {
	path, err := filepath.Abs(path)
	if real, missing := filepath.EvalSymlinks(path); missing == nil {
		path = real
	}
	return path, err
}

// clear takes out of the folder that is written what an interrupted run has left there.
func (f *Folder) clear() error {
	entries, err := os.ReadDir(f.partial)
	for _, e := range entries {
		if e.Name() != lockName && err == nil {
			err = os.RemoveAll(filepath.Join(f.partial, e.Name()))
		}
	}
	if err != nil {
		f.Keep()
	}
	return err
}

// inside tells whether a path is a folder, or lies in it.
func inside(path, dir string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && rel != ".." && !strings.HasPrefix(rel, ".."+string(filepath.Separator))
}

// replaceable fails where a folder holds anything that no run has written. One that is
// not there, or is empty, can be replaced.
func replaceable(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, e := range entries {
		name := strings.TrimSuffix(e.Name(), fileio.Unfinished)
		if e.Name() != lockName && name != pageName && name != sidesName && !ofRun(filepath.Join(dir, e.Name())) {
			return fmt.Errorf("%s is not from a run of norn: name another folder, since a run replaces all of it", filepath.Join(dir, e.Name()))
		}
	}
	return nil
}

// ofRun tells whether a path is the folder of a run, with nothing else in it.
func ofRun(path string) bool {
	entries, err := os.ReadDir(path)
	if err != nil {
		return false
	}
	known := []string{jobsName, seriesName, heldName, decisionsName, requestsName, serviceName, summaryName, logName + packed[eventlog.Plain], logName + packed[eventlog.Gzip], logName + packed[eventlog.Zstd]}
	for _, e := range entries {
		if e.IsDir() || !slices.Contains(known, strings.TrimSuffix(e.Name(), fileio.Unfinished)) {
			return false
		}
	}
	return true
}

// Contains tells whether a file or folder is the folder, or lies in it, or in what an
// interrupted run has left.
func (f *Folder) Contains(path string) bool {
	path, err := resolve(path)
	dir, too := resolve(f.Path)
	return err == nil && too == nil && (inside(path, dir) || inside(path, dir+".partial"))
}

// Of is the folder of a run, in the folder that is written. A character that a
// file system may refuse in a name becomes _.
func (f *Folder) Of(name string) string { return filepath.Join(f.partial, safe(name)) }

// Final is the folder of a run after Commit.
func (f *Folder) Final(name string) string { return filepath.Join(f.Path, safe(name)) }

// Partial is the folder that is written.
func (f *Folder) Partial() string { return f.partial }

func safe(name string) string {
	return strings.Map(func(r rune) rune {
		if strings.ContainsRune(`/\:*?"<>| `, r) {
			return '_'
		}
		return r
	}, name)
}

// Commit puts what was written in its place, and ends writing. Where that fails, what was
// written stays where it is.
func (f *Folder) Commit() error {
	path := strings.TrimSuffix(f.partial, ".partial")
	err := replaceable(path)
	if err == nil {
		err = fileio.Replace(path, f.partial)
	}
	if err == nil {
		err = os.Remove(filepath.Join(path, lockName))
	}
	f.Keep()
	return err
}

// Keep ends writing, and leaves what was written where it is.
func (f *Folder) Keep() {
	f.lock.Close()
}

// Log begins the event log of a run, in its folder. It is the empty Log where logs are
// not kept.
func (f *Folder) Log(name string) (Log, error) {
	if f.NoLogs {
		return Log{}, nil
	}
	if err := os.MkdirAll(f.Of(name), 0o777); err != nil {
		return Log{}, err
	}
	file, err := os.Create(filepath.Join(f.Of(name), logName+packed[f.Packing]))
	if err != nil {
		return Log{}, err
	}
	return Log{WriteCloser: file, Compression: f.Packing}, nil
}

// Write writes what came of a run: the life of its jobs, what it was like over time, and its
// figures. truth says what a simulation knows of a job; nil where nobody does.
func (f *Folder) Write(name string, s *state.State, r *report.Result, truth func(job.ID) *trace.Truth) error {
	if err := os.MkdirAll(f.Of(name), 0o777); err != nil {
		return err
	}
	for _, file := range []struct {
		name  string
		write func(io.Writer) error
	}{
		{jobsName, func(w io.Writer) error { return r.WriteJobs(w, s, truth) }}, {seriesName, r.WriteSeries}, {heldName, r.WriteHeld}, {summaryName, r.WriteSummary},
	} {
		if err := fileio.CreateWhole(filepath.Join(f.Of(name), file.name), file.write); err != nil {
			return err
		}
	}
	return nil
}

// WriteServed writes what came of a run over a trace of requests: the life of each, the service of clients over time,
// and the figures.
func (f *Folder) WriteServed(name string, r *serve.Result, s *serve.Summary) error {
	if err := os.MkdirAll(f.Of(name), 0o777); err != nil {
		return err
	}
	for file, write := range map[string]func(io.Writer) error{
		requestsName: r.WriteRequests, serviceName: r.WriteService,
		summaryName: func(w io.Writer) error {
			e := json.NewEncoder(w)
			e.SetIndent("", "  ")
			return e.Encode(s)
		},
	} {
		if err := fileio.CreateWhole(filepath.Join(f.Of(name), file), write); err != nil {
			return err
		}
	}
	return nil
}

// WriteComparison writes how the runs compare, for programs.
func (f *Folder) WriteComparison(c *report.Comparison) error {
	if len(c.Growths()) > 0 {
		if err := fileio.CreateWhole(filepath.Join(f.partial, growthName), c.WriteGrowthsCSV); err != nil {
			return err
		}
	}
	return fileio.CreateWhole(filepath.Join(f.partial, sidesName), c.WriteJSON)
}

// WritePage writes the page with charts for all runs, and returns where it is after Commit.
func (f *Folder) WritePage(meta report.Meta, all []report.Named) (path string, err error) {
	return filepath.Join(f.Path, pageName), fileio.CreateWhole(filepath.Join(f.partial, pageName), func(w io.Writer) error { return report.WriteHTML(w, meta, all) })
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
			out = append(out, report.Named{Name: o.Name, Result: o.Result})
		}
	}
	return out
}
