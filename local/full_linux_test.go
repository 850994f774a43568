package local_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/norn-scheduler/norn/api"
	"github.com/norn-scheduler/norn/api/server"
	"github.com/norn-scheduler/norn/internal/longtest"
	"github.com/norn-scheduler/norn/local"
	"github.com/norn-scheduler/norn/local/rundir"
)

// deafen lets nothing be told to a run from now on: its file cannot be replaced.
func (h *here) deafen(id string, run int) (undo func()) {
	h.t.Helper()
	inTheWay := filepath.Join(h.runDir(id, run), "."+rundir.WantFile)
	if err := os.Mkdir(inTheWay, 0o700); err != nil {
		h.t.Fatal(err)
	}
	return func() {
		if err := os.Remove(inTheWay); err != nil {
			h.t.Fatal(err)
		}
	}
}

// A request that was answered is carried out, even if the run could not be told
// at first: by this daemon, by the next one, and in a log that begins
// meanwhile.
func TestIntentionsAreKept(t *testing.T) {
	longtest.Skip(t)
	for name, between := range map[string]func(*here){
		"goes on":   func(*here) {},
		"restarted": func(h *here) { h.down(); h.up() },
		"twice":     func(h *here) { h.down(); h.up(); h.down(); h.up() },
		"new log": func(h *here) {
			if err := h.SetPolicy(background, h.me, "srtf"); err != nil {
				h.t.Fatal(err)
			}
			h.down()
			h.up()
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHere(t, "fifo", 4, nil)
			spec := h.sh(1, "touch up-$NORN_JOB-$NORN_RUN; "+awaits("enough"))
			elastic := h.sh(1, "trap 'exit 75' TERM; touch up-$NORN_JOB-$NORN_RUN; "+awaits("enough"))
			elastic.GPUs, elastic.Stop = api.Range{Least: 1, Most: 2, Ask: 1}, api.Stop{Mode: "checkpoint", Grace: 20}
			cancelled, requeued, resized := h.submit(spec), h.submit(spec), h.submit(elastic)
			var undo []func()
			for _, id := range []string{cancelled, requeued, resized} {
				h.made("up-" + id + "-1")
				h.running(id, 1)
				undo = append(undo, h.deafen(id, 1))
			}
			h.do(server.Cancel, cancelled)
			h.do(server.Requeue, requeued)
			if err := h.Resize(background, h.me, resized, api.Resize{GPUs: 2}); err != nil {
				t.Fatal(err)
			}
			between(h)
			if j := h.job(cancelled); j.State != api.Stopping || !strings.HasPrefix(j.Reason, "is leaving its devices: "+h.me.User+" cancelled it") {
				t.Errorf("job %s is %s (%s)", cancelled, j.State, j.Reason)
			}
			for _, f := range undo {
				f()
			}
			if j := h.until(cancelled, api.Cancelled); j.Run != 1 {
				t.Errorf("%+v", j)
			}
			h.made("up-" + requeued + "-2")
			if j := h.job(requeued); j.Preemptions+j.Failures != 0 && j.Run != 2 {
				t.Errorf("%+v", j)
			}
			h.made("up-" + resized + "-2")
			if j := h.job(resized); len(j.Devices) != 2 {
				t.Errorf("%+v", j)
			}
			h.make("enough")
			h.until(requeued, api.Done)
			h.until(resized, api.Done)
		})
	}
}

// A run that was decided on, and that the daemon did not come to launch before it was
// cancelled or requeued and died, is not launched by the next one.
func TestCancelledBeforeItsLaunch(t *testing.T) {
	longtest.Skip(t)
	t.Parallel()
	h := newHere(t, "fifo", 2, nil)
	cancelled, requeued := h.submit(h.sh(1, "touch up-$NORN_JOB; sleep 1000")), h.submit(h.sh(1, "touch up-$NORN_JOB; "+awaits("enough")))
	for _, id := range []string{cancelled, requeued} {
		h.made("up-" + id)
		h.running(id, 1)
		h.deafen(id, 1)
	}
	h.do(server.Cancel, cancelled)
	h.do(server.Requeue, requeued)
	h.down()
	endRuns(t, h.setup.State)
	if err := os.RemoveAll(filepath.Join(h.setup.State, "runs")); err != nil { // as if they had never been made
		t.Fatal(err)
	}
	h.up()
	if j := h.until(cancelled, api.Cancelled); j.Run != 0 {
		t.Errorf("%+v", j)
	}
	h.running(requeued, 1)
	if life := strings.Join(h.why(requeued).Life, "\n"); !strings.Contains(life, "is thrown back: it was requeued") {
		t.Errorf("its life: %s", life)
	}
	h.make("enough")
	h.until(requeued, api.Done)
}

