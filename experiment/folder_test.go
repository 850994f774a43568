package experiment_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/norn-scheduler/norn/eventlog"
	"github.com/norn-scheduler/norn/experiment"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/report"
	"github.com/norn-scheduler/norn/trace"
)

// names are the files and folders below a folder, in order, with / behind folders.
func names(t *testing.T, dir string) string {
	t.Helper()
	var out []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		rel, _ := filepath.Rel(dir, path)
		if d != nil && d.IsDir() {
			rel += "/"
		}
		out = append(out, filepath.ToSlash(rel))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(out[1:], " ")
}

// ran writes what a run leaves, without the page.
func ran(t *testing.T, f *experiment.Folder, c experiment.Choice) *experiment.Outcome {
	t.Helper()
	x := experiment.Experiment{Spec: spec(t, "1x8"), Seed: 1, Log: f.Log}
	x.Report.Series = true
	o, err := x.Run(context.Background(), c, sample(t, 20).Source())
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Write(c.String(), o.State, o.Result, o.Sim.Truth); err != nil {
		t.Fatal(err)
	}
	return o
}

// TestFolder: a folder is written as a whole, in the place of what an earlier run has
// left.
func TestFolder(t *testing.T) {
	out := filepath.Join(t.TempDir(), "a", "out")
	easy := experiment.Choice{Policy: "fifo", Settings: []experiment.Setting{{Name: "mode", Value: "easy"}}}
	srtf := experiment.Choice{Policy: "srtf"}
	f := &experiment.Folder{Path: out, Packing: eventlog.Gzip}
	if err := f.Begin(); err != nil {
		t.Fatal(err)
	}
	o := ran(t, f, easy)
	ran(t, f, srtf)
	page, err := f.WritePage(report.Meta{}, experiment.Named([]*experiment.Outcome{o, nil}))
	if err != nil || page != filepath.Join(out, "report.html") {
		t.Fatal(page, err)
	}
	if _, err := os.Stat(out); !errors.Is(err, fs.ErrNotExist) {
		t.Error("it is there before it is whole")
	}
	if err := f.Commit(); err != nil {
		t.Fatal(err)
	}
	if want := filepath.Join(out, "fifo(mode=easy)"); f.Final(easy.String()) != want || f.Final("a/b: c") != filepath.Join(out, "a_b__c") {
		t.Errorf("%s, %s", f.Final(easy.String()), f.Final("a/b: c"))
	}
	if got := names(t, filepath.Dir(out)); got != "out/ out/fifo(mode=easy)/ out/fifo(mode=easy)/events.log.gz out/fifo(mode=easy)/held.csv out/fifo(mode=easy)/jobs.csv out/fifo(mode=easy)/series.csv out/fifo(mode=easy)/summary.json out/report.html out/srtf/ out/srtf/events.log.gz out/srtf/held.csv out/srtf/jobs.csv out/srtf/series.csv out/srtf/summary.json" {
		t.Errorf("files: %s", got)
	}
	log, err := eventlog.Open(f.Final(easy.String()))
	if err != nil || log.Header.Policy != "fifo" {
		t.Fatalf("%+v, %v", log, err)
	}
	log.Close()
	r, err := experiment.OpenTrace(f.Final(easy.String()), trace.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if again := all(t, r); len(again) != 20 {
		t.Errorf("%d jobs in the log", len(again))
	}

	// A smaller run replaces all of it, one without logs too. One that is interrupted
	// changes nothing, and the next one begins anew.
	f = &experiment.Folder{Path: out, NoLogs: true}
	if err := f.Begin(); err != nil {
		t.Fatal(err)
	}
	ran(t, f, easy)
	f.Keep()
	if got := names(t, out+".partial"); got != ".lock fifo(mode=easy)/ fifo(mode=easy)/held.csv fifo(mode=easy)/jobs.csv fifo(mode=easy)/series.csv fifo(mode=easy)/summary.json" {
		t.Errorf("an interrupted run has left %s", got)
	}
	if got := names(t, out); !strings.Contains(got, "fifo(mode=easy)/events.log.gz") || !strings.Contains(got, "report.html") {
		t.Errorf("an interrupted run has changed what was there: %s", got)
	}
	if !f.Contains(filepath.Join(out, "srtf", "events.log.gz")) || !f.Contains(f.Of(easy.String())) || !f.Contains(out) || f.Contains(out+"er") || f.Contains(filepath.Dir(out)) {
		t.Error("where files lie is not seen")
	}
	if err := f.Begin(); err != nil {
		t.Fatal(err)
	}
	ran(t, f, srtf)
	if err := f.Commit(); err != nil {
		t.Fatal(err)
	}
	if got := names(t, filepath.Dir(out)); got != "out/ out/srtf/ out/srtf/held.csv out/srtf/jobs.csv out/srtf/series.csv out/srtf/summary.json" {
		t.Errorf("files: %s", got)
	}
}

// TestFolderRefused: nothing is replaced that no run has written, and two runs do not
// write into one folder.
func TestFolderRefused(t *testing.T) {
	dir := t.TempDir()
	begin := func(path string) (*experiment.Folder, error) {
		f := &experiment.Folder{Path: path}
		return f, f.Begin()
	}
	f, err := begin(filepath.Join(dir, "out"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := begin(filepath.Join(dir, "out")); err == nil || !strings.Contains(err.Error(), "another run writes into") {
		t.Errorf("two at once: %v", err)
	}
	f.Keep()
	if f, err = begin(filepath.Join(dir, "out")); err != nil {
		t.Errorf("after the other: %v", err)
	}
	// Somebody puts a file of their own there while the run goes on.
	put := func(path string) {
		t.Helper()
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o777), os.WriteFile(path, []byte("mine"), 0o666)); err != nil {
			t.Fatal(err)
		}
	}
	put(filepath.Join(dir, "out", "notes.txt"))
	if err := f.Commit(); err == nil || !strings.Contains(err.Error(), "notes.txt is not from a run of norn") {
		t.Errorf("a file of somebody's is replaced: %v", err)
	}
	put(filepath.Join(dir, "b", "fifo", "notes.txt"))
	put(filepath.Join(dir, "c.partial", "notes.txt"))
	put(filepath.Join(dir, "d"))
	t.Chdir(dir)
	for path, want := range map[string]string{
		"out": "notes.txt is not from a run", "b": "b/fifo is not from a run", "c": "c.partial/notes.txt is not from a run", "d": "not a directory",
		".": "is the working directory", "..": "is the working directory", "/proc": "is the root of a file system",
	} {
		if _, err := begin(path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", path, err, want)
		}
	}
	if text, err := os.ReadFile(filepath.Join(dir, "b", "fifo", "notes.txt")); string(text) != "mine" {
		t.Errorf("%q, %v", text, err)
	}
	// Behind a symbolic link, the folder is replaced that it leads to.
	if err := errors.Join(os.Mkdir(filepath.Join(dir, "far"), 0o777), os.Symlink(filepath.Join(dir, "far"), filepath.Join(dir, "link"))); err != nil {
		t.Fatal(err)
	}
	if f, err = begin("link"); err != nil {
		t.Fatal(err)
	}
	ran(t, f, experiment.Choice{Policy: "srtf"})
	if err := f.Commit(); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Lstat("link"); err != nil || info.Mode()&fs.ModeSymlink == 0 {
		t.Errorf("the link is gone: %v, %v", info, err)
	}
	if got := names(t, filepath.Join(dir, "far")); got != "srtf/ srtf/events.log srtf/held.csv srtf/jobs.csv srtf/series.csv srtf/summary.json" {
		t.Errorf("behind the link: %s", got)
	}
}

// TestParseCosts: what is told goes over what the cluster tells.
func TestParseCosts(t *testing.T) {
	base := perf.Costs{Base: perf.Cost{Start: 5e9, Resize: 7e9}}
	got, err := experiment.ParseCosts([]string{"start=10s", " restore = 1m"}, base)
	if want := (perf.Cost{Start: 10e9, Restore: 60e9, Resize: 7e9}); err != nil || got.Base != want {
		t.Errorf("%+v, %v", got, err)
	}
	base.Tiers = make([]perf.Tier, 1)
	if got, err := experiment.ParseCosts([]string{"start=10"}, base); err != nil || got.Base != (perf.Cost{Start: 10e9}) || len(got.Tiers) > 0 {
		t.Errorf("%+v, %v", got, err)
	}
	for _, bad := range []string{"start", "begin=3", "start=-1", "start=soon"} {
		if _, err := experiment.ParseCosts([]string{bad}, base); err == nil || !strings.HasPrefix(err.Error(), bad+": write start") {
			t.Errorf("%s: %v", bad, err)
		}
	}
}
