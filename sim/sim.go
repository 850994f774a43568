// Package sim is the world of virtual time: jobs arrive as a trace says, run as
// their truth says, and fail as a seeded random source says. The truth stays in
// here: a policy is shown estimates at most.
//
// Nouns: the truth of a job is its work (trace.Truth). Its speed is what the
// performance model says for its allocation. Completions are exact, since
// progress is an integral of speed without ticks.
package sim

import (
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/eventlog"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/perf/predict"
	"github.com/norn-scheduler/norn/state"
	"github.com/norn-scheduler/norn/state/dense"
	"github.com/norn-scheduler/norn/trace"
)

// Config is how the simulated world behaves.
type Config struct {
	Source trace.Source
	Model  perf.Model // nil: perf.Reference

	Variability *perf.Variability // how far devices of a type really differ; nil: they are alike
	Linked      *perf.Linked      // how far jobs are really slower that are not linked best; nil: they are not

	Sharing  perf.Sharing  // how jobs on one device really slow each other down; nil: they do not
	Transfer perf.Transfer // what merged jobs really learn from each other; nil: nothing
	Measure  bool          // tell what is in use of each device
	Crash    float64       // part of the failures of jobs that take down those they share devices with, as a shared context of MPS does
	Reset    time.Duration // for which those then stand still
	Meter    Meter         // what is measured of jobs; nil: nothing
	Load     Load          // how what jobs demand of devices that they share changes with time; nil: it does not

	Costs perf.Costs // what transitions really cost
	Seed  uint64     // of failures

	NodeMTBF   time.Duration // mean time between failures of a node, 0 never
	NodeRepair time.Duration // mean time to repair a node
	JobMTBF    time.Duration // mean time between failures of a running job, 0 never
	Snapshot   time.Duration // how often jobs save their state; 0: only when they leave with a checkpoint

	Boot time.Duration // until a node is awake that was asleep

	CopyGBps float64 // at which data comes into a place, one copy after the other; 0: at once

	Nodes []Node       // nodes that arrive later, in order of time
	Loans []trace.Loan // nodes that others lend and take back, in order of time

	// InPlace has jobs that resize in place (job.InPlace) go on with what they have elsewhere when
	// an owner takes a node back. The policy must be one that resizes jobs.
	InPlace bool

	// Script is what happens besides, in order of time: NodeSet, NodeLabels, Device, Cancel,
	// Hold, Free, Speed and Used. A node that goes down throws off what runs there.
	// An event that is impossible by then (to cancel a job that has ended) does not
	// happen.
	Script []eventlog.Event

	// Disturb is for published simulators in which any event disturbs every running
	// job. When set, it is asked at each instant for each running job that does not
	// end then. It returns how much progress the job has lost since the last
	// instant, gap ago; the answer is bounded by the gap.
	Disturb func(j *job.Job, gap time.Duration) time.Duration
}

// Node is a node that arrives during the run.
type Node struct {
	At   time.Duration
	Spec cluster.NodeSpec
}

// Sim is a simulated world. It implements engine.World.
type Sim struct {
	cfg   Config
	state *state.State
	truth truths
	specs []job.Job   // the chunk that the next jobs go into
	next  trace.Entry // the next arrival
	more  bool

	timers  dense.Heap // running: end of the attempt; stopping: when it has left
	nodes   dense.Heap // node -> next failure or repair
	boots   boots
	copies  copies
	down    dense.Set                         // nodes under repair
	before  map[cluster.NodeID]cluster.Health // of those of them that were not simply up before they failed
	rand    *rand.Rand
	breaks  map[job.ID]bool // running jobs whose timer is a random failure
	leaving []leaving
	writing []leaving // devices on which a pipeline writes its weights
	shared  sharing
	loads   loads
	loans   loans
	meter   meter
	courses courses
	told    []told   // what this instant has made of jobs so far
	gone    []job.ID // who has left at this instant
	taken   []taken  // by a disturbance at this instant
	last    time.Duration
	err     error
}

