package engine_test

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/engine"
	"github.com/norn-scheduler/norn/eventlog"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/place"
	"github.com/norn-scheduler/norn/policy/shortest"
	"github.com/norn-scheduler/norn/sched"
	"github.com/norn-scheduler/norn/sim"
	"github.com/norn-scheduler/norn/sim/simtest"
)

// scripted is a policy made of functions.
type scripted struct {
	decide func(v *sched.View, p *sched.Plan)
	wake   func(v *sched.View) time.Duration
}

func (s *scripted) Decide(v *sched.View, p *sched.Plan) { s.decide(v, p) }

func (s *scripted) NextWake(v *sched.View) time.Duration {
	if s.wake == nil {
		return unit.Never
	}
	return s.wake(v)
}

func (s *scripted) make() (sched.Policy, error) { return s, nil }

func newSRTF() (sched.Policy, error) { return shortest.NewSRTF().Policy() }

// startAll starts every job that fits.
func startAll(v *sched.View, p *sched.Plan) {
	for j := range v.Waiting() {
		p.Start(j.ID, place.Pack)
	}
}

func linesEqual(t *testing.T, got []string, want string) {
	t.Helper()
	if text := strings.Join(got, "\n"); text != strings.TrimSpace(want) {
		t.Errorf("have\n%s\nwant\n%s", text, strings.TrimSpace(want))
	}
}

// TestOrderAtOneInstant: events of one moment are folded in a fixed order. Ends
// and failures of attempts come first. Arriving nodes, lost nodes with their
// evicted jobs, jobs that have left, and submissions follow. Then the policy
// decides once: stops, moves, starts, reasons.
func TestOrderAtOneInstant(t *testing.T) {
	decisions := 0
	at10 := 0
	p := &scripted{decide: func(v *sched.View, p *sched.Plan) {
		decisions++
		if v.Now == 10*time.Second {
			at10++
		}
		if v.Now == 5*time.Second {
			p.Stop(3, job.Reason{Code: job.MakesRoom, Job: job.None}) // leaves for 5 s
		}
		startAll(v, p)
	}}
	run := simtest.Go(t, simtest.Config{
		Cluster: simtest.Nodes(4, 1), Make: p.make, Costs: perf.Costs{Base: perf.Cost{Checkpoint: 5 * time.Second}},
		World: func(c *sim.Config) {
			c.Nodes = []sim.Node{{At: 10 * time.Second, Spec: cluster.NodeSpec{Name: "new"}}}
			c.Script = []eventlog.Event{
				{Time: 5 * time.Second, Kind: eventlog.Hold, Job: 4, Reason: job.Reason{Code: job.OnHold, Job: job.None}},
				{Time: 10 * time.Second, Kind: eventlog.NodeSet, Node: 2, Health: cluster.Down},
			}
		},
	},
		simtest.Job{Key: "ends", GPUs: 1, Run: 10},
		simtest.Job{Key: "fails", GPUs: 1, Run: 5, Fails: []float64{10}},
		simtest.Job{Key: "evicted", GPUs: 1, Run: 20},
		simtest.Job{Key: "leaves", GPUs: 1, Run: 20},
		simtest.Job{Key: "held", GPUs: 1, Run: 5},
		simtest.Job{Key: "comes", GPUs: 1, Run: 1, At: 10},
	)
	var lines []string
	for _, line := range run.Log {
		if strings.HasPrefix(line, "10 ") {
			lines = append(lines, line)
		}
	}
	linesEqual(t, lines, `
10 end ends done
10 fail fails: the attempt failed
10 estimate fails 5
10 node-add new
10 evict evicted: a node it ran on was lost
10 node-set n2 down awake
10 gone leaves
10 submit comes
10 start fails on n0[0]
10 start evicted on n1[0]
10 start leaves on n3[0]
10 wait comes: needs 1 GPU; 0 free`)
	if at10 != 1 {
		t.Errorf("the policy decided %d times at 10 s", at10)
	}
}

