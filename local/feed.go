package local

import (
	"context"

	"github.com/norn-scheduler/norn/api"
	"github.com/norn-scheduler/norn/eventlog"
	"github.com/norn-scheduler/norn/live"
	"github.com/norn-scheduler/norn/server"
	"github.com/norn-scheduler/norn/state"
)

// Event implements engine.Sink: every event goes to the log, to the watchers, and
// into the life of its job.
func (d *Daemon) Event(ev *eventlog.Event, s *state.State) {
	d.epoch.Write(ev)
	d.tally.Count(ev)
	if ev.Kind == eventlog.Submit {
		d.appear()
	}
	text := live.EventText(ev, s, d.opt.Machine.name)
	e := api.Event{Time: d.loop.Clock.Wall(ev.Time), Kind: ev.Kind.String()}
	if live.AboutJob(ev.Kind) {
		l := d.jobs[ev.Job]
		text = l.where.Text(ev, s, d.opt.Machine.name, text)
		e.Job, e.User = l.key, l.stored.User
		if text != "" {
			l.life.Remember(e.Time, text)
		}
		if s.Record(ev.Job).Phase.Over() {
			d.bury(ev.Job)
		}
	}
	if e.Text = text; text != "" {
		d.feed.Publish(e)
	}
}

// Watch implements server.Backend.
func (d *Daemon) Watch(ctx context.Context, c server.Caller, since int64) (<-chan api.Event, error) {
	return d.feed.Watch(ctx, c, since), nil
}
