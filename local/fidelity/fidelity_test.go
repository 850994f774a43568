package fidelity

import (
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/norn-scheduler/norn/experiment"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/local/rundir"
)

// TestScale: settings that are times are divided, defaults too; others stay. A
// value that a policy then refuses (the period of fairshare is a second or
// more) is an error.
func TestScale(t *testing.T) {
	for text, want := range map[string]string{
		"fifo":                       "fifo",
		"fifo(mode=easy)":            "fifo(mode=easy)",
		"srtf":                       "srtf",
		"tiresias":                   "tiresias(limits=3.2,rerank=60ms)",
		"tiresias(limits=100,20000)": "tiresias(limits=0.1,20,rerank=60ms)",
		"tiresias(promote=8)":        "tiresias(limits=3.2,promote=8,rerank=60ms)",
		"drf(grace=1h,reclaim=none)": "drf(reclaim=none,grace=3.6s)",
		"drf(minrun=2m,grace=never)": "drf(grace=never,minrun=120ms)",
	} {
		c, err := experiment.ParseChoice(text)
		if err != nil {
			t.Fatal(err)
		}
		got, err := Scale(c, 1000)
		if err != nil || got.String() != want {
			t.Errorf("%s becomes %s (%v), want %s", text, got, err, want)
		}
	}
	for _, text := range []string{"fofi", "fifo(mode=fast)", "fifo(speed=1)", "fairshare"} {
		c, _ := experiment.ParseChoice(text)
		if _, err := Scale(c, 1000); err == nil {
			t.Errorf("%s is scaled", text)
		}
	}
}

