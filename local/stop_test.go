package local_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/norn-scheduler/norn/api"
	"github.com/norn-scheduler/norn/api/server"
	"github.com/norn-scheduler/norn/eventlog"
	"github.com/norn-scheduler/norn/internal/longtest"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/local"
	"github.com/norn-scheduler/norn/local/rundir"
)

// long and short are jobs of which srtf takes the second first.
func (h *here) long(mode, script string) api.JobSpec {
	s := h.sh(1, script)
	s.Estimate, s.Stop = 1000, api.Stop{Mode: mode, Grace: 20}
	return s
}

func (h *here) short(script string) api.JobSpec {
	s := h.sh(1, script)
	s.Estimate = 1
	return s
}

// report tells a checkpoint as the first task of a run does.
func (h *here) report(id string, run int, step int64) {
	h.t.Helper()
	r := api.Report{Step: step, Checkpoint: &api.Checkpoint{Step: step}}
	if _, err := h.task(id, run).Report(background, r); err != nil {
		h.t.Fatal(err)
	}
}

// A job that saves its state makes room, and goes on from there.
func TestCheckpoint(t *testing.T) {
	t.Parallel()
	h := newHere(t, "srtf", 1, nil)
	a := h.submit(h.long("checkpoint", `trap "echo $NORN_RUN >> saved; exit 75" TERM; touch up$NORN_RUN; `+awaits("enough")))
	h.made("up1")
	b := h.submit(h.short(awaits("b-ends")))
	h.until(b, api.Running)
	if j := h.job(a); j.State != api.Waiting || j.Preemptions != 1 || h.text("saved") != "1\n" {
		t.Errorf("%+v, saved in run %q", j, h.text("saved"))
	}
	h.make("b-ends")
	h.made("up2")
	h.make("enough")
	j := h.until(a, api.Done)
	if j.Run != 2 || j.Failures != 0 {
		t.Errorf("%+v", j)
	}
	h.told(a, "submit start preempt gone start end")
	kept, left := h.last(a, eventlog.Preempt), h.last(a, eventlog.Gone)
	if kept.Kept <= 0 || left.Time < kept.Time {
		t.Errorf("it was stopped at %v with %v of work and left at %v", kept.Time, kept.Kept, left.Time)
	}
}

// A job that falls back to its last save is ended without being asked, goes on from the
// checkpoint that it had told of, and the log says when that was.
func TestLastSave(t *testing.T) {
	longtest.Skip(t)
	t.Parallel()
	h := newHere(t, "srtf", 1, nil)
	spec := h.long("last-save", `trap "exit 1" TERM; touch up$NORN_RUN; `+awaits("enough"))
	a := h.submit(spec)
	h.made("up1")
	h.report(a, 1, 7)
	saved := h.last(a, eventlog.Saved).Kept
	b := h.submit(h.short(awaits("b-ends")))
	h.until(b, api.Running)
	h.make("b-ends")
	h.made("up2")
	if from, err := h.task(a, 2).Allocation(background); err != nil || !from.Resumable {
		t.Errorf("the second run may not go on from the checkpoint: %+v, %v", from, err)
	}
	h.make("enough")
	if j := h.until(a, api.Done); j.Run != 2 || j.Failures != 0 || j.Preemptions != 1 {
		t.Errorf("%+v", j)
	}
	if kept := h.last(a, eventlog.Preempt).Kept; saved <= 0 || kept != saved {
		t.Errorf("it had saved %v of work, and kept %v", saved, kept)
	}
}

