//go:build linux

package runner

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/norn-scheduler/norn/api"
	"github.com/norn-scheduler/norn/local/rundir"
)

func seconds(s float64) api.Seconds { return api.Seconds(s) }

func TestExit(t *testing.T) {
	for _, c := range []struct {
		script string
		want   api.Exit
	}{
		{"exit 0", api.Exit{}},
		{"echo so; exit 7", api.Exit{Code: 7}},
		{"kill -SEGV $$", api.Exit{Code: 139, Signal: "SIGSEGV"}},
		{"kill -KILL $$", api.Exit{Code: 137, Signal: "SIGKILL"}},
	} {
		t.Run(c.script, func(t *testing.T) {
			f := newRun(t, c.script)
			f.launch()
			e := f.exit()
			if e.Cause != rundir.Exited || e.Exit != c.want || len(e.Tasks) != 1 || e.Tasks[0] != c.want || e.Asked != "" || e.Killed {
				t.Errorf("%+v", e)
			}
			if e.MaxRSS <= 0 || e.Ended == 0 {
				t.Errorf("not measured: %+v", e)
			}
			st := f.status(rundir.Running)
			if len(st.Tasks) != 1 || st.Tasks[0].PID == 0 || st.Tasks[0].Start < st.Start || st.Began == 0 || st.Boot != BootID() || len(st.Isolation) == 0 {
				t.Errorf("%+v", st)
			}
		})
	}
}

func TestCPUTime(t *testing.T) {
	f := newRun(t, `i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done`)
	f.launch()
	if e := f.exit(); e.CPUTime <= 0 {
		t.Errorf("%+v", e)
	}
}

// The exit explains which task cannot be started, and nothing is left of the
// other tasks.
func TestNotStarted(t *testing.T) {
	dir := t.TempDir()
	for name, mode := range map[string]os.FileMode{"plain": 0o644, "garbage": 0o755, "script": 0o755} {
		text := map[string]string{"garbage": "\x01\x02", "script": "#!/no/such/interpreter\n"}[name]
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), mode); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		command []string
		dir     string
		want    string
	}{
		{[]string{"no-such-program"}, "/", "cannot run no-such-program: no such file in PATH"},
		{[]string{"./no-such-program"}, dir, "cannot run ./no-such-program: no such file"},
		{[]string{"./plain"}, dir, "cannot run ./plain: permission denied"},
		{[]string{"."}, dir, "cannot run .: no such file in PATH"},
		{[]string{"./garbage"}, dir, "cannot run ./garbage: it is no program for this machine"},
		{[]string{"./script"}, dir, "cannot run ./script: the interpreter that it names does not exist"},
		{[]string{"sh"}, dir + "/none", "working directory " + dir + "/none: no such file or directory"},
		{[]string{"sh"}, dir + "/plain", "working directory " + dir + "/plain: not a directory"},
		{[]string{"sh", "a\x00b"}, dir, "cannot run sh: its arguments or environment hold a zero byte"},
		{[]string{""}, dir, "cannot run : no such file"},
		{nil, dir, "the job has no command"},
	} {
		t.Run(strings.Join(c.command, " "), func(t *testing.T) {
			f := newRun(t, "")
			f.run.Command, f.run.Dir = c.command, c.dir
			f.launch()
			if e := f.exit(); e.Cause != rundir.NotStarted || !strings.HasPrefix(e.Error, c.want) {
				t.Errorf("%+v", e)
			}
		})
	}
}

func TestAllOrNone(t *testing.T) {
	f := newRun(t, "")
	f.run.Command = []string{"sleep", "1000"}
	f.run.Tasks = []rundir.Task{{}, {Env: []string{"PATH=/nowhere"}}, {}}
	f.launch()
	e := f.exit() // f.end sees that no task is left
	if e.Cause != rundir.NotStarted || e.Error != "task 1 of 3: cannot run sleep: no such file in PATH" {
		t.Errorf("%+v", e)
	}
}

// One task that fails ends the others; those that do not listen are killed.
func TestGang(t *testing.T) {
	f := newRun(t, `case $RANK in
		0) trap "exit 0" TERM; touch $WORK/0; while :; do sleep 0.01; done;;
		1) while [ ! -e $WORK/0 ]; do sleep 0.01; done; exit 3;;
		esac`)
	f.run.Tasks = make([]rundir.Task, 2)
	f.launch()
	e := f.exit()
	want := api.Exit{Code: 3, Task: 1}
	if e.Cause != rundir.Exited || e.Exit != want || e.Tasks[0] != (api.Exit{}) || e.Tasks[1] != want || e.Killed {
		t.Errorf("%+v", e)
	}
}