// asksOnly checks that a daemon answers what it is asked, and changes nothing.
func (h *here) asksOnly(running, ended string) {
	h.t.Helper()
	const why = "it can be asked, but nothing is taken in, started or changed until there is room"
	if j := h.job(running); j.State != api.Running || len(j.Devices) != 1 {
		h.t.Errorf("%+v", j)
	}
	if j := h.job(ended); j.State != api.Done {
		h.t.Errorf("%+v", j)
	}
	if all, err := h.Jobs(background, h.me, api.Query{}); err != nil || len(all) != 1 {
		h.t.Errorf("%+v, %v", all, err)
	}
	if w := h.why(running); !strings.HasPrefix(w.Reason, "runs since") {
		h.t.Errorf("%+v", w)
	}
	s, err := h.Status(background)
	if err != nil || s.Running != 1 || len(s.Trouble) == 0 || !strings.Contains(s.Trouble[0], why) {
		h.t.Errorf("%+v, %v", s, err)
	}
	if m, err := h.Metrics(background); err != nil || m.LogBytes == 0 {
		h.t.Errorf("%+v, %v", m, err)
	}
	var log bytes.Buffer
	if err := h.Log(background, h.me, &log); err != nil || !strings.Contains(log.String(), `"submit"`) {
		h.t.Errorf("%q, %v", log.String(), err)
	}
	if out, err := h.Output(background, h.me, ended, 0); err != nil {
		h.t.Error(err)
	} else {
		out.Close()
	}
	_, err = h.Submit(background, h.me, h.sh(1, "true"))
	refused(h.t, err, api.Unavailable, why)
	refused(h.t, h.Do(background, h.me, server.Cancel, running), api.Unavailable, why)
	refused(h.t, h.Resize(background, h.me, running, api.Resize{GPUs: 1}), api.Unavailable, why)
	refused(h.t, h.Drain(background, h.me, api.Drain{}), api.Unavailable, why)
	refused(h.t, h.SetPolicy(background, h.me, "srtf"), api.Unavailable, why)
	refused(h.t, h.Ready(), api.Unavailable, why)
}

// A daemon that finds no room for a new log can be asked and changes nothing; when there
// is room it goes on.
func TestNoRoomForALog(t *testing.T) {
	longtest.Skip(t)
	t.Parallel()
	if _, err := os.Stat("/dev/full"); err != nil {
		t.Skip("there is no /dev/full here: ", err)
	}
	h := newHere(t, "fifo", 2, nil)
	a, b := h.submit(h.sh(1, "touch up; "+awaits("enough"))), h.submit(h.sh(1, "true"))
	h.made("up")
	h.running(a, 1)
	h.until(b, api.Done)
	h.down()
	full := filepath.Join(h.setup.State, "events", "000002.log.new")
	if err := os.Symlink("/dev/full", full); err != nil {
		t.Fatal(err)
	}
	h.up()
	h.asksOnly(a, b)
	h.down() // it may end, too, and the next one stands as it did
	h.up()
	h.asksOnly(a, b)
	h.make("enough") // what ends meanwhile is found later
	if err := os.Remove(full); err != nil {
		t.Fatal(err)
	}
	until(t, "it goes on", func() bool { return h.Ready() == nil })
	if j := h.until(a, api.Done); j.Run != 1 {
		t.Errorf("%+v", j)
	}
	h.until(h.submit(h.sh(1, "true")), api.Done)
	if s, err := h.Status(background); err != nil || len(s.Trouble) > 0 {
		t.Errorf("%+v, %v", s, err)
	}
}

