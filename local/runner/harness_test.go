//go:build linux

package runner

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/norn-scheduler/norn/local/cgroup"
	"github.com/norn-scheduler/norn/local/rundir"
)

// TestMain is also the norn program that tests launch, and the program of some
// tasks.
func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == Verb {
		os.Exit(Main(os.Args[2]))
	}
	switch os.Getenv("RUNNER_TEST") {
	case "":
		os.Exit(m.Run())
	case "eat": // takes memory without end
		for {
			b := make([]byte, 1<<20)
			for i := 0; i < len(b); i += 4096 {
				b[i] = 1
			}
			eaten = append(eaten, b)
		}
	case "headless": // goes on without its main thread
		var gone atomic.Bool
		for !gone.Load() {
			go func() {
				runtime.LockOSThread()
				if unix.Gettid() == os.Getpid() {
					gone.Store(true)
					unix.Syscall(unix.SYS_EXIT, 0, 0, 0)
				}
				select {}
			}()
			time.Sleep(5 * time.Millisecond)
		}
		time.Sleep(time.Hour)
	case "locks": // holds a lock, and has many threads
		lock, _ := os.Create(os.Getenv("WORK") + "/locks")
		unix.Flock(int(lock.Fd()), unix.LOCK_EX)
		for range 30 {
			go func() {
				runtime.LockOSThread()
				unix.Pause()
			}()
		}
		os.Rename(lock.Name(), os.Getenv("WORK")+"/ready")
		select {}
	case "parent": // launches a runner and is killed
		pid, err := Launch(os.Args[0], os.Getenv("RUNNER_DIR"))
		fmt.Println(pid, err)
		unix.Kill(os.Getpid(), unix.SIGKILL)
	}
}

var eaten [][]byte

// fixture is a run in a folder of its own.
type fixture struct {
	t    *testing.T
	dir  string
	work string // a folder for what its tasks write
	run  rundir.Run
	pids []int
	seq  int
}

// newRun describes a run of a shell script.
func newRun(t *testing.T, script string) *fixture {
	t.Helper()
	f := &fixture{t: t, dir: t.TempDir(), work: t.TempDir()}
	f.run = rundir.Run{
		Job: "17", Run: 1, Command: []string{"sh", "-c", script}, Dir: "/", Tasks: make([]rundir.Task, 1),
		Env: []string{
			"PATH=" + os.Getenv("PATH"), "WORK=" + f.work,
			rundir.EnvJob + "=17", rundir.EnvRun + "=1", rundir.EnvToken + "=" + f.dir,
		},
		LogBytes: 1 << 20, LogKeep: 2,
	}
	t.Cleanup(f.end)
	return f
}

// confined puts the run in a cgroup, if this machine permits.
func (f *fixture) confined() {
	f.t.Helper()
	if os.Geteuid() != 0 {
		f.t.Skip("needs root: only it may make cgroups")
	}
	parent := "/norn-test-" + strconv.Itoa(os.Getpid())
	m, notes := cgroup.Detect(parent)
	g, err := m.Create("probe", cgroup.Limits{})
	if err != nil {
		f.t.Fatal(err)
	}
	defer g.Remove()
	if !g.CanFreeze() {
		f.t.Skip(strings.Join(notes, "; "))
	}
	f.run.Parent, f.run.Cgroup = parent, "job-17-1"
	f.t.Cleanup(func() {
		f.end()
		if cgroup.Find(parent + "/job-17-1").Holds() {
			f.t.Error("its cgroup is still there")
		}
		if err := m.Remove(); err != nil {
			f.t.Error(err)
		}
	})
}

// end ends whatever is left, and complains if something is left of a run that has
// ended.
func (f *fixture) end() {
	f.t.Helper()
	l := leftover{status: &rundir.Status{}, marks: marksOf(f.run.Env, f.run.Job, f.run.Run)}
	var exit rundir.Exit
	if ok, _ := rundir.Read(f.dir, rundir.ExitFile, &exit); ok {
		if left, _, err := l.find(); len(left) > 0 || err != nil {
			f.t.Errorf("left of the run: %v, %v", numbers(left), err)
		}
	}
	for _, pid := range f.pids {
		unix.Kill(pid, unix.SIGKILL)
		syscall.Wait4(pid, nil, 0, nil)
	}
	f.pids = nil
	if err := Clean(f.dir); err != nil {
		f.t.Error(err)
	}
	if f.t.Failed() {
		for _, name := range []string{rundir.ExitFile, rundir.StatusFile, "runner.log", rundir.OutputFile} {
			b, _ := os.ReadFile(filepath.Join(f.dir, name))
			f.t.Logf("%s:\n%s", name, b[:min(len(b), 2000)])
		}
	}
}

// launch writes run.json and launches the runner.
func (f *fixture) launch() {
	f.t.Helper()
	if err := rundir.Write(f.dir, rundir.RunFile, f.run); err != nil {
		f.t.Fatal(err)
	}
	f.again()
}

// again launches a runner once more.
func (f *fixture) again() int {
	f.t.Helper()
	pid, err := Launch(os.Args[0], f.dir)
	if err != nil {
		f.t.Fatal(err)
	}
	f.pids = append(f.pids, pid)
	return pid
}

// wait waits for a runner that was launched, and returns its exit code.
func (f *fixture) wait(pid int) int {
	f.t.Helper()
	var ws syscall.WaitStatus
	for {
		if _, err := syscall.Wait4(pid, &ws, 0, nil); !errors.Is(err, syscall.EINTR) {
			if err != nil {
				f.t.Fatal(err)
			}
			f.pids = f.pids[1:]
			return ws.ExitStatus()
		}
	}
}

// eventually polls.
func (f *fixture) eventually(what string, ok func() bool) {
	f.t.Helper()
	for until := time.Now().Add(20 * time.Second); !ok(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(until) {
			f.t.Fatal("never: " + what)
		}
	}
}

// exit waits for the end of the run.
func (f *fixture) exit() rundir.Exit {
	f.t.Helper()
	var e rundir.Exit
	f.eventually("the end", func() bool { ok, _ := rundir.Read(f.dir, rundir.ExitFile, &e); return ok })
	return e
}

// status waits until the run is in a state.
func (f *fixture) status(state rundir.RunState) rundir.Status {
	f.t.Helper()
	var st rundir.Status
	f.eventually(string(state), func() bool {
		ok, _ := rundir.Read(f.dir, rundir.StatusFile, &st)
		return ok && st.State == state && st.Seq == f.seq
	})
	return st
}

// want tells the runner what is wanted.
func (f *fixture) want(state rundir.WantState, grace float64) {
	f.t.Helper()
	f.seq++
	w := rundir.Want{Seq: f.seq, State: state}
	w.Grace = seconds(grace)
	if err := rundir.Write(f.dir, rundir.WantFile, w); err != nil {
		f.t.Fatal(err)
	}
	if err := Poke(f.dir); err != nil {
		f.t.Fatal(err)
	}
}

// output is what the run has written.
func (f *fixture) output() string {
	b, _ := os.ReadFile(filepath.Join(f.dir, rundir.OutputFile))
	return string(b)
}

// made waits for a file that a task makes.
func (f *fixture) made(name string) {
	f.t.Helper()
	f.eventually(name, func() bool { _, err := os.Stat(filepath.Join(f.work, name)); return err == nil })
}

// make makes a file that a task waits for.
func (f *fixture) make(name string) {
	f.t.Helper()
	if err := os.WriteFile(filepath.Join(f.work, name), nil, 0o644); err != nil {
		f.t.Fatal(err)
	}
}