// TestBadPlanNamesThePolicy: an impossible plan ends the run with an error that
// names policy, moment and job. The state is as before the decision.
func TestBadPlanNamesThePolicy(t *testing.T) {
	cases := []struct {
		name string
		do   func(v *sched.View, p *sched.Plan)
		want string
	}{
		{"start twice", func(v *sched.View, p *sched.Plan) { p.Start(1, place.Pack); p.Start(0, place.Pack) },
			"policy test at 10s: it made a plan that cannot be: job a: cannot start it: it holds devices already"},
		{"nobody", func(v *sched.View, p *sched.Plan) { p.Start(1, place.Pack); p.Stop(77, job.Reason{}) },
			"policy test at 10s: it made a plan that cannot be: cannot stop job number 77: there is no such job"},
		{"pinned", func(v *sched.View, p *sched.Plan) { p.Start(1, place.Pack); p.Stop(0, job.Reason{}) },
			"policy test at 10s: it made a plan that cannot be: job a: cannot stop it: it must never be stopped"},
		{"half a gang", func(v *sched.View, p *sched.Plan) { p.StartSize(1, 1, place.Pack) },
			"policy test at 10s: it made a plan that cannot be: job b: cannot start it: it is a gang of 2 tasks, not 1"},
		{"busy", func(v *sched.View, p *sched.Plan) { p.StartOn(1, v.Alloc(0)) },
			"policy test at 10s: it made a plan that cannot be: job b: cannot start it: it does not fit: GPU 0 of node n0 has 0 of a GPU free, 1 is needed"},
		{"its own", func(v *sched.View, p *sched.Plan) { p.Start(1, place.Pack); p.Invalidate(errors.New("no idea")) },
			"policy test at 10s: it made a plan that cannot be: no idea"},
		{"panic", func(v *sched.View, p *sched.Plan) { p.Start(1, place.Pack); panic("oh") }, "policy test at 10s: it panicked: oh"},
		{"panic in a try", func(v *sched.View, p *sched.Plan) {
			p.Try(func() bool { p.Start(1, place.Pack); panic("oh") })
		}, "policy test at 10s: it panicked: oh"},
	}
	for _, c := range cases {
		p := &scripted{decide: func(v *sched.View, p *sched.Plan) {
			if v.Now == 0 {
				startAll(v, p)
				return
			}
			c.do(v, p)
		}}
		run, err := simtest.Try(simtest.Config{Cluster: simtest.Nodes(1, 4), Make: p.make},
			simtest.Job{Key: "a", GPUs: 2, Run: 60, Spec: func(j *job.Job) { j.Stop = job.Pinned }},
			simtest.Job{Key: "b", At: 10, GPUs: 2, Run: 60})
		if err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%s: %v, want %s", c.name, err, c.want)
		}
		var mistake *engine.PolicyError
		if !errors.As(err, &mistake) || mistake.Policy != "test" || mistake.At != 10*time.Second {
			t.Errorf("%s: %#v is not the error of the policy", c.name, err)
		}
		if err := run.State.Check(); err != nil {
			t.Errorf("%s: the state is corrupt: %v", c.name, err)
		}
		if b := run.Record("b"); b.Phase != job.Waiting || run.Record("a").Phase != job.Running || run.State.Cluster.FreeGPUs(0, 0) != 2 {
			t.Errorf("%s: b is %s, %d GPUs are free", c.name, b.Phase, run.State.Cluster.FreeGPUs(0, 0))
		}
	}
}

// TestWakes: a policy is woken exactly when it asked for it, and told so. A
// moment that is not later than now is an error of the policy.
func TestWakes(t *testing.T) {
	var woken []time.Duration
	p := &scripted{
		decide: func(v *sched.View, p *sched.Plan) {
			if v.Woken {
				woken = append(woken, v.Now)
			}
			startAll(v, p)
		},
		wake: func(v *sched.View) time.Duration {
			if v.Now >= 30*time.Second {
				return unit.Never
			}
			return (v.Now/(7*time.Second) + 1) * 7 * time.Second
		},
	}
	jobs := []simtest.Job{{Key: "a", GPUs: 1, Run: 14}, {Key: "b", GPUs: 1, Run: 50, At: 3}}
	simtest.Go(t, simtest.Config{Cluster: simtest.Nodes(1, 1), Make: p.make}, jobs...)
	if want := []time.Duration{7e9, 14e9, 21e9, 28e9, 35e9}; !slices.Equal(woken, want) {
		t.Errorf("woken at %v, want %v", woken, want)
	}
	for _, wake := range []time.Duration{0, -time.Second, 3 * time.Second} {
		p := &scripted{decide: startAll, wake: func(v *sched.View) time.Duration {
			if v.Now < 3*time.Second {
				return unit.Never
			}
			return wake
		}}
		_, err := simtest.Try(simtest.Config{Cluster: simtest.Nodes(1, 1), Make: p.make}, jobs...)
		want := fmt.Sprintf("policy test at 3s: it wants to be woken at %s, which is not later", unit.Human(wake))
		if err == nil || err.Error() != want {
			t.Errorf("a wake at %v: %v, want %s", wake, err, want)
		}
	}
	// A policy that is woken for ever does not keep a run from ending.
	wakes := 0
	p = &scripted{decide: func(v *sched.View, p *sched.Plan) { wakes++; startAll(v, p) }, wake: func(v *sched.View) time.Duration { return v.Now + time.Second }}
	run := simtest.Go(t, simtest.Config{Cluster: simtest.Nodes(1, 1), Make: p.make}, jobs...)
	if !run.Record("b").Phase.Over() || wakes < 64 {
		t.Errorf("b is %s after %d wakes", run.Record("b").Phase, wakes)
	}
}

