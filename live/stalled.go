package live

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/norn-scheduler/norn/api"
)

// A daemon that starts while there is no room on the disk for a new event log knows all
// that the one before knew, and can be asked for it; it takes nothing in and decides
// nothing. Jobs go on. As soon as there is room it goes on, as if it had started then.

// stallEvery is how often a daemon that can only be asked looks whether there is room.
const stallEvery = time.Second

// NoRoom tells whether something could not be written for want of room.
func NoRoom(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

// stall lets the daemon be asked for what it has read, and says why not more. The
// jobs are those of the old log, with their numbers there.
func (d recovery) stall(p *past, err error) {
	why := fmt.Sprintf("the disk of norn's state folder is full: it can be asked, but nothing is taken in, started or changed until there is room; jobs go on (%v)", err)
	if d.stalled.Swap(&why) == nil {
		d.log.Error(why)
	}
	d.past = p
	d.jobs = make([]*Job, d.st.Jobs())
	for _, l := range d.byKey {
		d.jobs[l.ID] = l
	}
	for _, id := range d.st.Ended() {
		if p.isTold(d.st.Record(id)) {
			d.jobs[id] = nil // the history has it
		}
	}
	d.epoch = d.journal.Reopened(p.log)
}

// waitForRoom answers who asks until there is room, or until the daemon ends.
func (d recovery) waitForRoom() error {
	tried := time.Now()
	for d.stalled.Load() != nil && !d.Loop.Halted() {
		d.Loop.Serve(stallEvery)
		if time.Since(tried) < stallEvery {
			continue
		}
		tried = time.Now()
		d.epoch = Epoch{}
		switch err := d.goOn(d.past); {
		case NoRoom(err):
			d.stall(d.past, err)
		case err != nil:
			return err
		default:
			d.feed.Begin(d.epoch.N)
			d.log.Info("there is room on the disk again: norn goes on", "folder", d.journal.dir)
			d.stalled.Store(nil)
			d.past = nil
		}
	}
	return nil
}

// Change is Loop.Ask for what changes something: a daemon that can only be asked refuses it.
func (d *Daemon) Change(ctx context.Context, f func() error) error {
	return d.Loop.Ask(ctx, func() error {
		if err := d.MayChange(); err != nil {
			return err
		}
		return f()
	})
}

// MayChange refuses while the daemon can only be asked. It may be called from any
// goroutine.
func (d *Daemon) MayChange() error {
	if why := d.stalled.Load(); why != nil {
		return api.Refuse(api.Unavailable, "%s", *why)
	}
	return nil
}