// TestGenerate: a trace is the same each time, fits the machine, and its times are
// those of the uncompressed one divided by the factor.
func TestGenerate(t *testing.T) {
	plain, err := Generate(50, 4, 2, 0.9, 1, 6*time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	small, err := Generate(50, 4, 2, 0.9, 1000, 6*time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	again, err := Generate(50, 4, 2, 0.9, 1000, 6*time.Hour)
	if err != nil || !reflect.DeepEqual(small, again) {
		t.Errorf("it is another one the second time (%v)", err)
	}
	if len(small) != 50 || small[0].Job.Submit != 0 {
		t.Fatalf("%d jobs, the first at %v", len(small), small[0].Job.Submit)
	}
	for i := range small {
		a, b := &plain[i], &small[i]
		near := func(x, y time.Duration) bool { return (x - 1000*y).Abs() <= time.Millisecond }
		if !near(a.Job.Submit, b.Job.Submit) || !near(a.Truth.Work, b.Truth.Work) || b.Job.Estimate != b.Truth.Work {
			t.Errorf("job %d: %v and %v become %v and %v", i, a.Job.Submit, a.Truth.Work, b.Job.Submit, b.Truth.Work)
		}
		if n := b.Job.Demand.GPUs(); n < 1 || n > 4 || !b.Job.Demand.Plain() || b.Job.Tenant == "" || a.Truth.Work > 6*time.Hour {
			t.Errorf("job %d: %d devices for tenant %q", i, n, b.Job.Tenant)
		}
	}
	if _, err := Generate(0, 4, 1, 0.9, 1000, time.Hour); err == nil {
		t.Error("a trace without jobs is made")
	}
}

// TestJobGoesOn: a job that is told to stop says so, and does the rest when it is
// started again.
func TestJobGoesOn(t *testing.T) {
	for name, w := range map[string]work{"sleep": {}, "burn": {Burn: true}, "freeze": {Freeze: true}} {
		w.Time, w.Notes = cpuTime()+200*time.Millisecond, t.TempDir()
		t.Setenv(rundir.EnvJob, "7")
		told := make(chan os.Signal, 1)
		told <- os.Interrupt
		t.Setenv(rundir.EnvRun, "1")
		first := note{First: time.Now()}
		if code, err := w.do(&first, told); code != 75 || err != nil {
			t.Errorf("%s: told to stop it ends with %d (%v)", name, code, err)
		}
		t.Setenv(rundir.EnvRun, "2")
		second := note{First: time.Now()}
		if code, err := w.do(&second, nil); code != 0 || err != nil {
			t.Errorf("%s: it ends with %d (%v)", name, code, err)
		}
		if both := first.Done + second.Done; both < w.Time || first.Done >= w.Time {
			t.Errorf("%s: it has done %v and %v of %v", name, first.Done, second.Done, w.Time)
		}
		if files, _ := filepath.Glob(filepath.Join(w.Notes, "7.*.json")); len(files) != 2 {
			t.Errorf("%s: notes %v", name, files)
		}
	}
}

// TestFrozenTime: a tick in which nothing was done for long is no work.
func TestFrozenTime(t *testing.T) {
	now := time.Now()
	m := meter{w: &work{Freeze: true}, note: &note{}, last: now.Add(-10 * time.Second)}
	if d := m.done(); d != tick || len(m.note.Pauses) != 1 {
		t.Errorf("ten seconds without a tick count as %v, pauses %v", d, m.note.Pauses)
	}
	m = meter{w: &work{}, note: &note{}, last: now.Add(-10 * time.Second)}
	if d := m.done(); d < 10*time.Second || len(m.note.Pauses) > 0 {
		t.Errorf("ten seconds of sleep count as %v, pauses %v", d, m.note.Pauses)
	}
}

func TestKendall(t *testing.T) {
	for _, c := range []struct {
		a, b []job.ID
		want float64
	}{
		{nil, nil, 1}, {[]job.ID{4}, []job.ID{4}, 1},
		{[]job.ID{0, 1, 2, 3}, []job.ID{0, 1, 2, 3}, 1},
		{[]job.ID{0, 1, 2, 3}, []job.ID{3, 2, 1, 0}, -1},
		{[]job.ID{0, 1, 2, 3}, []job.ID{0, 2, 1, 3}, 4.0 / 6}, // one pair of six the other way round
	} {
		if got := kendall(c.a, c.b); math.Abs(got-c.want) > 1e-12 {
			t.Errorf("%v, %v: %v, want %v", c.a, c.b, got, c.want)
		}
	}
}

// history is one of jobs of one device, told in moments.
func history(jobs int, moments ...Moment) *History {
	h := &History{Moments: moments}
	for i := range jobs {
		h.Jobs = append(h.Jobs, Life{Key: string(rune('a' + i)), GPUs: 1})
	}
	for _, m := range moments {
		switch l := &h.Jobs[m.Job]; m.Kind {
		case Submitted:
			l.Submit = m.At
		case Start:
			l.Begins = append(l.Begins, m.At)
		case Ended:
			l.End = m.At
		}
	}
	return h
}

func at(ms int, k Kind, id job.ID) Moment {
	return Moment{What{k, id, 1}, time.Duration(ms) * time.Millisecond}
}

// TestDifferences: two ends that change places, and what follows from it, are told
// with their cause; where nothing differs nothing is told.
func TestDifferences(t *testing.T) {
	virtual := history(4,
		at(0, Submitted, 0), at(0, Start, 0), at(1, Submitted, 1), at(1, Start, 1), at(2, Submitted, 2), at(3, Submitted, 3),
		at(1000, Ended, 0), at(1000, Start, 2), at(1004, Ended, 1), at(1004, Start, 3), at(2000, Ended, 2), at(3000, Ended, 3))
	real := history(4,
		at(0, Submitted, 0), at(0, Start, 0), at(1, Submitted, 1), at(1, Start, 1), at(2, Submitted, 2), at(3, Submitted, 3),
		at(1001, Ended, 1), at(1001, Start, 3), at(1005, Ended, 0), at(1005, Start, 2), at(2010, Ended, 2), at(3005, Ended, 3))
	costs := &Costs{Start: Span{Least: 10 * time.Millisecond, Most: 20 * time.Millisecond}}
	same := compare(virtual, virtual, costs)
	if same.Off != 0 || same.Tau != 1 || same.FirstEnd != nil || same.Starts.Both != 4 || same.InOrder != 4 || len(same.Difference) != 0 {
		t.Errorf("a world differs from itself: %+v", same)
	}
	r := compare(real, virtual, costs)
	if want := 17.0 / (1000 + 1003 + 1998 + 2997); math.Abs(r.Off-want) > 1e-9 {
		t.Errorf("off by %v, want %v", r.Off, want)
	}
	if want := 1 - 2.0/6; math.Abs(r.Tau-want) > 1e-12 || r.FirstEnd == nil || *r.FirstEnd != (Other{1, "b", "a", 4 * time.Millisecond}) {
		t.Errorf("order of completion: %v, %+v", r.Tau, r.FirstEnd)
	}
	if r.Starts != (Matched{Both: 4}) || r.InOrder != 3 || len(r.Difference) != 1 {
		t.Fatalf("starts %+v, %d in order, %+v", r.Starts, r.InOrder, r.Difference)
	}
	d := r.Difference[0]
	if d.Sort != Moved || !strings.Contains(d.Cause, "end of job b and end of job a come at nearly the same time: the second 4ms behind the first live, 4ms ahead of it simulated") {
		t.Errorf("%+v", d)
	}
}

// TestExtra: a stop that only one world knows is told once for each world.
func TestExtra(t *testing.T) {
	calm := history(2, at(0, Submitted, 0), at(0, Start, 0), at(500, Submitted, 1), at(1000, Ended, 0), at(1000, Start, 1), at(1400, Ended, 1))
	busy := history(2, at(0, Submitted, 0), at(0, Start, 0), at(500, Submitted, 1), at(500, Stop, 0), at(500, Start, 1), at(900, Ended, 1), at(900, Left, 0), at(1400, Ended, 0))
	costs := &Costs{}
	if r := compare(busy, calm, costs); r.Stops != (Matched{Extra: 1}) || r.Difference[0].Sort != Extra || r.Difference[0].Sim != -1 ||
		!strings.Contains(r.Difference[0].Cause, "as good as equal") {
		t.Errorf("stops %+v: %+v", r.Stops, r.Difference)
	}
	if r := compare(calm, busy, costs); r.Stops != (Matched{Missing: 1}) || r.Difference[0].Sort != Missing || r.Difference[0].Live != -1 {
		t.Errorf("stops %+v: %+v", r.Stops, r.Difference)
	}
}