// A checkpoint that fails, as the job ends otherwise than it should or does not
// end at all, costs the work since the one before. When that happens again and
// again the job is held, and a person can release it.
func TestCheckpointFails(t *testing.T) {
	for name, c := range map[string]struct {
		script, why string
		grace       api.Seconds // so long that a slow machine is not taken for a job that does not end, or short
	}{
		"wrong":    {`trap "exit 1" TERM`, "its checkpoint failed: exit code 1; it goes on from the one before, ", 20},
		"deaf":     {`trap "" TERM`, "its checkpoint failed: killed when its grace was over; it goes on from the one before, ", 0.2},
		"does not": {`:`, "its checkpoint failed: ended by SIGTERM; it goes on from the one before, ", 20},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHere(t, "srtf", 1, func(o *local.Options) { o.Defaults.SaveFailures, o.Defaults.CrashWithin = 3, 0 })
			spec := h.long("checkpoint", c.script+`; touch up$NORN_RUN; `+awaits("enough"))
			spec.Stop.Grace = c.grace
			a := h.submit(spec)
			var saved time.Duration
			for run := 1; run <= 3; run++ {
				h.made("up" + strconv.Itoa(run))
				h.running(a, run)
				if run == 1 {
					h.report(a, run, 7)
				}
				b := h.submit(h.short("true"))
				h.until(b, api.Done)
				until(t, "it was thrown back", func() bool { return len(h.life(a, eventlog.Evict)) == run })
				thrown := h.last(a, eventlog.Evict)
				because(t, thrown.Reason, job.Failed, c.why)
				if run == 1 {
					saved = thrown.Kept
				}
				if thrown.Kept != saved || saved <= 0 {
					t.Errorf("run %d keeps %v of work, want that of the last checkpoint that was reported, %v", run, thrown.Kept, saved)
				}
			}
			j := h.until(a, api.Held)
			if !strings.HasPrefix(j.Reason, "its checkpoint failed 3 times in a row, last: ") || !strings.HasSuffix(j.Reason, "; norn release lets it try again") {
				t.Errorf("it is held: %s", j.Reason)
			}
			h.do(server.Release, a)
			h.made("up4")
			h.make("enough")
			h.until(a, api.Done)
		})
	}
}

// A job that is told to save its state when it has hardly begun, and does not handle
// signals yet, is not held for it, however often that happens.
func TestNotReadyToSave(t *testing.T) {
	longtest.Skip(t)
	t.Parallel()
	h := newHere(t, "srtf", 1, func(o *local.Options) { o.Defaults.SaveFailures, o.Defaults.CrashWithin = 2, time.Hour })
	a := h.submit(h.long("checkpoint", `touch up$NORN_RUN; `+awaits("enough")))
	for run := 1; run <= 3; run++ {
		h.made("up" + strconv.Itoa(run))
		h.running(a, run)
		h.until(h.submit(h.short("true")), api.Done)
		until(t, "it was thrown back", func() bool { return len(h.life(a, eventlog.Evict)) == run })
		because(t, h.last(a, eventlog.Evict).Reason, job.Because, "after its start, before it could save anything; it begins anew")
	}
	h.made("up4")
	h.make("enough")
	h.until(a, api.Done)
}

// Two jobs that freeze share a slot in rounds. Both get on, in their first runs,
// on the device where their memory is, and changing places can take less than a
// second.
func TestFreezeSharesTime(t *testing.T) {
	longtest.Skip(t)
	t.Parallel()
	h := newHere(t, "las(round=200ms)", 1, nil)
	script := `n=0; while [ $n -lt 60 ]; do n=$((n+1)); echo $n >> $NORN_JOB; sleep 0.02; done`
	var ids []string
	for range 2 {
		spec := h.sh(1, script)
		spec.Stop = api.Stop{Mode: "freeze"}
		ids = append(ids, h.submit(spec))
	}
	for _, id := range ids {
		h.until(id, api.Done)
	}
	fastest := time.Hour
	for _, id := range ids {
		j := h.job(id)
		if j.Run != 1 || len(strings.Fields(h.text(id))) != 60 {
			t.Errorf("job %s ended in run %d behind %d steps", id, j.Run, len(strings.Fields(h.text(id))))
		}
		var told time.Duration
		for _, e := range h.life(id, eventlog.Preempt, eventlog.Gone) {
			if e.Kind == eventlog.Preempt {
				told = e.Time
			} else {
				fastest = min(fastest, e.Time-told)
			}
		}
	}
	t.Logf("to leave a device took %v at least", fastest)
	if a, b := h.job(ids[0]), h.job(ids[1]); a.Preemptions == 0 || b.Preemptions == 0 {
		t.Errorf("they were frozen %d and %d times", a.Preemptions, b.Preemptions)
	}
}

