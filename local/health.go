package local

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/norn-scheduler/norn/api"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/live"
)

// condition is the daemon as it looks after the machine and its devices.
type condition struct{ *Daemon }

// health keeps the present troubles of the machine.
type health struct {
	full      atomic.Bool // too little is free on the disk to start anything
	refuses   atomic.Bool // too little is free even to accept submissions
	drained   drained
	unkept    bool     // drained could not be written down when it changed
	sick      []string // what a measurement found wrong with each device; empty: nothing
	samples   []Sample
	forgive   []int         // devices whose past troubles count no more from the next look on
	lookedAll time.Duration // when all runs were looked at
	looking   bool          // at the devices, in a goroutine of its own
	meter     meter
}

// drained lists what an operator has put out of use, or taken back. It is kept in drained.json
// until an operator puts it back.
type drained struct {
	Machine bool              `json:"machine,omitempty"`
	Why     string            `json:"why,omitempty"`
	Devices map[string]string `json:"devices,omitempty"` // why, by name

	Reclaimed map[string]reclaim `json:"reclaimed,omitempty"` // by the name of the device, or wholeMachine
}

const drainedFile = "drained.json"

// out tells whether the machine takes no new work by anybody's order.
func (h *health) out() bool {
	_, taken := h.drained.Reclaimed[wholeMachine]
	return taken || h.drained.Machine
}

func (h *health) note() string {
	taken, is := h.drained.Reclaimed[wholeMachine]
	switch {
	case h.full.Load():
		return "the disk of norn's state folder is nearly full"
	case is:
		return taken.note()
	case h.drained.Machine && h.drained.Why != "":
		return h.drained.Why
	case h.drained.Machine:
		return "drained by an operator"
	}
	return ""
}

// deviceNote is the reason for which a device takes no new work, or empty.
func (d condition) deviceNote(i int) string {
	name := d.opt.Machine.Devices[i].Name
	var notes []string
	if taken, is := d.health.drained.Reclaimed[name]; is {
		notes = append(notes, taken.note())
	}
	for _, note := range []string{d.health.drained.Devices[name], d.health.sick[i]} {
		if note != "" {
			notes = append(notes, note)
		}
	}
	return strings.Join(notes, "; ")
}

// trouble lists the present troubles, one sentence each.
func (d condition) trouble() []string {
	var out []string
	if d.health.full.Load() {
		text := "the disk of norn's state folder is nearly full: nothing new is started until there is room"
		if d.health.refuses.Load() {
			text = "the disk of norn's state folder is nearly full: nothing new is taken or started until there is room"
		}
		out = append(out, text)
	}
	for i, dev := range d.opt.Machine.Devices {
		if why := d.deviceNote(i); why != "" {
			out = append(out, fmt.Sprintf("%s takes no new work: %s", dev.Name, why))
		}
	}
	return out
}

// The intervals at which the daemon looks at the machine.
const (
	diskEvery    = 5 * time.Second
	cleanEvery   = time.Hour
	lookEvery    = 2 * time.Second  // at runs that should have said something by now
	lookAllEvery = 15 * time.Second // at all runs
)

// everySoOften begins to look at the machine, again and again.
func (d condition) everySoOften() {
	d.Loop.Every(diskEvery, d.lookAtDisk)
	d.Loop.Every(lookEvery, d.lookAtRuns)
	d.Loop.Every(lookEvery, d.takeBack)
	d.Loop.Every(lookEvery, trainers(d).lookAtResidents)
	if d.opt.MPS.Program != "" || len(d.packers) > 0 {
		d.Loop.Every(lookEvery, packing(d).lookAtPackers)
	}
	if d.opt.Machine.measurable() {
		d.Loop.Every(max(time.Second, d.opt.Limits.Sample), d.lookAtDevices)
	}
	if d.opt.Limits.Outputs > 0 || d.opt.Limits.Logs > 0 {
		d.Loop.Every(cleanEvery, d.clean)
	}
}

