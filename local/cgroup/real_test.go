//go:build linux

package cgroup

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/containerd/cgroups/v3"
	"golang.org/x/sys/unix"

	"github.com/norn-scheduler/norn/api"
)

// TestMain is also the program that tests start: it does what its environment
// says.
func TestMain(m *testing.M) {
	switch os.Getenv("CGROUP_TEST") {
	case "": // the tests themselves
		os.Exit(m.Run())
	case "eat": // takes memory without end
		for n := 0; ; n++ {
			b := make([]byte, 1<<20)
			for i := 0; i < len(b); i += 4096 {
				b[i] = 1
			}
			eaten = append(eaten, b)
		}
	case "hold": // holds 128 MiB
		for range 128 {
			b := make([]byte, 1<<20)
			for i := 0; i < len(b); i += 4096 {
				b[i] = 1
			}
			eaten = append(eaten, b)
		}
		fmt.Println()
		time.Sleep(time.Hour)
	case "open": // opens the device that is named
		f, err := os.OpenFile(os.Getenv("DEVICE"), os.O_WRONLY, 0)
		if err != nil {
			os.Exit(3)
		}
		f.Close()
	case "isolation":
		_, notes := Detect("")
		fmt.Println(strings.Join(notes, "\n"))
	}
}

var eaten [][]byte

// trees are those of this machine that can be tried.
func trees(t *testing.T) map[string]tree {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: only it may make cgroups")
	}
	own, unified, err := cgroups.ParseCgroupFileUnified("/proc/self/cgroup")
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]tree{}
	switch cgroups.Mode() {
	case cgroups.Unified:
		all["v2"] = &v2{root: root, own: unified, super: true}
	case cgroups.Hybrid: // version 2 without controllers: all but the limits can be tried
		all["v2"] = &v2{root: filepath.Join(root, "unified"), own: unified, super: true}
		fallthrough
	case cgroups.Legacy:
		all["v1"] = &v1{root: root, own: own}
	default:
		t.Skip("this machine has no cgroups")
	}
	return all
}

// forEach runs a test with a manager of each version, and sees to it that
// nothing is left.
func forEach(t *testing.T, test func(t *testing.T, m *Manager)) {
	for name, tr := range trees(t) {
		t.Run(name, func(t *testing.T) {
			m := detect(tr, "/norn-test-"+strconv.Itoa(os.Getpid()))
			if m.lacks[freezer] != "" {
				t.Skip("this machine does not let us make cgroups: " + m.lacks[freezer])
			}
			t.Cleanup(func() {
				if err := m.Remove(); err != nil {
					t.Error(err)
				}
			})
			test(t, m)
		})
	}
}

// group makes a group that is gone when the test ends.
func group(t *testing.T, m *Manager, l Limits) *Group {
	t.Helper()
	g, err := m.Create("job-1-1", l)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := g.KillAll(20 * time.Second); err != nil {
			t.Error(err)
		}
		if err := g.Remove(); err != nil {
			t.Error(err)
		}
		if g.Holds() {
			t.Errorf("%s is still there", g.path)
		}
	})
	return g
}

// bear starts a program in a group; what it writes can be read.
func bear(t *testing.T, g *Group, env []string, args ...string) (pid int, out *os.File) {
	t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	t.Cleanup(func() { r.Close() })
	err = g.Bear(func(fd int) ([]int, error) {
		attr := &syscall.ProcAttr{Env: append(os.Environ(), env...), Files: []uintptr{0, w.Fd(), w.Fd()}, Sys: &syscall.SysProcAttr{}}
		if fd >= 0 {
			attr.Sys.UseCgroupFD, attr.Sys.CgroupFD = true, fd
		}
		pid, err = syscall.ForkExec(args[0], args, attr)
		return []int{pid}, err
	})
	if err != nil {
		t.Fatal(err)
	}
	return pid, r
}

// wait is how a process ended.
func wait(t *testing.T, pid int) syscall.WaitStatus {
	t.Helper()
	var ws syscall.WaitStatus
	for {
		if _, err := syscall.Wait4(pid, &ws, 0, nil); err != syscall.EINTR {
			if err != nil {
				t.Fatal(err)
			}
			return ws
		}
	}
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for until := time.Now().Add(20 * time.Second); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(until) {
			t.Fatal("never: " + what)
		}
	}
}

