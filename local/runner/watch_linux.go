package runner

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/norn-scheduler/norn/api"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/local/cgroup"
	"github.com/norn-scheduler/norn/local/rundir"
)

// runner watches over a run. All of it but the output belongs to one thread.
type runner struct {
	dir   string
	lock  *os.File
	run   rundir.Run
	log   *output
	group *cgroup.Group // nil: it is in none
	poked chan os.Signal
	child chan os.Signal // one has ended

	tasks  []*task
	helper *helper // nil: none is at work
	want   rundir.Want
	looked time.Time // when want.json was read
	pause  pause
	limits limits
	clock  clock
	leave  *leave // nil: it stays

	status  rundir.Status
	changed bool // status.json is to be written
	began   time.Time
	first   *api.Exit // of the first task that failed
	exit    rundir.Exit
}

// pause is how the run is stopped in memory, for good or for its part of a period.
type pause struct {
	wanted bool                 // for good
	begun  bool                 // it was told to stop
	done   bool                 // it has stopped
	since  time.Time            // when it stopped for good; zero: it has not
	total  time.Duration        // that it was stopped for good before
	wait   time.Duration        // until one looks again whether it is done
	told   map[rundir.Proc]bool // to stop, by a signal
}

// leave is how the run leaves.
type leave struct {
	cause  rundir.Cause
	asked  rundir.WantState
	signal syscall.Signal // that told the tasks
	kill   time.Time      // when what is left is killed
}

// spans of the runner.
const (
	pollWant   = 2 * time.Second  // between looks at want.json, should a signal be lost
	gangGrace  = 5 * time.Second  // for the other tasks when one has failed
	limitGrace = 10 * time.Second // at the time limit
	rekill     = time.Second      // between SIGKILLs

	longestWait = 64 * time.Millisecond // between looks whether a run has frozen
)

// watch returns when all tasks have ended.
func (r *runner) watch() {
	timer := time.NewTimer(0)
	for {
		now := time.Now()
		r.reap()
		if now.Sub(r.looked) >= pollWant {
			r.look()
		}
		r.follow()
		r.regulate(now)
		next := r.press(now)
		if r.over() {
			if r.status.State == rundir.Running { // or it was so short that nobody has been told
				r.tell()
			}
			return
		}
		next = min(next, r.settle(now))
		if r.tell() {
			continue
		}
		timer.Reset(max(0, next))
		select {
		case <-r.poked:
			r.look()
		case <-r.child:
		case <-timer.C:
		}
	}
}

// over tells whether nothing of the run is at work.
func (r *runner) over() bool {
	for _, t := range r.tasks {
		if !t.over() {
			return false
		}
	}
	return r.helper == nil
}

// look reads what the daemon wants.
func (r *runner) look() {
	r.looked = time.Now()
	var w rundir.Want
	if ok, err := rundir.Read(r.dir, rundir.WantFile, &w); err != nil {
		complain(err)
	} else if ok && (w.Seq > r.want.Seq || r.want.State == "") {
		r.want = w
	}
	var l rundir.Limits
	if ok, err := rundir.Read(r.dir, rundir.LimitsFile, &l); err != nil {
		complain(err)
	} else if ok {
		r.limits.wanted = l
	}
	r.lookAtOwn()
}

// lookAtOwn sees to it that status.json is there and whole: a daemon that starts knows
// this process by nothing else.
func (r *runner) lookAtOwn() {
	if r.changed || r.status.State == "" {
		return
	}
	if ok, err := rundir.Read(r.dir, rundir.StatusFile, new(rundir.Status)); !ok || err != nil {
		complain(fmt.Errorf("status.json is written anew: there %v, %w", ok, err))
		r.changed = true
	}
}

// follow does what is wanted, once.
func (r *runner) follow() {
	if r.want.State == "" || r.want.Seq == r.status.Seq && r.want.State != rundir.Freeze {
		return
	}
	grace := r.want.Grace.Duration()
	switch r.want.State {
	case rundir.Save, rundir.End:
		r.status.Seq = r.want.Seq
		r.changed = true
		switch {
		case r.leave != nil: // it leaves already; it may have to be quicker now
			r.leave.asked = r.want.State
			if kill := time.Now().Add(grace); kill.Before(r.leave.kill) {
				r.leave.kill = kill
			}
			if r.want.State == rundir.End {
				r.tellTasks(syscall.SIGTERM)
			}
		case r.want.State == rundir.Save:
			r.save(grace)
		default:
			r.depart(rundir.Left, syscall.SIGTERM, grace)
		}
		r.leave.asked = r.want.State
	case rundir.Freeze:
		r.pause.wanted = r.leave == nil
	default:
		r.pause.wanted = false
		if !r.pause.begun && r.leave == nil {
			r.status.Seq, r.changed = r.want.Seq, true
		}
	}
}

// depart tells the tasks to end, and sets the time when they are killed. Without
// any time they are killed unasked.
func (r *runner) depart(cause rundir.Cause, sig syscall.Signal, grace time.Duration) {
	r.leave = &leave{cause: cause, kill: time.Now().Add(grace)}
	r.status.State, r.changed = rundir.Leaving, true
	r.pause.wanted = false
	if grace > 0 {
		if sig != 0 {
			r.tellTasks(sig)
		}
		r.thaw()
	}
}

// tellTasks sends a signal to what does the work of each task.
func (r *runner) tellTasks(sig syscall.Signal) {
	r.leave.signal = sig
	for _, t := range r.tasks {
		if !t.ended {
			r.send(t.PID, sig)
		}
		for pid := range t.successors {
			r.send(pid, sig)
		}
	}
}

