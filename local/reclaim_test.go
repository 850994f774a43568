package local_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/norn-scheduler/norn/api"
	"github.com/norn-scheduler/norn/api/server"
	"github.com/norn-scheduler/norn/eventlog"
	"github.com/norn-scheduler/norn/internal/longtest"
	"github.com/norn-scheduler/norn/job"
)

// saves is a job that saves its state when it is told to, and goes on until "enough" is there.
func (h *here) saves(grace api.Seconds) api.JobSpec {
	spec := h.long("checkpoint", `trap "echo $NORN_RUN >> saved; exit 75" TERM; touch up$NORN_RUN; `+awaits("enough"))
	spec.Stop.Grace = grace
	return spec
}

// deaf is a job that never leaves by itself.
func (h *here) deaf(grace api.Seconds) api.JobSpec {
	spec := h.long("checkpoint", `trap "" TERM; touch up$NORN_RUN; `+awaits("enough"))
	spec.Stop.Grace = grace
	return spec
}

func (h *here) reclaim(z api.Reclaim) (meant []string) {
	h.t.Helper()
	meant, err := h.Reclaim(background, h.me, z)
	if err != nil {
		h.t.Fatal(err)
	}
	return meant
}

// mayNot is the refusal of an order.
func (h *here) mayNot(c server.Caller, z api.Reclaim, kind api.ErrorKind, words string) {
	h.t.Helper()
	_, err := h.Reclaim(background, c, z)
	refused(h.t, err, kind, words)
}

func (h *here) notes() (machine string, devices []string) {
	h.t.Helper()
	n, err := h.Node(background)
	if err != nil {
		h.t.Fatal(err)
	}
	for _, d := range n.Devices {
		devices = append(devices, d.Note)
	}
	return n.Note, devices
}

// What runs on a device that its owner takes back leaves with what it saves, and nothing new starts there until it is
// lent again, whatever operators drain and put back meanwhile, over a new log and a new daemon.
func TestReclaim(t *testing.T) {
	longtest.Skip(t)
	t.Parallel()
	h := newHere(t, "fifo", 2, nil)
	user := h.me
	user.Operator = false
	h.mayNot(user, api.Reclaim{}, api.Denied, "only an operator may take devices back from jobs")
	h.mayNot(h.me, api.Reclaim{Devices: []string{"gpu9"}}, api.Unknown, `there is no device "gpu9" here`)
	a := h.submit(h.saves(20))
	h.made("up1")
	b := h.submit(h.sh(1, awaits("b-ends")))
	h.running(b, 1)
	taken := h.job(a).Devices
	h.reclaim(api.Reclaim{Devices: taken, Why: "peak"})
	h.until(a, api.Waiting)
	note := "taken back by " + h.me.User + ": peak"
	for _, anew := range []func(){
		func() {},
		func() {
			if err := h.Drain(background, h.me, api.Drain{Devices: taken, Undo: true}); err != nil {
				t.Fatal(err)
			}
		},
		func() {
			if err := h.SetPolicy(background, h.me, "srtf"); err != nil {
				t.Fatal(err)
			}
		},
		func() { h.down(); h.up() },
		func() {
			h.down()
			if err := os.Remove(filepath.Join(h.setup.State, "drained.json")); err != nil {
				t.Fatal(err)
			}
			h.up()
		},
	} {
		anew()
		if machine, devices := h.notes(); machine != "" || fmt.Sprint(devices) != fmt.Sprint([]string{note, ""}) {
			t.Errorf("%q, %q", machine, devices)
		}
		if j := h.job(a); j.State != api.Waiting || j.Run != 1 {
			t.Errorf("a: %+v", j)
		}
		if j := h.running(b, 1); j.Run != 1 {
			t.Errorf("b: %+v", j)
		}
	}
	e := h.last(a, eventlog.Evict)
	because(t, e.Reason, job.TakenBack, taken[0]+" is "+note)
	if h.text("saved") != "1\n" || e.Kept <= 0 {
		t.Errorf("saved in run %q, %v of work is kept", h.text("saved"), e.Kept)
	}
	h.make("b-ends")
	h.made("up2") // on the other device
	h.reclaim(api.Reclaim{Devices: taken, Lend: true})
	if _, devices := h.notes(); devices[0] != "" {
		t.Errorf("%q", devices)
	}
	h.until(h.submit(h.sh(1, "true")), api.Done)
	h.make("enough")
	if j := h.until(a, api.Done); j.Run != 2 || j.Failures != 0 {
		t.Errorf("%+v", j)
	}
}

