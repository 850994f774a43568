//go:build linux

package runner

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/norn-scheduler/norn/api"
	"github.com/norn-scheduler/norn/local/rundir"
)

// steady returns when the output has not grown for a while.
func (f *fixture) steady() (size int) {
	f.t.Helper()
	f.eventually("no more output", func() bool {
		size = len(f.output())
		time.Sleep(50 * time.Millisecond)
		return len(f.output()) == size
	})
	return size
}

func TestFreeze(t *testing.T) {
	for name, confine := range map[string]bool{"cgroup": true, "signals": false} {
		t.Run(name, func(t *testing.T) {
			f := newRun(t, `trap "exit 9" TERM; setsid sh -c 'while :; do echo child; sleep 0.01; done' & while :; do echo on; sleep 0.01; done`)
			if confine {
				f.confined()
			}
			f.launch()
			f.eventually("output of both", func() bool { return strings.Contains(f.output(), "child") && strings.Contains(f.output(), "on") })
			for range 3 {
				f.want(rundir.Freeze, 0)
				f.status(rundir.Frozen)
				size := f.steady()
				f.want(rundir.Freeze, 0) // nothing new
				f.status(rundir.Frozen)
				if now := len(f.output()); now != size {
					t.Errorf("it wrote %d bytes while frozen", now-size)
				}
				f.want(rundir.Go, 0)
				f.status(rundir.Running)
				f.eventually("more output", func() bool { return len(f.output()) > size })
			}
			// A frozen run that is to leave is thawed first.
			f.want(rundir.Freeze, 0)
			f.status(rundir.Frozen)
			f.want(rundir.End, 20)
			if e := f.exit(); e.Cause != rundir.Left || e.Exit.Code != 9 || e.Killed || e.Asked != rundir.End || e.Seq != f.seq {
				t.Errorf("%+v", e)
			}
		})
	}
}

func TestFrozenAndKilled(t *testing.T) {
	for name, confine := range map[string]bool{"cgroup": true, "signals": false} {
		t.Run(name, func(t *testing.T) {
			f := newRun(t, `while :; do sleep 0.01; done`)
			if confine {
				f.confined()
			}
			f.want(rundir.Freeze, 0) // from the beginning
			f.launch()
			f.status(rundir.Frozen)
			f.want(rundir.End, 0)
			if e := f.exit(); e.Exit.Signal != "SIGKILL" || !e.Killed {
				t.Errorf("%+v", e)
			}
		})
	}
}

func TestSave(t *testing.T) {
	loop := `while :; do sleep 0.01; done`
	for name, c := range map[string]struct {
		script string
		stop   api.Stop
		grace  float64
		exit   api.Exit
		killed bool
		output string
		fault  string
	}{
		"SIGTERM": {`trap "echo saved; exit 75" TERM; touch $WORK/up; ` + loop, api.Stop{}, 20, api.Exit{Code: 75}, false, "saved\n", ""},
		"another": {`trap "echo saved; exit 0" USR1; touch $WORK/up; ` + loop, api.Stop{Signal: "USR1"}, 20, api.Exit{}, false, "saved\n", ""},
		"no such signal": {`touch $WORK/up; ` + loop, api.Stop{Signal: "HOME"}, 20, api.Exit{Code: 143, Signal: "SIGTERM"}, false, "",
			`there is no signal "HOME"; SIGTERM was sent`},
		"ignored": {`trap "" TERM; touch $WORK/up; ` + loop, api.Stop{}, 0.1, api.Exit{Code: 137, Signal: "SIGKILL"}, true, "", ""},
		// Shells that die leave the saving to their child.
		"script": {`sh -c 'sh -c "trap \"echo saved; exit 75\" TERM; touch $WORK/up; ` + loop + `"; echo not reached'; echo neither`, api.Stop{}, 20,
			api.Exit{Code: 75}, false, "saved\n", ""},
		"command": {`trap "echo saved; exit 75" USR2; touch $WORK/up; ` + loop,
			api.Stop{Command: []string{"sh", "-c", `echo ask $NORN_JOB; kill -USR2 $NORN_PIDS; while kill -0 $NORN_PIDS; do sleep 0.01; done 2> /dev/null`}}, 20,
			api.Exit{Code: 75}, false, "[checkpoint] ask 17\nsaved\n", ""},
		"command that fails": {`trap "exit 4" TERM; touch $WORK/up; ` + loop, api.Stop{Command: []string{"false"}}, 20, api.Exit{Code: 4}, false, "",
			"the checkpoint command failed: exit status 1"},
		"no such command": {`touch $WORK/up; ` + loop, api.Stop{Command: []string{"no-such"}}, 20, api.Exit{Code: 143, Signal: "SIGTERM"}, false, "",
			"the checkpoint command: cannot run no-such: no such file in PATH"},
		"command that hangs": {`touch $WORK/up; ` + loop, api.Stop{Command: []string{"sleep", "1000"}}, 0.1, api.Exit{Code: 137, Signal: "SIGKILL"}, true, "",
			"the checkpoint command failed: it was ended by SIGKILL"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newRun(t, c.script)
			f.run.Stop = c.stop
			f.launch()
			f.made("up")
			f.want(rundir.Save, c.grace)
			e := f.exit()
			if e.Cause != rundir.Left || e.Asked != rundir.Save || e.Exit != c.exit || e.Killed != c.killed || e.Error != c.fault || e.Seq != 1 {
				t.Errorf("%+v", e)
			}
			if f.output() != c.output {
				t.Errorf("output %q", f.output())
			}
		})
	}
}