// send sends a signal to a child that has not been waited for.
func (r *runner) send(pid int, sig syscall.Signal) {
	if err := unix.Kill(pid, sig); err != nil && !errors.Is(err, unix.ESRCH) {
		complain(fmt.Errorf("signal to process %d: %w", pid, err))
	}
}

// press sees to it that a limit on time is kept, and kills when the time to leave
// is over. It returns how long it may wait.
func (r *runner) press(now time.Time) time.Duration {
	next := pollWant
	if limit := r.run.Limit.Duration(); limit > 0 && r.leave == nil && !r.began.IsZero() {
		if left := limit - r.ran(now); left > 0 {
			next = min(next, left)
		} else {
			r.depart(rundir.TimeLimit, syscall.SIGTERM, limitGrace)
		}
	}
	if r.leave == nil || r.over() {
		return next
	}
	if left := r.leave.kill.Sub(now); left > 0 {
		return min(next, left)
	}
	if r.reap(); r.over() { // it has ended by itself in the last moment
		return 0
	}
	r.exit.Killed = true
	r.kill()
	r.thaw()
	r.leave.kill = now.Add(rekill)
	return rekill
}

// ran is for how long the run has run; time in which it is frozen does not count, but
// for the turns of others.
func (r *runner) ran(now time.Time) time.Duration {
	ran := now.Sub(r.began) - r.pause.total
	if !r.pause.since.IsZero() {
		ran -= now.Sub(r.pause.since)
	}
	return ran
}

// tell writes status.json when it has changed, and then tells whether something
// else is wanted: it may have been written before there was a runner to poke.
// Should the disk be full it tries again.
func (r *runner) tell() (wanted bool) {
	if !r.changed || r.status.State == "" {
		return false
	}
	if err := rundir.Write(r.dir, rundir.StatusFile, &r.status); err != nil {
		complain(err)
		return false
	}
	r.changed = false
	r.notify()
	seq := r.want.Seq
	r.look()
	return r.want.Seq != seq
}

// reap takes note of children that have ended, and tells whether there are none
// any more.
func (r *runner) reap() (childless bool) {
	for {
		var ws syscall.WaitStatus
		var ru syscall.Rusage
		pid, err := syscall.Wait4(-1, &ws, syscall.WNOHANG, &ru)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil:
			return errors.Is(err, syscall.ECHILD)
		case pid == 0:
			return false
		default:
			r.ended(pid, ws, &ru)
		}
	}
}

// ended takes note of the end of a child: a task, a successor, a helper, or an orphan.
func (r *runner) ended(pid int, ws syscall.WaitStatus, ru *syscall.Rusage) {
	if r.helper != nil && r.helper.pid == pid {
		h := r.helper
		r.helper = nil
		h.done(ws)
		return
	}
	r.exit.CPUTime += time.Duration(ru.Utime.Nano() + ru.Stime.Nano()).Seconds()
	r.exit.MaxRSS = max(r.exit.MaxRSS, api.Bytes(ru.Maxrss)<<10)
	for _, t := range r.tasks {
		successor := t.successors[pid]
		if pid != t.PID && !successor {
			continue
		}
		delete(t.successors, pid)
		t.ended = t.ended || !successor
		r.inherit(t, ws)
		// A successor that ends well has not done what the main process had yet to do.
		if code, sig := exitOf(ws); !successor || code != 0 && sig == "" {
			t.exit.Code, t.exit.Signal = code, sig
		}
		if t.over() {
			r.lostTask(t)
		}
		return
	}
}

// inherit passes the signal that told a task to leave, and of which its main
// process or a successor ended, on to the children of that: they do its work.
func (r *runner) inherit(t *task, ws syscall.WaitStatus) {
	if r.leave == nil || r.leave.signal == 0 || !ws.Signaled() || ws.Signal() != r.leave.signal {
		return
	}
	all, err := processes()
	if err != nil {
		complain(err)
	}
	for _, p := range all {
		if p.parent == os.Getpid() && p.group == t.PID && p.PID != t.PID && !p.ended() && !t.successors[p.PID] {
			if t.successors == nil {
				t.successors = map[int]bool{}
			}
			t.successors[p.PID] = true
			r.send(p.PID, r.leave.signal)
		}
	}
}

// lostTask ends the gang when a task has failed.
func (r *runner) lostTask(t *task) {
	if t.exit.Code == 0 {
		return
	}
	if r.first == nil {
		r.first = &t.exit
	}
	if r.leave == nil && !r.over() {
		r.depart(rundir.Exited, syscall.SIGTERM, gangGrace)
	}
}

// conclude says how the run ended.
func (r *runner) conclude() {
	e := &r.exit
	if e.Cause == "" {
		e.Cause = rundir.Exited
	}
	if r.leave != nil {
		e.Cause, e.Asked = r.leave.cause, r.leave.asked
	}
	e.Seq = r.status.Seq
	if e.Cause == rundir.NotStarted {
		return
	}
	for _, t := range r.tasks {
		e.Tasks = append(e.Tasks, t.exit)
	}
	switch {
	case e.Images:
		e.Exit.Note = "CRIU has saved it"
	case r.first != nil:
		e.Exit = *r.first
		e.Exit.Note = r.outOfMemory()
	}
}

// outOfMemory says that memory ran out, if the kernel killed for it.
func (r *runner) outOfMemory() string {
	if r.group == nil {
		return ""
	}
	switch oom := r.group.OOM(); {
	case oom.Kills == 0:
		return ""
	case oom.Limit && r.limits.now.Memory > 0:
		return "out of memory: it used its limit of " + unit.Bytes(r.limits.now.Memory).String()
	}
	return "out of memory: the machine had none left"
}
