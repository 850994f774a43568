package local_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/norn-scheduler/norn/api"
	"github.com/norn-scheduler/norn/api/server"
	"github.com/norn-scheduler/norn/eventlog"
	"github.com/norn-scheduler/norn/internal/longtest"
	"github.com/norn-scheduler/norn/local"
	"github.com/norn-scheduler/norn/sched"
)

// When the disk is nearly full nothing new is started, with even less nothing is
// taken; what runs goes on. It comes back when there is room.
func TestDiskFull(t *testing.T) {
	t.Parallel()
	h := newHere(t, "fifo", 2, nil)
	a := h.submit(h.sh(1, "touch up; "+awaits("enough")))
	h.made("up")
	if err := h.SetDisk(1<<60, 0); err != nil { // more than any disk has
		t.Fatal(err)
	}
	b := h.submit(h.sh(1, "true"))
	const full = "the disk of norn's state folder is nearly full"
	if w := h.why(b); w.Job.State != api.Waiting || w.Unknown != "the machine takes no new work: "+full {
		t.Errorf("%+v", w)
	}
	s, err := h.Status(background)
	if err != nil || len(s.Trouble) != 1 || s.Trouble[0] != full+": nothing new is started until there is room" {
		t.Errorf("%q, %v", s.Trouble, err)
	}
	n, err := h.Node(background)
	if err != nil || n.Health != "drained" || n.Note != full || !n.Disk.Low || n.Disk.Free <= 0 {
		t.Errorf("%+v, %v", n, err)
	}
	if err := h.SetDisk(1<<60, 1<<60); err != nil {
		t.Fatal(err)
	}
	_, err = h.Submit(background, h.me, h.sh(1, "true"))
	refused(t, err, api.Unavailable, full+": no new jobs are taken until there is room")
	h.make("enough")
	h.until(a, api.Done)
	if j := h.job(b); j.State != api.Waiting {
		t.Errorf("b is %s", j.State)
	}
	if err := h.SetDisk(0, 0); err != nil {
		t.Fatal(err)
	}
	h.until(b, api.Done)
	if s, err := h.Status(background); err != nil || len(s.Trouble) != 0 {
		t.Errorf("%q, %v", s.Trouble, err)
	}
}

// A machine that was out of use for its disk is not so for ever: the next daemon
// looks for itself.
func TestDiskFullOverRestart(t *testing.T) {
	t.Parallel()
	h := newHere(t, "fifo", 1, nil)
	if err := h.SetDisk(1<<60, 0); err != nil {
		t.Fatal(err)
	}
	a := h.submit(h.sh(1, "true"))
	h.down()
	h.up()
	h.until(a, api.Done)
}

// sickness is what a test lets be measured of the devices.
type sickness struct {
	mu   sync.Mutex
	says []local.Sample
}

func (s *sickness) set(i int, trouble string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.says[i].Trouble = trouble
}

func (s *sickness) sample() []local.Sample {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.says)
}

// An operator who puts a device back into use says that what was measured before is no
// trouble any more.
func TestForgivenDevice(t *testing.T) {
	t.Parallel()
	var sick sickness
	h := newHere(t, "fifo", 2, func(o *local.Options) {
		sick.says = []local.Sample{{OK: true, Trouble: "3 memory errors"}, {OK: true, Trouble: "it is too hot"}}
		o.Machine.Sample = sick.sample
		o.Machine.Forgive = func(i int) {
			if i == 0 { // heat does not go away like that
				sick.set(i, "")
			}
		}
	})
	notes := func() string {
		t.Helper()
		n, err := h.Node(background)
		if err != nil {
			t.Fatal(err)
		}
		return n.Devices[0].Note + "|" + n.Devices[1].Note
	}
	until(t, "both are out of use", func() bool { return h.LookedAtDevices() == nil && notes() == "3 memory errors|it is too hot" })
	if err := h.Drain(background, h.me, api.Drain{Devices: []string{"slot0", "slot1"}, Undo: true}); err != nil {
		t.Fatal(err)
	}
	until(t, "one of them is in use again", func() bool { return h.LookedAtDevices() == nil && notes() == "|it is too hot" })
	h.until(h.submit(h.sh(1, "true")), api.Done)
}

