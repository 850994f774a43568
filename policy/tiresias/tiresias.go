// Package tiresias is the scheduler of Gu et al., "Tiresias: A GPU Cluster
// Manager for Distributed Deep Learning", NSDI 2019. Run times are unknown, so
// jobs that have attained little service go first. There are only a few queues,
// so jobs rarely change places.
//
// Nouns:
//   - Attained service is GPUs x time run since the job last entered the first
//     queue (2D), in GPU-seconds.
//   - A job is in queue i while its service lies below the i-th limit and not
//     below the one before.
//   - Gittins ranks jobs inside a queue by how likely they are to end soon,
//     judged by the service of the jobs that have ended so far.
//   - A job that has waited long compared with its run time is promoted to the
//     first queue.
//   - The skew of a model is the share of its largest tensor in all its
//     tensors.
package tiresias

import (
	"errors"
	"math"
	"slices"
	"time"

	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/place"
	"github.com/norn-scheduler/norn/policy/kit/preempt"
	"github.com/norn-scheduler/norn/policy/need"
	"github.com/norn-scheduler/norn/policy/param"
	"github.com/norn-scheduler/norn/sched"
	"github.com/norn-scheduler/norn/state/dense"
)

// Rank is the order inside a queue.
type Rank uint8

// The orders inside a queue.
const (
	LAS     Rank = iota // Tiresias-L: first started first
	Gittins             // Tiresias-G: largest Gittins index first; the last queue as LAS
)

// Consolidate is which jobs must have their GPUs together.
type Consolidate uint8

// The choices of Consolidate.
const (
	Profile Consolidate = iota // those whose model is skewed
	Everyone
	Nobody
)

// Config is the settings of the policy.
type Config struct {
	Rank        Rank
	OneD        bool
	Limits      []float64 // GPU-seconds (seconds when OneD)
	Promote     float64   // kappa; +Inf: never
	Consolidate Consolidate
	PackLimit   float64
	Rerank      time.Duration // Gittins: how often the service of running jobs is taken note of
	Victims     preempt.Victims
	Place       place.Strategy
}

// NewConfig returns the defaults: those of the testbed of the paper.
func NewConfig() *Config {
	return &Config{Limits: []float64{3200}, Promote: math.Inf(1), PackLimit: 0.3, Rerank: time.Minute, Place: place.Pack}
}

// Params binds the settings.
func (c *Config) Params() param.Set {
	return param.Set{
		param.Choice("rank", &c.Rank, []param.Option[Rank]{{Name: "las", Value: LAS}, {Name: "gittins", Value: Gittins}},
			"order inside a queue: first started first, or Gittins index"),
		param.Bool("1d", &c.OneD, "attained service is time, not GPUs x time"),
		param.Floats("limits", &c.Limits, "GPU-seconds", "attained service at which a job leaves the first, second, ... queue"),
		param.Float("promote", &c.Promote, 0, math.Inf(1), "ratio", "a job goes back to the first queue when it has waited this many times as long as it ran (PROMOTEKNOB); inf: never"),
		param.Choice("consolidate", &c.Consolidate, []param.Option[Consolidate]{{Name: "profile", Value: Profile}, {Name: "all", Value: Everyone}, {Name: "none", Value: Nobody}},
			"which jobs must have their GPUs together: those whose model is skewed, all, or none"),
		param.Float("packlimit", &c.PackLimit, 0, 1, "share", "skew above which a model is consolidated (PACKLIMIT)"),
		param.Duration("rerank", &c.Rerank, "how often Gittins indices follow the service of running jobs"),
		preempt.VictimsParam(&c.Victims),
		place.Param(&c.Place),
	}
}

// Needs says what the policy lives on.
func (c *Config) Needs() need.List {
	return need.List(nil).
		If(c.Consolidate == Profile, need.Of(need.Models), "it acts as tiresias(consolidate=none)").
		If(c.Consolidate == Everyone, need.Of(need.Spread), "a gang gains nothing by having its GPUs together")
}

// Policy makes the policy.
func (c *Config) Policy() (sched.Policy, error) {
	if !slices.IsSorted(c.Limits) || len(c.Limits) > 0 && c.Limits[0] <= 0 {
		return nil, errors.New("limits must be positive and increasing")
	}
	t := &policy{cfg: *c}
	t.run.Order, t.run.Victims = t, c.Victims
	t.run.Place = t.where
	t.run.Literal = c.Rank == Gittins // indices change as jobs run
	return t, nil
}

type policy struct {
	cfg     Config
	run     preempt.Policy
	jobs    []standing
	demote  dense.Heap // running jobs: when they leave their queue
	promote dense.Heap // waiting jobs: when they go back to the first queue
	past    history
	running []job.ID // started by the last plan
	due     []job.ID // scratch
}

// standing is where a job stands in the queues. The two times are also written
// on the job, for a policy that starts anew.
type standing struct {
	queue        int8
	ranBefore    time.Duration // how long it had run when it was last promoted
	waitedBefore time.Duration // how long it had waited when it first ran after that
}