func TestBirth(t *testing.T) {
	forEach(t, func(t *testing.T, m *Manager) {
		before, err := os.ReadFile("/proc/thread-self/cgroup")
		if err != nil {
			t.Fatal(err)
		}
		g := group(t, m, Limits{})
		pid, out := bear(t, g, nil, "/bin/cat", "/proc/self/cgroup")
		text, _ := io.ReadAll(out)
		wait(t, pid)
		if !strings.Contains(string(text), m.parent+"/job-1-1") {
			t.Errorf("born in\n%s", text)
		}
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		if after, _ := os.ReadFile("/proc/thread-self/cgroup"); string(after) != string(before) {
			t.Errorf("this thread was in\n%sand is now in\n%s", before, after)
		}
	})
}

// Where a process cannot be born in its group it is moved there.
func TestMoved(t *testing.T) {
	for name, tr := range trees(t) {
		if old, ok := tr.(*v1); ok {
			t.Run(name, func(t *testing.T) {
				tr := &v1{root: old.root, own: map[string]string{"freezer": "/norn-no-such-group"}} // no way back for the thread
				m := detect(tr, "/norn-test-"+strconv.Itoa(os.Getpid()))
				t.Cleanup(func() { m.Remove() })
				g := group(t, m, Limits{})
				if !g.CanFreeze() {
					t.Skip(g.Isolation())
				}
				pid, _ := bear(t, g, nil, "/bin/sleep", "1000")
				if pids, err := g.Procs(); err != nil || len(pids) != 1 || pids[0] != pid {
					t.Error(pids, err)
				}
				if err := g.KillAll(20 * time.Second); err != nil {
					t.Error(err)
				}
				wait(t, pid)
			})
		}
	}
}

func TestFreeze(t *testing.T) {
	forEach(t, func(t *testing.T, m *Manager) {
		g := group(t, m, Limits{})
		if !g.CanFreeze() {
			t.Skip(g.Isolation())
		}
		_, out := bear(t, g, nil, "/bin/sh", "-c", "while :; do echo on; done")
		buf := make([]byte, 1<<20)
		read := func() int { n, _ := out.Read(buf); return n }
		if read() == 0 {
			t.Fatal("it does not run")
		}
		if err := g.Freeze(); err != nil {
			t.Fatal(err)
		}
		eventually(t, "frozen", func() bool { g.Freeze(); ok, err := g.Frozen(); return ok && err == nil })
		// The pipe is emptied; what is frozen does not fill it again.
		out.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
		for read() > 0 {
		}
		out.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
		if n := read(); n > 0 {
			t.Errorf("%d bytes written while frozen", n)
		}
		if err := g.Thaw(); err != nil {
			t.Fatal(err)
		}
		out.SetReadDeadline(time.Now().Add(20 * time.Second))
		if read() == 0 {
			t.Error("it does not go on")
		}
		if ok, _ := g.Frozen(); ok {
			t.Error("still frozen")
		}
	})
}

// A process that has left its parent, its process group and its session is
// still confined. It ends although it is frozen and ignores signals.
func TestKillAll(t *testing.T) {
	forEach(t, func(t *testing.T, m *Manager) {
		g := group(t, m, Limits{})
		pid, out := bear(t, g, nil, "/bin/sh", "-c", `trap "" TERM; setsid sh -c 'sleep 1000 & sleep 1000' & echo; wait`)
		out.Read(make([]byte, 1))
		eventually(t, "four processes", func() bool { pids, _ := g.Procs(); return len(pids) == 4 })
		if _, err := m.Create("job-1-1", Limits{}); err == nil {
			t.Error("a group in use can be made again")
		}
		if g.CanFreeze() {
			g.Freeze()
		}
		if err := g.KillAll(20 * time.Second); err != nil {
			t.Fatal(err)
		}
		if pids, err := g.Procs(); len(pids) > 0 || err != nil {
			t.Error(pids, err)
		}
		if ws := wait(t, pid); !ws.Signaled() || ws.Signal() != syscall.SIGKILL {
			t.Errorf("ended with %v", ws)
		}
	})
}

// A group below the group goes, too.
func TestRemoveDeep(t *testing.T) {
	forEach(t, func(t *testing.T, m *Manager) {
		g := group(t, m, Limits{})
		deep := filepath.Join(m.tree.folders(g.path)[0], "a", "b")
		if err := os.MkdirAll(deep, 0o755); err != nil {
			t.Fatal(err)
		}
		pid, _ := bear(t, g, nil, "/bin/sleep", "1000")
		if err := write(deep, "cgroup.procs", strconv.Itoa(pid)); err != nil {
			t.Fatal(err)
		}
		if pids, err := g.Procs(); len(pids) != 1 || err != nil {
			t.Error(pids, err)
		}
		if err := g.KillAll(20 * time.Second); err != nil {
			t.Fatal(err)
		}
		wait(t, pid)
	})
}

