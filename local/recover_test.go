package local_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/norn-scheduler/norn/api"
	"github.com/norn-scheduler/norn/api/server"
	"github.com/norn-scheduler/norn/eventlog"
	"github.com/norn-scheduler/norn/internal/longtest"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/local"
	"github.com/norn-scheduler/norn/local/rundir"
	"github.com/norn-scheduler/norn/local/runner"
)

// A job that ran when the machine went down goes on from its last checkpoint when
// the machine is up again, and is told why.
func TestReboot(t *testing.T) {
	longtest.Skip(t)
	t.Parallel()
	h := newHere(t, "fifo", 1, nil)
	a := h.submit(h.long("checkpoint", "touch up$NORN_RUN; "+awaits("enough")))
	h.made("up1")
	h.running(a, 1)
	h.report(a, 1, 5)
	h.down()
	// After a power failure only the files of a run are left, and no process.
	until(t, "the runner is killed", func() bool { return killRunner(h.runDir(a, 1)) })
	h.gone(a, 1)
	asJSON(t, filepath.Join(h.runDir(a, 1), rundir.StatusFile), func(s *rundir.Status) { s.Boot = "another" })
	h.up()
	h.made("up2")
	thrown := h.last(a, eventlog.Evict)
	because(t, thrown.Reason, job.NodeLost, "the machine was restarted")
	var saved rundir.Saved
	if ok, err := rundir.Read(h.runDir(a, 1), rundir.SavedFile, &saved); !ok || err != nil || thrown.Kept <= 0 || int64(thrown.Kept) != saved.Progress {
		t.Errorf("it keeps %v of work, the last checkpoint has %v: %v", thrown.Kept, time.Duration(saved.Progress), err)
	}
	if life := strings.Join(h.why(a).Life, "\n"); !strings.Contains(life, "is thrown back: the machine was restarted; keeps ") {
		t.Errorf("its life does not tell of it:\n%s", life)
	}
	h.make("enough")
	h.until(a, api.Done)
	h.told(a, "submit start saved evict start end")
}

// The runner of a job is killed: nothing of the job is left, and it starts again
// with the work of its last checkpoint, be it of an earlier run.
func TestRunnerKilled(t *testing.T) {
	longtest.Skip(t)
	t.Parallel()
	h := newHere(t, "fifo", 1, nil)
	a := h.submit(h.long("checkpoint", `setsid sh -c "echo \$\$ >> pids; sleep 1000" & echo $$ >> pids; touch up$NORN_RUN; `+awaits("enough")))
	var saved time.Duration
	for run := 1; run <= 2; run++ {
		h.made(fmt.Sprint("up", run))
		h.running(a, run)
		if run == 1 {
			h.report(a, run, 5)
		}
		until(t, "two processes run", func() bool { return len(strings.Fields(h.text("pids"))) == 2*run })
		until(t, "the runner is killed", func() bool { return killRunner(h.runDir(a, run)) })
		until(t, "it was thrown back", func() bool { return len(h.life(a, eventlog.Evict)) == run })
		thrown := h.last(a, eventlog.Evict)
		because(t, thrown.Reason, job.NodeLost, "the process that watched over it was lost")
		if run == 1 {
			saved = thrown.Kept
		}
		if thrown.Kept != saved || saved <= 0 {
			t.Errorf("it keeps %v of work in run %d, the last checkpoint has %v", thrown.Kept, run, saved)
		}
		for _, pid := range strings.Fields(h.text("pids"))[2*run-2 : 2*run] {
			if _, err := os.Stat("/proc/" + pid + "/cwd"); err == nil {
				stat, _ := os.ReadFile("/proc/" + pid + "/stat")
				t.Errorf("process %s of run %d is left: %s", pid, run, stat)
			}
		}
	}
	h.made("up3")
	h.make("enough")
	h.until(a, api.Done)
}