// A device of which a measurement says that it does not work takes no new work,
// until it works again. Devices that an operator has drained stay drained.
func TestSickDevice(t *testing.T) {
	longtest.Skip(t)
	t.Parallel()
	var sick sickness
	h := newHere(t, "fifo", 2, func(o *local.Options) {
		sick.says = []local.Sample{{OK: true, Used: 7}, {OK: true, Util: 0.5}}
		o.Machine.Sample = sick.sample
	})
	measured := func(i int, note string) {
		t.Helper()
		until(t, fmt.Sprintf("device %d has the note %q", i, note), func() bool {
			if err := h.LookAtDevices(); err != nil {
				t.Fatal(err)
			}
			n, err := h.Node(background)
			if err != nil {
				t.Fatal(err)
			}
			return n.Devices[i].Note == note && n.Devices[i].Broken == (note != "") && n.Devices[i].Measured
		})
	}
	measured(0, "")
	sick.set(0, "it has fallen off the bus")
	measured(0, "it has fallen off the bus")
	if s, err := h.Status(background); err != nil || fmt.Sprint(s.Trouble) != "[slot0 takes no new work: it has fallen off the bus]" {
		t.Errorf("%q, %v", s.Trouble, err)
	}
	a := h.submit(h.sh(1, "touch up; "+awaits("enough")))
	h.made("up")
	if j := h.job(a); fmt.Sprint(j.Devices) != "[slot1]" {
		t.Errorf("it runs on %v", j.Devices)
	}
	b := h.submit(h.sh(1, "true"))
	if w := h.why(b); w.Job.State != api.Waiting || !strings.Contains(w.Reason, "0 free") {
		t.Errorf("%+v", w)
	}
	drain := api.Drain{Devices: []string{"slot0"}, Why: "sent in"}
	if err := h.Drain(background, h.me, drain); err != nil {
		t.Fatal(err)
	}
	measured(0, "sent in; it has fallen off the bus")
	sick.set(0, "")
	measured(0, "sent in")
	h.down()
	h.up()
	measured(0, "sent in") // over a restart, too
	if j := h.job(b); j.State != api.Waiting {
		t.Errorf("b is %s", j.State)
	}
	drain.Undo = true
	if err := h.Drain(background, h.me, drain); err != nil {
		t.Fatal(err)
	}
	h.until(b, api.Done)
	h.make("enough")
	h.until(a, api.Done)
}

// A drained machine lets its jobs go on, and takes no new ones.
func TestDrain(t *testing.T) {
	t.Parallel()
	h := newHere(t, "fifo", 2, nil)
	a := h.submit(h.sh(1, "touch up; "+awaits("enough")))
	h.made("up")
	user := h.me
	user.Operator = false
	refused(t, h.Drain(background, user, api.Drain{}), api.Denied, "only an operator may drain the machine")
	refused(t, h.Drain(background, h.me, api.Drain{Devices: []string{"gpu9"}}), api.Unknown, `there is no device "gpu9" here`)
	if err := h.Drain(background, h.me, api.Drain{}); err != nil {
		t.Fatal(err)
	}
	if err := h.Drain(background, h.me, api.Drain{Devices: h.job(a).Devices}); err != nil {
		t.Fatal(err)
	}
	b := h.submit(h.sh(1, "true"))
	for _, anew := range []func(){
		func() {},
		func() { // a new log
			if err := h.SetPolicy(background, h.me, "srtf"); err != nil {
				t.Fatal(err)
			}
		},
		func() { h.down(); h.up() },
	} {
		anew()
		if n, err := h.Node(background); err != nil || n.Health != "drained" || n.Note != "drained by an operator" || n.Devices[0].Note != "drained by "+h.me.User {
			t.Errorf("%+v, %v", n, err)
		}
		if w := h.why(b); w.Job.State != api.Waiting || w.Unknown != "the machine takes no new work: drained by an operator" {
			t.Errorf("b: %+v", w)
		}
		if j := h.running(a, 1); j.Run != 1 {
			t.Errorf("a: %+v", j)
		}
	}
	h.make("enough")
	h.until(a, api.Done)
	if j := h.job(b); j.State != api.Waiting {
		t.Errorf("b is %s", j.State)
	}
	if err := h.Drain(background, h.me, api.Drain{Undo: true}); err != nil {
		t.Fatal(err)
	}
	h.until(b, api.Done)
}