// A gang leaves together: a task that ends first does not cut the others short.
func TestSaveGang(t *testing.T) {
	f := newRun(t, `[ $RANK = 1 ] || trap "while [ ! -e $WORK/1 ]; do sleep 0.01; done; echo saved; exit 75" TERM
		touch $WORK/up$RANK; while :; do sleep 0.01; done`)
	f.run.Tasks = make([]rundir.Task, 2)
	f.launch()
	f.made("up0")
	f.made("up1")
	st := f.status(rundir.Running)
	f.want(rundir.Save, 20)
	f.eventually("the end of rank 1", func() bool { return !Alive(st.Tasks[1]) })
	f.make("1")
	e := f.exit()
	if e.Cause != rundir.Left || e.Tasks[0].Code != 75 || e.Tasks[1].Signal != "SIGTERM" || !strings.Contains(f.output(), "[0] saved\n") {
		t.Errorf("%+v\n%s", e, f.output())
	}
}

// A run that saves too slowly can be told to end at once.
func TestSaveThenEnd(t *testing.T) {
	f := newRun(t, `trap "" TERM; touch $WORK/up; while :; do sleep 0.01; done`)
	f.launch()
	f.made("up")
	f.want(rundir.Save, 1000)
	f.status(rundir.Leaving)
	f.want(rundir.Go, 0) // too late
	f.seq++
	f.want(rundir.End, 0)
	if e := f.exit(); !e.Killed || e.Asked != rundir.End || e.Seq != f.seq {
		t.Errorf("%+v", e)
	}
}

func TestTimeLimit(t *testing.T) {
	f := newRun(t, `trap "exit 8" TERM; while :; do sleep 0.01; done`)
	f.run.Limit = 0.2
	f.launch()
	if e := f.exit(); e.Cause != rundir.TimeLimit || e.Exit.Code != 8 || e.Asked != "" || e.Killed {
		t.Errorf("%+v", e)
	}
}

func TestTimeFrozen(t *testing.T) {
	t0 := time.Unix(1000, 0)
	at := func(s int) time.Time { return t0.Add(time.Duration(s) * time.Second) }
	r := runner{began: t0, pause: pause{total: 10 * time.Second}}
	if got := r.ran(at(30)); got != 20*time.Second {
		t.Errorf("ran %v", got)
	}
	r.pause.done, r.pause.since = true, at(25)
	if got := r.ran(at(30)); got != 15*time.Second {
		t.Errorf("ran %v while frozen", got)
	}
}

// fakeCRIU does with a shell what CRIU does: dump ends the processes, restore
// brings one back that is not a child of the caller.
const fakeCRIU = `#!/bin/sh
verb=$1; shift
while [ $# -gt 0 ]; do
	case $1 in
	--tree) tree=$2; shift;;
	--images-dir) dir=$2; shift;;
	--pidfile) pidfile=$2; shift;;
	--inherit-fd) fd=$2; shift;;
	esac
	shift
done
[ ! -e "$WORK_CRIU/fail" ] || { echo "(00.1) Error (criu/x.c:1): no way" > $dir/$verb.log; exit 1; }
case $verb in
dump) echo image > $dir/core.img; kill -KILL $tree;;
restore)
	[ -e $dir/core.img ] && [ "${fd%%:*}" = "fd[3]" ] || exit 2
	setsid sh -c 'echo $$ > '$pidfile'; trap "exit 6" TERM; echo back; while :; do sleep 0.01; done' >&3 2>&1 &
	while [ ! -s $pidfile ]; do sleep 0.01; done;;
esac
`

