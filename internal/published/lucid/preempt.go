package lucid

import (
	"time"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/internal/published/backlog"
	"github.com/norn-scheduler/norn/internal/published/harness"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/sched"
	"github.com/norn-scheduler/norn/state/dense"
)

// outranked is why jobs are preempted, and why they wait then.
var outranked = job.Reason{Code: job.Outranked, Job: job.None}

// preempting is what srtf and tiresias share. Jobs are picked in order, whoever
// fits into the number of GPUs of the virtual cluster; running jobs that are not
// picked are preempted, pending ones that are get GPUs if the placer finds any.
// Otherwise they wait, and what was counted for them stays idle.
type preempting struct {
	pools []pool
	dirty dense.Set
	room  cluster.Alloc
}

// pool is a virtual cluster.
type pool struct {
	list  backlog.List
	total int
}

func newPreempting(pools int) preempting { return preempting{pools: make([]pool, pools)} }

// later is the sequence number from which on those of the second of two lists
// begin, where the published code joins two lists before it sorts.
const later = int64(1) << 40

// pick carries out one decision for a virtual cluster.
func (p *preempting) pick(v *sched.View, plan *sched.Plan, id cluster.PoolID, stop, start func(l *backlog.List, id int32)) {
	u := &p.pools[id]
	if u.total == 0 {
		u.total = v.Cluster().TotalGPUs(id, 0)
	}
	quota := u.total
	stops, starts := u.list.Scan(func(_ int32, gpus int) bool {
		if gpus > quota {
			return false
		}
		quota -= gpus
		return true
	})
	for _, i := range stops {
		plan.Stop(job.ID(i), outranked)
		u.list.Stop(i)
		stop(&u.list, i)
	}
	for _, i := range starts {
		if consolidate(v.Cluster(), id, int(u.list.GPUs(i)), &p.room) {
			plan.StartOn(job.ID(i), &p.room)
			u.list.Start(i)
			start(&u.list, i)
		}
	}
}

// note takes in what happened: who left, and which virtual clusters it was in.
func (p *preempting) note(v *sched.View) {
	for _, ch := range v.Changes() {
		at := v.Job(ch.Job).Pool()
		if ch.Kind == sched.Ended {
			p.pools[at].list.Remove(int32(ch.Job))
		}
		if ch.Kind == sched.Ended || ch.Kind == sched.Arrived {
			p.dirty.Add(int(at))
		}
	}
}

// srtf sorts by what remains, pending jobs before running ones. The published
// code does so at every tick; but between arrivals and completions running jobs
// only pass pending ones, which changes nothing in who is picked: both were, or
// the one that is passed was not.
type srtf struct {
	preempting
	left []int64 // by job: seconds to go, for a running job the moment when they are up
	runs int64   // jobs started so far
}

func newSRTF(pools int) *srtf { return &srtf{preempting: newPreempting(pools)} }

// Decide implements sched.Policy.
func (s *srtf) Decide(v *sched.View, p *sched.Plan) {
	now := int64(v.Now / time.Second)
	s.note(v)
	for _, ch := range v.Changes() {
		if ch.Kind == sched.Arrived {
			s.arrive(v.Job(ch.Job))
		}
	}
	for id := range s.dirty.All() {
		l := &s.pools[id].list
		for _, i := range l.Running() {
			_, seq := l.Key(i)
			l.Set(i, s.left[i]-now, seq)
		}
		s.pick(v, p, cluster.PoolID(id), func(l *backlog.List, i int32) {
			s.left[i] += int64(overhead(int(l.GPUs(i)))/time.Second) - now
			l.Set(i, s.left[i], l.Back())
		}, func(l *backlog.List, i int32) {
			s.runs++
			l.Set(i, s.left[i], later+s.runs)
			s.left[i] += now
		})
	}
	s.dirty.Clear()
}

