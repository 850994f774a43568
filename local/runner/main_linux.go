package runner

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/norn-scheduler/norn/api"
	"github.com/norn-scheduler/norn/local/cgroup"
	"github.com/norn-scheduler/norn/local/rundir"
)

// Main runs the run in a folder, or waits to be told which (see Spare), and
// returns when nothing of it is left and exit.json is written. It is the whole of a process of its own, and returns its
// exit code. A run that another runner has, or that has ended, is left alone; one
// that another runner had begun and lost is cleaned up, and not begun again.
func Main(dir string) int {
	debug.SetGCPercent(25) // there is a runner for each running job
	// Tasks are killed when the thread ends that started them: it is this one.
	runtime.LockOSThread()
	if dir == waiting {
		var ok bool
		if dir, ok = await(); !ok {
			return 0
		}
	}
	up := rundir.Now()
	lock, err := rundir.Lock(dir)
	if errors.Is(err, rundir.ErrHeld) {
		return 0
	}
	if err != nil {
		complain(err)
		return 1
	}
	defer lock.Close()
	if has(dir, rundir.ExitFile) {
		return 0
	}
	r := &runner{dir: dir, lock: lock, clock: readClock(), status: rundir.Status{Up: up}, poked: make(chan os.Signal, 1), child: make(chan os.Signal, 1)}
	if ok, err := rundir.Read(dir, rundir.RunFile, &r.run); !ok && err == nil {
		complain(fmt.Errorf("%s: there is no run in this folder", dir))
		return 1
	} else if err != nil {
		r.exit = rundir.Exit{Cause: rundir.NotStarted, Error: err.Error(), Exit: api.Exit{Code: CannotRun}}
		return r.finish()
	}
	r.limits.wanted = r.run.Limits
	if _, ok := begun(dir); ok || has(dir, rundir.StatusFile) {
		return r.takeLost()
	}
	return r.main()
}

// has tells whether a folder has a file, or may have it.
func has(dir, name string) bool {
	_, err := os.Lstat(filepath.Join(dir, name))
	return !os.IsNotExist(err)
}

// complain writes to runner.log.
func complain(err error) { fmt.Fprintln(os.Stderr, time.Now().Format(time.RFC3339), err) }

// takeLost ends what a runner before this one has left.
func (r *runner) takeLost() int {
	if err := Clean(r.dir); err != nil {
		complain(err)
		return 1
	}
	r.exit = rundir.Exit{Cause: rundir.RunnerLost, Error: "the process that watched over it was lost"}
	return r.finish()
}

func (r *runner) main() int {
	signal.Notify(r.poked, unix.SIGUSR1)
	signal.Notify(r.child, unix.SIGCHLD)
	// Taken and dropped, as tasks would inherit what is ignored.
	signal.Notify(make(chan os.Signal, 1), unix.SIGTERM, unix.SIGINT, unix.SIGHUP)
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		complain(fmt.Errorf("orphans of the run cannot be taken in: %w", err))
	}
	self, err := StartTime(os.Getpid())
	if err != nil {
		complain(err)
	}
	r.status.PID, r.status.Start, r.status.Boot = os.Getpid(), self, BootID()
	if r.look(); r.want.State == rundir.Save || r.want.State == rundir.End {
		r.exit = rundir.Exit{Cause: rundir.Left, Asked: r.want.State, Seq: r.want.Seq}
		return r.finish()
	}
	r.log = newOutput(r.dir, &r.run)
	r.log.copyTo(&r.run)
	if err := r.start(); err != nil {
		r.exit = rundir.Exit{Cause: rundir.NotStarted, Error: err.Error(), Exit: api.Exit{Code: codeOf(err)}, Seq: r.want.Seq}
		r.leave = &leave{cause: rundir.NotStarted}
	} else {
		r.watch()
	}
	r.sweep()
	r.log.drain(2 * time.Second)
	r.conclude()
	return r.finish()
}

// start makes the cgroup and starts the tasks, all or none.
func (r *runner) start() error {
	r.confine()
	r.status.Port = freePort()
	if err := begin(r.lock, r.group); err != nil {
		complain(err)
	}
	first := r.startTasks
	if r.run.Restore != "" {
		first = r.restore
	}
	if err := r.bear(first); err != nil {
		return err
	}
	r.status.Isolation = r.isolation()
	if r.helper == nil {
		r.started()
	}
	return nil
}

