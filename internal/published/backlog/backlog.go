// Package backlog keeps the runnable jobs of a simulator that, at every event,
// sorts all of them anew and takes from the top whatever fits.
//
// Nouns: a List is the runnable jobs, running and pending, in order of a key,
// ties by a sequence number; a class is the jobs of one size, of which none
// fits once one did not. A Scan walks the list from the top in time that
// depends on the running jobs, the jobs taken and the classes, not on the
// number of pending jobs.
//
// The published simulators sort stably, so that jobs of equal key keep the
// order of the event before. The sequence number carries that order: Back gives
// one behind all others, Front one before all others.
package backlog

import (
	"math"

	"github.com/norn-scheduler/norn/state/dense"
)

// List is the runnable jobs. The zero List is empty.
type List struct {
	jobs    []member // by number
	running []int32  // nearly in order
	classes []class
	seq     int64 // the largest in use; -front is the smallest
	front   int64

	stops, starts []int32
}

type member struct {
	key, seq int64
	gpus     int32
	class    int16
	running  bool
	in       bool
}

type class struct {
	gpus    int32
	pending dense.List
	head    dense.Item // of a Scan
	open    bool       // of a Scan: it has a head, and may fit
}

// Back is a sequence number behind all others.
func (l *List) Back() int64 { l.seq++; return l.seq }

// Front is a sequence number before all others.
func (l *List) Front() int64 { l.front++; return -l.front }

// Add makes a job pending. The key orders, least first; ties go by seq.
func (l *List) Add(id int32, gpus int, key, seq int64) {
	for int(id) >= len(l.jobs) {
		l.jobs = append(l.jobs, make([]member, max(256, int(id)+1-len(l.jobs), len(l.jobs)))...)
	}
	l.jobs[id] = member{key: key, seq: seq, gpus: int32(gpus), class: l.class(int32(gpus)), in: true}
	l.insert(id)
}

func (l *List) class(gpus int32) int16 {
	for c := range l.classes {
		if l.classes[c].gpus == gpus {
			return int16(c)
		}
	}
	l.classes = append(l.classes, class{gpus: gpus})
	return int16(len(l.classes) - 1)
}

func (l *List) insert(id int32) {
	m := &l.jobs[id]
	l.classes[m.class].pending.Insert(m.item(id))
}

func (m *member) item(id int32) dense.Item { return dense.Item{A: m.key, B: m.seq, ID: id} }

// Remove takes a job out.
func (l *List) Remove(id int32) {
	m := &l.jobs[id]
	if !m.in {
		return
	}
	m.in = false
	if m.running {
		l.dropRunning(id)
	} else {
		l.classes[m.class].pending.Remove(m.item(id))
	}
}

func (l *List) dropRunning(id int32) {
	for i, r := range l.running {
		if r == id {
			l.running = append(l.running[:i], l.running[i+1:]...)
			return
		}
	}
}

// Has tells whether a job is in the list.
func (l *List) Has(id int32) bool { return int(id) < len(l.jobs) && l.jobs[id].in }

// Key is the key and the sequence number of a job.
func (l *List) Key(id int32) (key, seq int64) { return l.jobs[id].key, l.jobs[id].seq }

// GPUs is the size of a job.
func (l *List) GPUs(id int32) int64 { return int64(l.jobs[id].gpus) }

// Set gives a job another place in the order.
func (l *List) Set(id int32, key, seq int64) {
	m := &l.jobs[id]
	if m.running {
		m.key, m.seq = key, seq
		return
	}
	l.classes[m.class].pending.Remove(m.item(id))
	m.key, m.seq = key, seq
	l.insert(id)
}

// Rekey gives jobs other keys and keeps the order of equals stable. A job
// stands as before relative to the jobs whose key it now shares: behind them if
// its key has come down, before them if it has gone up. The slice is sorted.
func (l *List) Rekey(ids []int32, key func(id int32) int64) {
	l.sort(ids)
	for _, id := range ids {
		if k := key(id); k < l.jobs[id].key {
			l.Set(id, k, l.Back())
		}
	}
	for i := len(ids) - 1; i >= 0; i-- {
		if k := key(ids[i]); k > l.jobs[ids[i]].key {
			l.Set(ids[i], k, l.Front())
		}
	}
}

// RunningFirst puts running jobs before the pending ones of equal key; among
// themselves they keep their order.
func (l *List) RunningFirst() {
	l.sort(l.running)
	for i := len(l.running) - 1; i >= 0; i-- {
		l.jobs[l.running[i]].seq = l.Front()
	}
}

// Running are the running jobs, in order. The slice is valid until a job starts,
// stops or leaves.
func (l *List) Running() []int32 {
	l.sort(l.running)
	return l.running
}

// Scan walks the list in order and asks fit about one job after another; fit
// takes what the job needs when it answers true. Running jobs for which it is
// false are the stops, pending ones for which it is true the starts, each in
// order. Once fit was false for a pending job, no other one of its size is asked
// about. Nothing is changed: see Stop and Start.
func (l *List) Scan(fit func(id int32, gpus int) bool) (stops, starts []int32) {
	l.stops, l.starts = l.stops[:0], l.starts[:0]
	l.sort(l.running)
	for c := range l.classes {
		k := &l.classes[c]
		k.head, k.open = k.pending.Min()
	}
	for r := 0; ; {
		c := l.first()
		switch {
		case r < len(l.running) && (c < 0 || l.jobs[l.running[r]].item(l.running[r]).Before(l.classes[c].head)):
			id := l.running[r]
			if r++; !fit(id, int(l.jobs[id].gpus)) {
				l.stops = append(l.stops, id)
			}
		case c >= 0:
			k := &l.classes[c]
			if !fit(k.head.ID, int(k.gpus)) {
				k.open = false
				continue
			}
			l.starts = append(l.starts, k.head.ID)
			after := k.head
			after.ID++
			k.head, k.open = k.pending.From(after)
		default:
			return l.stops, l.starts
		}
	}
}

// first is the open class whose head comes first, or -1.
func (l *List) first() int {
	best := -1
	for c := range l.classes {
		if k := &l.classes[c]; k.open && (best < 0 || k.head.Before(l.classes[best].head)) {
			best = c
		}
	}
	return best
}

// sort puts jobs in order. It is quick where they are nearly in order already,
// as running jobs are from one event to the next.
func (l *List) sort(ids []int32) {
	for i := 1; i < len(ids); i++ {
		id := ids[i]
		it := l.jobs[id].item(id)
		at := i
		for at > 0 && it.Before(l.jobs[ids[at-1]].item(ids[at-1])) {
			ids[at] = ids[at-1]
			at--
		}
		ids[at] = id
	}
}

// Stop makes a running job pending; its place in the order stays.
func (l *List) Stop(id int32) {
	l.dropRunning(id)
	l.jobs[id].running = false
	l.insert(id)
}

// Start makes a pending job running; its place in the order stays.
func (l *List) Start(id int32) {
	m := &l.jobs[id]
	l.classes[m.class].pending.Remove(m.item(id))
	m.running = true
	l.running = append(l.running, id)
}

// FloatKey is a key in the order of floats: FloatKey(a) < FloatKey(b) where a <
// b, and equal where they are equal, zeros of either sign included.
func FloatKey(f float64) int64 {
	bits := int64(math.Float64bits(f + 0))
	if bits < 0 {
		return math.MinInt64 - bits
	}
	return bits
}
