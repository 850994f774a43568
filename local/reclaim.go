package local

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/norn-scheduler/norn/api"
	"github.com/norn-scheduler/norn/api/server"
	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/live"
	"github.com/norn-scheduler/norn/local/rundir"
)

// wholeMachine stands for the machine among the names of devices.
const wholeMachine = ""

// reclaim is an order of the owner of the machine or of a device, who takes it back. It is in force until it is lent
// again.
type reclaim struct {
	By  time.Time `json:"by,omitzero"` // when it is to be free; zero: when the jobs there have left in their own time
	Why string    `json:"why"`
}

// note says that a device is taken back, and until when jobs may be there.
func (r *reclaim) note() string {
	if time.Now().Before(r.By) {
		return r.Why + ", to be free by " + r.By.Local().Format(time.TimeOnly)
	}
	return r.Why
}

// reason is what the log has of the order.
func (d condition) reason(r *reclaim) job.Reason {
	why := job.Reason{Code: job.TakenBack, Job: job.None, Text: r.Why}
	if !r.By.IsZero() {
		why.At = max(0, d.Loop.Clock.Since(r.By))
	}
	return why
}

// reclaimIn is the order that the log has.
func (d condition) reclaimIn(why *job.Reason) reclaim {
	r := reclaim{Why: why.Text}
	if why.At > 0 {
		r.By = d.Loop.Clock.Wall(why.At)
	}
	return r
}

// Reclaim implements server.Backend.
func (d *Daemon) Reclaim(ctx context.Context, c server.Caller, z api.Reclaim) (meant []string, err error) {
	if !c.Operator {
		return nil, api.Refuse(api.Denied, "only an operator may take devices back from jobs")
	}
	order := reclaim{Why: "taken back by " + c.User}
	if z.Why != "" {
		order.Why += ": " + z.Why
	}
	if z.Notice != nil {
		order.By = time.Now().Add(z.Notice.Duration()).UTC()
	}
	choose := func() (machine bool, devices []int, err error) {
		machine, devices, err = condition{d}.meant(&api.Drain{Devices: z.Devices, Where: z.Where})
		if err != nil || z.Count == 0 {
			return machine, devices, err
		}
		devices, err = condition{d}.some(&z, machine, devices)
		return false, devices, err
	}
	err = condition{d}.order(ctx, false, choose, func(next *drained, machine bool, devices []int) {
		if next.Reclaimed = maps.Clone(next.Reclaimed); next.Reclaimed == nil {
			next.Reclaimed = map[string]reclaim{}
		}
		if machine && z.Lend { // with all that is in it
			clear(next.Reclaimed)
		} else if machine {
			next.Reclaimed[wholeMachine] = order
		}
		for _, i := range devices {
			name := d.opt.Machine.Devices[i].Name
			if next.Reclaimed[name] = order; z.Lend {
				delete(next.Reclaimed, name)
			}
			meant = append(meant, name)
		}
	})
	return meant, err
}

// some are as many of the devices as an order wants: those that are taken back to be lent, others to be taken back.
func (d condition) some(z *api.Reclaim, machine bool, of []int) ([]int, error) {
	var devices []int
	for i, dev := range d.opt.Machine.Devices {
		_, taken := d.health.drained.Reclaimed[dev.Name]
		if (machine || slices.Contains(of, i)) && (taken == z.Lend) && (z.Lend || d.deviceNote(i) == "") {
			devices = append(devices, i)
		}
	}
	if err := live.Enough(len(devices), z); err != nil || z.Lend {
		return devices[:min(len(devices), z.Count)], err
	}
	jobs := make([][]job.ID, len(devices))
	for l := range d.all() {
		a := cmp.Or(d.State().Alloc(l.ID), d.State().PinnedPlace(l.ID))
		if a == nil {
			continue
		}
		for _, i := range d.opt.Machine.devices(a) {
			if at := slices.Index(devices, i); at >= 0 {
				jobs[at] = append(jobs[at], l.ID)
			}
		}
	}
	var out []int
	for _, at := range live.Cheapest(d.State(), d.Costs(), jobs, z.Count, z.AtOnce()) {
		out = append(out, devices[at])
	}
	slices.Sort(out)
	return out, nil
}

// takeBack has the runs leave that are on devices which are taken back.
func (d condition) takeBack() {
	if len(d.health.drained.Reclaimed) == 0 {
		return
	}
	for l := range d.all() {
		if l.stage.there() {
			d.handBack(l)
		}
	}
}

// reclaims is what is taken back first of all that an allocation has, and the time until then, which is the run's own grace
// where no moment is set; empty: nothing is.
func (d condition) reclaims(a *cluster.Alloc, grace time.Duration) (why string, left time.Duration) {
	look := func(what, name string) {
		order, is := d.health.drained.Reclaimed[name]
		if !is {
			return
		}
		until := grace
		if !order.By.IsZero() {
			until = max(0, d.Loop.Clock.Since(order.By)-d.Loop.Now())
		}
		if why == "" || until < left {
			why, left = fmt.Sprintf("%s is %s", what, order.Why), until
		}
	}
	look(d.opt.Machine.Name, wholeMachine)
	for _, name := range d.opt.Machine.names(a) {
		look(name, name)
	}
	return why, left
}

// handBack has a run leave that is on a device which is taken back: when what it needs to save its state is left of
// the notice, and killed at its end. A job of several sizes goes on with what is left to it, where it can. One that leaves
// already may have to be quicker, and frozen processes end with it.
func (d condition) handBack(l *entry) {
	r, now := d.State().Record(l.ID), d.Loop.Now()
	how, grace := l.farewell(r, d.opt.Defaults.CancelGrace)
	if l.stage == frozen {
		grace = 0
	}
	why, left := d.reclaims(cmp.Or(d.State().Alloc(l.ID), d.State().PinnedPlace(l.ID)), grace.Duration())
	if why == "" {
		return
	}
	if left == 0 {
		how = rundir.End // it has no time to save anything
	}
	ready := r.Phase == job.Running && l.Purpose == ""
	switch wait := left - grace.Duration(); {
	case ready && wait > 0:
		if wait < lookEvery { // else it is looked at again before
			d.Loop.At(now+wait, d.takeBack)
		}
	case ready && left > 0 && live.CanShrink(r) && !l.trapped:
		if d.Loop.Touch(l.ID) == nil {
			taken := func(a *cluster.Alloc) bool {
				what, _ := d.reclaims(a, 0)
				return what != ""
			}
			live.Shrink(d.Daemon.Daemon, &l.Job, taken, why, func() {
				l.trapped = true
				d.Loop.Later(func() error {
					d.handBack(l)
					return nil
				})
			})
		}
	case ready, left == 0 && l.stage == frozen:
		if d.Loop.Touch(l.ID) == nil {
			d.end(l, live.Reclaimed, seqRequeue, how, min(grace, api.Of(left)), why)
		}
	case left == 0 && l.stage == leaving && l.Purpose != live.Resizing && l.want.Grace > 0 && l.seq%seqs < seqCancel:
		d.end(l, l.Purpose, l.seq%seqs+1, rundir.End, 0, l.Why)
	}
}
