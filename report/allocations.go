package report

import (
	"cmp"
	"slices"
	"time"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/eventlog"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/state"
)

// allocations is which job had which devices, and when. It keeps the intervals of
// the most GPU time, and counts the others.
type allocations struct {
	open    []stretch
	spare   []int32
	done    ledger
	outages []outage
	down    []time.Duration // of each node: since when it is not there; -1 it is
}

// maxOutages is how many outages are kept, the longest ones.
const maxOutages = 5000

// stretch is one interval that has not ended yet.
type stretch struct {
	job   job.ID // job.None: this place is free
	start time.Duration
	spans []span
}

// span is a part of consecutive devices: the same share of each.
type span struct {
	device cluster.DeviceID
	n      int32
	milli  int32
}

// interval is a time during which a job had the same devices.
type interval struct {
	job        job.ID
	start, end time.Duration
	milli      unit.Milli
	why        job.Reason // why it ended
	how        job.Phase  // what the job was then
	span, n    int32      // its spans
}

// outage is a time during which a node was not there.
type outage struct {
	node       cluster.NodeID
	start, end time.Duration
}

func newAllocations(limit int) *allocations { return &allocations{done: ledger{limit: limit}} }

// allocation follows the allocation of a job through one event.
func (c *Collector) allocation(id job.ID, t *track, was mode, ev *eventlog.Event, s *state.State) {
	r := s.Record(id)
	reshaped := ev.Kind == eventlog.Move || ev.Kind == eventlog.Resize
	had, has := was == running || was == stopping, t.mode == running || t.mode == stopping
	if had && t.stretch > 0 && (!has || reshaped) {
		c.allocs.close(t.stretch-1, s.Now, stopReason(r, ev), r.Phase)
		t.stretch = 0
	}
	if t.mode == running && (!had || reshaped) {
		t.stretch = c.allocs.begin(id, s.Now, s.Alloc(id)) + 1
	}
}

// stopReason is why a job no longer has what it had.
func stopReason(r *job.Record, ev *eventlog.Event) job.Reason {
	switch ev.Kind {
	case eventlog.Move:
		return job.Reason{Code: job.Moved, Job: job.None}
	case eventlog.Resize:
		return job.Reason{Code: job.Resized, Need: r.Tasks, Job: job.None}
	}
	return r.Reason
}

func (h *allocations) begin(id job.ID, now time.Duration, a *cluster.Alloc) int32 {
	if a == nil || len(a.Shares) == 0 {
		return -1 // it has no devices
	}
	at := int32(len(h.open))
	if n := len(h.spare); n > 0 {
		at, h.spare = h.spare[n-1], h.spare[:n-1]
	} else {
		h.open = append(h.open, stretch{})
	}
	o := &h.open[at]
	o.job, o.start, o.spans = id, now, o.spans[:0]
	for i := range a.Shares {
		sh := &a.Shares[i]
		if n := len(o.spans); n > 0 {
			last := &o.spans[n-1]
			if last.milli == sh.Milli && last.device+cluster.DeviceID(last.n) == sh.Device {
				last.n++
				continue
			}
		}
		o.spans = append(o.spans, span{sh.Device, 1, sh.Milli})
	}
	return at
}

func (h *allocations) close(at int32, now time.Duration, why job.Reason, how job.Phase) {
	o := &h.open[at]
	h.done.add(o, now, why, how)
	o.job = job.None
	h.spare = append(h.spare, at)
}

// missing notes that a node was not there from the beginning.
func (h *allocations) missing(n cluster.NodeID) {
	h.know(n)
	h.down[n] = 0
}

// outage notes whether a node is there.
func (h *allocations) outage(n cluster.NodeID, there bool, now time.Duration) {
	h.know(n)
	switch since := h.down[n]; {
	case there && since >= 0:
		if now > since {
			if h.outages = append(h.outages, outage{n, since, now}); len(h.outages) >= 8*maxOutages {
				h.outages = longest(h.outages)
			}
		}
		h.down[n] = -1
	case !there && since < 0:
		h.down[n] = now
	}
}

