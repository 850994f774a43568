package local_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/norn-scheduler/norn/api"
	"github.com/norn-scheduler/norn/api/server"
	"github.com/norn-scheduler/norn/eventlog"
	"github.com/norn-scheduler/norn/internal/longtest"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/local"
)

// The tasks of a gang start together, each with its own devices and with the
// variables by which they meet.
func TestGang(t *testing.T) {
	t.Parallel()
	h := newHere(t, "fifo", 4, nil)
	spec := h.sh(4, "env > env$RANK; "+awaits("env0")+"; "+awaits("env1"))
	spec.Tasks, spec.Name, spec.Array = api.Tasks{N: 2}, "gang", "7"
	ids, err := h.Submit(background, h.me, spec)
	if err != nil || len(ids) != 2 || ids[1] != ids[0]+"_7" {
		t.Fatalf("%v, %v", ids, err)
	}
	h.until(ids[1], api.Done)
	var envs [2]map[string]string
	for rank := range envs {
		envs[rank] = map[string]string{}
		for line := range strings.Lines(h.text("env" + strconv.Itoa(rank))) {
			name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
			envs[rank][name] = value
		}
		for name, want := range map[string]string{
			"RANK": strconv.Itoa(rank), "LOCAL_RANK": strconv.Itoa(rank), "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1",
			"OMPI_COMM_WORLD_RANK": strconv.Itoa(rank), "PMI_SIZE": "2", "JAX_PROCESS_ID": strconv.Itoa(rank), "JAX_NUM_PROCESSES": "2",
			"CUDA_VISIBLE_DEVICES": []string{"0,1", "2,3"}[rank], "NORN_JOB": ids[1], "NORN_RUN": "1", "NORN_JOB_NAME": "gang", "NORN_GPUS": "4",
			"NORN_ARRAY_ID": ids[0], "NORN_ARRAY_INDEX": "7", "NORN_SOCKET": filepath.Join(h.setup.State, "norn.sock"),
		} {
			if have := envs[rank][name]; have != want {
				t.Errorf("task %d finds %s=%q, want %q", rank, name, have, want)
			}
		}
	}
	if port := envs[0]["MASTER_PORT"]; port == "" || port != envs[1]["MASTER_PORT"] || envs[0]["JAX_COORDINATOR_ADDRESS"] != "127.0.0.1:"+port {
		t.Errorf("they meet at ports %q and %q", port, envs[1]["MASTER_PORT"])
	}
}

// One task fails, and the gang ends; the job tells which one it was.
func TestGangEnds(t *testing.T) {
	t.Parallel()
	h := newHere(t, "fifo", 2, nil)
	spec := h.sh(2, `trap "touch told; exit 0" TERM; touch up$RANK; if [ $RANK = 1 ]; then `+awaits("up0")+`; exit 3; fi; `+awaits("never"))
	spec.Tasks = api.Tasks{PerGPU: true}
	a := h.submit(spec)
	j := h.until(a, api.Failed)
	if j.Exit == nil || j.Exit.Code != 3 || j.Exit.Task != 1 || j.Reason != "task 1: exit code 3" {
		t.Errorf("%+v, %+v", j, j.Exit)
	}
	h.made("told")
}

// A failed job is tried again as often as its user wants, behind a wait that
// doubles.
func TestRetry(t *testing.T) {
	longtest.Skip(t)
	t.Parallel()
	h := newHere(t, "fifo", 1, nil)
	spec := h.sh(1, "exit 4")
	spec.Retry = api.Retry{Limit: 2, Backoff: 0.1}
	a := h.submit(spec)
	j := h.until(a, api.Failed)
	if j.Run != 3 || j.Failures != 3 || j.Reason != "exit code 4" {
		t.Errorf("%+v", j)
	}
	h.told(a, "submit start fail hold free start fail hold free start end")
	for i, e := range h.life(a, eventlog.Hold) {
		wait := 100 * time.Millisecond << i
		if e.Reason.At != e.Time+wait || !strings.HasPrefix(e.Reason.Text, "its attempt failed: exit code 4; tries again at ") {
			t.Errorf("failure %d: %+v, want a wait of %v", i+1, e.Reason, wait)
		}
	}
	for _, e := range h.life(a, eventlog.Fail) {
		because(t, e.Reason, job.Failed, "the attempt failed: exit code 4")
	}

	spec = h.sh(1, `test $NORN_RUN = 3`)
	spec.Retry = api.Retry{Limit: -1}
	b := h.submit(spec)
	if j := h.until(b, api.Done); j.Run != 3 || j.Failures != 2 {
		t.Errorf("%+v", j)
	}
}