func (s *srtf) arrive(j sched.Job) {
	for int(j.ID) >= len(s.left) {
		s.left = append(s.left, make([]int64, max(256, len(s.left)))...)
	}
	work, _ := j.Estimate()
	s.left[j.ID] = int64((work - late) / time.Second)
	l := &s.pools[j.Pool()].list
	l.Add(int32(j.ID), j.GPUs(), s.left[j.ID], l.Back())
}

// tiresias decides once a minute. Jobs that have had little service go before
// those that have had much, each first come, first served.
type tiresias struct {
	preempting
	jobs []served
	next []int64 // by pool: the next decision, seconds
	runs int64
}

// served is the service of a job in GPU-seconds; when it runs, up to since.
type served struct{ service, since, submit int64 }

const (
	minute = 60
	much   = 18000 // GPU-seconds; more than that is much
	never  = int64(1) << 60
)

func newTiresias(pools int) *tiresias {
	t := &tiresias{preempting: newPreempting(pools), next: make([]int64, pools)}
	for i := range t.next {
		t.next[i] = never
	}
	return t
}

// Decide implements sched.Policy.
func (t *tiresias) Decide(v *sched.View, p *sched.Plan) {
	now := int64(v.Now / time.Second)
	t.note(v)
	for _, ch := range v.Changes() {
		if ch.Kind == sched.Arrived {
			t.arrive(v.Job(ch.Job))
		}
	}
	for id := range t.dirty.All() {
		t.next[id] = min(t.next[id], roundUp(now))
	}
	t.dirty.Clear()
	for id := range t.next {
		if t.next[id] <= now {
			t.decide(v, p, cluster.PoolID(id), now)
		}
	}
}

// roundUp is the first minute that is not before a moment.
func roundUp(at int64) int64 { return (at + minute - 1) / minute * minute }

// decide makes the decision for a virtual cluster and finds the moment of the
// next one, should nothing happen: the minute after a running job has had much
// service.
func (t *tiresias) decide(v *sched.View, p *sched.Plan, id cluster.PoolID, now int64) {
	l := &t.pools[id].list
	for _, i := range l.Running() {
		_, seq := l.Key(i)
		l.Set(i, t.key(i, t.service(l, i, now)), seq)
	}
	t.pick(v, p, id, func(l *backlog.List, i int32) {
		t.jobs[i].service = t.service(l, i, now)
		key, _ := l.Key(i)
		l.Set(i, key, later+l.Back())
	}, func(l *backlog.List, i int32) {
		t.runs++
		t.jobs[i].since = now
		key, _ := l.Key(i)
		l.Set(i, key, t.runs)
	})
	t.next[id] = never
	for _, i := range l.Running() {
		if s := t.service(l, i, now); s <= much {
			t.next[id] = min(t.next[id], roundUp(now+(much-s)/l.GPUs(i)+1))
		}
	}
}

func (t *tiresias) service(l *backlog.List, i int32, now int64) int64 {
	return t.jobs[i].service + (now-t.jobs[i].since)*l.GPUs(i)
}

func (t *tiresias) key(i int32, service int64) int64 {
	if service > much {
		return t.jobs[i].submit + never
	}
	return t.jobs[i].submit
}

func (t *tiresias) arrive(j sched.Job) {
	for int(j.ID) >= len(t.jobs) {
		t.jobs = append(t.jobs, make([]served, max(256, len(t.jobs)))...)
	}
	t.jobs[j.ID].submit = int64(j.Submit() / time.Second)
	l := &t.pools[j.Pool()].list
	l.Add(int32(j.ID), j.GPUs(), t.key(int32(j.ID), 0), later+l.Back())
}

// NextWake implements sched.Waker.
func (t *tiresias) NextWake(v *sched.View) time.Duration {
	next := never
	for _, at := range t.next {
		next = min(next, at)
	}
	if next == never {
		return unit.Never
	}
	return harness.Seconds(next)
}
