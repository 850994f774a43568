package job

import (
	"errors"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/norn-scheduler/norn/cluster/unit"
)

func at(s int) time.Duration { return time.Duration(s) * time.Second }

// running is a job that has run since 0 at a speed.
func running(t *testing.T, stop StopMode, speed float64) *Record {
	t.Helper()
	r := new(Record)
	r.Submit(&Job{Key: "j", Stop: stop}, 0)
	if err := r.Begin(0, 0, 1, unit.One); err != nil {
		t.Fatal(err)
	}
	if err := r.SetSpeed(0, speed); err != nil {
		t.Fatal(err)
	}
	return r
}

// A job that saves its state by itself, every 100 s of work, has always saved the last
// multiple of that, also where it runs at half its speed.
func TestSavesByItself(t *testing.T) {
	r := running(t, LastSave, 0.5)
	if err := r.Saved(0, at(100)); err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct {
		now, saved, next int
		unsaved          bool
	}{{0, 0, 200, true}, {199, 0, 200, true}, {200, 100, 400, false}, {399, 100, 400, false}, {500, 200, 600, false}} {
		next, ok := r.NextSave(at(x.now))
		if saved := r.SavedAt(at(x.now)); saved != at(x.saved) || !ok || next.Round(time.Second) != at(x.next) || r.Unsaved(at(x.now)) != x.unsaved {
			t.Errorf("after %d s: saved %v, next at %v (%v), unsaved %v; want %d, %d, %v", x.now, saved, next, ok, r.Unsaved(at(x.now)), x.saved, x.next, x.unsaved)
		}
	}
	if err := r.PreemptNow(at(500), r.SavedAt(at(500))); err != nil {
		t.Fatal(err)
	}
	if err := r.Begin(at(600), 0, 1, unit.One); err != nil {
		t.Fatal(err)
	}
	if r.Progress != at(200) || r.SavedAt(at(650)) != at(200) || !r.Unsaved(at(650)) || r.Unsaved(at(700)) {
		t.Errorf("begins again with %v, saved %v, unsaved %v and %v; want 200s, 200s, true and false", r.Progress, r.SavedAt(at(650)), r.Unsaved(at(650)), r.Unsaved(at(700)))
	}
}

// The next save is expected at the very moment from which on it is there, whatever the speed:
// who waits for it decides as who comes later.
func TestNextSaveIsTheFirstMoment(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		speed := rapid.SampledFrom([]float64{1, 0.5, 1.5, 1. / 3, 0.001, 7, 0.123456789}).Draw(t, "speed")
		every := rapid.Int64Range(1, 1e12).Draw(t, "every")
		r := new(Record)
		r.Submit(&Job{Key: "j", Stop: LastSave}, 0)
		if err := errors.Join(r.Begin(0, 0, 1, unit.One), r.SetSpeed(0, speed), r.Saved(0, time.Duration(every))); err != nil {
			t.Fatal(err)
		}
		now := time.Duration(rapid.Int64Range(0, 1e13).Draw(t, "now"))
		next, ok := r.NextSave(now)
		if before := r.SavedAt(now); !ok || next <= now || r.SavedAt(next) <= before || next-1 > now && r.SavedAt(next-1) > before {
			t.Errorf("at %v it has saved %v; next at %v (%v), with %v, and %v just before", now, before, next, ok, r.SavedAt(next), r.SavedAt(next-1))
		}
	})
}

// A job that tells of each save has saved what it told; the next one is expected after as
// much work as lay between the last two, and nobody knows once it is overdue.
func TestSavesAsTold(t *testing.T) {
	r := running(t, LastSave, 1)
	if _, ok := r.NextSave(at(10)); ok || !r.Unsaved(at(10)) {
		t.Error("somebody knows when a job saves its state that has never told")
	}
	for _, s := range []int{40, 100} {
		if err := r.Saved(at(s), 0); err != nil {
			t.Fatal(err)
		}
	}
	next, ok := r.NextSave(at(150))
	if r.SavedAt(at(150)) != at(100) || !ok || next != at(160) || r.Unsaved(at(150)) {
		t.Errorf("saved %v, next at %v (%v); want 100s and 160s", r.SavedAt(at(150)), next, ok)
	}
	if _, ok := r.NextSave(at(160)); ok {
		t.Error("a save that is overdue is still expected")
	}
}

// Work that is thrown away does not count as saved: after a failed attempt, a lost node, or
// a return to an earlier state. After a checkpoint on demand it does.
func TestSavesWhatIsKept(t *testing.T) {
	for name, x := range map[string]struct {
		stop StopMode
		do   func(r *Record) error
		want int
	}{
		"fails":             {LastSave, func(r *Record) error { return r.Fail(at(150), 0) }, 0},
		"evicted":           {LastSave, func(r *Record) error { return r.Evict(at(150), at(100)) }, 100},
		"goes back":         {LastSave, func(r *Record) error { return r.SetProgress(at(150), at(30)) }, 30},
		"checkpoint":        {Checkpoint, func(r *Record) error { return r.PreemptNow(at(150), at(150)) }, 150},
		"restart":           {Restart, func(r *Record) error { return r.PreemptNow(at(150), 0) }, 0},
		"frozen":            {Freeze, func(r *Record) error { return r.PreemptNow(at(150), at(150)) }, 120},
		"saves while it is": {Checkpoint, func(r *Record) error { return r.Preempt(at(150), at(150)) }, 150},
	} {
		r := running(t, x.stop, 1)
		if err := r.Saved(at(120), 0); err != nil {
			t.Fatal(err)
		}
		if err := x.do(r); err != nil {
			t.Fatal(err)
		}
		if got := r.SavedAt(at(150)); got != at(x.want) {
			t.Errorf("%s: saved %v, want %ds", name, got, x.want)
		}
	}
}

// Bad news is refused with the name of the job.
func TestSavedIsChecked(t *testing.T) {
	r := running(t, LastSave, 1)
	for _, x := range [][2]time.Duration{{-1, 0}, {0, -1}} {
		if err := r.Saved(x[0], x[1]); err == nil {
			t.Errorf("saved %v every %v is taken", x[0], x[1])
		}
	}
	if err := r.Finish(at(10), Done); err != nil {
		t.Fatal(err)
	}
	if err := r.Saved(0, 0); err == nil {
		t.Error("a job that has ended saves its state")
	}
}
