package live

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/norn-scheduler/norn/api"
	"github.com/norn-scheduler/norn/job"
)

// Exits of every kind, by name. The run had lived for a minute.
func exits() (names []string, byName map[string]Exit) {
	byName = map[string]Exit{}
	add := func(name string, e Exit) {
		names = append(names, name)
		e.Lived = time.Minute
		byName[name] = e
	}
	code := func(n int) api.Exit { return api.Exit{Code: n} }
	term := api.Exit{Code: 143, Signal: "SIGTERM"}
	add("0", Exit{Tasks: 1})
	add("1", Exit{Tasks: 1, Status: code(1)})
	add("75", Exit{Tasks: 1, Status: code(75)})
	add("signal", Exit{Tasks: 1, Status: term})
	add("told: 0", Exit{Tasks: 1, Cause: Left, Asked: true})
	add("told: 1", Exit{Tasks: 1, Cause: Left, Asked: true, Status: code(1)})
	add("told: 75", Exit{Tasks: 1, Cause: Left, Asked: true, Status: code(75)})
	add("told: signal", Exit{Tasks: 1, Cause: Left, Asked: true, Status: term})
	add("told: killed", Exit{Tasks: 1, Cause: Left, Asked: true, Status: api.Exit{Code: 137, Signal: "SIGKILL"}, Killed: true})
	add("told: images", Exit{Tasks: 1, Cause: Left, Asked: true, Images: true})
	add("told: no task", Exit{Cause: Left, Asked: true})
	add("limit", Exit{Tasks: 1, Cause: TimeLimit, Status: term})
	add("not started", Exit{Cause: NotStarted, Error: "no such file"})
	add("lost", Exit{Cause: Lost, Status: api.Exit{Code: 137, Signal: "SIGKILL"}})
	return names, byName
}

var (
	phases   = []job.Phase{job.Running, job.Stopping, job.Waiting}
	modes    = []job.StopMode{job.Checkpoint, job.Freeze, job.Restart, job.Pinned}
	purposes = []Purpose{"", Preempted, Resizing, Requeuing, Cancelled, Overusing, Reclaimed}
)

// short is a verdict in a few words.
func (v *Verdict) short() string {
	out := v.Fate.String()
	if v.Fate == Evicted || v.Fate == Retried {
		out += " " + v.Reason.String()
	}
	if v.Fate == Evicted || v.Fate == Retried || v.Fate == Relaunch {
		out += " " + v.Kept.String()
	}
	if v.Saved {
		out += " saved"
	}
	if v.Hold != "" {
		out += " held"
	}
	return out
}

// TestVerdicts has the verdict on every kind of exit, in every phase, for every way to
// stop and every purpose: testdata/verdicts.txt. The job has done 20 minutes of work, of
// which it had saved 15, and may try once more.
func TestVerdicts(t *testing.T) {
	datadriven.RunTest(t, "testdata/verdicts.txt", func(t *testing.T, _ *datadriven.TestData) string {
		var b strings.Builder
		names, byName := exits()
		for _, phase := range phases {
			for _, mode := range modes {
				fmt.Fprintf(&b, "%s, stops by %s\n", phase, mode)
				for _, name := range names {
					var cells []string
					for _, p := range purposes {
						e := Ending{
							Exit: byName[name], Phase: phase, Stop: mode, Purpose: p, Why: "why", Progress: 20 * time.Minute, Saved: 15 * time.Minute,
							Since: time.Minute, Retry: api.Retry{Limit: 1},
						}
						v := e.Verdict(&Patience{CrashTimes: 3, CrashWithin: 10 * time.Second, SaveFailures: 3})
						cells = append(cells, v.short())
					}
					fmt.Fprintf(&b, "  %-13s %s\n", name, row(cells))
				}
			}
		}
		return b.String()
	})
}

// row is the cells of a row, by what they are for; equal ones are told once.
func row(cells []string) string {
	var out []string
	for i, c := range cells {
		name := string(purposes[i])
		if name == "" {
			name = "-"
		}
		if n := len(out); n > 0 && strings.HasSuffix(out[n-1], ": "+c) {
			out[n-1] = strings.Replace(out[n-1], ": "+c, "/"+name+": "+c, 1)
			continue
		}
		out = append(out, name+": "+c)
	}
	return strings.Join(out, "; ")
}