func (h *allocations) know(n cluster.NodeID) {
	for int(n) >= len(h.down) {
		h.down = append(h.down, -1)
	}
}

// upTo is the intervals and outages up to now, those that go on included, in
// order of their start. h is not changed.
func (h *allocations) upTo(now time.Duration) (*ledger, []outage) {
	all := h.done.clone()
	for i := range h.open {
		if o := &h.open[i]; o.job != job.None {
			all.add(o, now, job.Reason{}, job.Running)
		}
	}
	all.prune()
	slices.SortFunc(all.intervals, func(a, b interval) int {
		return cmp.Or(cmp.Compare(a.start, b.start), cmp.Compare(a.job, b.job))
	})
	outages := slices.Clone(h.outages)
	for n, since := range h.down {
		if since >= 0 && since < now {
			outages = append(outages, outage{cluster.NodeID(n), since, now})
		}
	}
	return all, longest(outages)
}

// longest keeps the longest outages, in order of their start; of equal ones the
// earlier.
func longest(list []outage) []outage {
	byStart := func(a, b outage) int { return cmp.Or(cmp.Compare(a.start, b.start), cmp.Compare(a.node, b.node)) }
	slices.SortFunc(list, func(a, b outage) int { return cmp.Or(cmp.Compare(b.end-b.start, a.end-a.start), byStart(a, b)) })
	list = list[:min(len(list), maxOutages)]
	slices.SortFunc(list, byStart)
	return list
}

// ledger is a bounded list of intervals. For each span of time it keeps those
// of the most GPU time, as many as the limit says, with no more than four times
// as many in all.
type ledger struct {
	limit     int
	intervals []interval
	spans     []span
	dropped   int
	lost      float64 // GPU-seconds of those that were dropped
}

func (l *ledger) clone() *ledger {
	m := *l
	m.intervals, m.spans = slices.Clone(l.intervals), slices.Clone(l.spans)
	return &m
}

// add closes an interval. One that took no time is left out.
func (l *ledger) add(o *stretch, now time.Duration, why job.Reason, how job.Phase) {
	if now <= o.start {
		return
	}
	v := interval{job: o.job, start: o.start, end: now, why: why, how: how, span: int32(len(l.spans)), n: int32(len(o.spans))}
	for _, sp := range o.spans {
		v.milli += unit.Milli(sp.milli) * unit.Milli(sp.n)
	}
	l.spans = append(l.spans, o.spans...)
	l.intervals = append(l.intervals, v)
	if len(l.intervals) >= 2*l.limit || len(l.spans) >= 2*l.maxSpans() {
		l.prune()
	}
}

func (l *ledger) maxSpans() int { return 4 * l.limit }

// prune drops what is beyond the bounds; of equal intervals the later.
func (l *ledger) prune() {
	if len(l.intervals) <= l.limit && len(l.spans) <= l.maxSpans() {
		return
	}
	slices.SortStableFunc(l.intervals, func(a, b interval) int { return cmp.Compare(b.density(), a.density()) })
	keep, spans := 0, 0
	for keep < min(l.limit, len(l.intervals)) && spans+int(l.intervals[keep].n) <= l.maxSpans() {
		spans += int(l.intervals[keep].n)
		keep++
	}
	for i := range l.intervals[keep:] {
		l.lost += l.intervals[keep+i].gpuSeconds()
	}
	l.dropped += len(l.intervals) - keep
	l.intervals = l.intervals[:keep]
	slices.SortFunc(l.intervals, func(a, b interval) int { return cmp.Compare(a.span, b.span) })
	kept := l.spans[:0]
	for i := range l.intervals {
		v := &l.intervals[i]
		at := int32(len(kept))
		kept = append(kept, l.spans[v.span:v.span+v.n]...)
		v.span = at
	}
	l.spans = kept
}

func (v *interval) gpuSeconds() float64 { return float64(v.milli) / 1000 * (v.end - v.start).Seconds() }

func (v *interval) density() float64 { return v.gpuSeconds() / float64(v.n) }
