package rmixer

import (
	"hash/fnv"
	"slices"
	"time"

	"github.com/norn-scheduler/norn/dense"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/sched"
	"github.com/norn-scheduler/norn/unit"
)

// batch is the jobs that wait for their batch to be closed.
type batch struct {
	jobs  dense.Set
	since time.Duration // when the first of them came
	stale bool          // since is that of a job that has left
}

// add puts a job in, which waits since a moment.
func (b *batch) add(id job.ID, since time.Duration) {
	if b.jobs.Len() == 0 {
		b.since, b.stale = unit.Never, false
	}
	b.jobs.Add(int(id))
	b.since = min(b.since, since)
}

// remove takes a job out.
func (b *batch) remove(id job.ID) {
	if b.jobs.Remove(int(id)) {
		b.stale = true
	}
}

// first is when the first job came.
func (b *batch) first(v *sched.View) time.Duration {
	if b.stale {
		b.since, b.stale = unit.Never, false
		for id := range b.jobs.All() {
			b.since = min(b.since, v.Job(job.ID(id)).Since())
		}
	}
	return b.since
}

// closes is when the batch is closed by time.
func (r *policy) closes(v *sched.View) time.Duration {
	if r.open.jobs.Len() == 0 {
		return unit.Never
	}
	return unit.Later(r.open.first(v), r.cfg.Window)
}

// close closes the batches that are due, and puts their jobs into the list.
func (r *policy) close(v *sched.View, p *sched.Plan) {
	n := r.open.jobs.Len()
	if n == 0 {
		return
	}
	due := 0
	if r.cfg.Batch > 0 {
		due = n / r.cfg.Batch * r.cfg.Batch
	}
	if r.closes(v) <= v.Now {
		due = n
	}
	if due == 0 {
		return
	}
	closing := make([]job.ID, 0, due)
	for id := range r.open.jobs.All() {
		if closing = append(closing, job.ID(id)); len(closing) == due {
			break
		}
	}
	for _, id := range closing {
		r.open.remove(id)
	}
	r.merge(v, p, closing)
}

// merge puts the list in order again, with the jobs of a batch that has closed.
func (r *policy) merge(v *sched.View, p *sched.Plan, closing []job.ID) {
	m := r.median(v, closing)
	items := make([]item, 0, r.list.n+len(closing))
	put := func(id job.ID) {
		j := v.Job(id)
		s := r.recall(j)
		s.use = r.use(j, s)
		if !s.closed {
			s.closed, s.class = true, r.classify(j.Spec(), s.use, m)
		}
		r.fresh.set(id, s)
		items = append(items, r.item(v, p, j, s))
	}
	r.list.each(func(it *item) { put(it.key.ID) })
	for _, id := range closing {
		put(id)
	}
	items = inOrder(items)
	gpu, all := r.devices.workers[0], r.devices.workers[0]+r.devices.workers[1]
	for i := range items {
		id := items[i].key.ID
		s := r.recall(v.Job(id))
		s.tail = i*all >= gpu*len(items)
		items[i].tail = s.tail
		r.note(v, p, id, s)
	}
	r.list.fill(items)
}

// inOrder returns items in the order of their keys. Places are sorted, not the items:
// those are large.
func inOrder(items []item) []item {
	type place struct {
		a, b   int64
		id, at int32
	}
	places := make([]place, len(items))
	for i := range items {
		k := &items[i].key
		places[i] = place{k.A, k.B, int32(k.ID), int32(i)}
	}
	slices.SortFunc(places, func(x, y place) int {
		return key{x.a, x.b, job.ID(x.id)}.compare(key{y.a, y.b, job.ID(y.id)})
	})
	out := make([]item, len(items))
	for i, p := range places {
		out[i] = items[p.at]
	}
	return out
}

// median is that of a batch.
func (r *policy) median(v *sched.View, ids []job.ID) median {
	memory, bandwidth := make([]unit.Bytes, len(ids)), make([]float64, len(ids))
	for i, id := range ids {
		spec := v.Job(id).Spec()
		memory[i] = r.memory(spec)
		if spec.Hints != nil {
			bandwidth[i] = spec.Hints.MemoryUse
		}
	}
	slices.Sort(memory)
	slices.Sort(bandwidth)
	return median{memory[len(ids)/2], bandwidth[len(ids)/2]}
}

// item is a job as it stands in the list.
func (r *policy) item(v *sched.View, p *sched.Plan, j sched.Job, s standing) item {
	spec := j.Spec()
	return item{
		key: r.key(j, s), need: r.booked(spec, s), class: s.class, tail: s.tail, kind: j.Class(),
		host: r.hosted(spec), gpu: p.Never(j.ID, r.cfg.Place).Code == job.NoReason,
	}
}

// hosted tells whether a job can run on processors here.
func (r *policy) hosted(j *job.Job) bool {
	return r.devices.workers[1] > 0 && j.Hints != nil && j.Hints.CPUTime > 0
}

// key is the place of a job in the list. Those whose memory ran out go first.
func (r *policy) key(j sched.Job, s standing) key {
	k := key{ID: j.ID}
	if s.ooms > 0 {
		k.A = -1 << 62
		return k
	}
	switch r.cfg.Jobs {
	case DyMix, DyArin:
		k.A = -int64(s.use)
	case DyType, DyMemo, Static, CoGNN:
		k.A = -int64(r.memory(j.Spec()))
	case DySequ:
		k.A, k.B = -int64(s.class), -int64(r.memory(j.Spec()))
	case DyRand:
		h := fnv.New64a()
		for _, n := range []uint64{uint64(r.cfg.Seed), uint64(j.ID)} {
			h.Write([]byte{byte(n), byte(n >> 8), byte(n >> 16), byte(n >> 24)})
		}
		k.A = int64(h.Sum64() >> 2)
	}
	return k
}