// lookAtDisk takes the machine out of use while too little is free on its disk.
// Running jobs go on, and no new run is started. With even less, submissions
// are refused. The machine comes back when an eighth more is free, so that it
// does not go back and forth.
func (d condition) lookAtDisk() {
	if d.health.unkept {
		if err := d.keep(d.health.drained); err != nil {
			d.log.Error("the list of drained devices cannot be written", "error", err)
		}
	}
	free, _ := d.store.free()
	low := func(was bool, least api.Bytes) bool {
		if was {
			least += least / 8
		}
		return free < least
	}
	d.health.refuses.Store(low(d.health.refuses.Load(), d.opt.Limits.Refuse))
	full := low(d.health.full.Load(), d.opt.Limits.Reserve)
	if full == d.health.full.Load() {
		return
	}
	d.health.full.Store(full)
	if full {
		d.log.Error("the disk is nearly full: nothing new is started", "folder", d.store.dir, "free", unit.Bytes(free).String())
	} else {
		d.log.Info("there is room on the disk again", "folder", d.store.dir)
	}
	d.setHealth()
}

// lookAtRuns looks at the runs that are being launched or are leaving.
// Datagrams of their runners may be lost, since a socket holds only a few. It
// tells runs again that do not follow their want.json, which may not have been
// written, for example on a full disk. From time to time it looks at all runs, so that
// nothing stalls for longer, whatever message is lost.
func (d condition) lookAtRuns() {
	every := d.Loop.Now()-d.health.lookedAll >= lookAllEvery
	if every {
		d.health.lookedAll = d.Loop.Now()
	}
	for l := range d.all() {
		if !l.stage.there() || d.Loop.Now()-l.Decided <= lookEvery {
			continue
		}
		if l.status.PID != 0 && l.status.Seq < l.want.Seq {
			d.urge(l)
		}
		if every || l.stage == launching || l.stage == leaving {
			key, run := l.Key, l.Run
			d.Loop.Go(func() { d.look(key, run) })
		}
	}
}

// lookAtDevices measures the devices, beside the goroutine of Run, and takes those
// out of use that do not work.
func (d condition) lookAtDevices() {
	if d.health.looking {
		return // a driver takes its time
	}
	d.health.looking = true
	m, loads, forgive := &d.opt.Machine, d.loads(), d.health.forgive
	d.health.forgive = nil
	d.Loop.Go(func() {
		samples := make([]Sample, len(m.Devices))
		for _, i := range forgive {
			m.Forgive(i)
		}
		if m.Sample != nil {
			copy(samples, m.Sample())
		}
		used, err := d.health.meter.measure(m.Devices, loads, samples)
		if err != nil {
			d.log.Warn("the use of processors by jobs cannot be measured", "error", err)
		}
		much := exceeding(d.opt.Defaults.MemoryFactor, m.Devices, loads, used, samples)
		d.Loop.Post(func() error {
			d.health.looking, d.health.samples = false, samples
			d.noteUse(samples)
			d.guardMemory(much)
			for i, s := range samples {
				if i >= len(d.health.sick) || s.Trouble == d.health.sick[i] {
					continue
				}
				d.health.sick[i] = s.Trouble
				d.log.Warn("a device changed its health", "device", d.opt.Machine.Devices[i].Name, "trouble", s.Trouble)
				d.setDevice(i)
			}
			return nil
		})
	})
}

// clean removes outputs of jobs that ended long ago, and old logs.
func (d condition) clean() {
	active := map[string]bool{}
	for j := range d.All() {
		key := j.Key
		active[key], active[live.BaseOf(key)] = true, true
	}
	present := d.Epoch()
	d.Loop.Go(func() {
		if keep := d.opt.Limits.Outputs; keep > 0 {
			d.store.dropOutputs(time.Now().Add(-keep), active)
		}
		if keep := d.opt.Limits.Logs; keep > 0 {
			d.store.DropLogs(time.Now().Add(-keep), present)
		}
	})
}

// dropOutputs removes the outputs of jobs that ended before a moment.
func (s *store) dropOutputs(before time.Time, active map[string]bool) {
	s.EachEnded(func(e *live.Ended) {
		if e.Job.Ended.After(before) || active[e.Job.ID] {
			return
		}
		os.RemoveAll(filepath.Join(s.dir, "runs", e.Job.ID))
		if base := live.BaseOf(e.Job.ID); !active[base] {
			os.RemoveAll(s.jobDir(base))
		}
	})
}
