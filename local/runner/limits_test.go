//go:build linux

package runner

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/norn-scheduler/norn/internal/longtest"
	"github.com/norn-scheduler/norn/local/cgroup"
	"github.com/norn-scheduler/norn/local/rundir"
)

// allow tells the runner what the run may use from now on.
func (f *fixture) allow(l rundir.Limits) {
	f.t.Helper()
	if err := rundir.Write(f.dir, rundir.LimitsFile, l); err != nil {
		f.t.Fatal(err)
	}
	if err := Poke(f.dir); err != nil {
		f.t.Fatal(err)
	}
}

// says waits until the status tells of something that is in force.
func (f *fixture) says(words string) {
	f.t.Helper()
	f.eventually(words, func() bool {
		var st rundir.Status
		rundir.Read(f.dir, rundir.StatusFile, &st)
		return strings.Contains(strings.Join(st.Isolation, "\n"), words)
	})
}

// cpu is the CPU time that the tasks of runs have had so far.
func cpu(t *testing.T, runs ...*fixture) []time.Duration {
	t.Helper()
	var procs []rundir.Proc
	for _, f := range runs {
		procs = append(procs, f.status(rundir.Running).Tasks...)
	}
	used, err := Measure(procs)
	if err != nil {
		t.Fatal(err)
	}
	out := make([]time.Duration, len(used))
	for i, u := range used {
		out[i] = u.CPU
	}
	return out
}

const burns = `trap "exit 5" TERM; touch $WORK/up; while :; do :; done`

// A run that is throttled by half gets about half of the CPU time of one beside it
// that is not, by the freezer and by signals; one that is throttled wholly gets none;
// neither counts as frozen. Told to leave, it does so as any other.
func TestThrottle(t *testing.T) {
	longtest.Skip(t)
	free := newRun(t, burns)
	free.launch()
	for way, long := range map[string]time.Duration{"freezer": time.Second, "signals": 2 * time.Second} {
		t.Run(way, func(t *testing.T) {
			f := newRun(t, burns)
			if way == "freezer" {
				f.confined()
			}
			f.run.Throttle, f.run.Period = 500, seconds(0.1)
			f.launch()
			f.made("up")
			free.made("up")
			f.says("it is stopped for 50% of each ")
			part := 0.0
			for range 4 { // on a busy machine whoever wakes it comes late at times
				was := cpu(t, f, free)
				f.eventually("the other one has had its time", func() bool { return cpu(t, free)[0]-was[1] > long })
				now := cpu(t, f, free)
				if part = float64(now[0]-was[0]) / float64(now[1]-was[1]); part > 0.2 && part < 0.8 {
					break
				}
			}
			if part < 0.2 || part > 0.8 {
				t.Errorf("it has had %.2f of the CPU time of the other one", part)
			}
			f.allow(rundir.Limits{Throttle: 1000})
			f.says("it is stopped, so that")
			var last time.Duration
			f.eventually("it stands still", func() bool {
				was := last
				last = cpu(t, f)[0]
				return was == last
			})
			was := cpu(t, f, free)
			f.eventually("the other one goes on", func() bool { return cpu(t, free)[0]-was[1] > 200*time.Millisecond })
			if now := cpu(t, f)[0]; now != was[0] {
				t.Errorf("it has had %v while it was stopped", now-was[0])
			}
			f.allow(rundir.Limits{Throttle: 500, Paced: true}) // which is its own affair
			f.eventually("it goes on", func() bool { return cpu(t, f)[0] > was[0] })
			f.allow(rundir.Limits{Throttle: 1000, Paced: true})
			f.says("it is stopped, so that")
			f.want(rundir.End, 20)
			if e := f.exit(); e.Exit.Code != 5 || e.Killed || e.Cause != rundir.Left {
				t.Errorf("%+v", e)
			}
		})
	}
}

