package engine

import (
	"slices"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/job"
)

// drains knows which jobs are still leaving their devices and which jobs wait
// for that. It is empty wherever leaving costs no time.
type drains struct {
	leaving []leaver
	waiting []waiter
}

type leaver struct {
	id      job.ID
	devices []cluster.DeviceID
}

type waiter struct {
	id job.ID
	on []job.ID // the leavers it waits for
}

// leave notes that a job is leaving what it held.
func (d *drains) leave(id job.ID, a *cluster.Alloc) {
	l := leaver{id: id}
	for i := range a.Shares {
		l.devices = append(l.devices, a.Shares[i].Device)
	}
	d.leaving = append(d.leaving, l)
}

// blocks tells whether anyone is still leaving a device of a, and if so notes
// that the job waits for them.
func (d *drains) blocks(id job.ID, a *cluster.Alloc) bool {
	var on []job.ID
	for _, l := range d.leaving {
		for i := range a.Shares {
			if slices.Contains(l.devices, a.Shares[i].Device) {
				on = append(on, l.id)
				break
			}
		}
	}
	if on != nil {
		d.waiting = append(d.waiting, waiter{id, on})
	}
	return on != nil
}

// forget notes that a job no longer waits.
func (d *drains) forget(id job.ID) {
	d.waiting = slices.DeleteFunc(d.waiting, func(w waiter) bool { return w.id == id })
}

// left notes that a job has left, and returns who waited for it alone.
func (d *drains) left(id job.ID) (ready []job.ID) {
	d.leaving = slices.DeleteFunc(d.leaving, func(l leaver) bool { return l.id == id })
	kept := d.waiting[:0]
	for _, w := range d.waiting {
		w.on = slices.DeleteFunc(w.on, func(on job.ID) bool { return on == id })
		if len(w.on) == 0 {
			ready = append(ready, w.id)
		} else {
			kept = append(kept, w)
		}
	}
	d.waiting = kept
	return ready
}