// says has the runner of a run say where it stands, as the process of that number.
func (h *here) says(id string, run int, s rundir.Status, pid int) {
	h.t.Helper()
	var err error
	s.PID = pid
	if s.Start, err = runner.StartTime(pid); err == nil {
		err = rundir.Write(h.runDir(id, run), rundir.StatusFile, s)
	}
	if err != nil {
		h.t.Fatal(err)
	}
	conn, err := net.Dial("unixgram", filepath.Join(h.setup.State, "notify.sock"))
	if err != nil {
		h.t.Fatal(err)
	}
	defer conn.Close()
	if _, err := fmt.Fprint(conn, id, " ", run); err != nil {
		h.t.Fatal(err)
	}
}

// A runner that has not said who it is when a daemon comes up is watched over as
// soon as it has.
func TestRunnerSaysLate(t *testing.T) {
	longtest.Skip(t)
	t.Parallel()
	h := newHere(t, "fifo", 1, nil)
	a := h.submit(h.sh(1, "touch up$NORN_RUN; "+awaits("enough")))
	h.made("up1")
	h.running(a, 1)
	h.down()
	dir := h.runDir(a, 1)
	until(t, "the runner is killed", func() bool { return killRunner(dir) })
	h.gone(a, 1)
	var s rundir.Status
	if ok, err := rundir.Read(dir, rundir.StatusFile, &s); !ok || err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(dir, rundir.StatusFile)); err != nil {
		t.Fatal(err)
	}
	lock, err := rundir.Lock(dir) // this test stands in for the runner, and a process for its number
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	other := exec.Command("sleep", "1000")
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	h.up()
	if j := h.job(a); j.State != api.Running || j.Reason != "is being launched" {
		t.Errorf("%+v", j)
	}
	h.says(a, 1, s, other.Process.Pid)
	h.running(a, 1)
	until(t, "its runner is watched", func() bool {
		kept, err := h.Kept()
		if err != nil {
			t.Fatal(err)
		}
		return kept["runners watched"] == 1
	})
	lock.Close()
	other.Process.Kill()
	other.Wait()
	h.made("up2")
	because(t, h.last(a, eventlog.Evict).Reason, job.NodeLost, "the process that watched over it was lost")
	h.make("enough")
	h.until(a, api.Done)
}

// The next daemon finds out how runs went on while there was no daemon.
func TestWhileAway(t *testing.T) {
	longtest.Skip(t)
	t.Parallel()
	h := newHere(t, "fifo", 4, nil)
	done := h.submit(h.sh(1, "touch up1; "+awaits("enough")))
	failed := h.submit(h.sh(1, "touch up2; "+awaits("enough")+"; exit 3"))
	lost := h.submit(h.long("checkpoint", "touch up3-$NORN_RUN; "+awaits("more")))
	h.running(lost, 1)
	h.report(lost, 1, 1)
	goesOn := h.submit(h.sh(1, "touch up4; "+awaits("more")))
	waits := h.submit(h.sh(1, "true"))
	for _, up := range []string{"up1", "up2", "up3-1", "up4"} {
		h.made(up)
	}
	h.running(goesOn, 1)
	h.down()
	h.make("enough")
	h.gone(done, 1)
	h.gone(failed, 1)
	until(t, "the runner is killed", func() bool { return killRunner(h.runDir(lost, 1)) })
	h.gone(lost, 1)
	h.up()
	h.until(done, api.Done)
	if j := h.until(failed, api.Failed); j.Exit == nil || j.Exit.Code != 3 || j.Reason != "exit code 3" {
		t.Errorf("%+v", j)
	}
	h.made("up3-2")
	because(t, h.last(lost, eventlog.Evict).Reason, job.NodeLost, "the process that watched over it was lost while norn was away")
	h.make("more")
	h.until(lost, api.Done)
	if j := h.until(goesOn, api.Done); j.Run != 1 {
		t.Errorf("it was started %d times", j.Run)
	}
	h.until(waits, api.Done)
}