// TestDrains: a job whose devices two others are leaving starts when the last of
// them has left.
func TestDrains(t *testing.T) {
	why := job.Reason{Code: job.MakesRoom, Job: 2}
	p := &scripted{decide: func(v *sched.View, p *sched.Plan) {
		switch v.Now {
		case 0:
			p.Start(0, place.Pack)
			p.Start(1, place.Pack)
		case 10 * time.Second:
			p.Stop(0, why)
		case 12 * time.Second:
			p.Stop(1, why)
			p.Start(2, place.Pack)
		case 47 * time.Second:
			startAll(v, p)
		}
	}, wake: func(v *sched.View) time.Duration {
		if v.Now == 10*time.Second {
			return 12 * time.Second
		}
		return unit.Never
	}}
	run := simtest.Go(t, simtest.Config{
		Cluster: simtest.Nodes(2, 4), Make: p.make, Costs: perf.Costs{Base: perf.Cost{Checkpoint: 5 * time.Second, Restore: 2 * time.Second}},
	},
		simtest.Job{Key: "a", GPUs: 4, Run: 60}, simtest.Job{Key: "b", GPUs: 4, Run: 60}, simtest.Job{Key: "c", GPUs: 8, Run: 30, At: 10},
	)
	var lines []string
	for _, line := range run.Log {
		if !strings.Contains(line, " wait ") && !strings.Contains(line, " submit ") {
			lines = append(lines, line)
		}
	}
	linesEqual(t, lines, `
0 start a on n0[0-3]
0 start b on n1[0-3]
10 preempt a kept=10: makes room for job c, which goes first
12 preempt b kept=12: makes room for job c, which goes first
12 assign c on n0[0-3]+n1[0-3]
15 gone a
17 gone b
17 start c on n0[0-3]+n1[0-3]
47 end c done
47 start a on n0[0-3] delay=2
47 start b on n1[0-3] delay=2
97 end b done
99 end a done`)
}

// TestMoveAndResize: a job that is planned onto other devices is moved, and one
// with another number of tasks is resized. A job that is planned onto the same
// devices is left alone.
func TestMoveAndResize(t *testing.T) {
	elastic := job.GPUs(2)
	elastic.Roles[0].Min, elastic.Roles[0].Max = 1, 4
	p := &scripted{decide: func(v *sched.View, p *sched.Plan) {
		switch v.Now {
		case 0:
			p.Start(0, place.FirstFit)
			p.Start(1, place.FirstFit)
		case 10 * time.Second:
			p.Stop(0, job.Reason{})
			p.Start(0, place.FirstFit) // where it was
		case 30 * time.Second:
			p.Resize(0, 4, place.Pack)
		case 45 * time.Second:
			p.Move(0, place.FirstFit)
		}
	}, wake: func(v *sched.View) time.Duration {
		for _, at := range []time.Duration{10e9, 30e9, 45e9} {
			if at > v.Now {
				return at
			}
		}
		return unit.Never
	}}
	run := simtest.Go(t, simtest.Config{
		Cluster: simtest.Nodes(2, 4), Make: p.make, Model: perf.Analytic{Scaling: 1, Spread: 1},
		Costs: perf.Costs{Base: perf.Cost{Migrate: 3 * time.Second, Resize: 5 * time.Second}},
	}, simtest.Job{Key: "a", Demand: &elastic, Run: 60}, simtest.Job{Key: "b", GPUs: 2, Run: 40})
	linesEqual(t, run.Log, `
0 submit a
0 submit b
0 start a on n0[0-1]
0 start b on n0[2-3]
30 resize a on n1[0-3] delay=5
40 end b done
45 move a on n0[0-3] delay=3
53 end a done`)
	// 30 s at speed 1, 10 s at speed 2 from 35 to 45, 5 s at speed 2 from 48 on.
	if a := run.Record("a"); a.Migrations != 1 || a.Resizes != 1 || a.Preemptions != 0 || a.Progress != 60*time.Second {
		t.Errorf("%d migrations, %d resizes, %d preemptions, progress %v", a.Migrations, a.Resizes, a.Preemptions, a.Progress)
	}
}

