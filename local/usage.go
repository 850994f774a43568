package local

import (
	"math"
	"slices"
	"time"

	"github.com/norn-scheduler/norn/api"
	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/eventlog"
	"github.com/norn-scheduler/norn/local/rundir"
	"github.com/norn-scheduler/norn/local/runner"
	"github.com/norn-scheduler/norn/state"
)

// load is a run, or a resident trainer, on devices that no driver measures, declared
// slots and host devices, or with memory booked that others must not miss.
type load struct {
	runner  rundir.Proc
	devices []int // that no driver measures
	job     string
	run     int
	claims  []claim
}

// meter measures what runs use of the processors between two looks.
type meter struct {
	at  time.Time // of the last look
	cpu map[rundir.Proc]time.Duration
}

// measurable tells whether anything can be measured of the devices.
func (m *Machine) measurable() bool {
	return m.Sample != nil || slices.ContainsFunc(m.Devices, func(d Device) bool { return d.Cores > 0 })
}

// loads are the runs whose use is that of devices.
func (d condition) loads() []load {
	var out []load
	for l := range d.all() {
		if !l.stage.there() || l.status.PID == 0 {
			continue
		}
		a := d.State().Alloc(l.ID)
		if a == nil {
			a = d.State().PinnedPlace(l.ID)
		}
		if a == nil {
			continue
		}
		on := slices.DeleteFunc(d.opt.Machine.devices(a), func(i int) bool {
			return i >= len(d.opt.Machine.Devices) || d.opt.Machine.Devices[i].Cores == 0
		})
		if claims := d.claims(l); len(on)+len(claims) > 0 {
			out = append(out, load{rundir.Proc{PID: l.status.PID, Start: l.status.Start}, on, l.Key, l.Run, claims})
		}
	}
	for _, r := range d.residents {
		var on []int
		for i, dev := range d.opt.Machine.Devices {
			if dev.Cores > 0 && slices.Contains(r.note.Devices, dev.Name) {
				on = append(on, i)
			}
		}
		if r.proc.PID != 0 && len(on) > 0 {
			out = append(out, load{runner: r.proc, devices: on})
		}
	}
	return out
}

// measure fills in the samples of devices that no driver measures: the mean use
// of their processors since the last look, and the memory of the processes on
// them. The use of a run counts for its devices in equal parts. measure returns
// the measured usage of each load.
func (m *meter) measure(devices []Device, loads []load, samples []Sample) ([]runner.Usage, error) {
	runners := make([]rundir.Proc, len(loads))
	for i := range loads {
		runners[i] = loads[i].runner
	}
	var used []runner.Usage
	var err error
	if len(loads) > 0 {
		used, err = runner.Measure(runners)
	}
	now, was := time.Now(), m.cpu
	first, span := m.at.IsZero(), now.Sub(m.at).Seconds()
	m.at, m.cpu = now, make(map[rundir.Proc]time.Duration, len(loads))
	mine := make([]bool, len(devices))
	for i, dev := range devices {
		mine[i] = !samples[i].OK && dev.Cores > 0 && (!first || len(loads) == 0) && err == nil
		samples[i].OK = samples[i].OK || mine[i]
	}
	for i, u := range used {
		m.cpu[runners[i]] = u.CPU
		part := float64(len(loads[i].devices))
		for _, dev := range loads[i].devices {
			if s := &samples[dev]; mine[dev] {
				s.Used += api.Bytes(float64(u.Memory) / part)
				s.Util += max(0, (u.CPU-was[runners[i]]).Seconds()) / span / part / devices[dev].Cores
			}
		}
	}
	for i := range samples {
		if mine[i] {
			samples[i].Util = min(1, samples[i].Util)
		}
	}
	return used, err
}

// The least changes of a device's use and memory that are noted. Smaller ones
// are left out, so that the log of a quiet machine does not grow.
const (
	useStep    = 0.1
	memoryStep = 64 * unit.MiB
)

// noteUse tells the engine the measurements that differ noticeably from the
// last ones. The first time it also tells that a job does not use its device.
func (d condition) noteUse(samples []Sample) {
	for i, s := range samples {
		dev := cluster.DeviceID(i)
		if !s.OK || i >= d.State().Cluster.Devices() {
			continue
		}
		now := state.Used{Use: math.Round(s.Util*100) / 100, Memory: unit.Bytes(s.Used) &^ (unit.MiB - 1), Known: true}
		was := d.State().Used(dev)
		if noteworthy(was, now) || !was.Known && d.State().Cluster.Sharers(dev) > 0 {
			d.Loop.Emit(eventlog.Event{Kind: eventlog.Used, Device: dev, Use: now.Use, Memory: now.Memory})
		}
	}
}

// noteworthy tells whether a measurement says something new: that a device is idle
// only where it was busy.
func noteworthy(was, now state.Used) bool {
	idle := now.Use == 0 && now.Memory == 0
	busy := was.Use != 0 || was.Memory != 0
	return idle && busy || math.Abs(now.Use-was.Use) >= useStep || max(now.Memory-was.Memory, was.Memory-now.Memory) >= memoryStep
}
