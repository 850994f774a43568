package simtest

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/norn-scheduler/norn/engine"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/sched"
	"github.com/norn-scheduler/norn/sim"
	"github.com/norn-scheduler/norn/state"
)

// Learning is a policy that learns what it believes from what is measured.
type Learning struct {
	Build   func() (sched.Policy, error)
	Believe engine.Believe // must make believers that are perf.Telling
	Meter   sim.Meter      // what is measured; it must not depend on what Other changes

	// Other is the same jobs with another truth, which no belief may show; nil: none is tried.
	Other func(t *rapid.T, jobs []Job) []Job
}

// Properties is Properties for a policy that learns. Besides, a scheduler that starts again from
// a new log, in which jobs have other numbers, believes the same. Of two worlds with other truths
// in which the same is measured, the policy decides the same until something of the world itself
// happens otherwise.
func (l *Learning) Properties(t *testing.T, shape Shape) {
	t.Helper()
	measured := 0
	rapid.Check(t, func(t *rapid.T) {
		w := Draw(t, shape)
		nodes := rapid.SliceOfN(rapid.IntRange(1, 6), 1, 5).Draw(t, "nodes")
		if shape.Operated {
			w.operate(t, nodes)
		}
		for i := range w.Jobs {
			w.Jobs[i].Serial = int64(3 + i) // behind those of strangers
		}
		var of perf.Believer
		w.Make = l.Build
		w.Believe = func(p perf.Prior) perf.Believer {
			p.Told = false
			of = l.Believe(p)
			return of
		}
		before := w.World
		w.World = func(c *sim.Config) {
			if before != nil {
				before(c)
			}
			c.Meter = l.Meter
		}
		play := func(jobs []Job, restart bool) *Run {
			w.Fresh(t, shape, nodes)
			w.Restart = restart
			run, err := Try(w.Config, jobs...)
			if err != nil {
				t.Fatalf("restarts %v: %v\n%s", restart, err, run.text())
			}
			run.checkEnded(t)
			return run
		}
		run := play(w.Jobs, false)
		measured += len(run.State.Readings.All())
		l.Survives(t, run.State, of)
		SameDecisions(t, "a policy that starts anew", run.Log, play(w.Jobs, true).Log)
		if l.Other != nil {
			SameUpToWorld(t, run.Log, play(l.Other(t, slices.Clone(w.Jobs)), false).Log)
		}
	})
	if measured == 0 {
		t.Error("nothing was ever measured")
	}
}

// Survives fails the test unless a believer that is made anew from a state, as it is or after a new
// log has begun, tells the same as the one that there was. The jobs must have a Serial of three or more.
func (l *Learning) Survives(t *rapid.T, s *state.State, of perf.Believer) {
	again, err := ReopenAs(s, Numbering{Past: s.Jobs(), Strangers: rapid.IntRange(0, 2).Draw(t, "strangers")})
	if err != nil {
		t.Fatal(err)
	}
	want := grounds(s, of)
	for _, s := range []*state.State{s, again} {
		anew := l.Believe(perf.Prior{})
		for _, m := range s.Readings.All() {
			anew.Observe(s.Record(m.Job).Job, m.Reading)
		}
		got := grounds(s, anew)
		for key, text := range want {
			if got[key] != text {
				t.Fatalf("of job %s is believed %q, before the restart it was %q", key, got[key], text)
			}
		}
	}
}

// grounds is what is believed of jobs, by their keys.
func grounds(s *state.State, of perf.Believer) map[string]string {
	out := map[string]string{}
	for i := range s.Jobs() {
		j := s.Record(job.ID(i)).Job
		out[j.Key] = strings.Join(of.(perf.Telling).Grounds(j), "\n")
	}
	return out
}

// SameUpToWorld fails the test where two logs (Run.Log) first differ in what a policy decides.
func SameUpToWorld(t *rapid.T, a, b []string) {
	for i := range min(len(a), len(b)) {
		if a[i] == b[i] {
			continue
		}
		ofWorld := func(line string) bool {
			return slices.ContainsFunc([]string{" end ", " measured ", " speed ", " evict ", " fail ", " used ", " node-set ", " device ", " config ", " gone ", " begin "}, func(kind string) bool { return strings.Contains(line, kind) })
		}
		if !ofWorld(a[i]) && !ofWorld(b[i]) {
			t.Fatalf("it sees the truth:\n%s\n--- in the other world:\n%s", around(a, i), around(b, i))
		}
		return
	}
}

// OtherUse has jobs use GPUs otherwise than they did.
func OtherUse(t *rapid.T, jobs []Job) []Job {
	for i := range jobs {
		spec, use := jobs[i].Spec, rapid.Float64Range(0.01, 1).Draw(t, "other use")
		jobs[i].Spec = func(j *job.Job) {
			if spec != nil {
				spec(j)
			}
			h := job.Hints{}
			if j.Hints != nil {
				h = *j.Hints
			}
			h.GPUUse, h.MemoryUse = use, 1-use
			j.Hints = &h
		}
	}
	return jobs
}
