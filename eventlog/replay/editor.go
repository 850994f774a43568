package replay

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/engine"
	"github.com/norn-scheduler/norn/eventlog"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/state"
)

// editor is the sink that tells the stretch of a log as a world of its own. Jobs
// have one number in the log and another in the stretch.
type editor struct {
	f       *folder
	stretch Stretch
	sinks   []engine.Sink

	s        *state.State // of the stretch
	from     time.Duration
	open     bool // the stretch has begun
	closed   bool // and is over
	err      error
	number   []job.ID                 // in the stretch, of the jobs of the log; job.None: it is not there
	base     map[job.ID]time.Duration // work that a job of the log had done before the stretch, as far as it still has it
	pending  []job.ID                 // came at this moment: it is not known yet whether they are on hold
	came     time.Duration            // that moment
	held     map[job.ID]arrival       // came, or were there, on hold
	believed []time.Duration          // estimates at submission, by number in the stretch
	attempts attempts
	script   []eventlog.Event
	scripted map[job.ID]bool // jobs of the stretch that the script holds
	costs    measured
	machine  []cluster.NodeID
	asleep   map[cluster.NodeID]bool // nodes whose power was chosen while they were idle, which another policy may choose otherwise
	already  int
	waived   int
}

// arrival is a job that has not come yet.
type arrival struct {
	spec     *job.Job
	estimate time.Duration
}

// before sees an event before the log is folded up to it, and begins the stretch
// with the first one that is about a job.
func (e *editor) before(ev *eventlog.Event) error {
	if ev.Kind == eventlog.NodeSet && ev.Reason.Code == job.Sleeps {
		if e.asleep == nil {
			e.asleep = map[cluster.NodeID]bool{}
		}
		e.asleep[ev.Node] = true
	}
	switch ev.Kind {
	case eventlog.NodeAdd, eventlog.NodeSet, eventlog.NodeLabels, eventlog.Device, eventlog.Foreign, eventlog.Used, eventlog.Learnt, eventlog.Carry, eventlog.Past, eventlog.Measured, eventlog.Recall:
	default:
		if from := e.begins(); !e.open && ev.Time >= from {
			e.begin(from)
		}
	}
	if e.open && !e.closed && e.stretch.To > 0 && ev.Time >= e.stretch.To {
		e.close()
	}
	return e.err
}

// begins is when the stretch begins.
func (e *editor) begins() time.Duration { return max(e.stretch.From, e.f.parts[0].From) }

// begin makes the world of the stretch as it is at its beginning.
func (e *editor) begin(from time.Duration) {
	e.open, e.from = true, from
	was := e.f.s
	var h eventlog.Header
	h.Describe(was.Cluster, was.Tenants)
	c, tenants, err := h.Build()
	if err != nil {
		e.err = err
		return
	}
	e.s = state.New(c, tenants)
	var active []job.ID
	for id := range job.ID(was.Jobs()) {
		if !was.Record(id).Phase.Over() {
			active = append(active, id)
		}
	}
	slices.SortStableFunc(active, func(a, b job.ID) int { return cmp.Compare(turn(was.Record(a)), turn(was.Record(b))) })
	e.already = len(active)
	first := max(0, from-time.Duration(len(active)+1))
	run := 0 // of them
	for run < len(active) && turn(was.Record(active[run])) == 0 {
		run++
	}
	var ill []eventlog.Event
	for _, ev := range eventlog.Inventory(was.Cluster) {
		ev.Time = first
		switch ev.Power = e.power(&ev); {
		case ev.Kind == eventlog.NodeAdd:
			e.emit(ev)
		case ev.Kind != eventlog.NodeSet || ev.Health != cluster.Up || ev.Power != cluster.Awake:
			ill = append(ill, ev)
		}
	}
	for i, id := range active {
		at := first + time.Duration(i)
		if i >= run {
			at++
		}
		e.come(id, at, from)
	}
	for _, id := range active {
		e.stand(id, from)
	}
	for _, ev := range ill { // behind those that run, for they may be on what takes nothing new
		ev.Time = from
		e.emit(ev)
		ev.Time = first + time.Duration(run)
		e.script = append(e.script, ev)
	}
}

// turn orders the jobs that are there: those that have devices go first.
func turn(r *job.Record) int {
	if r.Phase.HasDevices() {
		return 0
	}
	return 1
}

// come has a job of the log come that has been there for longer, with what it has
// left to do at a moment.
func (e *editor) come(id job.ID, at, from time.Duration) {
	r := e.f.s.Record(id)
	e.base[id] = r.ProgressAt(from)
	if a := (arrival{r.Job, r.Estimate}); r.Phase == job.Held || r.Phase == job.Stopping {
		e.held[id] = a
	} else {
		e.submit(id, a, at)
	}
}