// A frozen job goes on where its memory is, though another device is free
// earlier.
func TestFrozenGoesOnInItsPinnedPlace(t *testing.T) {
	t.Parallel()
	h := newHere(t, "srtf", 2, nil)
	spec := h.long("freeze", `echo $$ > pid; touch up; `+awaits("enough")+`; echo $$ >> pid`)
	a := h.submit(spec)
	h.made("up")
	pinned := h.job(a).Devices
	never := h.sh(1, awaits("c-ends"))
	never.Stop = api.Stop{Mode: "never"}
	c := h.submit(never)
	h.until(c, api.Running)
	b := h.submit(h.short(awaits("b-ends")))
	h.until(b, api.Running)
	if j := h.job(b); fmt.Sprint(j.Devices) != fmt.Sprint(pinned) {
		t.Fatalf("b runs on %v, a ran on %v", j.Devices, pinned)
	}
	h.make("c-ends")
	h.until(c, api.Done)
	if j := h.job(a); j.State != api.Waiting || !strings.Contains(j.Reason, "frozen") {
		t.Errorf("a is %s: %s", j.State, j.Reason)
	}
	h.make("b-ends")
	j := h.until(a, api.Running)
	if fmt.Sprint(j.Devices) != fmt.Sprint(pinned) || j.Run != 1 {
		t.Errorf("a goes on in run %d on %v, its memory is on %v", j.Run, j.Devices, pinned)
	}
	h.make("enough")
	h.until(a, api.Done)
	if pids := strings.Fields(h.text("pid")); len(pids) != 2 || pids[0] != pids[1] {
		t.Errorf("it is another process: %v", pids)
	}
	if w := h.why(a); w.Job.Run != 1 {
		t.Errorf("%+v", w)
	}
}

// A job that comes to its end though it is taken to be frozen, as somebody has
// thawed its processes, has ended like that, and is not started again.
func TestFrozenEndsAllTheSame(t *testing.T) {
	for name, c := range map[string]struct {
		code  int
		state api.State
		again bool
	}{
		"done": {0, api.Done, false}, "failed": {3, api.Failed, false},
		"done, restart": {0, api.Done, true}, "failed, restart": {3, api.Failed, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHere(t, "srtf", 1, nil)
			a := h.submit(h.long("freeze", fmt.Sprintf(`echo $$ > pid; %s; exit %d`, awaits("enough"), c.code)))
			h.made("pid")
			h.running(a, 1)
			b := h.submit(h.short(awaits("b-ends")))
			h.until(b, api.Running)
			h.make("enough")
			pid, err := strconv.Atoi(strings.TrimSpace(h.text("pid")))
			if err != nil {
				t.Fatal(err)
			}
			until(t, "a has ended", func() bool {
				syscall.Kill(-pid, syscall.SIGCONT) // its group
				_, err := os.Stat(filepath.Join(h.runDir(a, 1), rundir.ExitFile))
				return err == nil
			})
			if c.again {
				h.down()
				h.up()
			}
			if j := h.job(a); j.State != api.Waiting {
				t.Errorf("a is %s", j.State)
			}
			h.make("b-ends")
			if j := h.until(a, c.state); j.Run != 1 || j.Exit == nil || j.Exit.Code != c.code {
				t.Errorf("%+v", j)
			}
			h.until(b, api.Done)
		})
	}
}