// Without notice jobs are killed, and fall back to what they saved last; one that is leaving in its own time is killed,
// too, when its device is wanted at once.
func TestReclaimNow(t *testing.T) {
	longtest.Skip(t)
	t.Parallel()
	h := newHere(t, "fifo", 1, nil)
	a := h.submit(h.deaf(3600))
	h.made("up1")
	h.report(a, 1, 7)
	saved := h.last(a, eventlog.Saved).Kept
	h.reclaim(api.Reclaim{Notice: new(api.Seconds(0))})
	h.until(a, api.Waiting)
	note := "taken back by " + h.me.User
	if w := h.why(a); w.Unknown != "the machine takes no new work: "+note || fmt.Sprint(w.Frees) != "[norn lend]" {
		t.Errorf("%+v", w)
	}
	if kept := h.last(a, eventlog.Evict).Kept; saved <= 0 || kept != saved {
		t.Errorf("it had saved %v of work, and kept %v", saved, kept)
	}
	h.reclaim(api.Reclaim{Lend: true})
	h.made("up2")
	h.running(a, 2)
	h.reclaim(api.Reclaim{Devices: []string{"slot0"}}) // in its own time, which is an hour
	h.until(a, api.Stopping)
	h.down()
	h.up()
	if j := h.job(a); j.State != api.Stopping {
		t.Errorf("%+v", j)
	}
	h.reclaim(api.Reclaim{Devices: []string{"slot0"}, Notice: new(api.Seconds(0))})
	h.until(a, api.Waiting)
	because(t, h.last(a, eventlog.Evict).Reason, job.TakenBack, "slot0 is "+note)
	h.reclaim(api.Reclaim{})
	h.reclaim(api.Reclaim{Lend: true}) // with its devices
	h.made("up3")
	h.make("enough")
	h.until(a, api.Done)
}

// A job runs on until its grace is left of a notice, also when another daemon comes meanwhile, and is killed at its end.
func TestReclaimNotice(t *testing.T) {
	longtest.Skip(t)
	t.Parallel()
	h := newHere(t, "fifo", 2, nil)
	long := h.submit(h.saves(20))
	h.made("up1")
	h.reclaim(api.Reclaim{Devices: []string{"slot0"}, Notice: new(api.Seconds(3600)), Why: "evening"})
	for _, anew := range []func(){func() {}, func() { h.down(); h.up() }, func() {
		h.down()
		if err := os.Remove(filepath.Join(h.setup.State, "drained.json")); err != nil {
			t.Fatal(err)
		}
		h.up()
	}} {
		_, before := h.notes()
		anew()
		_, devices := h.notes()
		if !strings.HasPrefix(devices[0], "taken back by "+h.me.User+": evening, to be free by ") || devices[0] != before[0] {
			t.Errorf("%q, before %q", devices, before)
		}
		h.running(long, 1)
	}
	deaf := h.submit(h.deaf(3600))
	h.running(deaf, 1)
	h.reclaim(api.Reclaim{Devices: []string{"slot1"}, Notice: new(api.Seconds(0.5))})
	h.until(deaf, api.Waiting)
	if e := h.last(deaf, eventlog.Evict); e.Reason.Code != job.TakenBack {
		t.Errorf("%+v", e)
	}
	h.reclaim(api.Reclaim{Devices: []string{"slot0"}, Notice: new(api.Seconds(10))}) // less than its grace
	h.until(long, api.Waiting)
	if h.text("saved") != "1\n" {
		t.Errorf("saved in run %q", h.text("saved"))
	}
	h.told(long, "submit start evict")
}