// What an operator has put out of use is in the event log as well: it stays out of use
// where drained.json is gone, was changed, or cannot be written.
func TestDrainedByTheLog(t *testing.T) {
	longtest.Skip(t)
	t.Parallel()
	h := newHere(t, "fifo", 2, nil)
	file := filepath.Join(h.setup.State, "drained.json")
	drain := func(z api.Drain) {
		t.Helper()
		if err := h.Drain(background, h.me, z); err != nil {
			t.Fatal(err)
		}
	}
	is := func(when, health, machine, device string) {
		t.Helper()
		if n, err := h.Node(background); err != nil || n.Health != health || n.Note != machine || n.Devices[0].Note != device || n.Devices[1].Note != "" {
			t.Errorf("%s: %+v, %v", when, n, err)
		}
	}
	gone := func() {
		t.Helper()
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
	}
	drain(api.Drain{Why: "a new fan"})
	drain(api.Drain{Devices: []string{"slot0"}, Why: "loud"})
	h.down()
	gone()
	h.up()
	is("the file was gone", "drained", "a new fan", "loud")
	if f := h.Findings(); len(f) != 1 || f[0].File != "drained.json" || f[0].Text != "the file is gone" {
		t.Errorf("%+v", f)
	}
	h.down()
	if err := os.WriteFile(file, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	h.up()
	is("the file was changed, and the log is a new one", "drained", "a new fan", "loud")
	drain(api.Drain{Undo: true})
	h.down()
	gone()
	h.up()
	is("the machine was put back", "up", "", "loud")
	gone()
	if err := os.Mkdir(file, 0o700); err != nil {
		t.Fatal(err)
	}
	drain(api.Drain{Why: "no room"})
	is("the file could not be written", "drained", "no room", "loud")
	until(t, "it is written when it can be", func() bool {
		f, err := os.Stat(file)
		return err == nil && f.Mode().IsRegular()
	})
	drain(api.Drain{Undo: true})
	drain(api.Drain{Devices: []string{"slot0"}, Undo: true})
	h.down()
	gone()
	h.up()
	is("all was put back", "up", "", "")
}

// broken is a policy with a mistake.
type broken struct{}

func (broken) Decide(*sched.View, *sched.Plan) { panic("index out of range") }

// A policy that makes a mistake is replaced: who uses the machine does not suffer
// for it, and everybody can read what happened.
func TestPolicyPanics(t *testing.T) {
	t.Parallel()
	h := newHere(t, "srtf", 1, nil)
	a := h.submit(h.sh(1, "touch up; "+awaits("enough")))
	b := h.submit(h.sh(1, "true"))
	h.made("up")
	if err := h.MistakeNow(broken{}); err != nil {
		t.Fatal(err)
	}
	var s api.Status
	until(t, "fifo takes over", func() bool {
		var err error
		if s, err = h.Status(background); err != nil {
			t.Fatal(err)
		}
		return s.Policy == "fifo"
	})
	if len(s.Trouble) != 1 || !strings.HasPrefix(s.Trouble[0], "policy srtf failed and was replaced by fifo: policy mistaken at ") ||
		!strings.HasSuffix(s.Trouble[0], "panicked: index out of range") {
		t.Errorf("%q", s.Trouble)
	}
	h.make("enough")
	h.until(a, api.Done)
	h.until(b, api.Done)
	if j := h.job(a); j.Run != 1 {
		t.Errorf("a was started %d times", j.Run)
	}
	if err := h.SetPolicy(background, h.me, "srtf"); err != nil {
		t.Fatal(err)
	}
	until(t, "the trouble is over", func() bool {
		s, err := h.Status(background)
		return err == nil && len(s.Trouble) == 0 && s.Policy == "srtf"
	})
	h.until(h.submit(h.sh(1, "true")), api.Done)
}

// Another size is asked for when the policy makes its mistake: who asked is told.
func TestPolicyPanicsOnResize(t *testing.T) {
	t.Parallel()
	h := newHere(t, "srtf", 2, nil)
	spec := h.sh(1, "touch up; "+awaits("enough"))
	spec.GPUs, spec.Stop = api.Range{Least: 1, Most: 2, Ask: 1}, api.Stop{Mode: "restart"}
	a := h.submit(spec)
	h.made("up")
	h.running(a, 1)
	if err := h.Mistake(broken{}); err != nil {
		t.Fatal(err)
	}
	refused(t, h.Resize(soon(t), h.me, a, api.Resize{GPUs: 2}), api.Unavailable, "the policy failed; try again")
	until(t, "the other size is possible", func() bool { return h.Resize(soon(t), h.me, a, api.Resize{GPUs: 2}) == nil })
	h.make("enough")
	h.until(a, api.Done)
}

// The policy is changed while there are jobs in every phase: none of them notices.
func TestSetPolicy(t *testing.T) {
	longtest.Skip(t)
	t.Parallel()
	h := newHere(t, "srtf", 2, nil)
	user := h.me
	user.Operator = false
	refused(t, h.SetPolicy(background, user, "fifo"), api.Denied, "only an operator may change the policy")
	refused(t, h.SetPolicy(background, h.me, "nothing"), api.Invalid, "nothing")
	refused(t, h.SetPolicy(background, h.me, "las(round=soon)"), api.Invalid, "round")

	running := h.submit(h.long("never", "touch up1; "+awaits("enough")))
	frozen := h.submit(h.long("freeze", "touch up2; "+awaits("enough")))
	h.made("up1")
	h.made("up2")
	h.running(frozen, 1)
	stopping := h.long("checkpoint", `trap "touch asked" TERM; touch up3-$NORN_RUN; `+awaits("leave")+"; test -e enough || exit 75")
	stopping.Estimate = 100
	s := h.submit(stopping)
	h.made("up3-1")
	h.running(s, 1)
	assigned := h.submit(h.short("true"))
	h.until(assigned, api.Assigned)
	h.made("asked")
	held := h.long("never", "true")
	held.Held = true
	w, e := h.submit(h.long("never", "true")), h.submit(held)
	phases := map[string]api.State{
		running: api.Running, frozen: api.Waiting, s: api.Stopping, assigned: api.Assigned, w: api.Waiting, e: api.Held,
	}
	for _, choice := range []string{"fifo", "las(round=1h)", "srtf"} {
		for id, want := range phases {
			if j := h.job(id); j.State != want {
				t.Errorf("job %s is %s, not %s", id, j.State, want)
			}
		}
		if err := h.SetPolicy(background, h.me, choice); err != nil {
			t.Fatal(err)
		}
		until(t, choice+" is in force", func() bool { s, err := h.Status(background); return err == nil && s.Policy == choice })
	}
	h.make("leave")
	h.until(assigned, api.Done)
	h.make("enough")
	h.do(server.Release, e)
	for id := range phases {
		h.until(id, api.Done)
	}
	if a, b := h.job(running), h.job(frozen); a.Run != 1 || b.Run != 1 {
		t.Errorf("they were started %d and %d times", a.Run, b.Run)
	}
	h.told(frozen, "submit start preempt gone start end")
}

// The event log cannot be written any more: the daemon ends and says why, nothing
// that it did not write has happened, and the next one goes on.
func TestLogCannotBeWritten(t *testing.T) {
	t.Parallel()
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip("there is no /dev/full here: ", err)
	}
	defer full.Close()
	h := newHere(t, "fifo", 2, nil)
	a := h.submit(h.sh(1, "touch up; "+awaits("enough")))
	h.made("up")
	h.running(a, 1)
	if err := h.FillLog(full); err != nil {
		t.Fatal(err)
	}
	_, err = h.Submit(background, h.me, h.sh(1, "touch never"))
	refused(t, err, api.Unavailable, "norn is stopping")
	err = <-h.ended
	if err == nil || !strings.HasPrefix(err.Error(), "the event log cannot be written, so that nothing more may be decided; jobs go on: ") ||
		!strings.Contains(err.Error(), "no space left on device") {
		t.Errorf("the daemon ended with %v", err)
	}
	if err := h.Ready(); err == nil {
		t.Error("it is ready")
	}
	h.Close()
	h.up()
	if all, err := h.Jobs(background, h.me, api.Query{}); err != nil || len(all) != 1 || all[0].ID != a || all[0].State != api.Running {
		t.Errorf("%+v, %v", all, err)
	}
	h.make("enough")
	if j := h.until(a, api.Done); j.Run != 1 {
		t.Errorf("%+v", j)
	}
	if _, err := os.Stat(h.work + "/never"); err == nil {
		t.Error("a job has run that was not written")
	}
}

