package preempt_test

import (
	"cmp"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/place"
	"github.com/norn-scheduler/norn/policy/kit/preempt"
	"github.com/norn-scheduler/norn/sched"
	"github.com/norn-scheduler/norn/sim/simtest"
)

// byEnd orders jobs by their expected end, as shortest remaining time first
// does. Waiting jobs count as if they started now.
type byEnd struct{}

func (byEnd) Key(v *sched.View, j sched.Job, chosen bool) preempt.Key {
	left, _ := j.Remaining()
	if chosen {
		if end, ok := j.ExpectedEnd(); ok {
			return preempt.Key{A: int64(end)}
		}
		return preempt.Key{A: int64(v.Now + left)}
	}
	return preempt.Key{A: int64(left)}
}

func (byEnd) Shift(v *sched.View) int64 { return int64(v.Now) }

// runner is a preempt.Policy with no additions.
type runner struct{ preempt.Policy }

func newRunner(literal bool) func() (sched.Policy, error) {
	return func() (sched.Policy, error) {
		return &runner{preempt.Policy{Order: byEnd{}, Place: func(sched.Job) place.Strategy { return place.Pack }, Literal: literal}}, nil
	}
}

func (r *runner) Decide(v *sched.View, p *sched.Plan) {
	r.Follow(v, p)
	r.Policy.Decide(v, p)
}

// naive sorts all active jobs at every decision and walks them from the top. It
// chooses a job that fits what is left, and skips one that does not.
type naive struct{}

func newNaive() (sched.Policy, error) { return naive{}, nil }

func (naive) Decide(v *sched.View, p *sched.Plan) {
	type active struct {
		j   sched.Job
		key int64
	}
	var all []active
	for j := range v.Waiting() {
		if p.Never(j.ID, place.Pack).Code != job.NoReason {
			continue
		}
		left, _ := j.Remaining()
		all = append(all, active{j, int64(v.Now + left)})
	}
	for j := range v.Running() {
		a := active{j: j, key: -1 << 62}
		if end, ok := j.ExpectedEnd(); ok {
			a.key = int64(end)
		}
		if stop := j.Spec().Stop; stop == job.Pinned || stop == job.Restart || j.Unsaved() {
			a.key = -1 << 62
		}
		all = append(all, a)
	}
	slices.SortFunc(all, func(a, b active) int { return cmp.Or(cmp.Compare(a.key, b.key), cmp.Compare(a.j.ID, b.j.ID)) })
	free := v.Total()
	var stops, starts []job.ID
	for _, a := range all {
		fits := a.j.GPUs() <= free
		if fits {
			free -= a.j.GPUs()
		}
		switch {
		case fits && !a.j.Running():
			starts = append(starts, a.j.ID)
		case !fits && a.j.Running():
			stops = append(stops, a.j.ID)
		}
	}
	slices.Sort(stops)
	for _, id := range stops {
		p.Stop(id, job.Reason{Code: job.MakesRoom, Job: starts[0]})
	}
	for _, id := range starts {
		p.Start(id, place.Pack)
	}
}

// TestPolicyAgainstNaive: a Policy, by repair and by walking, decides as naive
// does, event by event.
func TestPolicyAgainstNaive(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		shape := simtest.Shape{}
		w := simtest.Draw(t, shape)
		nodes := rapid.SliceOfN(rapid.IntRange(1, 6), 1, 4).Draw(t, "nodes")
		play := func(build func() (sched.Policy, error)) string {
			w.Make = build
			w.Fresh(t, shape, nodes)
			run, err := simtest.Try(w.Config, w.Jobs...)
			if err != nil {
				t.Fatal(err)
			}
			var out strings.Builder
			for _, line := range run.Log {
				if !strings.Contains(line, " wait ") { // reasons are not part of the choice
					out.WriteString(line + "\n")
				}
			}
			return out.String()
		}
		want := play(newNaive)
		for _, literal := range []bool{false, true} {
			if got := play(newRunner(literal)); got != want {
				t.Fatalf("literal=%v:\n%s\n--- the naive walk:\n%s", literal, got, want)
			}
		}
	})
}

// TestSelectorAllocatesNothing: once warm, a Selector allocates no memory.
func TestSelectorAllocatesNothing(t *testing.T) {
	var s preempt.Selector
	s.SetCapacity(64)
	work := func() {
		for i := range job.ID(200) {
			s.Add(i, 1<<(i%6), preempt.Key{A: int64(i * 37 % 101)})
			s.Shift(int64(i))
		}
		s.Changes(func(job.ID, bool) {})
		for i := range job.ID(200) {
			s.Remove(i)
		}
		s.Changes(func(job.ID, bool) {})
		s.Shift(0)
	}
	work()
	if n := testing.AllocsPerRun(20, work); n != 0 {
		t.Errorf("%v allocations in a warm round", n)
	}
}