// stand has a job that has just come do what the job of the log does.
func (e *editor) stand(id job.ID, at time.Duration) {
	was := e.f.s
	r := was.Record(id)
	ev := eventlog.Event{Time: at, Job: e.of(id), Alloc: was.Alloc(id), Speed: r.Speed, Reason: e.reason(r.Reason)}
	switch {
	case ev.Job < 0:
		return
	case r.Phase == job.Assigned:
		ev.Kind = eventlog.Assign
	case r.Phase == job.Running:
		ev.Kind, ev.Delay = eventlog.Start, max(0, r.Ready-at)
	case r.Phase == job.Held:
		ev.Kind = eventlog.Hold
	default:
		ev.Kind = eventlog.Wait
	}
	e.emit(ev)
	if r.Config.Reported != (job.Reported{}) {
		e.emit(eventlog.Event{Time: at, Kind: eventlog.Config, Job: ev.Job, Reported: r.Config.Reported})
	}
	if s := r.Saves; s.Regular {
		e.emit(eventlog.Event{Time: at, Kind: eventlog.Saved, Job: ev.Job, Kept: s.Last, Every: s.Every})
	} else if s.Last > 0 {
		e.emit(eventlog.Event{Time: at, Kind: eventlog.Saved, Job: ev.Job, Kept: s.Last})
	}
}

// submit has a job come.
func (e *editor) submit(id job.ID, a arrival, at time.Duration) {
	spec := *a.spec
	spec.ID, spec.Submit = job.ID(e.s.Jobs()), at
	if done := e.base[id]; done > 0 && spec.Estimate > 0 {
		spec.Estimate = max(1, spec.Estimate-done)
	}
	for int(id) >= len(e.number) {
		e.number = append(e.number, job.None)
	}
	e.number[id] = spec.ID
	estimate := e.estimate(id, a.estimate)
	e.believed = append(e.believed, estimate)
	e.emit(eventlog.Event{Time: at, Kind: eventlog.Submit, Job: spec.ID, Spec: &spec, Estimate: estimate})
}

// estimate is what is left of an estimate.
func (e *editor) estimate(id job.ID, d time.Duration) time.Duration {
	if d < 0 {
		return -1
	}
	return max(0, d-e.base[id])
}

// of is the number in the stretch of a job of the log.
func (e *editor) of(id job.ID) job.ID {
	if id < 0 || int(id) >= len(e.number) {
		return job.None
	}
	return e.number[id]
}

func (e *editor) reason(r job.Reason) job.Reason {
	r.Job = e.of(r.Job)
	return r
}

// emit folds an event of the stretch in, and shows it.
func (e *editor) emit(ev eventlog.Event) {
	if e.err != nil {
		return
	}
	if err := engine.Apply(e.s, &ev); err != nil {
		e.err = fmt.Errorf("the log cannot be told from %v on: %w", e.from, err)
		return
	}
	e.attempts.Event(&ev, e.s)
	for _, sink := range e.sinks {
		sink.Event(&ev, e.s)
	}
}

// Event implements engine.Sink: it is shown the events of the log.
func (e *editor) Event(ev *eventlog.Event, s *state.State) {
	if !e.open || e.closed {
		return
	}
	if ev.Kind == eventlog.Submit {
		if len(e.pending) > 0 && ev.Time > e.came {
			e.flush()
		}
		e.pending, e.came = append(e.pending, ev.Job), ev.Time
		return
	}
	if ev.Kind == eventlog.Hold && ev.Time == e.came {
		if i := slices.Index(e.pending, ev.Job); i >= 0 {
			e.pending = slices.Delete(e.pending, i, i+1)
			r := s.Record(ev.Job)
			e.held[ev.Job] = arrival{r.Job, r.Estimate}
			return
		}
	}
	if ev.Kind == eventlog.Learnt || ev.Kind == eventlog.Memo || ev.Kind == eventlog.Past || ev.Kind == eventlog.Measured || ev.Kind == eventlog.Recall { // what a scheduler believes is no part of the world
		return
	}
	e.flush()
	e.costs.event(ev, s)
	switch ev.Kind {
	case eventlog.NodeAdd, eventlog.NodeSet, eventlog.NodeLabels, eventlog.Device, eventlog.Foreign, eventlog.Used:
		e.node(ev)
	case eventlog.Carry:
		e.carried(ev, s)
	default:
		e.job(ev)
	}
}

// flush has those come of whom it is known by now that they are not on hold.
func (e *editor) flush() {
	for _, id := range e.pending {
		r := e.f.s.Record(id)
		e.submit(id, arrival{r.Job, r.Estimate}, e.came)
	}
	e.pending = e.pending[:0]
}

func (e *editor) node(ev *eventlog.Event) {
	if err := CopyKinds(e.f.s.Cluster, e.s.Cluster); err != nil && e.err == nil {
		e.err = err
	}
	e.emit(*ev)
	switch ev.Kind {
	case eventlog.NodeSet:
		if ev.Reason.Code == job.Sleeps {
			return
		}
		e.script = append(e.script, eventlog.Event{Time: ev.Time, Kind: ev.Kind, Node: ev.Node, Health: ev.Health, Power: e.power(ev), Reason: loan(ev.Reason)})
	case eventlog.Device:
		e.script = append(e.script, eventlog.Event{Time: ev.Time, Kind: ev.Kind, Device: ev.Device, Broken: ev.Broken})
	case eventlog.Foreign:
		use := *ev.Foreign
		use.GPUs = slices.Clone(use.GPUs)
		e.script = append(e.script, eventlog.Event{Time: ev.Time, Kind: ev.Kind, Node: ev.Node, Foreign: &use})
	}
}