// truth is the truth of one job and how far it has come in it.
type truth struct {
	trace.Truth
	attempt int32         // number of attempts that failed as the trace says
	broken  int32         // number of random failures
	saved   time.Duration // progress in the checkpoint with which it last left
	large   int32         // number of times for which it needed more memory than a GPU has

	gain   float64       // on its speed, by what it has learnt or learns from another job; 0: 1
	gone   time.Duration // work done as if without gains, up to marked
	marked time.Duration // progress up to which gone counts
	began  time.Duration // since when it makes progress, or is measured, on what it has
	turn   int           // place in Course
}

// truths are those of all jobs, by number.
type truths struct{ dense.Rows[truth] }

func (t *truths) of(id job.ID) *truth { return t.At(int(id)) }

// work is the work of the attempt that the job is in.
func (t *truth) work() time.Duration {
	if int(t.attempt) < len(t.Attempts) {
		return t.Attempts[t.attempt]
	}
	return t.Work
}

// told is the phase in which a job is once the engine has heard what was told of
// this instant so far. Jobs that are not mentioned are in that of their record.
type told struct {
	id    job.ID
	phase job.Phase
}

// taken is progress that a job has lost to a disturbance.
type taken struct {
	id   job.ID
	lost time.Duration
}

// leaving is a device that its holder is still leaving.
type leaving struct {
	device cluster.DeviceID
	until  time.Duration
}

// New makes a world. Attach must follow before it is used.
func New(cfg Config) *Sim {
	if cfg.Model == nil {
		cfg.Model = perf.Reference{}
	}
	w := &Sim{cfg: cfg, rand: rand.New(rand.NewPCG(cfg.Seed, 0x73696d)), breaks: map[job.ID]bool{}, before: map[cluster.NodeID]cluster.Health{}}
	w.share()
	return w
}

// Attach gives the world the state of the run, which it reads, and fetches the
// first job.
func (w *Sim) Attach(s *state.State) error {
	w.state = s
	if w.cfg.NodeMTBF > 0 {
		for n := range s.Cluster.Nodes() {
			w.nodes.Set(int32(n), int64(exponential(w.rand, w.cfg.NodeMTBF)))
		}
	}
	if err := w.loans.attach(s.Cluster, w.cfg.Loans); err != nil {
		return err
	}
	return w.fetch()
}

// Resume takes over the jobs of a state that did not begin empty, such as that
// of a live cluster. left returns the work that each still has, unit.Never for
// a job that does not end. It must follow Attach, before the first instant.
func (w *Sim) Resume(left func(*job.Record) time.Duration) {
	now := w.state.Now
	for i := range w.state.Jobs() {
		id := job.ID(i)
		r := w.state.Record(id)
		t := w.truth.Add()
		t.saved, t.Work = r.Progress, later(r.ProgressAt(now), left(r))
		switch r.Phase {
		case job.Running:
			w.comes(id, w.state.Alloc(id))
			w.schedule(id, max(now, r.Ready), r.ProgressAt(now), r.Speed)
		case job.Stopping:
			w.timers.Set(int32(id), int64(now+w.cfg.Costs.Of(int(r.Milli/unit.One)).Checkpoint))
		}
	}
	w.last = now
}

// fetch reads the next arrival.
func (w *Sim) fetch() error {
	before := w.next.Job.Submit
	w.next = trace.Entry{}
	err := w.cfg.Source.Next(&w.next)
	if errors.Is(err, io.EOF) {
		w.more = false
		return nil
	}
	if err != nil {
		return err
	}
	if w.next.Job.Submit < before {
		return fmt.Errorf("job %s: is submitted at %s, before the job ahead of it", w.next.Job.Key, unit.Human(w.next.Job.Submit))
	}
	w.more = true
	return nil
}

