package local

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/norn-scheduler/norn/api"
	"github.com/norn-scheduler/norn/eventlog"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/sched"
)

// within does something in the goroutine of Run.
func (d *Daemon) within(f func()) error {
	return d.Loop.Ask(context.Background(), func() error { f(); return nil })
}

// Together has the daemon wait until so many requests have come, which it then carries
// out in one instant, in the order in which they came.
func (d *Daemon) Together(requests ...func()) {
	waits, goes := make(chan struct{}), make(chan struct{})
	go d.within(func() { close(waits); <-goes })
	<-waits
	for i, request := range requests {
		go request()
		for n := 0; n <= i; n, _, _ = d.Loop.Waiting() {
			time.Sleep(100 * time.Microsecond)
		}
	}
	close(goes)
}

// Panics is a request that makes the daemon panic, behind another job's submission.
func (d *Daemon) Panics() error {
	return d.within(func() {
		l := newEntry("999", &stored{})
		d.Admit(&l.Job, job.Job{Key: l.Key})
		panic("a mistake of a test")
	})
}

// MistakeNow is Mistake, and asks at once.
func (d *Daemon) MistakeNow(p sched.Policy) error {
	return d.within(func() { d.Impose("mistaken", p); d.Loop.RequestDecision() })
}

// Mistake puts a policy in force that is in no table, and is asked when something
// happens.
func (d *Daemon) Mistake(p sched.Policy) error {
	return d.within(func() { d.Impose("mistaken", p) })
}

// SetDisk changes how much must be free on the disk, and looks at it.
func (d *Daemon) SetDisk(reserve, refuse api.Bytes) error {
	return d.within(func() {
		d.opt.Limits.Reserve, d.opt.Limits.Refuse = reserve, refuse
		condition{d}.lookAtDisk()
	})
}

// LookAtDevices measures the devices now.
func (d *Daemon) LookAtDevices() error { return d.within(condition{d}.lookAtDevices) }

// LookAtPackers ends the servers of CUDA MPS that nobody uses.
func (d *Daemon) LookAtPackers() error { return d.within(packing{d}.lookAtPackers) }

// LookedAtDevices measures the devices now, and returns when what was measured is
// taken in.
func (d *Daemon) LookedAtDevices() error {
	if err := d.LookAtDevices(); err != nil {
		return err
	}
	for {
		looking := false
		if err := d.within(func() { looking = d.health.looking }); err != nil || !looking {
			return err
		}
		time.Sleep(time.Millisecond)
	}
}

// Carried is what the daemon would take over into a new log, as logs have it.
func (d *Daemon) Carried() (out []string, err error) {
	err = d.within(func() {
		carried := eventlog.Carried(d.State(), 0)
		for _, ev := range append(carried, eventlog.Lessons(d.State(), carried)...) {
			b, err := ev.Append(nil)
			out = append(out, string(b), fmt.Sprint(err))
		}
	})
	return out, err
}

// FillLog lets everything fail that is written to the event log from now on, as
// on a full disk.
func (d *Daemon) FillLog(full *os.File) error {
	return d.within(func() {
		all, _ := filepath.Glob("/proc/self/fd/*")
		for _, link := range all {
			if at, _ := os.Readlink(link); at == d.store.Path(d.Epoch()) || at == d.store.Path(d.Epoch())+".new" {
				fd, _ := strconv.Atoi(filepath.Base(link))
				replace(fd, full)
			}
		}
	})
}

// Deafen lets nothing reach the daemon any more that runners tell it.
func (d *Daemon) Deafen() error { return d.watch.deafen() }

// Kept counts what the daemon keeps in memory that could grow with the jobs that
// have ended.
func (d *Daemon) Kept() (out map[string]int, err error) {
	err = d.within(func() {
		d.tokens.mu.Lock()
		defer d.tokens.mu.Unlock()
		out = d.Daemon.Kept()
		out["entries"], out["tokens"], out["runners watched"] = len(d.entries), len(d.tokens.runs), d.watch.count()
	})
	return out, err
}