// A run can be frozen and thawed while it is throttled, and its time limit goes on
// while it waits for its turn alone.
func TestThrottledAndFrozen(t *testing.T) {
	longtest.Skip(t)
	for _, way := range []string{"freezer", "signals"} {
		t.Run(way, func(t *testing.T) {
			f := newRun(t, burns)
			if way == "freezer" {
				f.confined()
			}
			f.run.Throttle, f.run.Limit = 1000, seconds(0.5)
			f.launch()
			f.want(rundir.Freeze, 0)
			f.status(rundir.Frozen)
			f.want(rundir.Go, 0)
			f.status(rundir.Running)
			f.want(rundir.Freeze, 0)
			f.status(rundir.Frozen)
			time.Sleep(700 * time.Millisecond)
			f.status(rundir.Frozen)
			f.want(rundir.Go, 0)
			if e := f.exit(); e.Cause != rundir.TimeLimit {
				t.Errorf("%+v", e)
			}
		})
	}
}

// The processes of a run whose runner is killed while they are stopped are ended.
func TestThrottledAndKilled(t *testing.T) {
	f := newRun(t, "sleep 1000 & "+burns)
	f.confined()
	f.run.Throttle = 1000
	f.launch()
	f.says("it is stopped, so that")
	st := f.status(rundir.Running)
	f.eventually("its group is frozen", func() bool { ok, _ := cgroup.Find(st.Cgroup).Frozen(); return ok })
	unix.Kill(st.PID, unix.SIGKILL)
	f.wait(st.PID)
	if err := Clean(f.dir); err != nil {
		t.Error(err)
	}
	if slices.ContainsFunc(st.Tasks, Alive) {
		t.Error("a task lives")
	}
}

// Limits on CPU time and memory change without a restart, and are what is told when
// memory runs out.
func TestLimitsChange(t *testing.T) {
	f := newRun(t, burns)
	f.confined()
	f.launch()
	f.made("up")
	f.says("CPU time is not limited")
	f.allow(rundir.Limits{CPUs: 0.25, Memory: 1 << 30, Weight: 300})
	f.says("CPU time is limited to 0.25 cores")
	f.says("memory is limited to 1GiB")
	f.says("it counts 3 times as much")
	was, began := cpu(t, f)[0], time.Now()
	f.eventually("it has had its time", func() bool { return cpu(t, f)[0]-was > 150*time.Millisecond })
	if have, most := cpu(t, f)[0]-was, time.Since(began)/4+100*time.Millisecond; have > most {
		t.Errorf("it has had %v of the processors, where %v are the most", have, most)
	}
	f.want(rundir.End, 0)
	f.exit()
	eats := newRun(t, "while [ ! -e $WORK/go ]; do sleep 0.01; done; exec env RUNNER_TEST=eat "+os.Args[0])
	eats.confined()
	eats.run.Memory = 1 << 30
	eats.launch()
	eats.allow(rundir.Limits{Memory: 96 << 20})
	eats.says("memory is limited to 96MiB")
	eats.make("go")
	if e := eats.exit(); e.Exit.Signal != "SIGKILL" || e.Exit.Note != "out of memory: it used its limit of 96MiB" {
		t.Errorf("%+v", e)
	}
}

// Two that are throttled by half each, with turns behind each other, never run at the
// same time, and one of them always does.
func TestTurns(t *testing.T) {
	first, second := runner{clock: readClock()}, runner{}
	second.clock = first.clock
	first.limits.now = rundir.Limits{Throttle: 500}
	second.limits.now = rundir.Limits{Throttle: 500, Phase: 500}
	t0 := time.Now()
	for ms := range 3000 {
		at := t0.Add(time.Duration(ms) * time.Millisecond)
		a, next := first.waits(at)
		if b, other := second.waits(at); a == b || next != other || next <= 0 || next > 500*time.Millisecond {
			t.Fatalf("after %d ms one waits (%v) for %v, the other (%v) for %v", ms, a, next, b, other)
		}
	}
	if off := readClock().show(t0) - first.clock.show(t0); off.Abs() > 50*time.Millisecond {
		t.Errorf("read again, the clock is off by %v", off)
	}
	second.limits.now = rundir.Limits{Throttle: 250, Phase: 900}
	waited := 0
	for ms := range 4000 {
		if w, _ := second.waits(t0.Add(time.Duration(ms) * time.Millisecond)); w {
			waited++
		}
	}
	if waited < 990 || waited > 1010 {
		t.Errorf("it waits for %d of 4000 ms, not for a quarter", waited)
	}
	for _, l := range []rundir.Limits{{}, {Throttle: 999, Paced: true}} {
		second.limits.now = l
		if w, next := second.waits(t0); w || next <= 0 {
			t.Errorf("%+v: waits", l)
		}
	}
}