// A job that fails in a row in ways that do not get better by trying is held, and then
// counts anew.
func TestPatience(t *testing.T) {
	patience := Patience{CrashTimes: 2, CrashWithin: 10 * time.Second, SaveFailures: 3}
	crash := Ending{Exit: Exit{Tasks: 1, Status: api.Exit{Code: 7}}, Phase: job.Running, Since: time.Second, Retry: api.Retry{Limit: -1, Backoff: 60}}
	unsaved := Ending{Exit: Exit{Tasks: 1, Cause: Left, Asked: true, Status: api.Exit{Code: 3}}, Phase: job.Stopping, Stop: job.Checkpoint, Purpose: Preempted, Saved: time.Minute, Progress: time.Hour}
	hogs := Ending{Exit: Exit{Tasks: 1, Cause: Left, Asked: true, Status: api.Exit{Code: 3}}, Phase: job.Running, Purpose: Overusing, Why: "used 3GiB"}
	soon := unsaved
	soon.Status, soon.Lived = api.Exit{Code: 143, Signal: "SIGTERM"}, time.Second
	for _, c := range []struct {
		name   string
		ending Ending
		want   []string // of each time: for how long it is held, and why
	}{
		{"crash", crash, []string{
			"1m0s its attempt failed: exit code 7",
			"0s ended 2 times in a row within 10s of its start, last exit code 7; norn release lets it try again",
			"1m0s its attempt failed: exit code 7",
		}},
		{"unsaved", unsaved, []string{"0s ", "0s ", "0s its checkpoint failed 3 times in a row, last: exit code 3; norn release lets it try again", "0s "}},
		{"hogs", hogs, []string{"0s ", "0s ", "0s was thrown off 3 times for its memory, last: it used 3GiB; submit it with more gpu_mem, or norn release lets it try again", "0s "}},
		{"not ready", soon, []string{"0s ", "0s ", "0s ", "0s ", "0s "}}, // it did not know of the signal yet
	} {
		e := c.ending
		for i, want := range c.want {
			v := e.Verdict(&patience)
			if have := v.Wait.String() + " " + v.Hold; have != want {
				t.Errorf("%s %d: %q, want %q", c.name, i+1, have, want)
			}
			e.Counts = v.Counts
		}
	}
	long := crash
	long.Since, long.Counts.Crashes = time.Minute, 1
	if v := long.Verdict(&patience); v.Counts.Crashes != 0 {
		t.Errorf("%+v: an attempt that lasted is none of a row", v)
	}
	for failures, want := range map[int]time.Duration{0: time.Minute, 1: 2 * time.Minute, 5: 32 * time.Minute, 6: time.Hour, 100: time.Hour} {
		if have := backoff(&crash.Retry, failures); have != want {
			t.Errorf("after %d failures it waits %v, want %v", failures, have, want)
		}
	}
}

// A verdict is always possible. It adds no work, only a job with devices is
// told to have left them, and a cancelled job never runs again.
func TestVerdictsArePossible(t *testing.T) {
	_, byName := exits()
	for name, exit := range byName {
		for _, phase := range phases {
			for _, mode := range modes {
				for _, p := range purposes {
					for _, saved := range []time.Duration{0, time.Minute, time.Hour} {
						e := Ending{Exit: exit, Phase: phase, Stop: mode, Purpose: p, Progress: 2 * time.Minute, Saved: saved, Retry: api.Retry{Limit: -1}}
						v := e.Verdict(&Patience{})
						holds := phase == job.Running || phase == job.Stopping
						switch {
						case v.Kept > e.Progress:
							t.Errorf("%s %s %s %q: keeps %v of %v", name, phase, mode, p, v.Kept, e.Progress)
						case p == Cancelled && v.Fate != Revoked && v.Fate != Done:
							t.Errorf("%s %s %s: a cancelled job is %s", name, phase, mode, v.Fate)
						case p != Cancelled && holds == (v.Fate == Late || v.Fate == Undone):
							t.Errorf("%s %s %s %q: %s", name, phase, mode, p, v.Fate)
						case phase != job.Running && (v.Fate == Relaunch || v.Fate == Retried), phase != job.Stopping && v.Fate == Gone:
							t.Errorf("%s %s %s %q: %s", name, phase, mode, p, v.Fate)
						}
					}
				}
			}
		}
	}
}

func TestExitText(t *testing.T) {
	for want, e := range map[string]Exit{
		"exit code 3":                             {Tasks: 1, Status: api.Exit{Code: 3}},
		"ended by SIGSEGV":                        {Tasks: 1, Status: api.Exit{Signal: "SIGSEGV"}},
		"killed when its grace was over":          {Tasks: 1, Killed: true, Status: api.Exit{Signal: "SIGKILL"}},
		"task 2: exit code 1":                     {Tasks: 4, Status: api.Exit{Code: 1, Task: 2}},
		"ended by SIGKILL, out of memory":         {Tasks: 1, Status: api.Exit{Signal: "SIGKILL", Note: "out of memory"}},
		"no such file":                            {Cause: NotStarted, Error: "no such file"},
		"exit code 0, CRIU cannot save a process": {Tasks: 1, Error: "CRIU cannot save a process"},
	} {
		if have := e.Text(); have != want {
			t.Errorf("%q, want %q", have, want)
		}
	}
}

var fateNames = [...]string{"done", "failed", "revoked", "gone", "evicted", "retried", "relaunch", "late", "undone"}

func (f Fate) String() string { return fateNames[f] }
