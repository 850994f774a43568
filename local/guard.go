package local

import (
	"fmt"
	"slices"

	"github.com/norn-scheduler/norn/api"
	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/live"
	"github.com/norn-scheduler/norn/local/runner"
)

// The guard over the memory of devices evicts a job that shares a device and
// uses more memory there than is booked for it, by a factor and for a while. It
// does so before the other jobs run out of their own memory.

// claim is the memory of a device that is booked for a run.
type claim struct {
	device int
	booked api.Bytes
}

// excess is a run that uses more of the memory of a device than is booked for
// it.
type excess struct {
	job    string
	run    int
	device int
	used   api.Bytes
	booked api.Bytes
}

// claims are those of a job on devices that it shares with others. A declared slot of
// which no memory was declared has none that could run out.
func (d condition) claims(l *entry) []claim {
	a := d.State().Alloc(l.ID)
	if a == nil || d.opt.Defaults.MemoryFactor <= 0 {
		return nil
	}
	var out []claim
	shared := false
	gauges(d).eachBeside(l, a, func(job.ID, *cluster.Alloc) { shared = true })
	for i := range a.Shares {
		if s := &a.Shares[i]; shared && s.Memory > 0 && int(s.Device) < len(d.opt.Machine.Devices) && d.opt.Machine.Devices[s.Device].Memory > 0 {
			out = append(out, claim{int(s.Device), api.Bytes(s.Memory)})
		}
	}
	return out
}

// exceeding finds the runs that use more than factor times their booked memory.
// The driver measures it on a GPU; elsewhere the memory of their processes
// counts. Memory that several processes share counts once.
func exceeding(factor float64, devices []Device, loads []load, used []runner.Usage, samples []Sample) (out []excess) {
	for i, u := range used {
		for _, c := range loads[i].claims {
			most := api.Bytes(factor * float64(c.booked))
			has := api.Bytes(0)
			for _, p := range samples[c.device].Processes {
				if slices.Contains(u.PIDs, p.PID) {
					has += p.Used
				}
			}
			if devices[c.device].Cores > 0 {
				if has = u.Memory / api.Bytes(len(loads[i].devices)); has > most {
					has = runner.Proportional(u.PIDs) / api.Bytes(len(loads[i].devices))
				}
			}
			if has > most {
				out = append(out, excess{loads[i].job, loads[i].run, c.device, has, c.booked})
			}
		}
	}
	return out
}

// guardMemory notes the runs that use too much memory, and evicts those that
// have done so for a while.
func (d condition) guardMemory(found []excess) {
	for l := range d.all() {
		i := slices.IndexFunc(found, func(e excess) bool { return e.job == l.Key && e.run == l.Run })
		if i < 0 {
			l.exceeds = 0
			continue
		}
		r := d.State().Record(l.ID)
		if l.exceeds == 0 {
			l.exceeds = d.Loop.Now()
		}
		if d.Loop.Now()-l.exceeds < d.opt.Defaults.MemoryFor || r.Phase != job.Running || l.Purpose != "" || d.Loop.Touch(l.ID) != nil {
			continue
		}
		e := &found[i]
		why := fmt.Sprintf("used %s of the memory of %s, which it shares; %s are booked for it", unit.Bytes(e.used), d.opt.Machine.name(cluster.DeviceID(e.device)), unit.Bytes(e.booked))
		d.log.Warn("a job uses more memory than is booked for it, and leaves", "job", l.Key, "run", l.Run, "why", why)
		d.throwOff(l, r, live.Overusing, why)
	}
}