// note is what is remembered of a job: two times of its standing.
type note struct{ ranBefore, waitedBefore time.Duration }

// NewNote is a note of this policy, for the table of policies.
func NewNote() sched.Note { return new(note) }

// Kind implements sched.Note.
func (n *note) Kind() string { return "tiresias" }

// Fields implements sched.Note.
func (n *note) Fields(f *sched.Fields) {
	f.Duration("ran_before", &n.ranBefore)
	f.Duration("waited_before", &n.waitedBefore)
}

func (s *standing) note() *note { return &note{s.ranBefore, s.waitedBefore} }

// exec is the time that a job has run since it last entered the first queue.
func (t *policy) exec(j sched.Job) time.Duration { return j.RunTime() - t.jobs[j.ID].ranBefore }

// width turns run time into service.
func (t *policy) width(j sched.Job) float64 {
	if t.cfg.OneD {
		return 1
	}
	d := j.Spec().Demand
	return float64(d.Milli(d.Roles[0].Tasks)) / 1000
}

// ranked is the service by which a job's Gittins index is judged: what it had
// attained, since it last entered the first queue, when running jobs were last
// taken note of.
func (t *policy) ranked(v *sched.View, j sched.Job) float64 {
	ran := j.RunTime()
	if j.Running() && t.cfg.Rerank > 0 {
		ran = j.RunTimeAt(v.Now / t.cfg.Rerank * t.cfg.Rerank)
	}
	return (ran - t.jobs[j.ID].ranBefore).Seconds() * t.width(j)
}

// quantum is the run time after which a job leaves queue q, to the nanosecond.
func (t *policy) quantum(j sched.Job, q int8) time.Duration {
	ns := math.Ceil(t.cfg.Limits[q] / t.width(j) * 1e9)
	if ns > math.MaxInt64/4 { // also for a job without GPUs
		return unit.Never / 4
	}
	return time.Duration(ns)
}

// level is the queue in which a job belongs.
func (t *policy) level(j sched.Job) int8 {
	ran, q := t.exec(j), int8(0)
	for int(q) < len(t.cfg.Limits) && ran >= t.quantum(j, q) {
		q++
	}
	return q
}

// leaves is when a running job leaves its queue.
func (t *policy) leaves(v *sched.View, j sched.Job) time.Duration {
	q := t.level(j)
	if int(q) == len(t.cfg.Limits) {
		return unit.Never
	}
	return v.Now + t.quantum(j, q) - t.exec(j)
}

// Decide implements sched.Policy.
func (t *policy) Decide(v *sched.View, p *sched.Plan) {
	learnt := t.follow(v)
	t.run.Follow(v, p)
	if learnt {
		t.run.RekeyWaiting(v)
	}
	for _, id := range t.expired(&t.demote, v.Now) {
		if t.relevel(v, id) {
			t.run.Rekey(v, id)
		}
	}
	for _, id := range t.expired(&t.promote, v.Now) {
		if !v.Job(id).Waiting() {
			continue // still leaving; it is watched again once it waits
		}
		s := &t.jobs[id]
		s.queue, s.ranBefore = 0, v.Job(id).RunTime()
		p.Remember(id, s.note())
		t.run.Rekey(v, id)
	}
	t.run.Decide(v, p)
	t.planned(v, p)
}

// follow keeps the standing of each job and the moments of demotion true, and
// tells whether the Gittins index has changed.
func (t *policy) follow(v *sched.View) (learnt bool) {
	for len(t.jobs) < v.Jobs() {
		t.jobs = append(t.jobs, make([]standing, max(256, v.Jobs()-len(t.jobs), len(t.jobs)))...)
	}
	if v.First && t.cfg.Rank == Gittins {
		t.past.learn(v, t.width)
	}
	for _, ch := range v.Changes() {
		j := v.Job(ch.Job)
		switch ch.Kind {
		case sched.Ended:
			t.demote.Remove(int32(ch.Job))
			t.promote.Remove(int32(ch.Job))
			if t.cfg.Rank == Gittins && j.Phase().Over() && t.past.add(j.RunTime().Seconds()*t.width(j)) {
				learnt = true
			}
		case sched.Runs:
			t.recall(j)
			t.relevel(v, ch.Job)
		case sched.Arrived, sched.Stopped:
			t.recall(j)
			t.demote.Remove(int32(ch.Job))
			t.jobs[ch.Job].queue = t.level(j)
			t.watch(v, j)
		}
	}
	for _, id := range t.running {
		if v.Job(id).Running() {
			t.relevel(v, id)
		}
	}
	t.running = t.running[:0]
	return learnt
}

// recall reads what was written on a job.
func (t *policy) recall(j sched.Job) {
	n, _ := sched.Recall[note](j)
	s := &t.jobs[j.ID]
	s.ranBefore, s.waitedBefore = n.ranBefore, n.waitedBefore
}