// Many short jobs (NORN_JOBS says how many) under a log that is begun anew again
// and again leave nothing behind in memory, and who watches misses nothing.
func TestNothingGrows(t *testing.T) {
	longtest.Skip(t)
	t.Parallel()
	jobs := 400
	if n, err := strconv.Atoi(os.Getenv("NORN_JOBS")); err == nil {
		jobs = n
	}
	h := newHere(t, "fifo", 0, func(o *local.Options) {
		o.Limits.Compact, o.Limits.Recent, o.Defaults.CPUs = 150, 50, 4
	})
	ctx, cancel := context.WithCancel(background)
	defer cancel()
	events, err := h.Watch(ctx, h.me, 0)
	if err != nil {
		t.Fatal(err)
	}
	var ended atomic.Int64
	watched := make(chan int, 1)
	go func() { watched <- watchEnds(t, events, &ended, jobs) }()
	spec := h.sh(0, "")
	spec.Command = []string{"/bin/true"}
	for n := range jobs {
		for int64(n)-ended.Load() > 100 { // a few wait, most do not
			until(t, "jobs end", func() bool { return int64(n)-ended.Load() < 50 })
		}
		h.submit(spec)
	}
	until(t, "every job has ended", func() bool { return int(ended.Load()) == jobs })
	if ends := <-watched; ends != jobs {
		t.Errorf("a watcher was told of the ends of %d jobs, there were %d", ends, jobs)
	}
	checkKept(t, h)
	all, err := h.Jobs(background, h.me, api.Query{All: true})
	if err != nil || len(all) != jobs {
		t.Errorf("%d jobs are told, there were %d: %v", len(all), jobs, err)
	}
	epochs := map[string]bool{}
	starts := map[string]int{}
	for _, e := range h.wholeLog() {
		switch e.Kind {
		case eventlog.NodeAdd:
			epochs[fmt.Sprint(e.Time)] = true
		case eventlog.Start:
			starts[e.key]++
		}
	}
	if len(epochs) < jobs*3/300 || len(starts) != jobs {
		t.Errorf("%d jobs started in %d logs", len(starts), len(epochs))
	}
}

