package local

import (
	"math"
	"slices"
	"strconv"

	"github.com/norn-scheduler/norn/api"
	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/live"
	"github.com/norn-scheduler/norn/local/rundir"
)

// limits are the limits of a run with allocation a. They are the processors and
// the memory that are booked for it, its weight on processors that its devices
// stand for, and its turn if it is throttled.
func (d *Daemon) limits(l *entry, a *cluster.Alloc) rundir.Limits {
	cpus, mem := live.Beside(a)
	lim := rundir.Limits{CPUs: cpus, Memory: mem, Weight: d.opt.Machine.weight(a), Throttle: live.ThrottleOf(a), Paced: l.limits.Paced}
	if takesTurns(lim) {
		lim.Phase = d.phase(l, a)
	}
	return lim
}

func takesTurns(l rundir.Limits) bool { return l.Throttle > 0 && l.Throttle < 1000 }

// usualWeight is that of one processor, and of a run that says nothing.
const usualWeight = 100

// weight is the weight of a job where processors are short. It follows from its
// parts of the devices that stand for processors, and is 0 if the job has none.
// A packed guest, which holds no part, runs in the gaps of the others.
func (m *Machine) weight(a *cluster.Alloc) int {
	cores, any := 0.0, false
	for i := range a.Shares {
		if s := &a.Shares[i]; int(s.Device) < len(m.Devices) {
			has := m.Devices[s.Device].Cores
			cores += has * float64(s.Milli) / 1000
			any = any || has > 0
		}
	}
	if !any {
		return 0
	}
	return max(1, int(math.Round(usualWeight*cores)))
}

// phase is the point of a period at which the turn of a job begins, after the
// jobs that already take turns on its first device. A job keeps the turn that
// it has.
func (d *Daemon) phase(l *entry, a *cluster.Alloc) int {
	if takesTurns(l.limits) {
		return l.limits.Phase
	}
	at := 0
	for other := range d.all() {
		if other == l || !takesTurns(other.limits) {
			continue
		}
		if alloc := d.State().Alloc(other.ID); alloc != nil && len(alloc.Shares) > 0 && alloc.Shares[0].Device == a.Shares[0].Device {
			at += 1000 - other.limits.Throttle
		}
	}
	return at % 1000
}

// allow tells the run of a job its new limits, if they have changed. The run
// goes on meanwhile.
func (d *Daemon) allow(l *entry, a *cluster.Alloc) { d.permit(l, d.limits(l, a)) }

// paces notes that a job keeps to its throttle by itself.
func (d *Daemon) paces(l *entry) {
	lim := l.limits
	lim.Paced = true
	d.permit(l, lim)
}

func (d *Daemon) permit(l *entry, lim rundir.Limits) {
	if lim == l.limits || !l.stage.there() {
		return
	}
	l.limits = lim
	dir := d.store.runDir(l.Key, l.Run)
	d.Loop.Act(&l.Lane, func() { d.tellRun(dir, rundir.LimitsFile, lim) })
}

// readLimits reads the limits that the run of a job was told.
func (d recovery) readLimits(dir string, run *rundir.Run) rundir.Limits {
	var now rundir.Limits
	if d.readFile(dir, rundir.LimitsFile, &now, "it is told again what it may use") {
		return now
	}
	return run.Limits
}

// cap is the memory, in bytes, that a job is meant to use of each of some GPUs.
// It is 0 unless the job holds parts of them and memory is booked there.
func (m *Machine) cap(a *cluster.Alloc, devices []int) (least api.Bytes) {
	for i := range a.Shares {
		s := &a.Shares[i]
		dev := int(s.Device)
		if !slices.Contains(devices, dev) || s.Milli >= 1000 || s.Memory <= 0 || dev >= len(m.Devices) || m.Devices[dev].Host {
			continue
		}
		if m := api.Bytes(s.Memory); least == 0 || m < least {
			least = m
		}
	}
	return least
}

// Variables that tell a task how much of the memory of its GPUs it is meant to use:
// for those who read Norn's, and for frameworks that would else take all of it.
const (
	envGPUMemory   = "NORN_GPU_MEMORY"          // bytes
	envGPUFraction = "NORN_GPU_MEMORY_FRACTION" // of the whole
	envTFGrowth    = "TF_FORCE_GPU_ALLOW_GROWTH"
	envXLAFraction = "XLA_PYTHON_CLIENT_MEM_FRACTION"
)

// caps are those variables for a task that sees some devices. Variables of the
// submission stay.
func (m *Machine) caps(spec *api.JobSpec, a *cluster.Alloc, devices []int) []string {
	mem := m.cap(a, devices)
	if mem == 0 {
		return nil
	}
	fraction := 1.0
	for _, i := range devices {
		if has := m.Devices[i].Memory; has > 0 {
			fraction = min(fraction, float64(mem)/float64(has))
		}
	}
	part := strconv.FormatFloat(math.Floor(fraction*10_000)/10_000, 'f', -1, 64)
	out := []string{envGPUMemory + "=" + strconv.FormatInt(int64(mem), 10)}
	for _, kv := range [][2]string{{envGPUFraction, part}, {envXLAFraction, part}, {envTFGrowth, "true"}} {
		if _, said := spec.Env[kv[0]]; !said && (fraction < 1 || kv[1] == "true") {
			out = append(out, kv[0]+"="+kv[1])
		}
	}
	return out
}
