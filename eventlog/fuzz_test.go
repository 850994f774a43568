package eventlog_test

import (
	"testing"
	"time"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/eventlog"
	"github.com/norn-scheduler/norn/job"
)

// FuzzReader reads anything. An event that was read can be written, and reads
// the same again.
func FuzzReader(f *testing.F) {
	d := job.GPUs(2)
	seed := []eventlog.Event{
		{Kind: eventlog.NodeAdd, NodeSpec: &cluster.NodeSpec{Name: "a", GPUs: []cluster.GPUs{{Count: 2}}, Links: cluster.NewLinks(2)}},
		{Kind: eventlog.Submit, Spec: &job.Job{Key: "x", Demand: &d, Hints: &job.Hints{Group: "g"}}, Estimate: 5},
		{Time: time.Second, Kind: eventlog.Start, Alloc: &cluster.Alloc{Pieces: []cluster.Piece{{Tasks: 2, Shares: 2}}, Shares: []cluster.Share{{Milli: 500}, {Device: 1, Milli: 1000, Memory: 7}}}, Speed: 0.5},
		{Time: 2 * time.Second, Kind: eventlog.Preempt, Kept: time.Second, Reason: job.Reason{Code: job.MakesRoom, Job: 3}},
		{Time: 2 * time.Second, Kind: eventlog.Memo, Note: job.NewNote("x", []byte(`{"with":{"job":1}}`))},
		{Time: 3 * time.Second, Kind: eventlog.End, Outcome: job.Done},
	}
	for _, packing := range packings {
		f.Add(written(f, eventlog.Header{Policy: "fifo", Settings: []eventlog.Setting{{Name: "a", Value: "b"}}, Origin: time.Unix(1e9, 0)}, packing, seed...))
	}
	f.Fuzz(func(t *testing.T, log []byte) {
		if len(log) > 1<<16 {
			return
		}
		h, events, _, err := read(log)
		if err != nil && err.Error() == "" {
			t.Fatal("an error without words")
		}
		if len(events) == 0 {
			return
		}
		again := written(t, h, eventlog.Plain, events...)
		_, twice, _, err := read(again)
		if err != nil || len(twice) != len(events) {
			t.Fatalf("%d events were read and written, %d read again: %v\n%s", len(events), len(twice), err, again)
		}
		third := written(t, h, eventlog.Plain, twice...)
		if string(third) != string(again) {
			t.Fatalf("written twice:\n%s\n%s", again, third)
		}
	})
}