// Next implements engine.World.
func (w *Sim) Next(wake time.Duration, out []eventlog.Event) (time.Duration, []eventlog.Event, error) {
	if w.err != nil {
		return 0, out, w.err
	}
	if w.unsettled() { // what has changed may be of no consequence: then there is no instant for it
		w.told = w.told[:0]
		if out = w.settle(w.state.Now, meters{w}.readings(out)); len(out) > 0 {
			return w.state.Now, out, nil
		}
	}
	now := w.nextInstant()
	if now == unit.Never {
		return 0, out, io.EOF
	}
	// While nothing but wakes of the policy happened, failures of nodes were not
	// looked at: those that are overdue happen now.
	now = min(max(now, w.state.Now), wake)
	if w.cfg.Disturb != nil {
		out = w.disturb(now, out)
	}
	w.last = now
	w.turns(now)
	out = w.ended(now, out)
	out = w.nodeEvents(now, out)
	out = lending{w}.loaned(now, out)
	out, err := w.script(now, out)
	if err != nil {
		return now, out, err
	}
	out = w.boots.ended(now, w.state.Cluster, out)
	out = w.copies.arrived(now, w.state.Cluster, out)
	out = meters{w}.looks(now, out)
	out = w.change(now, out)
	out = w.settle(now, out)
	// Jobs that have left come after the nodes that are lost, so that no job is
	// started there.
	for _, id := range w.gone {
		out = append(out, eventlog.Event{Time: now, Kind: eventlog.Gone, Job: id})
	}
	out, err = w.arrivals(now, out)
	return now, out, err
}

// nextInstant is when something happens next. Failures of nodes alone do not
// keep a run going.
func (w *Sim) nextInstant() time.Duration {
	if w.unsettled() {
		return w.state.Now
	}
	now := unit.Never
	if w.more {
		now = w.next.Job.Submit
	}
	if w.timers.Len() > 0 {
		_, at := w.timers.Min()
		now = min(now, time.Duration(at))
	}
	if w.courses.next.Len() > 0 {
		_, at := w.courses.next.Min()
		now = min(now, time.Duration(at))
	}
	now = min(now, w.boots.next(), w.copies.next())
	if len(w.cfg.Nodes) > 0 {
		now = min(now, w.cfg.Nodes[0].At)
	}
	if len(w.cfg.Script) > 0 {
		now = min(now, w.cfg.Script[0].Time)
	}
	if w.loads.turns.Len() > 0 && (now != unit.Never || len(w.loads.stall) > 0) {
		_, at := w.loads.turns.Min()
		now = min(now, time.Duration(at))
	}
	if w.meter.due.Len() > 0 && now != unit.Never {
		_, at := w.meter.due.Min()
		now = min(now, time.Duration(at))
	}
	left := len(w.state.Ended()) < w.state.Jobs()
	if len(w.loans.nodes) > 0 && (now != unit.Never || left) {
		lending{w}.vacated()
		now = min(now, max(w.state.Now, w.loans.next(w.state.Now)))
	}
	mayHelp := w.down.Len() > 0 && left
	if w.nodes.Len() > 0 && (now != unit.Never || mayHelp) {
		_, at := w.nodes.Min()
		now = min(now, time.Duration(at))
	}
	return now
}

// due takes the first job off a heap of moments if its moment has come; ok is false when
// that of none has.
func due(moments *dense.Heap, now time.Duration) (id job.ID, ok bool) {
	if moments.Len() == 0 {
		return job.None, false
	}
	n, at := moments.Min()
	if time.Duration(at) > now {
		return job.None, false
	}
	moments.Pop()
	return job.ID(n), true
}

// ended tells which attempts end at this instant, and notes which jobs have left.
func (w *Sim) ended(now time.Duration, out []eventlog.Event) []eventlog.Event {
	w.told, w.gone = w.told[:0], w.gone[:0]
	for id, ok := due(&w.timers, now); ok; id, ok = due(&w.timers, now) {
		r := w.state.Record(id)
		if r.Phase == job.Stopping {
			w.gone = append(w.gone, id)
			continue
		}
		if w.breaks[id] || int(w.truth.of(id).attempt) < len(w.truth.of(id).Attempts) {
			w.crash(id, now)
		} else {
			pipelines{w}.leaves(id, now)
		}
		w.leaves(id)
		ev := eventlog.Event{Time: now, Kind: eventlog.End, Job: id, Outcome: w.truth.of(id).Outcome.Phase()}
		switch {
		case w.breaks[id]:
			delete(w.breaks, id)
			ev = w.broke(id, r, now)
		case int(w.truth.of(id).attempt) < len(w.truth.of(id).Attempts):
			w.truth.of(id).attempt++
			w.truth.of(id).saved = 0
			ev = eventlog.Event{Time: now, Kind: eventlog.Fail, Job: id, Reason: job.Reason{Code: job.Failed, Job: job.None}}
		}
		phase := job.Waiting
		if ev.Kind == eventlog.End {
			phase = ev.Outcome
			out = meters{w}.finished(id, now, out)
		}
		w.told = append(w.told, told{id, phase})
		out = append(out, ev)
	}
	return out
}

