package tune

import (
	"bytes"
	"context"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/norn-scheduler/norn/eventlog"
	"github.com/norn-scheduler/norn/eventlog/replay"
	"github.com/norn-scheduler/norn/experiment"
	"github.com/norn-scheduler/norn/experiment/whatif"
	"github.com/norn-scheduler/norn/report"
	"github.com/norn-scheduler/norn/trace"
	"github.com/norn-scheduler/norn/trace/clusterspec"
	"github.com/norn-scheduler/norn/trace/gen"
)

// past is a machine that has a log of what it went through.
type past struct {
	t     *testing.T
	log   []byte
	zero  time.Time
	force experiment.Choice
	used  []string
	fails error
}

// unclosed is a writer that stays open.
type unclosed struct{ io.Writer }

func (unclosed) Close() error { return nil }

// begun is when the log of a test begins.
var begun = time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)

// went is a machine on which the built-in jobs have run under a policy.
func went(t *testing.T, under string) *past {
	t.Helper()
	p := &past{t: t, zero: begun, force: choice(t, under)}
	var to bytes.Buffer
	spec, err := clusterspec.Parse(gen.SampleCluster)
	if err != nil {
		t.Fatal(err)
	}
	src, err := experiment.OpenSample(trace.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer src.Close()
	x := experiment.Experiment{Spec: spec, Seed: 1, Log: func(string) (experiment.Log, error) { return experiment.Log{WriteCloser: unclosed{&to}}, nil }}
	x.Header.Origin = begun
	if _, err := x.Run(t.Context(), p.force, src); err != nil {
		t.Fatal(err)
	}
	p.log = to.Bytes()
	return p
}

// Policy implements Machine.
func (p *past) Policy(context.Context) (experiment.Choice, error) { return p.force, p.fails }

// Past implements Machine.
func (p *past) Past(_ context.Context, from, to time.Time) (*whatif.History, error) {
	in := replay.Stretch{From: max(0, from.Sub(p.zero)), To: to.Sub(p.zero)}
	if in.To <= in.From {
		return nil, nil
	}
	r, err := eventlog.NewReader(bytes.NewReader(p.log), "log")
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return whatif.Read(r, in, report.Options{})
}

// Use implements Machine.
func (p *past) Use(_ context.Context, c experiment.Choice) error {
	p.force = c
	p.used = append(p.used, c.String())
	return nil
}

// keeper is one at a moment after the log began.
func keeper(p *past, after time.Duration) *Keeper {
	e, err := whatif.ParseEstimates(whatif.Believed)
	if err != nil {
		p.t.Fatal(err)
	}
	return &Keeper{
		Machine: p, Tuner: Tuner{Objective: Objectives()[0], Trials: 8, Seed: 1}, Estimates: e,
		Window: 7 * 24 * time.Hour, Later: 0.3, Least: 0.1, Worse: 0.1, Few: 20, Now: func() time.Time { return begun.Add(after) },
	}
}

func step(t *testing.T, k *Keeper) Step {
	t.Helper()
	s, err := k.Step(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestKeeperChanges: settings that are better on both parts of the past are put in force, and are kept at the
// next step, where nothing better is found.
func TestKeeperChanges(t *testing.T) {
	p := went(t, "tiresias")
	k := keeper(p, 4*24*time.Hour)
	s := step(t, k)
	if s.Verdict != Changed || s.Was.String() != "tiresias" || s.Is.String() != p.force.String() || len(p.used) != 1 || s.Gain < 0.1 || s.Later < 0.1 || s.Ended < 20 {
		t.Fatalf("%+v, used %q", s, p.used)
	}
	if s = step(t, k); s.Verdict != Watching || s.Ended != 0 || len(p.used) != 1 {
		t.Errorf("just after the change: %+v", s)
	}
	k.Now = func() time.Time { return begun.Add(5 * 24 * time.Hour) }
	if s = step(t, k); s.Verdict != Kept && s.Verdict != Changed || k.changed != nil && s.Verdict == Kept {
		t.Errorf("a day later: %+v", s)
	}
	q := went(t, "tiresias")
	if k = keeper(q, 5*24*time.Hour); k.Least == 0 {
		t.Fatal("nothing is asked for")
	}
	if k.Least = 0.99; step(t, k).Verdict != Kept || len(q.used) > 0 {
		t.Errorf("used %q, which is not 99 %% better", q.used)
	}
}

// TestKeeperTakesBack: settings under which jobs fare worse than they would have without the change are taken
// back, and not put in force again. Where somebody else has changed the policy, nothing is judged.
func TestKeeperTakesBack(t *testing.T) {
	const bad = "tiresias(limits=1,promote=inf)"
	good := went(t, "tiresias")
	k := keeper(good, 5*24*time.Hour)
	if s := step(t, k); s.Verdict != Changed {
		t.Fatalf("%+v", s)
	}
	better := good.force

	p := went(t, bad)
	k = keeper(p, 5*24*time.Hour)
	k.changed = &change{from: better, to: choice(t, bad), at: begun.Add(24 * time.Hour)}
	s := step(t, k)
	if s.Verdict != TookBack || p.force.String() != better.String() || s.Is.String() != better.String() || s.Gain > -0.1 || k.changed != nil {
		t.Fatalf("%+v, in force %s", s, p.force)
	}
	k.Least, p.force = 0.99, choice(t, "tiresias")
	if s = step(t, k); s.Verdict != Kept || s.Found.String() == s.Is.String() {
		t.Fatalf("%+v", s)
	}
	k.Least, k.shunned = 0, append(k.shunned, s.Found.String())
	if s = step(t, k); s.Verdict != Shunned || len(p.used) != 1 {
		t.Errorf("%+v, used %q", s, p.used)
	}
	k.Least, k.changed = 0.99, &change{from: better, to: choice(t, bad), at: begun.Add(24 * time.Hour)}
	if s = step(t, k); s.Verdict == TookBack || k.changed != nil {
		t.Errorf("somebody else's settings: %+v", s)
	}
}

// TestKeeperWaits: nothing is concluded from too few jobs, or before there is a past, and errors change nothing.
func TestKeeperWaits(t *testing.T) {
	p := went(t, "tiresias")
	for _, after := range []time.Duration{0, 10 * time.Minute} {
		if s := step(t, keeper(p, after)); s.Verdict != TooFew || s.Ended >= 20 {
			t.Errorf("after %v: %+v", after, s)
		}
	}
	p.fails = errors.New("gone")
	if _, err := keeper(p, 5*24*time.Hour).Step(t.Context()); !errors.Is(err, p.fails) || len(p.used) > 0 {
		t.Errorf("%v, used %q", err, p.used)
	}
}
