package rmixer

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/policy/rmixer/memory"
	"github.com/norn-scheduler/norn/sim/simtest"
)

// Acceptance 4: a GPU of 16,160 MB with 14,950 MB booked must refuse DCN, for which
// 1249.6 MB are booked; with 14,900 MB it accepts it.
func TestAdmission(t *testing.T) {
	c := memory.Click{Rows: 1_000_001, Dim: 9, Slots: 26, Dense: 13, FC: []int64{512, 256, 128}, Cross: 2, Optimizer: job.Adam}
	s := c.Shape()
	d := job.GPUs(1)
	cfg := NewConfig()
	cfg.ShapeFactor = 1.2
	r := policy{cfg: *cfg}
	need := r.booked(&job.Job{Demand: &d, Batch: 512, Hints: &job.Hints{Shape: &s}}, standing{})
	for booked, want := range map[unit.Bytes]bool{14950: false, 14900: true} {
		dev := device{workers: 4, total: 16160 * unit.MiB, idle: 4 * 308 * unit.MiB, jobs: []job.ID{0}, sum: booked * unit.MiB}
		if got, ok := dev.take(need, true); ok != want || ok && got != need {
			t.Errorf("with %d MB booked: %v %v, want %v", booked, got, ok, want)
		}
		if (need <= dev.room()) != want {
			t.Errorf("with %d MB booked there is room for %v", booked, dev.room())
		}
	}
}

// The booked memory is never less than idle workers take, and twice as much
// after each time that memory ran out. It is the part of a worker where nothing
// is known. It is all of a device for a job that needs more than that and is
// alone.
func TestBooking(t *testing.T) {
	d := device{workers: 4, total: 1000, idle: 100}
	if d.booked() != 100 || d.whole() != 899 {
		t.Errorf("%d booked on an empty device, %d in all", d.booked(), d.whole())
	}
	for _, c := range []struct {
		need, sum unit.Bytes
		jobs      int
		whole     bool
		want      unit.Bytes
		ok        bool
	}{
		{899, 0, 0, false, 899, true}, {900, 0, 0, false, 0, false}, {900, 0, 0, true, 899, true}, {5000, 0, 0, true, 899, true}, {900, 1, 1, true, 0, false},
		{0, 0, 0, false, 225, true}, {0, 500, 1, false, 225, true}, {0, 800, 3, false, 0, false}, {499, 500, 1, false, 499, true}, {500, 500, 1, false, 0, false},
	} {
		d.sum, d.jobs = c.sum, make([]job.ID, c.jobs)
		got, ok := d.take(c.need, c.whole)
		if ok != c.ok || ok && got != c.want {
			t.Errorf("%d beside %d: %d booked (%v), want %d (%v)", c.need, c.sum, got, ok, c.want, c.ok)
		}
	}
	demand := job.GPUs(1)
	demand.Roles[0].GPUMemory = 1000
	r := policy{cfg: *NewConfig(), byName: map[string]*memory.Model{}, models: memory.Models()}
	for ooms, want := range map[uint8]unit.Bytes{0: 1200, 1: 2400, 3: 9600, 60: none} {
		if got := r.booked(&job.Job{Demand: &demand}, standing{ooms: ooms}); got != want {
			t.Errorf("after %d times %d are booked, want %d", ooms, got, want)
		}
	}
	demand.Roles[0].GPUMemory = 0
	for _, c := range []struct {
		model string
		ooms  uint8
		want  unit.Bytes
	}{{"", 0, 0}, {"", 1, none}, {"kdd_dpin", 0, 1397 * unit.MiB * 12 / 10}} {
		if got := r.booked(&job.Job{Demand: &demand, Model: c.model}, standing{ooms: c.ooms}); got/unit.MiB != c.want/unit.MiB {
			t.Errorf("model %q, %d times: %d are booked, want %d", c.model, c.ooms, got, c.want)
		}
	}
}

// The class of which most jobs run: of equal ones the compute-intensive, then the
// memory-intensive; an empty device counts as one of compute-intensive jobs.
func TestMost(t *testing.T) {
	for class, want := range map[[classes]int]int8{{0, 0, 0}: 1, {1, 1, 1}: 1, {1, 1, 0}: 0, {2, 1, 1}: -1, {0, 2, 1}: 0, {2, 2, 2}: 1} {
		d := device{class: class}
		if got := d.most(); got != want {
			t.Errorf("%v: %d, want %d", class, got, want)
		}
	}
}

// A note on a job is read again as it was.
func TestNote(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := func(name string) bool { return rapid.Bool().Draw(t, name) }
		s := standing{
			closed: b("closed"), class: rapid.Int8Range(-1, 1).Draw(t, "class"), tail: b("tail"), front: b("front"), whole: b("whole"), hopeless: b("hopeless"),
			ooms: rapid.Uint8().Draw(t, "ooms"), evicted: rapid.IntRange(0, 1<<40).Draw(t, "evicted"), use: rapid.Int32Range(0, 100_000).Draw(t, "use"),
			tracked: rapid.Int32Range(0, 100_000).Draw(t, "tracked"), samples: rapid.Uint8().Draw(t, "samples"),
		}
		if !s.closed {
			s.class = -1
		}
		if got := recall(simtest.Noted(t, &s)); got != s {
			t.Fatalf("%+v comes back as %+v", s, got)
		}
	})
}