// phase is where a job stands once what was told so far has been heard.
func (w *Sim) phase(id job.ID) job.Phase {
	for i := len(w.told) - 1; i >= 0; i-- {
		if w.told[i].id == id {
			return w.told[i].phase
		}
	}
	return w.state.Record(id).Phase
}

// broke is a random failure of a running job: it goes on from its last
// snapshot, or fails for good when it has no retry left.
func (w *Sim) broke(id job.ID, r *job.Record, now time.Duration) eventlog.Event {
	t := w.truth.of(id)
	if t.broken++; r.Job.Retries >= 0 && t.broken > r.Job.Retries {
		return eventlog.Event{Time: now, Kind: eventlog.End, Job: id, Outcome: job.FailedPhase}
	}
	return eventlog.Event{
		Time: now, Kind: eventlog.Fail, Job: id, Kept: w.saved(r, now),
		Reason: job.Reason{Code: job.Failed, Job: job.None},
	}
}

// saved is the progress in the last snapshot, or in the checkpoint with which the
// job last left its devices.
func (w *Sim) saved(r *job.Record, now time.Duration) time.Duration {
	if r.Job.Stop == job.Restart {
		return 0
	}
	saved := w.truth.of(r.Job.ID).saved
	if w.cfg.Snapshot > 0 {
		saved = max(saved, r.ProgressAt(now)/w.cfg.Snapshot*w.cfg.Snapshot)
	}
	return saved
}

// fallsBack tells whether a job may be thrown back to a snapshot. Only then it matters when
// it makes them.
func (c *Config) fallsBack(j *job.Job) bool {
	fails := c.NodeMTBF > 0 || c.JobMTBF > 0 || len(c.Loans) > 0
	return c.Snapshot > 0 && (j.Stop == job.LastSave || fails && j.Stop != job.Restart)
}

func (w *Sim) nodeEvents(now time.Duration, out []eventlog.Event) []eventlog.Event {
	before := len(out)
	for len(w.cfg.Nodes) > 0 && w.cfg.Nodes[0].At <= now {
		out = append(out, eventlog.Event{Time: now, Kind: eventlog.NodeAdd, NodeSpec: &w.cfg.Nodes[0].Spec})
		if w.cfg.NodeMTBF > 0 {
			id := w.state.Cluster.Nodes() + len(out) - before - 1
			w.nodes.Set(int32(id), int64(now+max(1, exponential(w.rand, w.cfg.NodeMTBF))))
		}
		w.cfg.Nodes = w.cfg.Nodes[1:]
	}
	for w.nodes.Len() > 0 {
		n, at := w.nodes.Min()
		if time.Duration(at) > now {
			break
		}
		id := cluster.NodeID(n)
		ev := eventlog.Event{Time: now, Kind: eventlog.NodeSet, Node: id, Power: w.state.Cluster.Power(id)}
		if w.down.Remove(int(n)) {
			w.nodes.Set(n, int64(now+max(1, exponential(w.rand, w.cfg.NodeMTBF))))
			ev.Health = w.before[id]
			delete(w.before, id)
			out = append(out, ev)
			continue
		}
		w.down.Add(int(n))
		if h := w.state.Cluster.Health(id); h != cluster.Up {
			w.before[id] = h
		}
		w.nodes.Set(n, int64(now+max(1, exponential(w.rand, w.cfg.NodeRepair))))
		ev.Health = cluster.Down
		out = append(w.evict(id, now, job.Reason{Code: job.NodeLost, Need: n, Job: job.None}, out), ev)
	}
	return out
}

