package local

import (
	"context"
	"time"

	"github.com/norn-scheduler/norn/live"
)

// Keep runs a daemon until the context ends, and closes it. A daemon that could not write
// its log because the disk is full can rely only on what is durable. Keep closes it, and
// anew opens another one, which can be asked and goes on when there is room. Keep fails as
// Daemon.Run does with any other error, and as anew.
func Keep(ctx context.Context, d *Daemon, anew func() (*Daemon, error)) error {
	for {
		err := d.Run(ctx)
		full := live.NoRoom(err) && ctx.Err() == nil
		if full {
			d.log.Error("the disk is full: norn reads what is on it, and can only be asked until there is room", "error", err)
		}
		d.Close()
		if !full {
			return err
		}
		if d, err = anew(); err != nil {
			return err
		}
		select {
		case <-ctx.Done(): // so that a disk with hardly any room does not keep it busy
		case <-time.After(againAfter):
		}
	}
}

// againAfter is how long a daemon waits that has begun anew.
const againAfter = 100 * time.Millisecond