// started notes that the tasks have started.
func (r *runner) started() {
	r.began = time.Now()
	r.status.Began, r.changed = rundir.Now(), true
	if r.leave == nil {
		r.status.State = rundir.Running
	}
}

// bear starts processes in the cgroup.
func (r *runner) bear(start func(fd int) ([]int, error)) error {
	if r.group != nil {
		return r.group.Bear(start)
	}
	_, err := start(-1)
	return err
}

// confine makes the cgroup of the run, and notes why there is none.
func (r *runner) confine() {
	l := &r.limits
	l.now = l.wanted
	if r.run.Cgroup == "" {
		l.none = "it is in no cgroup: CPU time, memory and devices are not limited"
		return
	}
	m, _ := cgroup.Detect(r.run.Parent)
	g, err := m.Create(r.run.Cgroup, cgroup.Limits{CPUs: l.now.CPUs, Memory: l.now.Memory, Weight: l.now.Weight, Hidden: r.run.Hidden})
	if err != nil {
		l.none = "CPU time, memory and devices are not limited: " + err.Error()
		return
	}
	r.group, r.status.Cgroup = g, g.Path()
}

// identity says whom the run runs as.
func (r *runner) identity() string {
	uid, gid := os.Geteuid(), os.Getegid()
	if u := r.run.User; u != nil {
		uid, gid = int(u.UID), int(u.GID)
	}
	return fmt.Sprintf("it runs as user %d, group %d", uid, gid)
}

// freePort is a port of the loopback that nobody listens on, below those that
// the kernel gives to outgoing connections. Runners that live at the same time
// begin to look at different places.
func freePort() int {
	const first, count = 20000, 12000
	for i := range count {
		port := first + (os.Getpid()+i)%count
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			break
		}
		err = unix.Bind(fd, &unix.SockaddrInet4{Port: port, Addr: [4]byte{127, 0, 0, 1}})
		unix.Close(fd)
		if err == nil {
			return port
		}
	}
	return 29500 // that of PyTorch
}

// sweep ends whatever the run has left, and returns when this process has no
// children any more. It waits for processes that cannot be ended because they
// are inside the kernel or belong to another user.
func (r *runner) sweep() {
	told := time.Now().Add(patience)
	for wait := time.Millisecond; ; wait = min(2*wait, time.Second) {
		if childless := r.reap(); childless && !r.holdsAny() {
			break
		}
		r.kill()
		select {
		case <-r.child:
		case <-time.After(wait):
		}
		if time.Now().After(told) {
			left, _ := descendants(os.Getpid())
			complain(fmt.Errorf("processes %v do not end", numbers(left)))
			told = told.Add(10 * time.Minute)
		}
	}
}

// holdsAny tells whether there are processes in the cgroup.
func (r *runner) holdsAny() bool {
	if r.group == nil {
		return false
	}
	pids, err := r.group.Procs()
	return err == nil && len(pids) > 0
}

// kill kills all processes of the run; sweep tells of those that do not end.
func (r *runner) kill() {
	if r.group != nil && r.group.Holds() {
		r.group.Kill()
	}
	all, _ := descendants(os.Getpid())
	for _, p := range all {
		signalTo(p.Proc, syscall.SIGKILL)
	}
}

// finish writes exit.json, however long the disk is full, and tells the daemon.
func (r *runner) finish() int {
	if r.group != nil {
		if err := r.group.Remove(); err != nil {
			complain(err)
		}
	}
	r.exit.Ended = rundir.Now()
	for wait := 10 * time.Millisecond; ; wait = min(2*wait, 5*time.Second) {
		err := rundir.Write(r.dir, rundir.ExitFile, &r.exit)
		if err == nil {
			break
		}
		complain(err)
		if _, gone := os.Stat(r.dir); os.IsNotExist(gone) {
			return 1
		}
		time.Sleep(wait)
	}
	r.notify()
	return 0
}

// notify sends the datagram that says that something has changed.
func (r *runner) notify() {
	if r.run.Notify == "" {
		return
	}
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return
	}
	defer unix.Close(fd)
	text := r.run.Job + " " + strconv.Itoa(r.run.Run)
	unix.Sendto(fd, []byte(text), unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, &unix.SockaddrUnix{Name: r.run.Notify}) // who is not there finds the file
}
