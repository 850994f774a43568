package local

import (
	"context"

	"github.com/norn-scheduler/norn/api"
	"github.com/norn-scheduler/norn/server"
)

// Metrics implements server.Backend.
func (d *Daemon) Metrics(ctx context.Context) (m server.Metrics, err error) {
	err = d.loop.Ask(ctx, func() error {
		m.Status, m.ByState = d.status()
		m.Node = d.node()
		m.Totals = d.tally.Totals
		m.Decisions, m.Starts, m.Launches = d.tally.Decisions.Export(), d.tally.Starts.Export(), d.tally.Launches.Export()
		m.Events, m.LogBytes = d.tally.Events, d.epoch.Bytes()
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