// Torn last lines of the log are cut off after a crash. They had not been acted
// on.
func TestTornLog(t *testing.T) {
	longtest.Skip(t)
	t.Parallel()
	h := newHere(t, "fifo", 1, nil)
	a := h.submit(h.sh(1, "touch up; "+awaits("enough")))
	h.made("up")
	h.running(a, 1)
	held := h.sh(1, "true")
	held.Held = true
	b := h.submit(held)
	h.down()
	name := lastLog(t, h)
	whole, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, append(whole, []byte(`{"t":9999,"e":"canc`)...), 0o600); err != nil {
		t.Fatal(err)
	}
	h.up()
	if j := h.job(b); j.State != api.Held {
		t.Errorf("b is %s", j.State)
	}
	h.do(server.Release, b)
	h.make("enough")
	h.until(a, api.Done)
	h.until(b, api.Done)
	if j := h.job(a); j.Run != 1 {
		t.Errorf("a was started %d times", j.Run)
	}
}

// lastLog is the file of the last event log.
func lastLog(t *testing.T, h *here) string {
	t.Helper()
	all, err := filepath.Glob(filepath.Join(h.setup.State, "events", "*.log"))
	if err != nil || len(all) == 0 {
		t.Fatalf("logs: %v, %v", all, err)
	}
	return all[len(all)-1]
}

// That a job waits for another one has a code in the log; the daemon goes on by that, and
// in logs of before there was one by what the reason says. One that a person holds waits
// for that person.
func TestDependencyGoesOn(t *testing.T) {
	for name, rewrite := range map[string]func(string) string{
		"code": func(log string) string { return log },
		"text": func(log string) string {
			log = regexp.MustCompile(`,"crc":"[0-9a-f]{8}"`).ReplaceAllString(log, "") // version 1 has none
			log = strings.Replace(log, `"version":2`, `"version":1`, 1)
			return strings.ReplaceAll(log, `"why":"after-job"`, `"why":"on-hold"`)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHere(t, "fifo", 2, nil)
			a := h.submit(h.sh(1, "touch up; "+awaits("enough")))
			h.made("up")
			spec := h.sh(1, "true")
			spec.After = []api.After{{Job: a}}
			b := h.submit(spec)
			spec.Held = true
			c := h.submit(spec)
			h.down()
			log := lastLog(t, h)
			text, err := os.ReadFile(log)
			if err != nil {
				t.Fatal(err)
			}
			if n := strings.Count(string(text), `"why":"after-job","text":"waits for the end of job 1"`); n != 1 {
				t.Errorf("%d jobs wait for another one in\n%s", n, text)
			}
			if err := os.WriteFile(log, []byte(rewrite(string(text))), 0o600); err != nil {
				t.Fatal(err)
			}
			h.up()
			h.make("enough")
			h.until(b, api.Done)
			if j := h.job(c); j.State != api.Held {
				t.Errorf("%+v", j)
			}
		})
	}
}

