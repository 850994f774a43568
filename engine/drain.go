package engine

import (
	"slices"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/job"
)

// drains keeps which jobs are still leaving their devices and which jobs wait
// for that. It is empty wherever leaving takes no time, and allocates nothing
// once warm.
type drains struct {
	leaving []leaver
	waiting []waiter
	ready   []job.ID // scratch of left

	spareDevices [][]cluster.DeviceID
	spareJobs    [][]job.ID
}

type leaver struct {
	id      job.ID
	devices []cluster.DeviceID
}

type waiter struct {
	id job.ID
	on []job.ID // the leavers it waits for
}

// pop takes an empty slice that was used before, or nil.
func pop[T any](spare *[][]T) []T {
	n := len(*spare)
	if n == 0 {
		return nil
	}
	s := (*spare)[n-1][:0]
	*spare = (*spare)[:n-1]
	return s
}

// leave notes that a job is leaving what it held.
func (d *drains) leave(id job.ID, a *cluster.Alloc) {
	devices := pop(&d.spareDevices)
	if a == nil { // not known any more
		d.leaving = append(d.leaving, leaver{id, devices})
		return
	}
	for i := range a.Shares {
		devices = append(devices, a.Shares[i].Device)
	}
	d.leaving = append(d.leaving, leaver{id, devices})
}

// blocks tells whether anyone is still leaving a device of a, and if so notes
// that the job waits for them.
func (d *drains) blocks(id job.ID, a *cluster.Alloc) bool {
	if len(d.leaving) == 0 {
		return false
	}
	on := pop(&d.spareJobs)
	for _, l := range d.leaving {
		for i := range a.Shares {
			if slices.Contains(l.devices, a.Shares[i].Device) {
				on = append(on, l.id)
				break
			}
		}
	}
	if len(on) == 0 {
		d.spareJobs = append(d.spareJobs, on)
		return false
	}
	d.waiting = append(d.waiting, waiter{id, on})
	return true
}

// resume notes that a job was assigned devices before a restart. It is no
// longer known which leaving jobs it waits for, so it waits for all of them.
func (d *drains) resume(id job.ID) {
	on := pop(&d.spareJobs)
	for _, l := range d.leaving {
		on = append(on, l.id)
	}
	d.waiting = append(d.waiting, waiter{id, on})
}

// forget notes that a job no longer waits.
func (d *drains) forget(id job.ID) {
	for i := range d.waiting {
		if d.waiting[i].id == id {
			d.spareJobs = append(d.spareJobs, d.waiting[i].on)
			d.waiting = slices.Delete(d.waiting, i, i+1)
			return
		}
	}
}

// left notes that a job has left, and returns the jobs that waited for it
// alone. The slice is valid until the next call.
func (d *drains) left(id job.ID) (ready []job.ID) {
	d.ready = d.ready[:0]
	for i := range d.leaving {
		if d.leaving[i].id == id {
			d.spareDevices = append(d.spareDevices, d.leaving[i].devices)
			d.leaving = slices.Delete(d.leaving, i, i+1)
			break
		}
	}
	kept := d.waiting[:0]
	for _, w := range d.waiting {
		if i := slices.Index(w.on, id); i >= 0 {
			w.on = slices.Delete(w.on, i, i+1)
		}
		if len(w.on) == 0 {
			d.ready = append(d.ready, w.id)
			d.spareJobs = append(d.spareJobs, w.on)
		} else {
			kept = append(kept, w)
		}
	}
	d.waiting = kept
	return d.ready
}