func withCRIU(t *testing.T) (work string) {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "criu"), []byte(fakeCRIU), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	t.Setenv("WORK_CRIU", dir)
	return dir
}

func TestCRIU(t *testing.T) {
	withCRIU(t)
	f := newRun(t, `touch $WORK/up; while :; do sleep 0.01; done`)
	f.run.Stop, f.run.Images = api.Stop{CRIU: true, Grace: 20}, filepath.Join(f.dir, "images")
	f.launch()
	f.made("up")
	f.want(rundir.Save, 0) // with the grace of the run
	e := f.exit()
	if e.Cause != rundir.Left || !e.Images || e.Error != "" || e.Exit.Code != 0 || e.Killed {
		t.Fatalf("%+v", e)
	}
	saved, err := readImages(f.run.Images)
	if err != nil || !strings.HasPrefix(saved.Pipe, "pipe:[") || !slices.Contains(saved.Marks, "NORN_RUN=1") {
		t.Errorf("%+v, %v", saved, err)
	}

	g := newRun(t, "never")
	g.run.Stop, g.run.Restore, g.run.Run = f.run.Stop, f.run.Images, 2
	g.run.Images = filepath.Join(g.dir, "images")
	g.launch()
	g.eventually("it is back", func() bool { return g.output() == "back\n" })
	st := g.status(rundir.Running)
	if len(st.Tasks) != 1 || !Alive(st.Tasks[0]) || st.Began == 0 {
		t.Errorf("%+v", st)
	}
	g.want(rundir.End, 20)
	if e := g.exit(); e.Exit.Code != 6 || e.Cause != rundir.Left {
		t.Errorf("%+v", e)
	}
}

func TestCRIUFails(t *testing.T) {
	work := withCRIU(t)
	if err := os.WriteFile(filepath.Join(work, "fail"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	f := newRun(t, `trap "exit 3" TERM; touch $WORK/up; while :; do sleep 0.01; done`)
	f.run.Stop, f.run.Images = api.Stop{CRIU: true}, filepath.Join(f.dir, "images")
	f.launch()
	f.made("up")
	f.want(rundir.Save, 20)
	want := "CRIU could not save it: exit status 1: (00.1) Error (criu/x.c:1): no way"
	if e := f.exit(); e.Images || e.Exit.Code != 3 || e.Error != want {
		t.Errorf("%+v", e)
	}
	g := newRun(t, "never")
	g.run.Stop, g.run.Restore = f.run.Stop, f.run.Images
	g.launch()
	want = "the checkpoint cannot be restored: exit status 1: (00.1) Error (criu/x.c:1): no way"
	if e := g.exit(); e.Cause != rundir.NotStarted || e.Error != want {
		t.Errorf("%+v", e)
	}
	// Images that others may have written would give rights to them.
	if err := os.Chmod(f.run.Images, 0o777); err != nil {
		t.Fatal(err)
	}
	h := newRun(t, "never")
	h.run.Stop, h.run.Restore = f.run.Stop, f.run.Images
	h.launch()
	if e := h.exit(); e.Cause != rundir.NotStarted || !strings.Contains(e.Error, "others may write to it") {
		t.Errorf("%+v", e)
	}
}

func TestClean(t *testing.T) {
	f := newRun(t, "") // a run that was never launched
	if err := Clean(f.dir); err != nil {
		t.Error(err)
	}
	for _, p := range []rundir.Proc{{}, {PID: -1}, {PID: os.Getpid(), Start: 1}} {
		if Alive(p) {
			t.Errorf("%+v is alive", p)
		}
	}
	start, err := StartTime(os.Getpid())
	if err != nil || !Alive(rundir.Proc{PID: os.Getpid(), Start: start}) {
		t.Error(start, err)
	}
	// A status of another boot, and of a number that another process has now, are not believed.
	f.run.Env = nil
	for _, boot := range []string{"another", BootID()} {
		st := rundir.Status{Boot: boot, PID: 1, Tasks: []rundir.Proc{{PID: os.Getppid(), Start: 1}}}
		for name, v := range map[string]any{rundir.RunFile: &f.run, rundir.StatusFile: &st} {
			if err := rundir.Write(f.dir, name, v); err != nil {
				t.Fatal(err)
			}
		}
		if err := Clean(f.dir); err != nil {
			t.Error(err)
		}
		if err := Poke(f.dir); err != nil {
			t.Error(err)
		}
	}
	if _, err := os.Stat(fmt.Sprintf("/proc/%d", os.Getppid())); err != nil {
		t.Error(err)
	}
}
