package local

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/norn-scheduler/norn/api"
	"github.com/norn-scheduler/norn/api/server"
	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/eventlog"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/local/rundir"
)

// Drain implements server.Backend.
func (d *Daemon) Drain(ctx context.Context, c server.Caller, z api.Drain) error {
	if !c.Operator {
		return api.Refuse(api.Denied, "only an operator may drain the machine")
	}
	choose := func() (machine bool, devices []int, err error) { return condition{d}.meant(&z) }
	return condition{d}.order(ctx, z.Undo, choose, func(next *drained, machine bool, devices []int) {
		if machine {
			next.Machine, next.Why = !z.Undo, z.Why
		}
		if next.Devices = maps.Clone(next.Devices); next.Devices == nil {
			next.Devices = map[string]string{}
		}
		for _, i := range devices {
			name := d.opt.Machine.Devices[i].Name
			if next.Devices[name] = cmp.Or(z.Why, "drained by "+c.User); z.Undo {
				delete(next.Devices, name)
			}
		}
	})
}

// meant is what an order is about: the machine, devices, or both.
func (d condition) meant(z *api.Drain) (machine bool, devices []int, err error) {
	nodes, named, err := d.Drained(z)
	for _, i := range named {
		devices = append(devices, int(i))
	}
	return len(named) == 0 || len(nodes) > 0, devices, err
}

// order carries out an order about the machine or about devices: choose says which, and change what is out of use from
// now on. sound tells that what was measured of them counts no more.
func (d condition) order(ctx context.Context, sound bool, choose func() (machine bool, devices []int, err error), change func(next *drained, machine bool, devices []int)) error {
	return d.Change(ctx, func() error {
		machine, devices, err := choose()
		if err != nil {
			return err
		}
		was, next := d.health.drained, d.health.drained
		change(&next, machine, devices)
		if err := d.keep(next); err != nil {
			return api.Refuse(api.Unavailable, "that cannot be noted: %v", err)
		}
		d.health.drained = next
		if sound {
			d.forgive(devices)
		}
		if machine {
			d.Loop.Emit(d.machineEvent())
		}
		for i, dev := range d.opt.Machine.Devices {
			_, before := was.Reclaimed[dev.Name]
			if _, now := next.Reclaimed[dev.Name]; before != now || slices.Contains(devices, i) {
				d.Loop.Emit(d.deviceEvent(i))
			}
		}
		trainers(d).lookAtResidents()
		d.takeBack()
		return nil
	})
}

// keep writes down what operators have put out of use. Where the file cannot be written it
// is removed: the event log, which has every order too, counts until there is one again.
func (d condition) keep(orders drained) error {
	err := rundir.Write(d.store.dir, drainedFile, orders)
	if d.health.unkept = err != nil; err == nil {
		return nil
	}
	d.log.Error("the list of drained devices is in the event log alone", "error", err)
	if gone := os.Remove(filepath.Join(d.store.dir, drainedFile)); gone != nil && !errors.Is(gone, os.ErrNotExist) {
		return err
	}
	return nil
}

// forgive treats devices that an operator puts back into use as sound, until a
// measurement finds new trouble.
func (d condition) forgive(devices []int) {
	for _, i := range devices {
		d.health.sick[i] = ""
		if d.opt.Machine.Forgive != nil {
			d.health.forgive = append(d.health.forgive, i)
		}
	}
}

// machineEvent tells whether the machine takes new work, and whether an operator has
// ordered that.
func (d condition) machineEvent() eventlog.Event {
	ev := eventlog.Event{Kind: eventlog.NodeSet}
	if d.health.out() || d.health.full.Load() {
		ev.Health = cluster.Cordoned
	}
	if taken, is := d.health.drained.Reclaimed[wholeMachine]; is {
		ev.Reason = d.reason(&taken)
	} else if d.health.drained.Machine {
		ev.Reason = ordered(d.health.drained.Why)
	}
	return ev
}

// deviceEvent tells whether a device takes new work, and whether an operator has ordered
// that.
func (d condition) deviceEvent(i int) eventlog.Event {
	ev := eventlog.Event{Kind: eventlog.Device, Device: cluster.DeviceID(i), Broken: d.deviceNote(i) != ""}
	name := d.opt.Machine.Devices[i].Name
	if taken, is := d.health.drained.Reclaimed[name]; is {
		ev.Reason = d.reason(&taken)
	} else if why := d.health.drained.Devices[name]; why != "" {
		ev.Reason = ordered(why)
	}
	return ev
}

// ordered is the reason of what an operator has ordered.
func ordered(why string) job.Reason {
	return job.Reason{Code: job.OnHold, Job: job.None, Text: why}
}

// orders are what operators have put out of use, for a log that begins.
func (d condition) orders() []eventlog.Event {
	var out []eventlog.Event
	if d.health.out() {
		out = append(out, d.machineEvent())
	}
	for i := range d.opt.Machine.Devices {
		if ev := d.deviceEvent(i); ev.Reason.Code != job.NoReason {
			out = append(out, ev)
		}
	}
	return out
}

// setHealth tells the engine whether the machine takes new work.
func (d condition) setHealth() {
	ev, was := d.machineEvent(), d.State().Cluster.Health(0)
	for _, told := range d.Loop.Events() { // of this instant
		if told.Kind == eventlog.NodeSet {
			was = told.Health
		}
	}
	if was != ev.Health {
		d.Loop.Emit(ev)
	}
}

// setDevice tells the engine whether a device takes new work.
func (d condition) setDevice(i int) {
	ev, was := d.deviceEvent(i), d.State().Cluster.Broken(cluster.DeviceID(i))
	for _, told := range d.Loop.Events() { // of this instant
		if told.Kind == eventlog.Device && int(told.Device) == i {
			was = told.Broken
		}
	}
	if was != ev.Broken {
		d.Loop.Emit(ev)
	}
}