// A job that waits for another one starts though the daemon died between the end
// of that and its release.
func TestDependencyEndsAtCrash(t *testing.T) {
	longtest.Skip(t)
	t.Parallel()
	h := newHere(t, "fifo", 1, nil)
	a := h.submit(h.sh(1, "touch up; "+awaits("enough")))
	h.made("up")
	spec := h.sh(1, "true")
	spec.After = []api.After{{Job: a}}
	b := h.submit(spec)
	h.make("enough")
	h.until(b, api.Done)
	h.down()
	// The log as it stood when the end of a had been written and nothing else.
	name := lastLog(t, h)
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	var kept []string
	for line := range strings.Lines(string(text)) {
		if kept = append(kept, line); strings.Contains(line, `"e":"end"`) {
			break
		}
	}
	if len(kept) == strings.Count(string(text), "\n") {
		t.Fatalf("there is no end in the log:\n%s", text)
	}
	if err := os.WriteFile(name, []byte(strings.Join(kept, "")), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{filepath.Join(h.setup.State, "history.jsonl"), filepath.Join(h.setup.State, "runs", b)} {
		if err := os.RemoveAll(path); err != nil {
			t.Fatal(err)
		}
	}
	h.up()
	h.until(b, api.Done)
	if j := h.job(a); j.State != api.Done || j.Run != 1 {
		t.Errorf("%+v", j)
	}
}

// A job that was requeued and waits keeps its work over a restart of the daemon.
func TestRequeuedOverRestart(t *testing.T) {
	longtest.Skip(t)
	t.Parallel()
	h := newHere(t, "fifo", 1, nil)
	a := h.submit(h.long("checkpoint", `trap "exit 75" TERM; touch up$NORN_RUN; `+awaits("enough")))
	h.made("up1")
	h.running(a, 1)
	if err := h.Drain(background, h.me, api.Drain{Why: "a new fan"}); err != nil {
		t.Fatal(err)
	}
	h.do(server.Requeue, a)
	h.until(a, api.Waiting)
	h.down()
	h.up()
	if n, err := h.Node(background); err != nil || n.Health != "drained" || n.Note != "a new fan" {
		t.Errorf("%+v, %v", n, err)
	}
	if w := h.why(a); w.Unknown != "the machine takes no new work: a new fan" || fmt.Sprint(w.Frees) != "[norn undrain]" {
		t.Errorf("%+v", w)
	}
	if err := h.Drain(background, h.me, api.Drain{Undo: true}); err != nil {
		t.Fatal(err)
	}
	h.made("up2")
	h.running(a, 2)
	kept := h.last(a, eventlog.Evict).Kept
	for _, e := range h.life(a, eventlog.Progress) {
		if e.Kept < kept {
			t.Errorf("it was thrown back with %v of work, and has %v after its start", kept, e.Kept)
		}
	}
	h.make("enough")
	h.until(a, api.Done)
}

// The machine comes up with fewer devices: jobs that had others are ended before
// they are started again, so that none runs twice.
func TestFewerDevices(t *testing.T) {
	longtest.Skip(t)
	t.Parallel()
	h := newHere(t, "srtf", 3, nil)
	saves := h.submit(h.long("checkpoint", `trap "exit 75" TERM; echo $$ > pid1-$NORN_RUN; `+awaits("enough")))
	done := h.submit(h.long("restart", `trap "exit 0" TERM; touch up2-$NORN_RUN; `+awaits("enough")))
	frozen := h.submit(h.long("freeze", `echo $$ > pid3-$NORN_RUN; `+awaits("enough")))
	h.made("pid1-1")
	h.made("up2-1")
	h.made("pid3-1")
	h.running(frozen, 1)
	short := h.submit(h.short("touch up4; " + awaits("short-ends")))
	h.made("up4")
	h.until(frozen, api.Waiting)
	h.down()
	h.setup.Slots = 1
	h.up()
	for _, name := range []string{"pid1-1", "pid3-1"} {
		if _, err := os.Stat("/proc/" + strings.TrimSpace(h.text(name)) + "/cwd"); err == nil {
			t.Errorf("process %s runs on devices that are gone", name)
		}
	}
	thrown := slices.DeleteFunc(h.wholeLog(), func(e entry) bool { return e.key != saves || e.Kind != eventlog.Carry })
	because(t, thrown[0].Reason, job.NodeLost, "the devices of this machine are others than before")
	h.make("short-ends")
	h.until(short, api.Done)
	h.make("enough")
	h.until(saves, api.Done)
	if j := h.until(done, api.Done); j.Run != 1 {
		t.Errorf("it said that it was done, and was started %d times", j.Run)
	}
	if j := h.until(frozen, api.Done); j.Run != 2 {
		t.Errorf("its memory is gone, and it was started %d times", j.Run)
	}
}

// Runners may say something when nobody hears: the daemon looks by itself.
func TestNobodyHears(t *testing.T) {
	longtest.Skip(t)
	t.Parallel()
	h := newHere(t, "srtf", 1, nil)
	if err := h.Deafen(); err != nil {
		t.Fatal(err)
	}
	a := h.submit(h.long("freeze", "touch up; "+awaits("enough")))
	h.made("up")
	h.running(a, 1)
	b := h.submit(h.short("true"))
	h.until(b, api.Done)
	h.make("enough")
	h.until(a, api.Done)
	h.told(a, "submit start preempt gone start end")
}

// Two daemons do not share a state folder.
func TestTwoDaemons(t *testing.T) {
	longtest.Skip(t)
	t.Parallel()
	h := newHere(t, "fifo", 1, nil)
	opt, err := h.setup.options()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := local.Open(opt); err == nil || err.Error() != "another norn runs on the state folder "+h.setup.State {
		t.Error(err)
	}
	h.until(h.submit(h.sh(1, "true")), api.Done) // the first one is as it was
}

// Numbers of events go on growing from one daemon to the next.
func TestEventNumbers(t *testing.T) {
	longtest.Skip(t)
	t.Parallel()
	h := newHere(t, "fifo", 1, nil)
	var last int64
	for n := range 3 {
		ctx, cancel := context.WithCancel(background)
		events, err := h.Watch(ctx, h.me, last+1)
		if err != nil {
			t.Fatal(err)
		}
		id := h.submit(h.sh(1, "true"))
		for e := range events {
			if e.Seq <= last || e.Job != "" && e.Job != id {
				t.Errorf("daemon %d tells of %+v behind event %d", n, e, last)
			}
			if last = e.Seq; e.Kind == "end" {
				break
			}
		}
		cancel()
		if s, err := h.Status(background); err != nil || s.Events < last {
			t.Errorf("%+v, %v", s, err)
		}
		h.down()
		h.up()
	}
}

// A daemon that is told to end while users submit loses no job that it has
// acknowledged, and acknowledges none that it has not written.
func TestSubmittedAtTheEnd(t *testing.T) {
	longtest.Skip(t)
	t.Parallel()
	h := newHere(t, "fifo", 1, nil)
	var mu sync.Mutex
	told := map[string]bool{}
	spec := h.sh(1, "true")
	spec.Held = true
	for range 8 {
		var users sync.WaitGroup
		ctx, enough := context.WithCancel(background)
		d := h.Daemon
		for range 8 {
			users.Go(func() {
				for ctx.Err() == nil {
					ids, err := d.Submit(ctx, h.me, spec)
					if err != nil {
						return
					}
					mu.Lock()
					if told[ids[0]] {
						t.Errorf("job %s was acknowledged twice", ids[0])
					}
					told[ids[0]] = true
					mu.Unlock()
				}
			})
		}
		before := len(told)
		until(t, "some are submitted", func() bool { mu.Lock(); defer mu.Unlock(); return len(told) > before+8 })
		h.down()
		enough()
		users.Wait()
		h.up()
		all, err := h.Jobs(background, h.me, api.Query{})
		if err != nil {
			t.Fatal(err)
		}
		known := map[string]bool{}
		for _, j := range all {
			known[j.ID] = true
		}
		for id := range told {
			if !known[id] {
				t.Errorf("job %s was acknowledged and is lost", id)
			}
		}
	}
}

// A run that has been found again is told what is wanted of it, and heard, though
// the path of the state folder is too long for a socket in it.
func TestLongPath(t *testing.T) {
	longtest.Skip(t)
	t.Parallel()
	h := newHere(t, "fifo", 1, nil)
	h.down()
	h.setup.State = filepath.Join(h.setup.State, strings.Repeat("long/", 20))
	t.Cleanup(func() { endRuns(t, h.setup.State) })
	h.up()
	a := h.submit(h.long("checkpoint", `trap "exit 75" TERM; touch up$NORN_RUN; `+awaits("enough")))
	h.made("up1")
	h.running(a, 1)
	h.down()
	h.up()
	h.do(server.Requeue, a)
	h.made("up2")
	h.make("enough")
	h.until(a, api.Done)
}