// A job that must not be preempted is left alone. One that begins anew loses its
// work, and it is told beforehand what that would cost.
func TestNeverAndRestart(t *testing.T) {
	longtest.Skip(t)
	t.Parallel()
	h := newHere(t, "srtf", 1, nil)
	a := h.submit(h.long("never", "touch up; "+awaits("a-ends")))
	h.made("up")
	if w := h.why(a); w.Stop != "never: it is not preempted" {
		t.Error(w.Stop)
	}
	b := h.submit(h.short("true"))
	if j := h.job(b); j.State != api.Waiting {
		t.Errorf("b is %s", j.State)
	}
	h.make("a-ends")
	h.until(a, api.Done)
	h.until(b, api.Done)
	h.told(a, "submit start end")

	c := h.submit(h.long("restart", `echo $NORN_RUN >> began; touch up$NORN_RUN; `+awaits("c-ends")))
	h.made("up1")
	if w := h.why(c); !strings.HasPrefix(w.Stop, "restart: it is ended and begins anew; now that would cost ") {
		t.Error(w.Stop)
	}
	h.do(server.Requeue, c)
	h.made("up2")
	thrown := h.last(c, eventlog.Evict)
	because(t, thrown.Reason, job.UserRequest, "it was requeued")
	if thrown.Kept != 0 {
		t.Errorf("it keeps %v of work", thrown.Kept)
	}
	h.make("c-ends")
	h.until(c, api.Done)
	if h.text("began") != "1\n2\n" {
		t.Errorf("it began in runs %q", h.text("began"))
	}
}

// A policy that takes back what a tenant is guaranteed restarts a job that cannot
// save its work.
func TestRestartPreempted(t *testing.T) {
	t.Parallel()
	h := newHere(t, "maxmin", 2, withTenants)
	a1 := h.submit(h.of("a", h.long("restart", "touch up1; "+awaits("enough"))))
	h.made("up1")
	a2 := h.submit(h.of("a", h.long("restart", `touch up2-$NORN_RUN; `+awaits("enough"))))
	h.made("up2-1")
	b := h.submit(h.of("b", h.short(awaits("b-ends"))))
	h.until(b, api.Running)
	stopped := h.last(a2, eventlog.Preempt)
	because(t, stopped.Reason, job.Reclaimed, "")
	if stopped.Kept != 0 {
		t.Errorf("it keeps %v of work", stopped.Kept)
	}
	h.make("b-ends")
	h.made("up2-2")
	h.make("enough")
	h.until(a1, api.Done)
	h.until(a2, api.Done)
	h.told(a1, "submit start end")
	h.told(a2, "submit start preempt gone start end")
}

// An elastic job is given another size and back: it saves its state, and starts
// again with as many tasks as it has devices.
func TestResize(t *testing.T) {
	longtest.Skip(t)
	t.Parallel()
	h := newHere(t, "fifo", 2, nil)
	spec := h.sh(2, `trap "exit 75" TERM; touch up$NORN_RUN-$RANK-of-$WORLD_SIZE-on-$CUDA_VISIBLE_DEVICES; `+awaits("enough"))
	spec.GPUs, spec.Tasks, spec.Stop = api.Range{Least: 1, Most: 2, Ask: 2}, api.Tasks{PerGPU: true}, api.Stop{Mode: "checkpoint", Grace: 20}
	a := h.submit(spec)
	resize := func(gpus float64) error { return h.Resize(soon(t), h.me, a, api.Resize{GPUs: gpus}) }
	h.made("up1-0-of-2-on-0")
	h.made("up1-1-of-2-on-1")
	h.running(a, 1)
	if err := resize(1); err != nil {
		t.Fatal(err)
	}
	h.made("up2-0-of-1-on-0")
	h.running(a, 2)
	if j := h.job(a); j.Allocated != 1 || len(j.Devices) != 1 {
		t.Errorf("%+v", j)
	}
	b := h.submit(h.sh(1, awaits("b-ends"))) // takes what has become free
	h.until(b, api.Running)
	refused(t, resize(2), api.Conflict, "cannot have 2 GPUs now: too few are free")
	h.make("b-ends")
	h.until(b, api.Done)
	if err := resize(2); err != nil {
		t.Fatal(err)
	}
	h.made("up3-1-of-2-on-1")
	h.running(a, 3)
	if err := resize(2); err != nil { // as it is
		t.Error(err)
	}
	h.make("enough")
	if j := h.until(a, api.Done); j.Resizes != 2 || j.Run != 3 || j.Preemptions != 0 {
		t.Errorf("%+v", j)
	}
	h.told(a, "submit start resize resize end")
}