// TestWorldErrors: the engine checks the events of a world, too.
func TestWorldErrors(t *testing.T) {
	spec := &job.Job{Key: "a", Demand: &job.Demand{}}
	submit := eventlog.Event{Kind: eventlog.Submit, Spec: spec}
	for _, c := range []struct {
		events []eventlog.Event
		want   string
	}{
		{[]eventlog.Event{{Kind: eventlog.End, Job: 3}}, "the world told what cannot be: end: job number 3 is not known"},
		{[]eventlog.Event{submit, {Kind: eventlog.End, Job: 0, Outcome: job.Done}}, "the world told what cannot be: job a: cannot end it, it is waiting"},
		{[]eventlog.Event{submit, {Kind: eventlog.Gone}}, "job a: cannot stop it, it is waiting"},
		{[]eventlog.Event{{Kind: eventlog.NodeSet, Node: 9}}, "node number 9 is not known"},
		{[]eventlog.Event{{Kind: eventlog.Device, Device: 99}}, "device number 99 is not known"},
		{[]eventlog.Event{{Time: -1, Kind: eventlog.NodeSet}}, "the world told what cannot be: an event at"},
	} {
		e := engine.New(engine.Config{Cluster: simtest.Nodes(1, 1), Policy: &scripted{decide: func(*sched.View, *sched.Plan) {}}, PolicyName: "test"}, &fake{events: c.events})
		if err := e.Step(); err == nil || !strings.Contains(err.Error(), c.want) || errors.As(err, new(*engine.PolicyError)) {
			t.Errorf("%v: %v, want %s", c.events, err, c.want)
		}
	}
	broken := engine.New(engine.Config{Cluster: simtest.Nodes(1, 1), Policy: &scripted{}, PolicyName: "test"}, &fake{err: errors.New("policy of the site: no power")})
	if err := broken.Step(); err == nil || errors.As(err, new(*engine.PolicyError)) {
		t.Errorf("%v is taken for a mistake of the policy", err)
	}
	e := engine.New(engine.Config{Cluster: simtest.Nodes(1, 1), Policy: &scripted{decide: func(*sched.View, *sched.Plan) {}}, PolicyName: "test"}, &fake{times: []time.Duration{5, 3}})
	if err := errors.Join(e.Step(), e.Step()); err == nil || !strings.Contains(err.Error(), "the world went back from 5ns to 3ns") {
		t.Errorf("a world that goes back: %v", err)
	}
}

// fake is a world that tells given events and carries out nothing.
type fake struct {
	events []eventlog.Event
	times  []time.Duration
	err    error
}

func (f *fake) Next(_ time.Duration, out []eventlog.Event) (time.Duration, []eventlog.Event, error) {
	now := time.Duration(0)
	switch {
	case f.err != nil:
		return 0, out, f.err
	case len(f.times) > 0:
		now, f.times = f.times[0], f.times[1:]
	case len(f.events) == 0:
		return 0, out, io.EOF
	}
	out = append(out, f.events...)
	f.events = nil
	return now, out, nil
}

func (f *fake) Start(job.ID, *cluster.Alloc) (time.Duration, float64)         { return 0, 1 }
func (f *fake) Stop(job.ID) (time.Duration, bool)                             { return 0, true }
func (f *fake) Reshape(job.ID, *cluster.Alloc, bool) (time.Duration, float64) { return 0, 1 }

// TestStandstill: a policy undoes at each step what it did at the last one, and
// the world reports the effects at once. The run ends with an error that names
// the policy.
func TestStandstill(t *testing.T) {
	back := &scripted{decide: func(v *sched.View, p *sched.Plan) {
		for j := range v.Waiting() {
			p.Start(j.ID, place.Pack)
			return
		}
		for j := range v.Running() {
			p.Stop(j.ID, job.Reason{Code: job.MakesRoom, Job: job.None})
		}
	}}
	world := sim.New(sim.Config{Source: simtest.Source([]simtest.Job{{Key: "a", GPUs: 1, Run: 10}}), Measure: true})
	e := engine.New(engine.Config{Cluster: simtest.Nodes(1, 1), Policy: back, PolicyName: "back"}, world)
	if err := world.Attach(e.State()); err != nil {
		t.Fatal(err)
	}
	err := e.Run(t.Context())
	if err == nil || !strings.Contains(err.Error(), "changes its mind again and again, and time stands still") {
		t.Errorf("%v", err)
	}
}