func TestDevices(t *testing.T) {
	forEach(t, func(t *testing.T, m *Manager) {
		g := group(t, m, Limits{Hidden: []string{"/dev/full", "/dev/no-such-device"}})
		if g.lacks[devices] != "" {
			t.Skip(g.lacks[devices])
		}
		for dev, want := range map[string]int{"/dev/full": 3, "/dev/null": 0} {
			pid, _ := bear(t, g, []string{"CGROUP_TEST=open", "DEVICE=" + dev}, os.Args[0])
			if got := wait(t, pid).ExitStatus(); got != want {
				t.Errorf("%s: exit status %d, want %d", dev, got, want)
			}
		}
	})
}

func TestNoDevice(t *testing.T) {
	forEach(t, func(t *testing.T, m *Manager) {
		g := group(t, m, Limits{Hidden: []string{"/etc/passwd"}})
		text := strings.Join(g.Isolation(), "\n")
		if !strings.Contains(text, "device files of others can be opened: /etc/passwd is not a device file") {
			t.Error(text)
		}
	})
}

func TestMemory(t *testing.T) {
	forEach(t, func(t *testing.T, m *Manager) {
		g := group(t, m, Limits{Memory: 64 << 20})
		if g.lacks[memory] != "" {
			t.Skip(g.lacks[memory])
		}
		if got := g.OOM(); got != (OOM{}) {
			t.Errorf("before: %+v", got)
		}
		pid, _ := bear(t, g, nil, "/bin/true")
		wait(t, pid)
		if got := g.OOM(); got != (OOM{}) {
			t.Errorf("after a small process: %+v", got)
		}
		pid, _ = bear(t, g, []string{"CGROUP_TEST=eat"}, os.Args[0])
		if ws := wait(t, pid); !ws.Signaled() || ws.Signal() != syscall.SIGKILL {
			t.Errorf("ended with %v", ws)
		}
		if got := g.OOM(); got.Kills < 1 || !got.Limit {
			t.Errorf("after: %+v", got)
		}
		if text := strings.Join(g.Isolation(), "\n"); !strings.Contains(text, "memory is limited to 64MiB ("+m.version()+")") {
			t.Error(text)
		}
	})
}

func TestCPU(t *testing.T) {
	forEach(t, func(t *testing.T, m *Manager) {
		g := group(t, m, Limits{CPUs: 1.5})
		if g.lacks[cpu] != "" {
			t.Skip(g.lacks[cpu])
		}
		file, want := "cpu/"+g.path+"/cpu.cfs_quota_us", "150000"
		if _, ok := m.tree.(*v2); ok {
			file, want = g.path+"/cpu.max", "150000 100000"
		}
		if b, err := os.ReadFile(filepath.Join(root, file)); strings.TrimSpace(string(b)) != want {
			t.Errorf("%s: %q, %v", file, b, err)
		}
		if text := strings.Join(g.Isolation(), "\n"); !strings.Contains(text, "CPU time is limited to 1.5 cores") {
			t.Error(text)
		}
	})
}

// Limits change under processes that live, those of a group that had no limit on CPU
// time too, and none of their children escapes.
func TestUpdate(t *testing.T) {
	forEach(t, func(t *testing.T, m *Manager) {
		if m.lacks[cpu] != "" || m.lacks[memory] != "" {
			t.Skip(m.Isolation())
		}
		g := group(t, m, Limits{})
		pid, out := bear(t, g, nil, "/bin/sh", "-c", `echo; while :; do (sleep 0.002; :) & sleep 0.001; done`)
		out.Read(make([]byte, 1))
		read := func(file1, file2 string) string {
			at := filepath.Join(root, file1)
			if _, ok := m.tree.(*v2); ok {
				at = m.tree.folders(g.path)[0] + "/" + file2
			}
			b, err := os.ReadFile(at)
			if err != nil {
				t.Error(err)
			}
			return strings.TrimSpace(string(b))
		}
		for _, c := range []struct {
			l           Limits
			quota, most string // of both versions
		}{{Limits{CPUs: 0.5, Memory: 256 << 20, Weight: 200}, "50000", "50000 100000"}, {Limits{CPUs: 1, Memory: 512 << 20}, "100000", "100000 100000"}, {Limits{}, "-1", "max 100000"}} {
			if g.Update(c.l) {
				t.Errorf("%+v is said to be short of memory", c.l)
			}
			quota := read("cpu"+g.path+"/cpu.cfs_quota_us", "cpu.max")
			if quota != c.quota && quota != c.most {
				t.Errorf("%+v: quota %q", c.l, quota)
			}
			limit := read("memory"+g.path+"/memory.limit_in_bytes", "memory.max")
			if want := strconv.Itoa(int(c.l.Memory)); c.l.Memory > 0 && limit != want || c.l.Memory == 0 && len(limit) < 3 {
				t.Errorf("%+v: memory %q", c.l, limit)
			}
		}
		if old, ok := m.tree.(*v1); ok {
			if have := shares(old.dir(cpu, m.parent)); have != usualShares*runtime.NumCPU() {
				t.Errorf("all groups together have %d shares", have)
			}
			eventually(t, "all are where the quota is", func() bool {
				in, _ := listed(old.dir(cpu, g.path))
				all, _ := g.Procs()
				return len(all) > 0 && len(in) >= len(all)-1 // one may have ended between the two looks
			})
			b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
			if !strings.Contains(string(b), "cpu:"+g.path) {
				t.Errorf("the shell is in\n%s", b)
			}
		}
	})
}