// power is the power of a node as an event tells it, awake where it has been chosen while the node was
// idle.
func (e *editor) power(ev *eventlog.Event) cluster.Power {
	if ev.Kind == eventlog.NodeSet && e.asleep[ev.Node] {
		return cluster.Awake
	}
	return ev.Power
}

// loan is the reason of a change of a node if its owner has lent it or taken it back.
func loan(r job.Reason) job.Reason {
	if r.Code == job.TakenBack {
		return r
	}
	return job.Reason{Job: job.None}
}

// job tells an event about a job.
func (e *editor) job(ev *eventlog.Event) {
	if a, held := e.held[ev.Job]; held {
		e.released(ev, a)
		return
	}
	out := *ev
	if out.Job = e.of(ev.Job); out.Job < 0 {
		return
	}
	out.Reason, out.With = e.reason(ev.Reason), e.of(ev.With)
	switch ev.Kind {
	case eventlog.Merge:
		if out.Kept = e.kept(ev); out.With < 0 {
			out.How = job.Apart
		}
	case eventlog.Preempt, eventlog.Evict, eventlog.Fail, eventlog.Progress:
		out.Kept = e.kept(ev)
	case eventlog.Estimate:
		out.Estimate = e.estimate(ev.Job, ev.Estimate)
	case eventlog.Hold:
		// One that has its end is the wait before another attempt.
		if e.scripted[out.Job] = ev.Reason.At == 0; e.scripted[out.Job] {
			e.script = append(e.script, eventlog.Event{Time: ev.Time, Kind: eventlog.Hold, Job: out.Job, Reason: job.Reason{Code: job.OnHold, Job: job.None}})
		}
	case eventlog.Free:
		if e.scripted[out.Job] {
			e.script = append(e.script, eventlog.Event{Time: ev.Time, Kind: eventlog.Free, Job: out.Job})
		}
	case eventlog.Cancel:
		if e.s.Record(out.Job).Starts == 0 {
			e.script = append(e.script, eventlog.Event{Time: ev.Time, Kind: eventlog.Cancel, Job: out.Job})
		}
	}
	e.emit(out)
}

// kept is what a job keeps of the work that it did in the stretch. It has to
// repeat the earlier work that it loses.
func (e *editor) kept(ev *eventlog.Event) time.Duration {
	if base, ok := e.base[ev.Job]; ok && ev.Kept < base {
		e.base[ev.Job] = ev.Kept
	}
	return ev.Kept - e.base[ev.Job]
}

// released is an event about a job that has not come yet.
func (e *editor) released(ev *eventlog.Event, a arrival) {
	switch ev.Kind {
	case eventlog.Estimate:
		a.estimate = ev.Estimate
		e.held[ev.Job] = a
	case eventlog.Cancel, eventlog.End:
		delete(e.held, ev.Job)
		e.waived++
	case eventlog.Evict, eventlog.Gone, eventlog.Free:
		if ev.Kind == eventlog.Evict {
			e.kept(ev)
		}
		delete(e.held, ev.Job)
		e.submit(ev.Job, a, ev.Time)
	}
}

// carried tells of a job that a later log carries on otherwise than the one before
// had left it, or that comes with it.
func (e *editor) carried(ev *eventlog.Event, s *state.State) {
	id, r := e.of(ev.Job), s.Record(ev.Job)
	delete(e.held, ev.Job)
	if id < 0 {
		e.come(ev.Job, ev.Time, ev.Time)
		e.stand(ev.Job, ev.Time)
		return
	}
	switch was := e.s.Record(id).Phase; {
	case was.HasDevices() || was == job.Stopping:
		kept := eventlog.Event{Job: ev.Job, Kept: r.Progress}
		e.emit(eventlog.Event{Time: ev.Time, Kind: eventlog.Evict, Job: id, Kept: e.kept(&kept), Reason: e.reason(r.Reason)})
	case was == job.Held:
		e.emit(eventlog.Event{Time: ev.Time, Kind: eventlog.Free, Job: id})
	}
	e.stand(ev.Job, ev.Time)
}

// close ends the stretch before the log does.
func (e *editor) close() {
	e.flush()
	e.closed, e.machine = true, slices.Clone(e.f.nodes())
	if e.err == nil {
		e.s.Now = e.stretch.To
	}
}

// end is told that the log is over.
func (e *editor) end() error {
	if !e.open {
		e.begin(max(e.begins(), e.f.s.Now))
	}
	if !e.closed {
		e.flush()
		e.machine = slices.Clone(e.f.nodes())
	}
	if e.err == nil && !e.closed {
		e.s.Now = max(e.s.Now, e.f.s.Now)
	}
	return e.err
}
