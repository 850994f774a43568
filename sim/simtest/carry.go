package simtest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"time"

	"pgregory.net/rapid"

	"github.com/norn-scheduler/norn/engine"
	"github.com/norn-scheduler/norn/eventlog"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/sched"
	"github.com/norn-scheduler/norn/sim"
	"github.com/norn-scheduler/norn/state"
	"github.com/norn-scheduler/norn/tenant"
)

// Numbering says how Opening numbers jobs anew; the zero value carries over those that have not ended.
type Numbering struct {
	Past      int  // as many of the jobs that have ended are carried over
	Strangers int  // as many more jobs that ended before, and never ran, come before all others
	Forget    bool // notes are not carried over, as when the policy changes
}

// Opening is the beginning of a log that goes on from a state, as a live world
// writes it: the header, and the events that describe the machine and the jobs.
func Opening(s *state.State, n Numbering) (eventlog.Header, []eventlog.Event) {
	h := eventlog.Header{World: "sim", Policy: "test", Begins: s.Now}
	h.Describe(s.Cluster, s.Tenants)
	for i := range tenant.ID(s.Tenants.Len()) {
		h.Usage = append(h.Usage, s.Tenants.Usage(i, s.Now))
	}
	events := eventlog.Inventory(s.Cluster)
	for i := range events {
		events[i].Time = s.Now
	}
	for i := range n.Strangers {
		events = append(events, stranger(s, i))
	}
	later := func(id job.ID) job.ID {
		if id == job.None {
			return id
		}
		return id + job.ID(n.Strangers)
	}
	for _, ev := range eventlog.Carried(s, n.Past) {
		ev.Job, ev.Reason.Job, ev.Record.With = later(ev.Job), later(ev.Reason.Job), later(ev.Record.With)
		ev.Spec.ID, ev.Left = ev.Job, ev.Left+int32(n.Strangers)
		ev.Record.Note = ev.Record.Note.Renumbered(later)
		if n.Forget {
			ev.Record.Note = nil
		}
		events = append(events, ev)
	}
	return h, append(events, eventlog.Lessons(s, events)...)
}

// stranger is a job that was cancelled before it ran, before anybody else came.
func stranger(s *state.State, i int) eventlog.Event {
	d := job.GPUs(1)
	spec := &job.Job{ID: job.ID(i), Serial: 1 + int64(i), Key: fmt.Sprint("stranger", i), Demand: &d}
	if s.Jobs() > 0 { // else there would be a tenant more
		spec.Tenant = s.Record(0).Job.Tenant
	}
	past := &job.Record{Phase: job.Cancelled, FirstStart: -1, With: job.None}
	return eventlog.Event{Time: s.Now, Kind: eventlog.Past, Job: spec.ID, Spec: spec, Record: past, Estimate: -1, Reason: job.Reason{Job: job.None}, Left: int32(i)}
}

// Reopen writes the Opening of a state without the jobs that have ended, reads it
// again and folds it.
func Reopen(s *state.State) (*state.State, error) { return ReopenAs(s, Numbering{}) }

// ReopenAs does so with other numbers.
func ReopenAs(s *state.State, n Numbering) (*state.State, error) {
	h, events := Opening(s, n)
	var log bytes.Buffer
	w, err := eventlog.NewWriter(&log, &h, eventlog.Plain)
	if err != nil {
		return nil, err
	}
	for i := range events {
		if err := w.Write(&events[i]); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	r, err := eventlog.NewReader(&log, "carried.log")
	if err != nil {
		return nil, err
	}
	c, tenants, err := r.Header.Build()
	if err != nil {
		return nil, err
	}
	again := state.New(c, tenants)
	var ev eventlog.Event
	for {
		err := r.Next(&ev)
		if errors.Is(err, io.EOF) {
			again.Now = r.Header.Begins
			return again, again.Settle()
		}
		if err == nil {
			err = engine.Apply(again, &ev)
		}
		if err != nil {
			return nil, r.Wrap(err)
		}
	}
}

// Steps runs a world instant by instant, until its end or until each, which sees
// the state behind every instant, returns false.
func (w *World) Steps(p sched.Policy, each func(*state.State, *sim.Sim) bool) error {
	cfg := sim.Config{Source: Source(w.Jobs), Costs: w.Costs, Seed: w.Seed}
	if w.World != nil {
		w.World(&cfg)
	}
	world := sim.New(cfg)
	e := engine.New(engine.Config{
		Cluster: w.Cluster, Tenants: w.Tenants, Policy: p, PolicyName: "test", Estimator: world.Oracle(), Costs: &w.Costs, Sharing: w.Sharing, Seed: w.Seed, Sinks: w.Sinks,
	}, world)
	e.Announce()
	if err := world.Attach(e.State()); err != nil {
		return err
	}
	for range maxSteps {
		if err := e.Step(); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		if !each(e.State(), world) {
			return nil
		}
	}
	return fmt.Errorf("the run does not end")
}

// DrawLong draws a world whose jobs take long and stop in all ways, so that they are met
// in every phase, while they leave too; perhaps with an operator.
func DrawLong(t *rapid.T, shape Shape) World {
	w := Draw(t, shape)
	w.AnyStop(t)
	for i := range w.Jobs {
		w.Jobs[i].Run *= 3
	}
	if shape.Costs { // so that jobs are met while they leave
		w.Costs.Base.Checkpoint = 12 * time.Second
	}
	nodes := rapid.SliceOfN(rapid.IntRange(1, 6), 1, 5).Draw(t, "nodes")
	if rapid.Bool().Draw(t, "operated") {
		w.Operate(t, nodes)
	}
	w.Fresh(t, shape, nodes)
	if w.Tenants == nil {
		w.Tenants = tenant.NewTree(time.Minute)
	}
	return w
}

// Operate adds a random operator to a world: what he does to nodes, which are
// those that Fresh is given, to GPUs and to jobs.
func (w *World) Operate(t *rapid.T, nodes []int) { w.operate(t, nodes) }

// AnyStop gives the jobs of a world all the ways to be stopped, freezing among
// them.
func (w *World) AnyStop(t *rapid.T) {
	for i := range w.Jobs {
		was, stop := w.Jobs[i].Spec, rapid.SampledFrom([]job.StopMode{job.Checkpoint, job.Freeze, job.Freeze, job.Restart, job.Pinned}).Draw(t, "stop")
		w.Jobs[i].Spec = func(j *job.Job) {
			if was != nil {
				was(j)
			}
			j.Stop = stop
		}
	}
}