// A limit below what is in use waits until less is: nothing is killed for it.
func TestShort(t *testing.T) {
	forEach(t, func(t *testing.T, m *Manager) {
		if m.lacks[memory] != "" {
			t.Skip(m.Isolation())
		}
		g := group(t, m, Limits{Memory: 512 << 20})
		pid, out := bear(t, g, []string{"CGROUP_TEST=hold"}, os.Args[0])
		out.Read(make([]byte, 1))
		if !g.Update(Limits{Memory: 64 << 20}) {
			t.Error("it is said to have been limited to less than it uses")
		}
		if text := strings.Join(g.Isolation(), "\n"); !strings.Contains(text, "memory is limited to ") || strings.Contains(text, "limited to 64MiB") {
			t.Error(text)
		}
		unix.Kill(pid, unix.SIGKILL)
		if ws := wait(t, pid); ws.Signal() != unix.SIGKILL || g.OOM().Kills > 0 {
			t.Errorf("it ended with %v, %+v", ws, g.OOM())
		}
		eventually(t, "it is limited", func() bool { return !g.Update(Limits{Memory: 64 << 20}) })
		if text := strings.Join(g.Isolation(), "\n"); !strings.Contains(text, "memory is limited to 64MiB") {
			t.Error(text)
		}
	})
}

// A user without permission is told so, and nothing fails.
func TestUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root to become somebody else")
	}
	dir, err := os.MkdirTemp("", "cgroup")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	program, err := os.ReadFile(os.Args[0])
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "test"), program, 0o755)
	}
	if err == nil {
		err = os.Chmod(dir, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	p, err := os.StartProcess(filepath.Join(dir, "test"), []string{"test"}, &os.ProcAttr{
		Dir: "/", Env: []string{"CGROUP_TEST=isolation"}, Files: []*os.File{nil, w, w},
		Sys: &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}},
	})
	w.Close()
	if err != nil {
		t.Fatal(err)
	}
	text, _ := io.ReadAll(r)
	p.Wait()
	for _, want := range []string{"memory limits of jobs are not enforced: ", "jobs are paused by SIGSTOP"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}

func TestNames(t *testing.T) {
	m := detect(nil, "")
	for _, name := range []string{"", ".", "..", "a/b", "a\nb", strings.Repeat("x", 256)} {
		if _, err := m.Create(name, Limits{}); err == nil {
			t.Errorf("%q is taken", name)
		}
	}
	g, err := m.Create("job", Limits{CPUs: 1, Memory: api.Bytes(1 << 30)})
	if err != nil || g.Holds() || g.CanFreeze() || g.Path() != "" || g.KillAll(0) != nil || g.Remove() != nil || g.OOM() != (OOM{}) {
		t.Errorf("%+v, %v", g, err)
	}
	ran := false
	if err := g.Bear(func(fd int) ([]int, error) { ran = fd < 0; return nil, unix.EPERM }); err != unix.EPERM || !ran {
		t.Error(err, ran)
	}
	want := "memory is not limited: this machine has no cgroups\nCPU time is not limited: this machine has no cgroups\n" +
		"it is paused by SIGSTOP, which its processes can notice: this machine has no cgroups"
	if got := strings.Join(g.Isolation(), "\n"); got != want {
		t.Errorf("got\n%s", got)
	}
}