// evict throws off a node what runs there, unless it has left at this very
// instant. The node is lost, or its owner takes it back.
func (w *Sim) evict(node cluster.NodeID, now time.Duration, why job.Reason, out []eventlog.Event) []eventlog.Event {
	for _, id := range w.state.JobsOn(node, nil) {
		r := w.state.Record(id)
		if w.phase(id) != r.Phase {
			continue // its attempt has ended, it was cancelled, or another of its nodes was lost
		}
		if why.Code == job.TakenBack {
			if ev, outlives := (lending{w}).outlives(id, node, why.Have > 0, now); outlives {
				out = append(out, ev)
				continue
			}
		}
		w.told = append(w.told, told{id, job.Waiting})
		w.leaves(id)
		w.timers.Remove(int32(id))
		delete(w.breaks, id)
		kept := r.Progress
		if r.Phase == job.Running {
			kept = lending{w}.savedIn(r, why, now)
			w.truth.of(id).saved = kept
		}
		out = append(out, eventlog.Event{Time: now, Kind: eventlog.Evict, Job: id, Kept: kept, Reason: why})
	}
	return out
}

// script tells what Config.Script has for this instant.
func (w *Sim) script(now time.Duration, out []eventlog.Event) ([]eventlog.Event, error) {
	for len(w.cfg.Script) > 0 && w.cfg.Script[0].Time <= now {
		ev := w.cfg.Script[0]
		w.cfg.Script = w.cfg.Script[1:]
		ev.Time = now
		switch ev.Kind {
		case eventlog.NodeSet:
			if ev.Node < 0 || int(ev.Node) >= w.state.Cluster.Nodes() {
				return out, fmt.Errorf("the script tells of node number %d, which is not there at %s", ev.Node, unit.Human(now))
			}
			if ev.Health == cluster.Down {
				out = w.evict(ev.Node, now, lostBy(&ev), out)
			}
			if w.down.Has(int(ev.Node)) { // which it stays until it is repaired
				w.before[ev.Node], ev.Health = ev.Health, cluster.Down
			}
		case eventlog.NodeLabels, eventlog.Device, eventlog.Used, eventlog.Foreign:
		case eventlog.Cancel, eventlog.Hold, eventlog.Free, eventlog.Speed:
			if !w.state.Known(ev.Job) {
				return out, fmt.Errorf("the script tells of job number %d, which is not there at %s", ev.Job, unit.Human(now))
			}
			if !w.happens(&ev, now) {
				continue
			}
		default:
			return out, fmt.Errorf("the script has an event of kind %s", ev.Kind)
		}
		out = append(out, ev)
	}
	return out, nil
}

// lostBy is why those who run on a node that a script takes down lose it.
func lostBy(ev *eventlog.Event) job.Reason {
	if ev.Reason.Code == job.TakenBack {
		return ev.Reason
	}
	return job.Reason{Code: job.NodeLost, Need: int32(ev.Node), Job: job.None}
}

// happens carries out in the world what a script tells of a job, and tells
// whether it can be by now.
func (w *Sim) happens(ev *eventlog.Event, now time.Duration) bool {
	phase := w.phase(ev.Job)
	switch ev.Kind {
	case eventlog.Hold:
		return w.becomes(ev.Job, job.Held, phase == job.Waiting)
	case eventlog.Free:
		return w.becomes(ev.Job, job.Waiting, phase == job.Held)
	case eventlog.Speed:
		if phase != job.Running {
			return false
		}
		r := w.state.Record(ev.Job)
		progress := r.ProgressAt(now)
		for _, d := range w.taken { // which the record does not show yet
			if d.id == ev.Job {
				progress -= d.lost
			}
		}
		w.schedule(ev.Job, max(now, r.Ready), progress, ev.Speed)
		return true
	}
	if !w.becomes(ev.Job, job.Cancelled, !phase.Over()) {
		return false
	}
	w.leaves(ev.Job)
	w.timers.Remove(int32(ev.Job))
	delete(w.breaks, ev.Job)
	w.gone = slices.DeleteFunc(w.gone, func(id job.ID) bool { return id == ev.Job })
	return true
}

