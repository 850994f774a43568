package experiment_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/norn-scheduler/norn/eventlog"
	"github.com/norn-scheduler/norn/experiment"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/trace"
)

// TestFolder: a run leaves its files in a folder of its own, and nothing of an earlier
// one's log.
func TestFolder(t *testing.T) {
	f := experiment.Folder{Path: t.TempDir(), Packing: eventlog.Gzip}
	c := experiment.Choice{Policy: "fifo", Settings: []experiment.Setting{{Name: "mode", Value: "easy"}}}
	dir := f.Of(c.String())
	if want := filepath.Join(f.Path, "fifo(mode=easy)"); dir != want || f.Of("a/b: c") != filepath.Join(f.Path, "a_b__c") {
		t.Fatalf("%s, %s", dir, f.Of("a/b: c"))
	}
	if err := os.MkdirAll(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "events.log.zst"), []byte("old"), 0o666); err != nil {
		t.Fatal(err)
	}
	if !f.Holds(dir, c.String()) || !f.Holds(filepath.Join(dir, "events.log.zst"), c.String()) || f.Holds(f.Path, "srtf") {
		t.Error("where files lie is not seen")
	}
	if err := f.Make(c.String()); err != nil {
		t.Fatal(err)
	}
	x := experiment.Experiment{Spec: spec(t, "1x8"), Seed: 1, Log: func(c experiment.Choice) (experiment.Log, error) { return f.Log(c.String()) }}
	x.Report.Series = true
	o, err := x.Run(context.Background(), c, sample(t, 20).Source())
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Write(c.String(), o.State, o.Result); err != nil {
		t.Fatal(err)
	}
	page, err := f.WritePage(x.Meta(), experiment.Named([]*experiment.Outcome{o, nil}))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, path := range []string{dir, page} {
		found, err := filepath.Glob(filepath.Join(path, "*"))
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range found {
			names = append(names, filepath.Base(p))
		}
	}
	if got := strings.Join(names, " "); got != "events.log.gz jobs.csv summary.json" {
		t.Errorf("files: %s", got)
	}
	log, err := eventlog.Open(dir)
	if err != nil || log.Header.Policy != "fifo" {
		t.Fatalf("%+v, %v", log, err)
	}
	log.Close()
	r, err := experiment.OpenTrace(dir, trace.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if again := all(t, r); len(again) != 20 {
		t.Errorf("%d jobs in the log", len(again))
	}
	f.NoLogs = true
	if l, err := f.Log("fifo"); l.WriteCloser != nil || err != nil {
		t.Errorf("%v, %v", l, err)
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