func TestRendezvous(t *testing.T) {
	f := newRun(t, "env; echo end")
	f.run.Run = 3
	f.run.Env = append(f.run.Env, "RANK=9", "WORLD_SIZE=9", "MASTER_PORT=1", "LOCAL_WORLD_SIZE=9", "NORN_RUN=3", "EMPTY=")
	f.run.Tasks = []rundir.Task{{Env: []string{"CUDA_VISIBLE_DEVICES=0"}}, {Env: []string{"CUDA_VISIBLE_DEVICES=1"}}}
	f.launch()
	if e := f.exit(); e.Exit.Code != 0 {
		t.Fatalf("%+v", e)
	}
	port := f.status(rundir.Running).Port
	lines := strings.Split(f.output(), "\n")
	for rank := range 2 {
		r := strconv.Itoa(rank)
		for _, want := range []string{
			"RANK=" + r, "LOCAL_RANK=" + r, "WORLD_SIZE=2", "LOCAL_WORLD_SIZE=9", "NODE_RANK=0", "GROUP_RANK=0",
			"MASTER_ADDR=127.0.0.1", fmt.Sprintf("MASTER_PORT=%d", port), "TORCHELASTIC_RESTART_COUNT=2",
			"OMPI_COMM_WORLD_RANK=" + r, "OMPI_COMM_WORLD_SIZE=2", "OMPI_COMM_WORLD_LOCAL_RANK=" + r, "OMPI_COMM_WORLD_LOCAL_SIZE=2",
			"PMI_RANK=" + r, "PMI_SIZE=2", fmt.Sprintf("JAX_COORDINATOR_ADDRESS=127.0.0.1:%d", port),
			"JAX_NUM_PROCESSES=2", "JAX_PROCESS_ID=" + r, "CUDA_VISIBLE_DEVICES=" + r, "NORN_JOB=17", "NORN_RUN=3", "EMPTY=", "end",
		} {
			n := 0
			for _, line := range lines {
				if line == "["+r+"] "+want {
					n++
				}
			}
			if n != 1 {
				t.Errorf("rank %d: %d times %s", rank, n, want)
			}
		}
	}
	if port < 1024 || len(lines) == 0 {
		t.Errorf("port %d", port)
	}
}

// However often it is launched, it runs once.
func TestLaunchTwice(t *testing.T) {
	f := newRun(t, `echo >> $WORK/times; while [ ! -e $WORK/go ]; do sleep 0.01; done`)
	f.launch()
	for range 4 {
		f.again()
	}
	f.status(rundir.Running)
	for len(f.pids) > 1 { // all but one find the lock taken
		f.eventually("an end", func() bool {
			for i, pid := range f.pids {
				if got, _ := syscall.Wait4(pid, nil, syscall.WNOHANG, nil); got == pid {
					f.pids = append(f.pids[:i], f.pids[i+1:]...)
					return true
				}
			}
			return false
		})
	}
	f.make("go")
	f.exit()
	f.wait(f.pids[0])
	if code := f.wait(f.again()); code != 0 {
		t.Errorf("exit code %d", code)
	}
	if b, _ := os.ReadFile(filepath.Join(f.work, "times")); string(b) != "\n" {
		t.Errorf("run %d times", len(b))
	}
}

// A want that says leave is followed before anything is started.
func TestNeverStarted(t *testing.T) {
	f := newRun(t, `touch $WORK/started`)
	f.want(rundir.End, 0)
	f.launch()
	if e := f.exit(); e.Cause != rundir.Left || e.Asked != rundir.End || e.Seq != 1 {
		t.Errorf("%+v", e)
	}
	if _, err := os.Stat(filepath.Join(f.work, "started")); err == nil {
		t.Error("it was started")
	}
}

