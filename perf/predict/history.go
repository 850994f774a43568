package predict

import (
	"fmt"
	"time"

	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
)

// Rolling is how a History looks back.
type Rolling struct {
	Cutoff  float64       // names that are at least so similar are similar, 0 to 1
	Matches int           // so many of the similar names count, the most similar first
	Decay   float64       // weight of a job relative to the next one after it, above 0 to 1
	Window  time.Duration // jobs of a user submitted longer ago than this are forgotten
	Records int           // so many jobs of a user are remembered, the last to end
}

// DefaultRolling is the settings of Helios: names of similarity 0.6, the two most
// similar, weight 0.7, 60 days, 200 jobs.
func DefaultRolling() Rolling {
	return Rolling{Cutoff: 0.6, Matches: 2, Decay: 0.7, Window: 60 * 24 * time.Hour, Records: 200}
}

// Check says what is wrong with the settings.
func (c *Rolling) Check() error {
	switch {
	case !(c.Cutoff >= 0 && c.Cutoff <= 1):
		return fmt.Errorf("a cutoff of %v: it must be 0 to 1", c.Cutoff)
	case !(c.Decay > 0 && c.Decay <= 1):
		return fmt.Errorf("a decay of %v: it must be above 0 and at most 1", c.Decay)
	case c.Matches < 1 || c.Records < 1:
		return fmt.Errorf("%d matches, %d records: both must be 1 or more", c.Matches, c.Records)
	}
	return nil
}

// History predicts the run time of a job from those of the jobs that have ended,
// as the rolling estimator of Helios does (Hu et al., SC 2021, section 4.2): from
//
//  1. the user's jobs with similar names, the last ones counting most;
//  2. the user's jobs that asked for as many GPUs;
//  3. all jobs of the user;
//  4. everybody's jobs that asked for as many GPUs;
//  5. all jobs;
//
// whichever is the first of which there are any, by their mean. Where a source
// tells no users the tenant stands for them. It takes time in the number of jobs
// that are remembered of one user, whatever the length of the history.
type History struct {
	cfg     Rolling
	owners  map[ownerKey]*owner
	names   map[string]int32
	texts   []string // by number of name
	sizes   map[unit.Milli]*mean
	all     mean
	buf     []byte
	similar []match // scratch
}

// ownerKey is a user, or a tenant in place of one.
type ownerKey struct {
	tenant bool
	name   string
}

// owner is what is remembered of a user: a ring of records.
type owner struct {
	ring  []record
	next  int // where the next record goes, once the ring is full
	names []nameCount
}

type record struct {
	name   int32 // noName: none
	size   unit.Milli
	ran    float64 // seconds
	submit time.Duration
}

type nameCount struct {
	name, n int32
}

type match struct {
	name int32
	like float64
}

type mean struct {
	sum float64
	n   int
}

func (m *mean) add(v float64) { m.sum, m.n = m.sum+v, m.n+1 }

const noName = -1

// NewHistory knows nothing yet. The settings must pass Check.
func NewHistory(cfg Rolling) *History {
	return &History{cfg: cfg, owners: map[ownerKey]*owner{}, names: map[string]int32{}, sizes: map[unit.Milli]*mean{}}
}

// keyOf is who a job belongs to; ok is false when that is not told.
func keyOf(j *job.Job) (key ownerKey, ok bool) {
	if j.User != "" {
		return ownerKey{false, j.User}, true
	}
	return ownerKey{true, j.Tenant}, j.Tenant != ""
}

func sizeOf(j *job.Job) unit.Milli { return j.Demand.Milli(j.Demand.Roles[0].Tasks) }

// Observe takes in how long a job ran that has ended.
func (h *History) Observe(j *job.Job, ran time.Duration) {
	rec := record{noName, sizeOf(j), ran.Seconds(), j.Submit}
	h.all.add(rec.ran)
	size := h.sizes[rec.size]
	if size == nil {
		size = new(mean)
		h.sizes[rec.size] = size
	}
	size.add(rec.ran)
	key, ok := keyOf(j)
	if !ok {
		return
	}
	if h.buf = appendName(h.buf[:0], j); len(h.buf) > 0 {
		rec.name = h.intern(h.buf)
	}
	o := h.owners[key]
	if o == nil {
		o = new(owner)
		h.owners[key] = o
	}
	o.add(rec, h.cfg.Records)
}

func (h *History) intern(name []byte) int32 {
	if n, ok := h.names[string(name)]; ok {
		return n
	}
	n := int32(len(h.texts))
	h.texts = append(h.texts, string(name))
	h.names[h.texts[n]] = n
	return n
}