// relevel finds the queue of a running job and the moment at which it leaves
// it, and tells whether the queue has changed.
func (t *policy) relevel(v *sched.View, id job.ID) bool {
	j, s := v.Job(id), &t.jobs[id]
	was := s.queue
	s.queue = t.level(j)
	if at := t.leaves(v, j); at != unit.Never {
		t.demote.Set(int32(id), int64(at))
	} else {
		t.demote.Remove(int32(id))
	}
	return s.queue != was
}

// watch notes when a job that waits from now on is to be promoted.
func (t *policy) watch(v *sched.View, j sched.Job) {
	ran := t.exec(j)
	if math.IsInf(t.cfg.Promote, 1) || t.jobs[j.ID].queue == 0 || ran <= 0 {
		return
	}
	waited := j.Wait() - t.jobs[j.ID].waitedBefore
	left := math.Ceil(t.cfg.Promote*float64(ran) - float64(waited))
	if left < math.MaxInt64/4 {
		t.promote.Set(int32(j.ID), int64(v.Now)+max(0, int64(left)))
	}
}

// expired takes out the jobs whose moment has come.
func (t *policy) expired(h *dense.Heap, now time.Duration) []job.ID {
	t.due = t.due[:0]
	for h.Len() > 0 {
		if _, at := h.Min(); at > int64(now) {
			break
		}
		id, _ := h.Pop()
		t.due = append(t.due, job.ID(id))
	}
	return t.due
}

// planned notes who was stopped and who was started: the first run since a job
// entered the first queue settles from when its waiting counts.
func (t *policy) planned(v *sched.View, p *sched.Plan) {
	for _, op := range p.Ops() {
		j := v.Job(op.Job)
		switch {
		case !v.Covers(j):
		case op.Was != nil && op.Now == nil:
			t.demote.Remove(int32(op.Job))
			t.watch(v, j)
		case op.Was == nil && op.Now != nil:
			t.running = append(t.running, op.Job)
			t.promote.Remove(int32(op.Job))
			if t.exec(j) == 0 && !math.IsInf(t.cfg.Promote, 1) {
				if s := &t.jobs[op.Job]; s.waitedBefore != j.Wait() {
					s.waitedBefore = j.Wait()
					p.Remember(op.Job, s.note())
				}
			}
		}
	}
}

// NextWake implements sched.Waker.
func (t *policy) NextWake(v *sched.View) time.Duration {
	wake := t.run.Wake(v)
	for _, id := range t.running { // started just now: not in the heap yet
		wake = min(wake, t.leaves(v, v.Job(id)))
	}
	for _, h := range []*dense.Heap{&t.demote, &t.promote} {
		if h.Len() > 0 {
			_, at := h.Min()
			wake = min(wake, time.Duration(at))
		}
	}
	if t.cfg.Rank == Gittins && t.cfg.Rerank > 0 && t.run.Contended() {
		wake = min(wake, (v.Now/t.cfg.Rerank+1)*t.cfg.Rerank)
	}
	return max(wake, v.Now+1)
}

// Key is the place of a job: its queue, and inside the queue started jobs by
// their start before the others by submission, or the Gittins index. It is the
// same on both scales.
func (t *policy) Key(v *sched.View, j sched.Job, _ bool) preempt.Key {
	q := t.jobs[j.ID].queue
	key := preempt.Key{A: int64(q) << 1, B: int64(j.Submit())}
	if t.cfg.Rank == Gittins && int(q) < len(t.cfg.Limits) {
		// The bits of positive numbers are ordered as the numbers are.
		key.B = -int64(math.Float64bits(t.past.index(t.ranked(v, j), t.cfg.Limits[q])))
		return key
	}
	if at, ok := t.entered(j); ok {
		key.B = int64(at)
	} else {
		key.A |= 1
	}
	return key
}

// entered is when a job first ran since it last entered the first queue; ok is
// false when it has not. A promoted job thus goes behind those that run there.
func (t *policy) entered(j sched.Job) (at time.Duration, ok bool) {
	s := &t.jobs[j.ID]
	if s.ranBefore == 0 {
		return j.FirstStart()
	}
	return j.Submit() + s.ranBefore + s.waitedBefore, t.exec(j) > 0 || j.Running()
}

// Shift is 0: both scales are the same.
func (t *policy) Shift(*sched.View) int64 { return 0 }

// where says how a job is placed: together when its model is skewed.
func (t *policy) where(j sched.Job) place.Strategy {
	switch t.cfg.Consolidate {
	case Everyone:
		return place.Consolidated
	case Profile:
		if skew, known := Skew(j.Spec().Model); known && skew > t.cfg.PackLimit {
			return place.Consolidated
		}
	}
	return t.cfg.Place
}

// Why implements sched.Explainer.
func (t *policy) Why(v *sched.View, id job.ID) job.Reason { return t.run.Why(v, id) }