// The runner is in a session of its own and lives on when its parent is killed.
func TestOutlivesParent(t *testing.T) {
	f := newRun(t, `while [ ! -e $WORK/go ]; do sleep 0.01; done; exit 5`)
	if err := rundir.Write(f.dir, rundir.RunFile, f.run); err != nil {
		t.Fatal(err)
	}
	parent := exec.Command(os.Args[0])
	parent.Env = append(os.Environ(), "RUNNER_TEST=parent", "RUNNER_DIR="+f.dir)
	parent.Run() // is killed
	st := f.status(rundir.Running)
	for _, sig := range []syscall.Signal{unix.SIGTERM, unix.SIGINT, unix.SIGHUP} {
		unix.Kill(st.PID, sig)
	}
	p, err := readProcess(st.PID)
	if err != nil || p.session != st.PID || !Alive(rundir.Proc{PID: st.PID, Start: st.Start}) {
		t.Errorf("%+v, %v", p, err)
	}
	f.make("go")
	if e := f.exit(); e.Exit.Code != 5 {
		t.Errorf("%+v", e)
	}
	f.eventually("the end of the runner", func() bool { return !Alive(rundir.Proc{PID: st.PID, Start: st.Start}) })
	if err := Poke(f.dir); err != nil {
		t.Error(err)
	}
}

// The runner is killed: its tasks die, and Clean ends what they have left.
func TestRunnerKilled(t *testing.T) {
	for name, confine := range map[string]bool{"cgroup": true, "no cgroup": false} {
		t.Run(name, func(t *testing.T) {
			// One orphan in a session of its own, and one that hides its environment.
			f := newRun(t, `setsid sleep 1000 & sleep 1001 & env -i sleep 1002 & touch $WORK/up; wait`)
			if confine {
				f.confined()
			}
			f.launch()
			st := f.status(rundir.Running)
			f.made("up")
			var all []process
			f.eventually("four processes", func() bool {
				all, _ = descendants(st.PID)
				return len(all) == 4 && asleep(all) == 3
			})
			if confine { // frozen processes do not even die by SIGKILL
				f.want(rundir.Freeze, 0)
				f.status(rundir.Frozen)
			}
			unix.Kill(st.PID, unix.SIGKILL)
			f.wait(f.pids[0])
			if !confine {
				f.eventually("the end of the task", func() bool { return !Alive(st.Tasks[0]) })
			}
			lock, err := rundir.Lock(f.dir)
			if err != nil {
				t.Fatal(err)
			}
			if err := Clean(f.dir); err != nil {
				t.Error(err)
			}
			lock.Close()
			for _, p := range all {
				if Alive(p.Proc) {
					t.Errorf("process %d is still there", p.PID)
				}
			}
			// A runner that is launched all the same does not run it again.
			os.Remove(filepath.Join(f.work, "up"))
			f.wait(f.again())
			if e := f.exit(); e.Cause != rundir.RunnerLost {
				t.Errorf("%+v", e)
			}
			if _, err := os.Stat(filepath.Join(f.work, "up")); err == nil {
				t.Error("it ran twice")
			}
		})
	}
}

// Processes that become another program all the time have no environment for
// moments, by which they could be told from others. Clean finds them all the same, also
// where what the run is and where it stands was lost or damaged.
func TestRestless(t *testing.T) {
	for i := range 6 {
		f := newRun(t, `printf '#!/bin/sh\nexec "$0"\n' >$WORK/again; chmod +x $WORK/again
for i in 1 2 3 4 5 6 7 8; do setsid $WORK/again & done; touch $WORK/up; wait`)
		f.launch()
		st := f.status(rundir.Running)
		f.made("up")
		var all []process
		f.eventually("nine processes", func() bool {
			all, _ = descendants(st.PID)
			return len(all) == 9 && !slices.ContainsFunc(all[1:], func(p process) bool { return p.session == st.PID })
		})
		unix.Kill(st.PID, unix.SIGKILL)
		f.wait(f.pids[0])
		var marks []string
		if i%2 == 1 {
			marks = marksOf(f.run.Env, f.run.Job, f.run.Run)
			os.Remove(filepath.Join(f.dir, rundir.StatusFile))
			os.Truncate(filepath.Join(f.dir, rundir.RunFile), int64(i))
		}
		if i == 5 {
			os.Remove(filepath.Join(f.dir, rundir.RunFile))
		}
		if err := Clean(f.dir, marks...); err != nil {
			t.Error(err)
		}
		for _, p := range all {
			if Alive(p.Proc) {
				t.Errorf("process %d is still there", p.PID)
			}
		}
	}
}