// A job of several sizes goes on at once with what is left to it: elsewhere with as many tasks as it has where there is
// room, else with fewer. Where there is room for none it waits, as others do.
func TestReclaimShrinks(t *testing.T) {
	longtest.Skip(t)
	t.Parallel()
	h := newHere(t, "fifo", 3, nil)
	spec := h.saves(20)
	spec.GPUs, spec.Tasks = api.Range{Least: 1, Most: 2, Ask: 2}, api.Tasks{PerGPU: true}
	id := h.submit(spec)
	h.made("up1")
	for i, c := range []struct {
		take string
		on   []string
		how  eventlog.Kind
	}{{"slot0", []string{"slot1", "slot2"}, eventlog.Move}, {"slot1", []string{"slot2"}, eventlog.Resize}} {
		h.reclaim(api.Reclaim{Devices: []string{c.take}, Notice: new(api.Seconds(20.2)), Why: "peak"}) // hardly more than its grace
		h.made(fmt.Sprint("up", i+2))
		if j := h.running(id, i+2); fmt.Sprint(j.Devices) != fmt.Sprint(c.on) || j.Preemptions != 0 || j.Failures != 0 {
			t.Errorf("%+v", j)
		}
		if e := h.last(id, c.how); e.Reason.Code != job.TakenBack || !strings.Contains(e.Reason.Text, c.take+" is taken back by "+h.me.User+": peak") {
			t.Errorf("%+v", e)
		}
	}
	h.reclaim(api.Reclaim{Devices: []string{"slot2"}})
	h.until(id, api.Waiting)
	h.reclaim(api.Reclaim{Lend: true})
	if j := h.running(id, 4); len(j.Devices) != 2 {
		t.Errorf("%+v", j)
	}
	h.make("enough")
	if j := h.until(id, api.Done); j.Failures != 0 || j.Preemptions != 1 {
		t.Errorf("%+v", j)
	}
}

// Frozen processes go, too: they have memory of the device. Their job starts anew where it may.
func TestReclaimFrozen(t *testing.T) {
	longtest.Skip(t)
	t.Parallel()
	h := newHere(t, "srtf", 1, nil)
	a := h.submit(h.long("freeze", "touch up$NORN_RUN; "+awaits("enough")))
	h.made("up1")
	b := h.submit(h.short("touch b$NORN_RUN; " + awaits("b-ends")))
	h.made("b1")
	if j := h.job(a); j.State != api.Waiting {
		t.Fatalf("%+v", j)
	}
	h.reclaim(api.Reclaim{Devices: []string{"slot0"}})
	h.gone(a, 1)
	h.until(b, api.Waiting)
	h.reclaim(api.Reclaim{Devices: []string{"slot0"}, Lend: true})
	h.make("b-ends")
	h.until(b, api.Done)
	h.made("up2")
	h.make("enough")
	if j := h.until(a, api.Done); j.Run != 2 || j.Failures != 0 {
		t.Errorf("%+v", j)
	}
}

// Of so many devices Norn takes those back that nobody uses, then those whose jobs lose least, and lends them again.
func TestReclaimSome(t *testing.T) {
	longtest.Skip(t)
	t.Parallel()
	h := newHere(t, "fifo", 4, nil)
	wide := h.submit(h.sh(2, "touch up; "+awaits("enough"))) // it begins anew when it is stopped
	h.made("up")
	a := h.submit(h.saves(20))
	h.made("up1")
	wides, saves := h.job(wide).Devices, h.job(a).Devices
	free := "slot3"
	if got := h.reclaim(api.Reclaim{Count: 2}); fmt.Sprint(got) != fmt.Sprint([]string{saves[0], free}) {
		t.Errorf("%v are taken back; %v saves its state, %v begins anew", got, saves, wides)
	}
	h.until(a, api.Waiting)
	h.mayNot(h.me, api.Reclaim{Count: 3}, api.Conflict, "only 2 of these are in use or free, not 3")
	h.mayNot(h.me, api.Reclaim{Count: 1, Devices: saves}, api.Conflict, "only 0 of these are in use or free, not 1")
	h.mayNot(h.me, api.Reclaim{Count: 3, Lend: true}, api.Conflict, "only 2 of these are taken back, not 3")
	h.running(wide, 1)
	if got := h.reclaim(api.Reclaim{Count: 1, Lend: true}); fmt.Sprint(got) != fmt.Sprint(saves) {
		t.Errorf("%v are lent again", got)
	}
	h.running(a, 2)
	if machine, devices := h.notes(); machine != "" || devices[2] != "" || devices[3] == "" {
		t.Errorf("%q, %q", machine, devices)
	}
	h.make("enough")
	h.until(a, api.Done)
	h.until(wide, api.Done)
}