// The wait before another attempt outlives the daemon, and a person can end it.
func TestRetryOverRestart(t *testing.T) {
	t.Parallel()
	h := newHere(t, "fifo", 1, nil)
	spec := h.sh(1, `test $NORN_RUN = 2`)
	spec.Retry = api.Retry{Limit: 1, Backoff: 3000}
	a := h.submit(spec)
	was := h.until(a, api.Held)
	h.down()
	h.up()
	if j := h.job(a); j.State != api.Held || j.Reason != was.Reason {
		t.Errorf("%s: %q, was %q", j.State, j.Reason, was.Reason)
	}
	if w := h.why(a); len(w.Frees) != 2 || !strings.HasPrefix(w.Frees[0], "the time: it is tried again at ") {
		t.Errorf("%+v", w)
	}
	h.do(server.Release, a)
	h.until(a, api.Done)
}

// A job that dies at once again and again is held, says why, and can be released.
func TestCrashLoop(t *testing.T) {
	t.Parallel()
	h := newHere(t, "fifo", 1, func(o *local.Options) { o.Defaults.CrashTimes, o.Defaults.CrashWithin = 3, time.Hour })
	spec := h.sh(1, "test -e mended")
	spec.Retry = api.Retry{Limit: -1}
	a := h.submit(spec)
	j := h.until(a, api.Held)
	if j.Run != 3 || j.Reason != "ended 3 times in a row within 1h of its start, last exit code 1; norn release lets it try again" {
		t.Errorf("%+v", j)
	}
	h.down()
	h.up()
	if again := h.job(a); again.State != api.Held || again.Reason != j.Reason {
		t.Errorf("%s: %q", again.State, again.Reason)
	}
	h.make("mended")
	h.do(server.Release, a)
	if j := h.until(a, api.Done); j.Run != 4 {
		t.Errorf("%+v", j)
	}
}

// A job whose program cannot be started says so.
func TestNotStarted(t *testing.T) {
	t.Parallel()
	h := newHere(t, "fifo", 1, nil)
	for want, change := range map[string]func(*api.JobSpec){
		"cannot run no-such-program: no such file in PATH":      func(s *api.JobSpec) { s.Command = []string{"no-such-program"} },
		"working directory /no/such: no such file or directory": func(s *api.JobSpec) { s.Dir = "/no/such" },
	} {
		spec := h.sh(1, "true")
		change(&spec)
		if j := h.until(h.submit(spec), api.Failed); j.Reason != want {
			t.Errorf("%q, want %q", j.Reason, want)
		}
	}
}

// A job is ended when its time is over, and is not tried again.
func TestTimeLimit(t *testing.T) {
	t.Parallel()
	h := newHere(t, "fifo", 1, nil)
	spec := h.sh(1, `trap "touch told; exit 1" TERM; touch up; `+awaits("never"))
	spec.Limit, spec.Retry = 0.3, api.Retry{Limit: 5}
	a := h.submit(spec)
	j := h.until(a, api.Failed)
	if j.Run != 1 || j.Reason != "ran into its time limit of 300ms" {
		t.Errorf("%+v", j)
	}
	h.made("told")
}

// Jobs start behind others: when these are done, when they have failed where that
// is allowed, and behind all of an array.
func TestAfter(t *testing.T) {
	longtest.Skip(t)
	t.Parallel()
	h := newHere(t, "fifo", 8, nil)
	after := func(deps ...api.After) string {
		spec := h.sh(1, "true")
		spec.After = deps
		return h.submit(spec)
	}
	fails := h.submit(h.sh(1, awaits("one")+"; exit 1"))
	array := h.sh(1, awaits("of$NORN_ARRAY_INDEX"))
	array.Array = "1-5:2"
	all := h.submit(array)
	works := h.submit(h.sh(1, awaits("two")))

	behindFails, behindAny := after(api.After{Job: fails}), after(api.After{Job: fails, Any: true})
	behindAll, behindOne := after(api.After{Job: all}), after(api.After{Job: all + "_3"})
	behindBoth := after(api.After{Job: works}, api.After{Job: fails, Any: true})
	for id, want := range map[string]string{
		behindFails: "waits for the end of job " + fails, behindAll: "waits for the end of job " + all,
		behindBoth: "waits for the end of job " + works + " and 1 more",
	} {
		if j := h.job(id); j.State != api.Held || j.Reason != want {
			t.Errorf("job %s is %s: %q, want %q", id, j.State, j.Reason, want)
		}
	}
	h.make("one")
	h.until(fails, api.Failed)
	h.until(behindAny, api.Done)
	never := "waits for the end of job " + fails + ", which failed: it never comes; norn release lets it start all the same"
	until(t, "it says that the end never comes", func() bool { return h.job(behindFails).Reason == never })

	h.make("of3")
	h.until(behindOne, api.Done)
	h.make("of1")
	h.until(all+"_1", api.Done)
	if j := h.job(behindAll); j.State != api.Held {
		t.Errorf("behind the array: %s", j.State)
	}
	h.make("of5")
	h.until(behindAll, api.Done)
	if j := h.job(behindBoth); j.State != api.Held || j.Reason != "waits for the end of job "+works {
		t.Errorf("behind two: %s, %q", j.State, j.Reason)
	}
	h.down()
	h.up()
	if j := h.job(behindFails); j.State != api.Held || j.Reason != never {
		t.Errorf("after a restart: %s, %q", j.State, j.Reason)
	}
	h.make("two")
	h.until(behindBoth, api.Done)
	h.do(server.Release, behindFails)
	h.until(behindFails, api.Done)

	late := after(api.After{Job: works}) // had ended before
	h.until(late, api.Done)
	_, err := h.Submit(background, h.me, func() api.JobSpec { s := h.sh(1, "true"); s.After = []api.After{{Job: "99"}}; return s }())
	refused(t, err, api.Invalid, `it cannot come after job "99": there is no such job`)
}