// becomes notes the phase in which a job is from now on, if that can be.
func (w *Sim) becomes(id job.ID, phase job.Phase, can bool) bool {
	if can {
		w.told = append(w.told, told{id, phase})
	}
	return can
}

func (w *Sim) arrivals(now time.Duration, out []eventlog.Event) ([]eventlog.Event, error) {
	for w.more && w.next.Job.Submit <= now {
		if len(w.specs) == cap(w.specs) {
			w.specs = make([]job.Job, 0, min(512, 16+w.truth.Len()))
		}
		w.specs = append(w.specs, w.next.Job)
		spec := &w.specs[len(w.specs)-1]
		if int(spec.ID) != w.truth.Len() {
			return out, fmt.Errorf("job %s: has number %d, the next one is %d", spec.Key, spec.ID, w.truth.Len())
		}
		w.truth.Add().Truth = w.next.Truth
		out = append(out, eventlog.Event{Time: now, Kind: eventlog.Submit, Job: spec.ID, Spec: spec})
		if w.cfg.fallsBack(spec) {
			out = append(out, eventlog.Event{Time: now, Kind: eventlog.Saved, Job: spec.ID, Every: w.cfg.Snapshot})
		}
		if err := w.fetch(); err != nil {
			return out, err
		}
	}
	return out, nil
}

// Start implements engine.World.
func (w *Sim) Start(id job.ID, a *cluster.Alloc) (delay time.Duration, speed float64) {
	r := w.state.Record(id)
	w.comes(id, a)
	w.turn(id, w.state.Now)
	meters{w}.mark(id, w.state.Now)
	w.begins(id, r.Progress)
	delay = pipelines{w}.delay(r, a)
	speed = w.speed(id, a)
	if p := w.phase(id); p.Over() || r.Phase == job.Assigned && p == job.Waiting { // it begins where another one has just left, and was cancelled or lost its node at this very instant
		w.shared.gone.Add(int(id))
		return delay, speed
	}
	w.schedule(id, w.state.Now+delay, r.Progress, speed)
	meters{w}.lookAfter(id, w.state.Now+delay)
	return delay, speed
}

// schedule sets the timer of a running job that makes progress from ready on.
func (w *Sim) schedule(id job.ID, ready, progress time.Duration, speed float64) {
	w.await(id, ready, progress, speed)
	end := unit.Never
	left := max(0, w.truth.of(id).work()-progress)
	switch {
	case speed == 1:
		end = later(ready, left)
	case speed > 0:
		end = later(ready, time.Duration(min(math.Ceil(float64(left)/speed), math.MaxInt64/2)))
	}
	if w.cfg.JobMTBF > 0 {
		delete(w.breaks, id)
		if at := later(ready, exponential(w.rand, w.cfg.JobMTBF)); at < end {
			end = at
			w.breaks[id] = true
		}
	}
	if end == unit.Never {
		w.timers.Remove(int32(id))
		return
	}
	w.timers.Set(int32(id), int64(end))
}

// later is d after t. A moment that can no longer be counted is just before
// never, which ends a run with an error.
func later(t, d time.Duration) time.Duration {
	if d >= unit.Never-t {
		return unit.Never - 1
	}
	return t + d
}

// Stop implements engine.World.
func (w *Sim) Stop(id job.ID) (kept time.Duration, atOnce bool) {
	r := w.state.Record(id)
	now := w.state.Now
	meters{w}.look(id)
	delete(w.breaks, id)
	pipelines{w}.leaves(id, now)
	w.leaves(id)
	if r.Phase != job.Running || r.Profiling {
		w.timers.Remove(int32(id))
		return r.Progress, true
	}
	kept = r.ProgressAt(now)
	cost := w.cfg.Costs.Of(int(r.Milli / unit.One)).Checkpoint
	switch r.Job.Stop {
	case job.Restart:
		kept, cost = 0, 0
	case job.LastSave:
		kept, cost = w.saved(r, now), 0
		w.truth.of(id).saved = kept
	case job.Checkpoint:
		w.truth.of(id).saved = kept
	}
	if cost <= 0 {
		w.timers.Remove(int32(id))
		return kept, true
	}
	w.timers.Set(int32(id), int64(now+cost))
	w.leave(w.state.Alloc(id), now+cost)
	return kept, false
}