// watchEnds counts the jobs of whose ends it is told, and sees to it that no event
// is missing.
func watchEnds(t *testing.T, events <-chan api.Event, ended *atomic.Int64, jobs int) int {
	ends, last := map[string]bool{}, int64(0)
	for e := range events {
		if last != 0 && e.Seq != last+1 {
			t.Errorf("event %d follows event %d", e.Seq, last)
		}
		if last = e.Seq; e.Kind == "end" {
			ends[e.Job] = true
			if ended.Add(1); len(ends) == jobs {
				break
			}
		}
	}
	return len(ends)
}

// checkKept checks what the daemon keeps when all jobs have ended.
func checkKept(t *testing.T, h *here) {
	t.Helper()
	var kept map[string]int
	until(t, "no runner is watched any more", func() bool {
		var err error
		if kept, err = h.Kept(); err != nil {
			t.Fatal(err)
		}
		return kept["runners watched"] == 0 && kept["things to do"] == 0
	})
	for what, most := range map[string]int{
		"jobs": 400, "live jobs": 0, "entries": 0, "records": 400, "tokens": 0, "timers": 5, "ended jobs": 50, "events": 4096,
	} {
		if kept[what] > most {
			t.Errorf("it keeps %d %s, at most %d were expected", kept[what], what, most)
		}
	}
}
