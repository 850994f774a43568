package local

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"github.com/norn-scheduler/norn/api"
	"github.com/norn-scheduler/norn/api/server"
	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/eventlog"
	"github.com/norn-scheduler/norn/local/rundir"
)

// Drain implements server.Backend.
func (d *Daemon) Drain(ctx context.Context, c server.Caller, z api.Drain) error {
	if !c.Operator {
		return api.Refuse(api.Denied, "only an operator may drain the machine")
	}
	return d.Change(ctx, func() error {
		next := d.health.drained
		if len(z.Devices) == 0 {
			next.Machine, next.Why = !z.Undo, z.Why
		} else if next.Devices = maps.Clone(next.Devices); next.Devices == nil {
			next.Devices = map[string]string{}
		}
		var back []int
		for _, name := range z.Devices {
			i := slices.IndexFunc(d.opt.Machine.Devices, func(dev Device) bool { return dev.Name == name })
			if i < 0 {
				return api.Refuse(api.Unknown, "there is no device %q here", name)
			}
			if z.Undo {
				back = append(back, i)
			}
			if next.Devices[name] = cmp.Or(z.Why, "drained by "+c.User); z.Undo {
				delete(next.Devices, name)
			}
		}
		if err := rundir.Write(d.store.dir, drainedFile, next); err != nil {
			return api.Refuse(api.Unavailable, "that cannot be noted: %v", err)
		}
		d.health.drained = next
		condition{d}.forgive(back)
		condition{d}.setHealth()
		for i := range d.opt.Machine.Devices {
			condition{d}.setDevice(i)
		}
		trainers{d}.lookAtResidents()
		return nil
	})
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

// setHealth tells the engine whether the machine takes new work.
func (d condition) setHealth() {
	h := cluster.Up
	if d.health.drained.Machine || d.health.full.Load() {
		h = cluster.Cordoned
	}
	was := d.State().Cluster.Health(0)
	for _, ev := range d.Loop.Events() { // of this instant
		if ev.Kind == eventlog.NodeSet {
			was = ev.Health
		}
	}
	if was != h {
		d.Loop.Emit(eventlog.Event{Kind: eventlog.NodeSet, Health: h})
	}
}

// setDevice tells the engine whether a device takes new work.
func (d condition) setDevice(i int) {
	broken, was := d.deviceNote(i) != "", d.State().Cluster.Broken(cluster.DeviceID(i))
	for _, ev := range d.Loop.Events() { // of this instant
		if ev.Kind == eventlog.Device && int(ev.Device) == i {
			was = ev.Broken
		}
	}
	if was != broken {
		d.Loop.Emit(eventlog.Event{Kind: eventlog.Device, Device: cluster.DeviceID(i), Broken: broken})
	}
}