// A process whose main thread has ended is there as long as another thread is: it can be
// told by its environment, stopped and killed.
func TestHeadless(t *testing.T) {
	f := newRun(t, `setsid "$0" & wait`)
	f.run.Command = append(f.run.Command, os.Args[0])
	f.run.Env = append(f.run.Env, "RUNNER_TEST=headless")
	f.launch()
	st := f.status(rundir.Running)
	var headless process
	f.eventually("a process without its main thread", func() bool {
		all, _ := descendants(st.PID)
		i := slices.IndexFunc(all, func(p process) bool { return p.folder != fmt.Sprintf("/proc/%d", p.PID) })
		if i >= 0 {
			headless = all[i]
		}
		return i >= 0
	})
	f.want(rundir.Freeze, 0)
	f.status(rundir.Frozen)
	if now, err := readProcess(headless.PID); err != nil || !now.stopped() {
		t.Errorf("it is not stopped: %+v, %v", now, err)
	}
	unix.Kill(st.PID, unix.SIGKILL)
	f.wait(f.pids[0])
	if !Alive(headless.Proc) {
		t.Error("it ended with the runner")
	}
	if err := Clean(f.dir); err != nil {
		t.Error(err)
	}
	if Alive(headless.Proc) {
		t.Error("it is still there")
	}
}

// A process that was killed counts as ended when the last of its threads has: until
// then the files are open that they share, and locked.
func TestEndedWithAllThreads(t *testing.T) {
	for range 40 {
		f := &fixture{t: t, work: t.TempDir()}
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), "RUNNER_TEST=locks", "WORK="+f.work)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		f.made("ready")
		cmd.Process.Kill()
		for {
			if p, err := readProcess(cmd.Process.Pid); err != nil {
				t.Fatal(err)
			} else if p.ended() {
				break
			}
		}
		lock, err := os.Open(filepath.Join(f.work, "ready"))
		if err != nil {
			t.Fatal(err)
		}
		if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
			t.Errorf("it has ended, and holds its lock: %v", err)
		}
		lock.Close()
		cmd.Wait()
	}
}

// A process that has been killed has no environment any more long before it has
// closed its files, where it had much memory: until then it counts as one that
// cannot be told from the run's.
func TestEndingIsDoubted(t *testing.T) {
	seen := false
	for range 5 {
		cmd := exec.Command("dd", "if=/dev/zero", "of=/dev/null", "bs=256M")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		var p process
		for p.pages < 250<<20/uint64(os.Getpagesize()) {
			var err error
			if p, err = readProcess(cmd.Process.Pid); err != nil {
				t.Fatal(err)
			}
		}
		cmd.Process.Kill()
		for {
			env, ok := environ(p)
			now, err := readProcess(p.PID)
			if err != nil || now.ended() {
				break
			}
			if len(env) <= 1 {
				seen = true
				if ok {
					t.Fatal("a process that has not ended yet is taken for one without environment")
				}
			}
		}
		cmd.Wait()
	}
	t.Logf("seen while it ended: %v", seen)
}

// Whenever the runner is killed, nothing is left, and it has run at most once.
func TestKilledAnywhere(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	begun := 0
	for range 15 {
		f := newRun(t, `echo >> $WORK/times; sleep 1000 & setsid sleep 1000 & wait`)
		f.run.Tasks = make([]rundir.Task, 2)
		f.launch()
		time.Sleep(time.Duration(rng.IntN(30_000)) * time.Microsecond)
		unix.Kill(f.pids[0], unix.SIGKILL)
		f.wait(f.pids[0])
		f.want(rundir.End, 0)
		f.wait(f.again())
		if e := f.exit(); e.Cause != rundir.RunnerLost && e.Cause != rundir.Left {
			t.Errorf("%+v", e)
		} else if e.Cause == rundir.RunnerLost {
			begun++
		}
		f.end()
		if b, _ := os.ReadFile(filepath.Join(f.work, "times")); len(b) > 2 {
			t.Errorf("the tasks were started %d times", len(b))
		}
	}
	t.Logf("%d of 15 had begun", begun)
}

// asleep counts the processes that have become sleep.
func asleep(ps []process) (n int) {
	for _, p := range ps {
		if b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", p.PID)); string(b) == "sleep\n" {
			n++
		}
	}
	return n
}

