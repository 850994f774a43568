package live

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/norn-scheduler/norn/api"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/engine"
	"github.com/norn-scheduler/norn/eventlog"
	"github.com/norn-scheduler/norn/experiment"
	"github.com/norn-scheduler/norn/experiment/foreign"
	"github.com/norn-scheduler/norn/internal/workers"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/policy/defrag"
	"github.com/norn-scheduler/norn/sched"
	"github.com/norn-scheduler/norn/sim"
	"github.com/norn-scheduler/norn/state"
	"github.com/norn-scheduler/norn/trace"
)

// forecast is the present state, to be played on in a simulation: under the same
// policy, as if nothing more were submitted and every estimate held. It shares
// nothing with the daemon.
type forecast struct {
	header eventlog.Header
	events []eventlog.Event
	choice experiment.Choice
	moves  *defrag.Config
	costs  perf.Costs
	gains  perf.Transfer
	speeds perf.Typed
	now    time.Duration

	programs chan struct{} // is full while a program decides in a forecast
}

// forecast copies the present state.
func (d explainer) forecast() *forecast {
	f := &forecast{choice: d.choice, moves: d.cfg.Defrag, costs: *d.costs, gains: d.cfg.Transfer, speeds: d.cfg.Speeds, now: max(d.Loop.Now(), d.st.Now), programs: d.programs}
	f.header.Describe(d.st.Cluster, d.st.Tenants)
	f.header.Begins, f.header.Usage = f.now, Usage(d.st, d.st.Tenants)
	f.events = Inventory(d.st.Cluster, d.st.Now)
	for _, ev := range eventlog.Carried(d.st, mostPast) {
		if ev.Alloc != nil {
			on := *ev.Alloc
			on.Pieces, on.Shares = append(on.Pieces[:0:0], on.Pieces...), append(on.Shares[:0:0], on.Shares...)
			ev.Alloc = &on
		}
		f.events = append(f.events, ev)
	}
	f.events = append(f.events, eventlog.Lessons(d.st, f.events)...)
	return f
}

// maxInstants bounds a forecast: decisions of the policy.
const maxInstants = 200_000

// first notes the first moment at which each job has devices.
type first struct {
	waits map[job.ID]bool // jobs that had none at the beginning, and still have none
	begun func(id job.ID, at time.Duration)
}

// Event implements engine.Sink.
func (f *first) Event(ev *eventlog.Event, s *state.State) {
	if AboutJob(ev.Kind) && f.waits[ev.Job] && s.Record(ev.Job).Phase.HasDevices() {
		delete(f.waits, ev.Job)
		f.begun(ev.Job, ev.Time)
	}
}

// play goes on from the present state until more says that it is enough, there is nothing
// more to come, or the context ends. It tells begun of each waiting job that starts, by
// its key. whole says that it came to an end by itself: the jobs that have not begun never
// do, as far as is known.
func (f *forecast) play(ctx context.Context, begun func(key string, at time.Duration), more func() bool) (whole bool, err error) {
	c, tenants, err := f.header.Build()
	if err != nil {
		return false, err
	}
	s := state.New(c, tenants)
	seen := &first{waits: map[job.ID]bool{}, begun: func(id job.ID, at time.Duration) { begun(s.Record(id).Job.Key, at) }}
	for i := range f.events {
		if err := engine.Apply(s, &f.events[i]); err != nil {
			return false, err
		}
	}
	for id := range job.ID(s.Jobs()) {
		if s.Known(id) && s.Record(id).Phase == job.Waiting {
			seen.waits[id] = true
		}
	}
	s.Now = f.now
	p, end, err := f.policy(ctx)
	if err != nil {
		return false, err
	}
	defer end()
	world := sim.New(sim.Config{Source: trace.FromMemory(nil), Model: f.speeds, Costs: f.costs})
	e := engine.New(engine.Config{Cluster: c, Tenants: tenants, Policy: f.choice.Moving(p, f.moves), PolicyName: f.choice.Policy, Costs: &f.costs, Speeds: f.speeds, Sharing: belief(), Transfer: f.gains, Believe: f.choice.Believe(), Exclusive: !f.choice.Shares(), Seed: 1, Sinks: []engine.Sink{seen}, Each: workers.Pool(0)}, world)
	e.Resume(s)
	if err := world.Attach(s); err != nil {
		return false, err
	}
	world.Resume(func(r *job.Record) time.Duration { return left(r, f.now) })
	for range maxInstants {
		if len(seen.waits) == 0 {
			return true, nil
		}
		switch err := e.Step(); {
		case err != nil && ctx.Err() != nil:
			return false, ctx.Err()
		case err != nil && f.choice.Policy == foreign.Name && errors.As(err, new(*engine.PolicyError)):
			return false, api.Refuse(api.Unavailable, "the program that decides failed in a forecast: %v", err)
		case err != nil: // the end, or a policy that sees no end
			return true, nil
		}
		if !more() {
			return false, nil
		}
		if ctx.Err() != nil {
			return false, ctx.Err()
		}
	}
	return false, nil
}

// policy makes the policy of a forecast, and what ends it. A program has a process for the
// forecast alone, one at a time, which ends with the context at the latest: whoever asks for
// forecasts starts no more than that.
func (f *forecast) policy(ctx context.Context) (p sched.Policy, end func(), err error) {
	if p, err = f.choice.Make(); err != nil {
		return nil, nil, err
	}
	program, ok := p.(*foreign.Policy)
	if !ok {
		return p, func() {}, nil
	}
	select {
	case f.programs <- struct{}{}:
	case <-ctx.Done():
		return nil, nil, ctx.Err()
	}
	program.Stderr = io.Discard // it has said that when it decided
	stop := context.AfterFunc(ctx, func() { _ = program.Close() })
	return p, func() {
		stop()
		_ = program.Close()
		<-f.programs
	}, nil
}

// start is when a job starts, ok is false when that cannot be told: what goes ahead of it
// has no estimate, or it is too far away.
func (f *forecast) start(ctx context.Context, key string) (at time.Duration, ok bool, err error) {
	_, err = f.play(ctx, func(k string, moment time.Duration) {
		if k == key {
			at, ok = moment, true
		}
	}, func() bool { return !ok })
	return at, ok, err
}

// left is the work that a job still has, as far as is known.
func left(r *job.Record, now time.Duration) time.Duration {
	if r.Estimate < 0 {
		return unit.Never
	}
	return max(0, r.Estimate-r.ProgressAt(now))
}

// expect fills in when a waiting job is expected to start.
func (f *forecast) expect(ctx context.Context, wall func(time.Duration) time.Time, w *api.Why) error {
	at, ok, err := f.start(ctx, w.Job.ID)
	switch {
	case err != nil:
		return err
	case ok:
		w.Expected, w.Unknown = wall(at), ""
	case w.Unknown == "":
		w.Unknown = "jobs that go ahead of it have no estimate, or wait for something else"
	}
	return nil
}