// TestSingleton: a singleton waits for all jobs of its user and name that came before it, however they end, and
// not for those that come later or have another name.
func TestSingleton(t *testing.T) {
	t.Parallel()
	h := newHere(t, "fifo", 8, nil)
	one := func(name, file string, single bool) string {
		spec := h.sh(1, awaits(file))
		if spec.Name = name; single {
			spec.After = []api.After{{Job: api.Singleton}}
		}
		return h.submit(spec)
	}
	first, other := one("night", "first", false), one("day", "never", false)
	second := one("night", "second", true)
	third := one("night", "third", true)
	free := one("night", "free", false)
	h.until(free, api.Running)
	for id, want := range map[string]string{second: "waits for the end of job " + first, third: "waits for the end of job " + first + " and 1 more"} {
		if j := h.job(id); j.State != api.Held || j.Reason != want {
			t.Errorf("job %s is %s: %q, want %q", id, j.State, j.Reason, want)
		}
	}
	h.down()
	h.up()
	h.do(server.Cancel, first)
	h.until(second, api.Running)
	if j := h.job(third); j.State != api.Held || j.Reason != "waits for the end of job "+second {
		t.Errorf("the third is %s: %q", j.State, j.Reason)
	}
	h.make("second")
	h.until(third, api.Running)
	if j := h.job(other); j.State != api.Running {
		t.Errorf("another one is %s", j.State)
	}
}

// An array is one submission and many jobs, which can be touched as one.
func TestArray(t *testing.T) {
	t.Parallel()
	h := newHere(t, "fifo", 2, func(o *local.Options) { o.Limits.Array, o.Limits.Jobs = 50, 100 })
	spec := h.sh(1, "echo $NORN_ARRAY_INDEX >> indices; "+awaits("enough"))
	spec.Array, spec.Held = "3,10-20:5", true
	ids, err := h.Submit(background, h.me, spec)
	if want := []string{"1", "1_3", "1_10", "1_15", "1_20"}; err != nil || !slices.Equal(ids, want) {
		t.Fatalf("%v, %v, want %v", ids, err, want)
	}
	h.do(server.Release, "1")
	until(t, "two run", func() bool { j := h.job("1_10"); return j.State == api.Running })
	h.do(server.Cancel, "1_20")
	all, err := h.Jobs(background, h.me, api.Query{IDs: []string{"1"}})
	var states []string
	for _, j := range all {
		states = append(states, fmt.Sprint(j.ID, " ", j.State))
	}
	if want := "1_3 running, 1_10 running, 1_15 waiting, 1_20 cancelled"; err != nil || strings.Join(states, ", ") != want {
		t.Errorf("%v, %v, want %s", states, err, want)
	}
	h.make("enough")
	h.until("1_15", api.Done)
	h.until("1_3", api.Done)
	h.until("1_10", api.Done)
	have := strings.Fields(h.text("indices"))
	slices.Sort(have)
	if fmt.Sprint(have) != "[10 15 3]" {
		t.Errorf("they ran with the indices %v", have)
	}
	for text, want := range map[string]string{
		"1-51": "an array has at most 50 jobs", "x": `"x" is not an array: write 1-20, 1,3,7 or 0-100:10`, "1,1": `"1,1" names an index twice`,
		"5-1": `"5-1" is not an array`, "1-2000000000": "is not an array", "0-999999999": "at most 50",
	} {
		spec.Array = text
		_, err := h.Submit(background, h.me, spec)
		refused(t, err, api.Invalid, want)
	}
	spec.Array = "1-50"
	h.submit(spec)
	h.submit(spec)
	_, err = h.Submit(background, h.me, spec)
	refused(t, err, api.Unavailable, "there are 100 jobs that have not ended, at most 100 are taken")
}