// Processes that a task leaves running end with it, however they have hidden,
// and do not keep the run from ending.
func TestNothingLeft(t *testing.T) {
	f := newRun(t, `setsid env -i sh -c 'trap "" TERM HUP; echo $$ > '$WORK'/pid; mv '$WORK'/pid '$WORK'/up; while :; do sleep 1; done' &
		while [ ! -e $WORK/up ]; do sleep 0.01; done; echo done`)
	f.launch()
	if e := f.exit(); e.Exit.Code != 0 || e.Cause != rundir.Exited {
		t.Errorf("%+v", e)
	}
	b, err := os.ReadFile(filepath.Join(f.work, "up"))
	pid, _ := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil || pid == 0 {
		t.Fatal(string(b), err)
	}
	if err := unix.Kill(pid, 0); err != unix.ESRCH {
		t.Errorf("process %d is still there: %v", pid, err)
	}
	if f.output() != "done\n" {
		t.Errorf("output %q", f.output())
	}
}

func TestNotify(t *testing.T) {
	f := newRun(t, "exit 0")
	dir, err := os.MkdirTemp("", "n") // the names of sockets are short
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	f.run.Notify = filepath.Join(dir, "s")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: f.run.Notify, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	f.launch()
	conn.SetReadDeadline(time.Now().Add(20 * time.Second))
	b := make([]byte, 100)
	for over := false; !over; {
		n, err := conn.Read(b)
		if err != nil {
			t.Fatal(err)
		}
		if string(b[:n]) != "17 1" {
			t.Errorf("got %q", b[:n])
		}
		_, err = os.Stat(filepath.Join(f.dir, rundir.ExitFile))
		over = err == nil
	}
}

// As root a run becomes its user, wholly.
func TestUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root to become somebody else")
	}
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	f := newRun(t, `id -u; id -G; cat $SECRET && exit 1; exit 0`)
	f.run.Env = append(f.run.Env, "SECRET="+secret)
	f.run.User = &rundir.User{UID: 65534, GID: 65534, Groups: []uint32{65533}}
	f.launch()
	e := f.exit()
	if e.Exit.Code != 0 || !strings.HasPrefix(f.output(), "65534\n65534 65533\n") || strings.Contains(f.output(), "secret\n") {
		t.Errorf("%+v\n%s", e, f.output())
	}
	if text := strings.Join(f.status(rundir.Running).Isolation, "\n"); !strings.Contains(text, "it runs as user 65534, group 65534") {
		t.Error(text)
	}
	// The working directory is entered with the rights of the user.
	g := newRun(t, "exit 0")
	g.run.User, g.run.Dir = f.run.User, t.TempDir()
	if err := os.Chmod(g.run.Dir, 0o700); err != nil {
		t.Fatal(err)
	}
	g.launch()
	if e := g.exit(); e.Cause != rundir.NotStarted || e.Error != "working directory "+g.run.Dir+": permission denied" {
		t.Errorf("%+v", e)
	}
}

func TestMemory(t *testing.T) {
	f := newRun(t, "")
	f.confined()
	f.run.Command = []string{os.Args[0]}
	f.run.Env = append(f.run.Env, "RUNNER_TEST=eat")
	f.run.Memory = 96 << 20
	f.launch()
	e := f.exit()
	if text := strings.Join(f.status(rundir.Running).Isolation, "\n"); !strings.Contains(text, "memory is limited to 96MiB") {
		t.Skip(text)
	}
	want := api.Exit{Code: 137, Signal: "SIGKILL", Note: "out of memory: it used its limit of 96MiB"}
	if e.Exit != want || e.MaxRSS < 64<<20 {
		t.Errorf("%+v", e)
	}
}

// All that lives in the cgroup is that of the run, and it is gone afterwards.
func TestConfined(t *testing.T) {
	f := newRun(t, "cat /proc/self/cgroup")
	f.confined()
	f.run.Tasks = make([]rundir.Task, 2)
	f.launch()
	if e := f.exit(); e.Exit.Code != 0 {
		t.Errorf("%+v", e)
	}
	in := map[string]bool{}
	for s := bufio.NewScanner(strings.NewReader(f.output())); s.Scan(); {
		if rank, line, _ := strings.Cut(s.Text(), " "); strings.Contains(line, f.run.Parent+"/job-17-1") {
			in[rank] = true
		}
	}
	if len(in) != 2 {
		t.Error(f.output())
	}
	if st := f.status(rundir.Running); st.Cgroup != f.run.Parent+"/job-17-1" {
		t.Errorf("cgroup %q", st.Cgroup)
	}
}