// leave notes until when the devices of an Alloc are still being left.
func (w *Sim) leave(a *cluster.Alloc, until time.Duration) {
	now := w.state.Now
	w.leaving = slices.DeleteFunc(w.leaving, func(l leaving) bool { return l.until <= now })
	for i := range a.Shares {
		w.leaving = append(w.leaving, leaving{a.Shares[i].Device, until})
	}
}

// Reshape implements engine.World. A job that moves to devices which others
// are still leaving waits for them.
func (w *Sim) Reshape(id job.ID, a *cluster.Alloc, moved bool) (pause time.Duration, speed float64) {
	r := w.state.Record(id)
	now := w.state.Now
	if w.state.Alloc(id).SamePlaces(a) { // it stays, with another part of its devices
		if w.state.Alloc(id).Beat != a.Beat {
			w.cfg.Linked.Enter(r.Job, w.state.Cluster, a)
		}
		w.adjusts(a)
		pause, speed = max(0, r.Ready-now), w.speed(id, a)
		w.schedule(id, now+pause, r.ProgressAt(now), speed)
		return pause, speed
	}
	meters{w}.look(id)
	w.cfg.Linked.Enter(r.Job, w.state.Cluster, a)
	w.adjusts(w.state.Alloc(id))
	w.adjusts(a)
	gpus := int(a.Milli() / unit.One)
	pause = w.cfg.Costs.Reshape(r.Job, gpus, w.warm(r.Job, a), moved, w.state.Alloc(id).Meets(a))
	kept := w.leaving[:0]
	wait := now
	for _, l := range w.leaving {
		if l.until <= now {
			continue
		}
		kept = append(kept, l)
		for i := range a.Shares {
			if a.Shares[i].Device == l.device {
				wait = max(wait, l.until)
			}
		}
	}
	w.leaving = kept
	pause += wait - now
	speed = w.speed(id, a)
	w.schedule(id, now+pause, r.ProgressAt(now), speed)
	meters{w}.lookAfter(id, now+pause)
	return pause, speed
}

// disturb takes progress from the running jobs that do not end at this instant.
func (w *Sim) disturb(now time.Duration, out []eventlog.Event) []eventlog.Event {
	gap := now - w.last
	w.taken = w.taken[:0]
	for p := range cluster.PoolID(w.state.Cluster.Pools()) {
		for i := range w.state.Running(p).All() {
			if !w.timers.Has(int32(i)) || w.timers.Key(int32(i)) <= int64(now) {
				continue // it has not begun, makes no progress, or ends now
			}
			r := w.state.Record(job.ID(i))
			lost := min(gap, w.cfg.Disturb(r.Job, gap))
			w.taken = append(w.taken, taken{job.ID(i), lost})
			later := lost
			if r.Speed != 1 {
				later = time.Duration(math.Ceil(float64(lost) / r.Speed))
			}
			w.timers.Set(int32(i), w.timers.Key(int32(i))+int64(later))
			out = append(out, eventlog.Event{Time: now, Kind: eventlog.Progress, Job: job.ID(i), Kept: r.ProgressAt(now) - lost})
		}
	}
	return out
}

func exponential(r *rand.Rand, mean time.Duration) time.Duration {
	return time.Duration(min(r.ExpFloat64()*float64(mean), float64(math.MaxInt64/4)))
}

// Truth is what really is the matter with a submitted job. It is for reports
// and tests, never for a policy.
func (w *Sim) Truth(id job.ID) *trace.Truth { return &w.truth.of(id).Truth }

// Oracle is an estimator that knows the truth of this world. Giving it to a run
// is how an experiment says that the scheduler knows run times.
func (w *Sim) Oracle() predict.Estimator { return oracle{w} }

type oracle struct{ w *Sim }

// Estimate is the true run time of the attempt that the job is in.
func (o oracle) Estimate(j *job.Job) (time.Duration, bool) { return o.w.truth.of(j.ID).work(), true }

// Observe learns nothing.
func (oracle) Observe(*job.Job, time.Duration) {}
