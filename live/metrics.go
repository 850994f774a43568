package live

import (
	"github.com/norn-scheduler/norn/api"
	"github.com/norn-scheduler/norn/api/server"
	"github.com/norn-scheduler/norn/eventlog"
	"github.com/norn-scheduler/norn/job"
)

// Tally counts what has happened since the daemon started.
type Tally struct {
	Totals    server.Totals
	Ended     int // since the beginning
	Events    int64
	Decisions Histogram
	Starts    Histogram
	Launches  Histogram
}

// Histogram counts observations in seconds by size.
type Histogram struct {
	counts [len(bounds)]uint64
	n      uint64
	sum    float64
}

var bounds = [...]float64{0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 60, 600, 3600, 36000}

// Observe counts an observation, in seconds.
func (h *Histogram) Observe(v float64) {
	for i := range bounds {
		if v <= bounds[i] {
			h.counts[i]++
		}
	}
	h.n++
	h.sum += v
}

// Export is the histogram as the server has it.
func (h *Histogram) Export() server.Histogram {
	return server.Histogram{Bounds: bounds[:], Counts: append([]uint64(nil), h.counts[:]...), Count: h.n, Sum: h.sum}
}

// Count counts an event.
func (t *Tally) Count(ev *eventlog.Event) {
	t.Events++
	switch ev.Kind {
	case eventlog.Submit:
		t.Totals.Submitted++
	case eventlog.Start:
		t.Totals.Starts++
	case eventlog.Preempt:
		t.Totals.Preemptions++
	case eventlog.Fail:
		t.Totals.Failures++
	case eventlog.Evict:
		t.Totals.Evictions++
	}
}

// End counts a job that has ended.
func (t *Tally) End(j *api.Job, r *job.Record) {
	switch j.State {
	case api.Done:
		t.Totals.Done++
	case api.Failed:
		t.Totals.Failed++
	case api.Cancelled:
		t.Totals.Cancelled++
	}
	t.Totals.GPUSeconds += r.Service
	t.Totals.LostGPUSeconds += r.Lost
}

// Measures is what is measured, but for the machine.
func (d *Daemon) Measures() (m server.Metrics) {
	m.Status, m.ByState = d.status()
	m.Totals = d.Tally.Totals
	m.Decisions, m.Starts, m.Launches = d.Tally.Decisions.Export(), d.Tally.Starts.Export(), d.Tally.Launches.Export()
	m.Events, m.LogBytes = d.Tally.Events, d.epoch.Bytes()
	if several(d.st.Cluster) {
		m.Nodes = inventory{d}.list(server.Caller{Operator: true}, new(api.NodeQuery))
	}
	return m
}

// Ready is part of server.Backend.
func (d *Daemon) Ready() error {
	if err := d.MayChange(); err != nil {
		return err
	}
	if !d.ready.Load() {
		return api.Refuse(api.Unavailable, "norn is starting or stopping")
	}
	return nil
}
