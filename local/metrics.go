package local

import (
	"context"

	"github.com/norn-scheduler/norn/api"
	"github.com/norn-scheduler/norn/eventlog"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/server"
)

// tally counts what has happened since the daemon started.
type tally struct {
	totals    server.Totals
	ended     int // since the beginning
	events    int64
	decisions histogram
	starts    histogram
	launches  histogram
}

// histogram counts observations in seconds by size.
type histogram struct {
	counts [len(bounds)]uint64
	n      uint64
	sum    float64
}

var bounds = [...]float64{0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 60, 600, 3600, 36000}

func (h *histogram) observe(v float64) {
	for i := range bounds {
		if v <= bounds[i] {
			h.counts[i]++
		}
	}
	h.n++
	h.sum += v
}

func (h *histogram) export() server.Histogram {
	return server.Histogram{Bounds: bounds[:], Counts: append([]uint64(nil), h.counts[:]...), Count: h.n, Sum: h.sum}
}

func (t *tally) count(ev *eventlog.Event) {
	t.events++
	switch ev.Kind {
	case eventlog.Submit:
		t.totals.Submitted++
	case eventlog.Start:
		t.totals.Starts++
	case eventlog.Preempt:
		t.totals.Preemptions++
	case eventlog.Fail:
		t.totals.Failures++
	case eventlog.Evict:
		t.totals.Evictions++
	}
}

// end counts a job that has ended.
func (t *tally) end(j *api.Job, r *job.Record) {
	switch j.State {
	case api.Done:
		t.totals.Done++
	case api.Failed:
		t.totals.Failed++
	case api.Cancelled:
		t.totals.Cancelled++
	}
	t.totals.GPUSeconds += r.Service
	t.totals.LostGPUSeconds += r.Lost
}

// Metrics implements server.Backend.
func (d *Daemon) Metrics(ctx context.Context) (m server.Metrics, err error) {
	err = d.ask(ctx, func() error {
		m.Status, m.ByState = d.status()
		m.Node = d.node()
		m.Totals = d.tally.totals
		m.Decisions, m.Starts, m.Launches = d.tally.decisions.export(), d.tally.starts.export(), d.tally.launches.export()
		m.Events, m.LogBytes = d.tally.events, d.epoch.bytes()
		return nil
	})
	return m, err
}

// Ready implements server.Backend.
func (d *Daemon) Ready() error {
	if err := d.mayChange(); err != nil {
		return err
	}
	if !d.ready.Load() {
		return api.Refuse(api.Unavailable, "norn is starting or stopping")
	}
	return nil
}