func (o *owner) add(rec record, most int) {
	o.count(rec.name, 1)
	if len(o.ring) < most {
		o.ring = append(o.ring, rec)
		return
	}
	o.count(o.ring[o.next].name, -1)
	o.ring[o.next] = rec
	o.next = (o.next + 1) % most
}

// count keeps the names of the jobs in the ring, the last used one last.
func (o *owner) count(name, by int32) {
	if name == noName {
		return
	}
	at := 0
	for at < len(o.names) && o.names[at].name != name {
		at++
	}
	c := nameCount{name: name}
	if at < len(o.names) {
		c = o.names[at]
	} else {
		o.names = append(o.names, c)
	}
	c.n += by
	switch {
	case c.n == 0:
		o.names = append(o.names[:at], o.names[at+1:]...)
	case by < 0:
		o.names[at] = c
	default:
		copy(o.names[at:], o.names[at+1:])
		o.names[len(o.names)-1] = c
	}
}

// back visits the records that are not older than since, the last one first.
func (o *owner) back(since time.Duration, visit func(*record)) {
	for k := range o.ring {
		i := o.next - 1 - k
		if i < 0 {
			i += len(o.ring)
		}
		if r := &o.ring[i]; r.submit >= since {
			visit(r)
		}
	}
}

// Estimate predicts the run time of a job; ok is false while no job has ended.
func (h *History) Estimate(j *job.Job) (d time.Duration, ok bool) {
	if h.all.n == 0 {
		return 0, false
	}
	if key, told := keyOf(j); told {
		if o := h.owners[key]; o != nil {
			if s, known := h.ofOwner(o, j); known {
				return clamp(s * 1e9), true
			}
		}
	}
	m := &h.all
	if size := h.sizes[sizeOf(j)]; size != nil {
		m = size
	}
	return clamp(m.sum / float64(m.n) * 1e9), true
}

// ofOwner predicts from the jobs of one user; ok is false when none of them is
// recent enough.
func (h *History) ofOwner(o *owner, j *job.Job) (seconds float64, ok bool) {
	since := j.Submit - h.cfg.Window
	h.buf = appendName(h.buf[:0], j)
	if len(h.buf) > 0 && h.alike(o) {
		if s, ok := h.decayed(o, since); ok {
			return s, true
		}
	}
	var equal, all mean
	size := sizeOf(j)
	o.back(since, func(r *record) {
		all.add(r.ran)
		if r.size == size {
			equal.add(r.ran)
		}
	})
	switch {
	case equal.n > 0:
		return equal.sum / float64(equal.n), true
	case all.n > 0:
		return all.sum / float64(all.n), true
	}
	return 0, false
}

// alike finds the names of an owner's jobs that are similar to the one in buf: an
// equal one alone, or else the most similar ones, of equally similar ones those
// used last.
func (h *History) alike(o *owner) bool {
	h.similar = h.similar[:0]
	if n, known := h.names[string(h.buf)]; known {
		for _, c := range o.names {
			if c.name == n {
				h.similar = append(h.similar, match{n, 1})
				return true
			}
		}
	}
	name := string(h.buf)
	for i := len(o.names) - 1; i >= 0; i-- {
		c := o.names[i]
		text := h.texts[c.name]
		short, long := min(len(name), len(text)), max(len(name), len(text))
		if float64(short) < h.cfg.Cutoff*float64(long) {
			continue // they differ in length alone by more
		}
		if like := Similarity(name, text); like >= h.cfg.Cutoff {
			h.similar = append(h.similar, match{c.name, like})
		}
	}
	for i := range h.similar { // insertion: they are few, and equal ones stay in order
		for k := i; k > 0 && h.similar[k].like > h.similar[k-1].like; k-- {
			h.similar[k], h.similar[k-1] = h.similar[k-1], h.similar[k]
		}
	}
	h.similar = h.similar[:min(len(h.similar), h.cfg.Matches)]
	return len(h.similar) > 0
}

// decayed is the mean run time of the jobs with similar names, each counting less
// than the one after it.
func (h *History) decayed(o *owner, since time.Duration) (seconds float64, ok bool) {
	sum, weights, w := 0.0, 0.0, 1.0
	o.back(since, func(r *record) {
		for _, m := range h.similar {
			if m.name == r.name {
				sum += w * r.ran
				weights += w
				w *= h.cfg.Decay
				break
			}
		}
	})
	if weights == 0 {
		return 0, false
	}
	return sum / weights, true
}