// smallDisk mounts a disk of one MiB.
func smallDisk(t *testing.T) string {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("only root can mount a disk of one MiB to fill")
	}
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=1m"); err != nil {
		t.Skip("no disk of one MiB can be mounted to fill: ", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// fill takes all the room of a disk, and gives it back.
func fill(t *testing.T, dir string) (undo func()) {
	t.Helper()
	path := filepath.Join(dir, "ballast")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for err == nil {
		_, err = f.Write(make([]byte, 512))
	}
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
	return func() {
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
}

// On a disk that is really full: a cancellation that was answered with success comes
// about, or the daemon ends and said that it could not note it; the next one starts,
// and goes on when there is room.
func TestFullDisk(t *testing.T) {
	longtest.Skip(t)
	t.Parallel()
	disk := smallDisk(t)
	h := newHereAt(t, filepath.Join(disk, "s"), "fifo", 2, func(o *local.Options) { o.Limits.Reserve, o.Limits.Refuse = 0, 0 })
	a, b := h.submit(h.sh(1, "touch up; "+awaits("enough"))), h.submit(h.sh(1, "true"))
	h.made("up")
	h.running(a, 1)
	h.until(b, api.Done)
	free := fill(t, disk)
	told := h.Do(background, h.me, server.Cancel, a)
	h.stop()
	if err := <-h.ended; err != nil && told == nil {
		t.Errorf("it was cancelled with success, and the daemon ended with %v", err)
	}
	h.Close()
	h.Daemon = nil
	h.up()
	if s, err := h.Status(background); err != nil || len(s.Trouble) == 0 {
		t.Errorf("%+v, %v", s, err)
	}
	if j := h.job(a); j.State != api.Running && (told != nil || j.State != api.Stopping) {
		t.Errorf("%+v", j)
	}
	free()
	until(t, "it goes on", func() bool { return h.Ready() == nil })
	if told == nil {
		h.until(a, api.Cancelled)
	} else {
		h.make("enough")
		h.until(a, api.Done)
	}
}

// A disk that becomes full while the daemon runs does not end it: it can be asked, refuses
// every change, and goes on when there is room. Decisions that it could not write have not
// happened.
func TestFullWhileUp(t *testing.T) {
	longtest.Skip(t)
	t.Parallel()
	disk := smallDisk(t)
	h := newHereAt(t, filepath.Join(disk, "s"), "fifo", 2, func(o *local.Options) { o.Limits.Reserve, o.Limits.Refuse = 0, 0 })
	a := h.submit(h.sh(1, "touch up; "+awaits("enough")))
	h.made("up")
	h.running(a, 1)
	b := h.submit(h.sh(2, "true"))
	h.down()
	opt, err := h.setup.options()
	if err != nil {
		t.Fatal(err)
	}
	open := func() (*local.Daemon, error) { return local.Open(opt) }
	d, err := open()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(background)
	ended := make(chan error, 1)
	var to server.Switch
	to.Set(d)
	begun := 1
	go func() {
		ended <- local.Keep(ctx, d, func() (*local.Daemon, error) {
			next, err := open()
			if err == nil {
				to.Set(next)
				begun++
			}
			return next, err
		})
	}()
	until(t, "it is ready", func() bool { return to.Ready() == nil })
	watched, err := to.Watch(ctx, h.me, 0)
	if err != nil {
		t.Fatal(err)
	}
	free := fill(t, disk)
	until(t, "it has no room", func() bool {
		for range 10 { // until the last page of the log is full
			to.Do(ctx, h.me, server.Hold, b)
			to.Do(ctx, h.me, server.Release, b)
		}
		s, err := to.Status(ctx)
		return err == nil && len(s.Trouble) > 0 && strings.Contains(s.Trouble[0], "is full: it can be asked")
	})
	_, err = to.Submit(ctx, h.me, h.held())
	refused(t, err, api.Unavailable, "is full: it can be asked")
	for range watched { // who watched is sent away, and may come again
	}
	all, err := to.Jobs(ctx, h.me, api.Query{IDs: []string{a}})
	if err != nil || len(all) != 1 || all[0].State != api.Running {
		t.Errorf("%+v, %v", all, err)
	}
	free()
	until(t, "it goes on", func() bool { return to.Ready() == nil })
	h.make("enough")
	until(t, "the job ends", func() bool {
		all, err := to.Jobs(ctx, h.me, api.Query{IDs: []string{a}})
		return err == nil && len(all) == 1 && all[0].State == api.Done && all[0].Run == 1
	})
	if _, err := to.Submit(ctx, h.me, h.held()); err != nil {
		t.Error(err)
	}
	to.Do(ctx, h.me, server.Release, b)
	until(t, "the other one ends", func() bool {
		all, err := to.Jobs(ctx, h.me, api.Query{IDs: []string{b}})
		return err == nil && len(all) == 1 && all[0].State == api.Done
	})
	cancel()
	if err := <-ended; err != nil || begun < 2 {
		t.Errorf("it ended with %v, and was opened %d times", err, begun)
	}
}

// A run of which no message comes any more, and whose runner does not end, is looked at
// all the same: nothing stalls for ever.
func TestNoMessageComes(t *testing.T) {
	longtest.Skip(t)
	t.Parallel()
	h := newHere(t, "fifo", 1, nil)
	a := h.submit(h.sh(1, "touch up; "+awaits("enough")+"; touch over"))
	h.made("up")
	h.running(a, 1)
	var s rundir.Status
	if ok, err := rundir.Read(h.runDir(a, 1), rundir.StatusFile, &s); !ok || err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(s.PID, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	defer syscall.Kill(s.PID, syscall.SIGCONT)
	if err := rundir.Write(h.runDir(a, 1), rundir.ExitFile, rundir.Exit{Ended: rundir.Now(), Cause: rundir.Exited, Tasks: make([]api.Exit, 1)}); err != nil {
		t.Fatal(err)
	}
	h.until(a, api.Done)
	h.make("enough")
	h.made("over") // or the job would wait for ever in a folder that is gone
	if err := syscall.Kill(s.PID, syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	h.gone(a, 1) // or the runner would write into the folder while it is removed
}