func TestResizeRefused(t *testing.T) {
	longtest.Skip(t)
	t.Parallel()
	h := newHere(t, "fifo", 2, nil)
	elastic := h.sh(2, awaits("enough"))
	elastic.GPUs = api.Range{Least: 1, Most: 2, Ask: 2}
	resize := func(id string, gpus float64) error { return h.Resize(soon(t), h.me, id, api.Resize{GPUs: gpus}) }

	elastic.Stop = api.Stop{Mode: "freeze"}
	a := h.submit(elastic)
	h.running(a, 1)
	b := h.submit(elastic)
	fixed := h.sh(1, "true")
	c := h.submit(fixed)
	array := h.sh(1, "true")
	array.Array, array.Held = "1-2", true
	d := h.submit(array)
	refused(t, resize(a, 3), api.Invalid, "runs on 1 to 2 GPUs, not on 3")
	refused(t, resize(a, 0), api.Invalid, "runs on 1 to 2 GPUs, not on 0")
	refused(t, resize(a, 1.5), api.Invalid, "not on 1.5")
	refused(t, resize(a, 1), api.Conflict, "its way to stop is freeze")
	refused(t, resize(b, 1), api.Conflict, "is waiting: only a running job can be resized")
	refused(t, resize(d, 1), api.Invalid, "is an array: resize its jobs one by one")
	refused(t, resize("99", 1), api.Unknown, "there is no job 99")
	h.make("enough")
	h.until(a, api.Done)
	h.until(b, api.Done)
	h.until(c, api.Done)
	refused(t, resize(c, 1), api.Conflict, "has ended: it is done")

	e := h.submit(h.sh(1, awaits("e-ends")))
	h.running(e, 1)
	refused(t, resize(e, 2), api.Conflict, "was submitted for exactly 1 GPUs")
	h.do(server.Cancel, e)
	h.do(server.Cancel, d)
}

// A job is requeued, held and released; what makes no sense is refused.
func TestRequeueHoldRelease(t *testing.T) {
	t.Parallel()
	h := newHere(t, "fifo", 1, nil)
	a := h.submit(h.long("checkpoint", `trap "exit 75" TERM; touch up$NORN_RUN; `+awaits("enough")))
	h.made("up1")
	h.running(a, 1)
	refused(t, h.Do(background, h.me, server.Hold, a), api.Conflict, "is running: only a waiting job can be held; norn requeue takes it off its devices")
	refused(t, h.Do(background, h.me, server.Release, a), api.Conflict, "is not held, it is running")
	h.do(server.Requeue, a)
	h.made("up2")
	h.running(a, 2)
	thrown := h.last(a, eventlog.Evict)
	if thrown.Kept <= 0 {
		t.Errorf("it keeps %v of work, though it has saved all", thrown.Kept)
	}
	b := h.submit(h.sh(1, "true"))
	refused(t, h.Do(background, h.me, server.Requeue, b), api.Conflict, "does not run, it is waiting")
	h.do(server.Hold, b)
	if j := h.job(b); j.State != api.Held || j.Reason != "is held by "+h.me.User {
		t.Errorf("%+v", j)
	}
	h.do(server.Hold, b) // again: nothing happens
	if w := h.why(b); w.Unknown != "it is held" || fmt.Sprint(w.Frees) != "[norn release "+b+"]" {
		t.Errorf("%+v", w)
	}
	h.down()
	h.up()
	if j := h.job(b); j.State != api.Held || j.Reason != "is held by "+h.me.User {
		t.Errorf("after a restart: %+v", j)
	}
	h.make("enough")
	h.until(a, api.Done)
	if j := h.job(b); j.State != api.Held {
		t.Errorf("b is %s", j.State)
	}
	h.do(server.Release, b)
	h.until(b, api.Done)
	refused(t, h.Do(background, h.me, "explode", a), api.Conflict, "has ended")
	refused(t, h.Do(background, h.me, server.Cancel, "x"), api.Unknown, `there is no job "x"`)
}
