package rmixer

import (
	"cmp"
	"hash/fnv"
	"slices"
	"time"

	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/sched"
	"github.com/norn-scheduler/norn/state/dense"
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
	m := &r.sorting
	m.reset(r.list.n + len(closing))
	middle := median{of: closing}
	put := func(id job.ID) {
		j := v.Job(id)
		s := r.recall(j)
		s.use = r.use(j, s)
		if !s.closed {
			s.closed, s.class = true, r.classify(v, j.Spec(), s.use, &middle)
		}
		m.add(r.item(j, s), s)
	}
	r.list.each(func(it *item) { put(it.key.ID) })
	for _, id := range closing {
		put(id)
	}
	m.sort()
	gpu, all := r.devices.workers[0], r.devices.workers[0]+r.devices.workers[1]
	for i, at := range m.places {
		s := m.standings[at.at]
		s.tail = i*all >= gpu*len(m.places)
		m.items[at.at].tail = s.tail
		r.note(v, p, m.items[at.at].key.ID, s)
	}
	r.list.fill(m)
}

// sorting is what is needed to put a list in order. Places are sorted, not the items:
// those are large.
type sorting struct {
	items     []item
	standings []standing
	places    []spot
}

// spot is the key of an item, and where that is.
type spot struct {
	a, b   int64
	id, at int32
}

// reset empties it, for so many items.
func (m *sorting) reset(n int) {
	m.items, m.standings, m.places = slices.Grow(m.items[:0], n), slices.Grow(m.standings[:0], n), slices.Grow(m.places[:0], n)
}

func (m *sorting) add(it item, s standing) {
	m.places = append(m.places, spot{it.key.A, it.key.B, int32(it.key.ID), int32(len(m.items))})
	m.items, m.standings = append(m.items, it), append(m.standings, s)
}

// sort puts the places in the order of the keys.
func (m *sorting) sort() {
	slices.SortFunc(m.places, func(x, y spot) int {
		switch {
		case x.a != y.a:
			return cmp.Compare(x.a, y.a)
		case x.b != y.b:
			return cmp.Compare(x.b, y.b)
		}
		return cmp.Compare(x.id, y.id)
	})
}

// median is the median memory and use of bandwidth of a batch, found when anybody asks
// for it: most jobs are of models whose class is known.
type median struct {
	of        []job.ID
	memory    unit.Bytes
	bandwidth float64
	found     bool
}

// find finds the median.
func (m *median) find(r *policy, v *sched.View) {
	if m.found {
		return
	}
	m.found = true
	memory, bandwidth := make([]unit.Bytes, len(m.of)), make([]float64, len(m.of))
	for i, id := range m.of {
		spec := v.Job(id).Spec()
		memory[i] = r.memory(spec)
		if spec.Hints != nil {
			bandwidth[i] = spec.Hints.MemoryUse
		}
	}
	slices.Sort(memory)
	slices.Sort(bandwidth)
	m.memory, m.bandwidth = memory[len(m.of)/2], bandwidth[len(m.of)/2]
}

// item is a job as it stands in the list.
func (r *policy) item(j sched.Job, s standing) item {
	spec := j.Spec()
	return item{
		key: r.key(j, s), need: r.booked(spec, s), class: s.class, tail: s.tail, kind: j.Class(),
		host: r.hosted(spec),
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
	case DyMix, DyArin, DyPair:
		k.A = -int64(s.use)
	case DyType, DyMemo, Static, CoGNN:
		k.A = -int64(r.memory(j.Spec()))
	case DySequ:
		k.A, k.B = -int64(s.class), -int64(r.memory(j.Spec()))
	case DyRand:
		h := fnv.New64a()
		for _, n := range []uint64{uint64(r.cfg.Seed), uint64(j.Serial())} {
			h.Write([]byte{byte(n), byte(n >> 8), byte(n >> 16), byte(n >> 24)})
		}
		k.A = int64(h.Sum64() >> 2)
	}
	return k
}
