package report

import (
	"slices"
	"time"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/state"
)

// timeline is the intervals of a run laid out for the chart of GPUs by time.
// Its vertical axis counts thousandths of a GPU through all nodes: GPU k of the
// cluster reaches from 1000k to 1000(k+1).
type timeline struct {
	nodes   []rack
	height  int64 // thousandths of a GPU in all
	start   time.Duration
	end     time.Duration
	bars    []bar // in order of start
	boxes   []box // of all bars
	outages []outage
	dropped int     // intervals left out
	lost    float64 // their GPU-hours
}

// rack is the place of one node on the vertical axis.
type rack struct {
	name    string
	gpus    int
	counted bool // its GPUs are counted, not told apart
}

// bar is one interval: its boxes are next to each other where its GPUs are.
type bar struct {
	job, other *job.Job // other: the one that the reason names, or nil
	milli      unit.Milli
	start, end time.Duration
	why        job.Reason
	how        job.Phase
	box, n     int32
}

// box is a part of the vertical axis. Its height is 0 for a guest that runs in
// the gaps of the others.
type box struct{ top, height int64 }

// newTimeline lays out what was held, from the first submission to the end of
// the run.
func newTimeline(h *allocations, s *state.State, start, end time.Duration) *timeline {
	kept, outages := h.upTo(s.Now)
	t := &timeline{start: start, end: end, outages: outages, dropped: kept.dropped, lost: kept.lost / 3600}
	l := newLanes(s.Cluster)
	t.height = l.height
	for n := range cluster.NodeID(s.Cluster.Nodes()) {
		spec := s.Cluster.Node(n)
		t.nodes = append(t.nodes, rack{spec.Name, devicesOf(spec), spec.Pooled})
	}
	for i := range kept.intervals {
		v := &kept.intervals[i]
		b := bar{
			job: s.Record(v.job).Job, milli: v.milli, start: v.start, end: v.end,
			why: v.why, how: v.how, box: int32(len(t.boxes)),
		}
		if v.why.Job >= 0 && s.Known(v.why.Job) {
			b.other = s.Record(v.why.Job).Job
		}
		t.boxes = l.place(t.boxes, kept.spans[v.span:v.span+v.n], v.start, v.end)
		b.n = int32(len(t.boxes)) - b.box
		t.bars = append(t.bars, b)
	}
	return t
}

// lanes gives every share of a device a place on the vertical axis. Shares of
// the same time lie side by side, unless more is allocated than there is. A job
// that is moved has its new devices while others are still leaving them.
type lanes struct {
	top    []int64 // of each device
	size   []int64
	taken  [][]extent // of each device that is shared or counted
	height int64
	free   []box
}

// extent is a part of a device that is taken until a moment.
type extent struct {
	low, high int64
	until     time.Duration
}

func newLanes(c *cluster.Cluster) *lanes {
	l := &lanes{}
	for n := range cluster.NodeID(c.Nodes()) {
		eachDevice(c, n, func(_ cluster.DeviceID, size unit.Milli) {
			l.top, l.size = append(l.top, l.height), append(l.size, int64(size))
			l.height += int64(size)
		})
	}
	l.taken = make([][]extent, len(l.top))
	return l
}

// place appends the boxes of an interval that starts no earlier than the ones
// placed before it. Neighbours are joined.
func (l *lanes) place(out []box, spans []span, start, end time.Duration) []box {
	first := len(out)
	for _, sp := range spans {
		for d := sp.device; d < sp.device+cluster.DeviceID(sp.n); d++ {
			if l.size[d] == int64(sp.milli) {
				out = join(out, first, box{l.top[d], l.size[d]})
				continue
			}
			for _, b := range l.fit(d, int64(sp.milli), start, end) {
				out = join(out, first, b)
			}
		}
	}
	return out
}

func join(out []box, first int, b box) []box {
	if n := len(out); n > first && b.height > 0 && out[n-1].height > 0 && out[n-1].top+out[n-1].height == b.top {
		out[n-1].height += b.height
		return out
	}
	return append(out, b)
}

// fit takes a part of a device: in one piece where there is a gap that is large
// enough, else in as many as are needed. The boxes are valid until the next
// call.
func (l *lanes) fit(d cluster.DeviceID, need int64, start, end time.Duration) []box {
	l.free = l.free[:0]
	if need == 0 {
		return append(l.free, box{l.top[d], 0})
	}
	taken := slices.DeleteFunc(l.taken[d], func(e extent) bool { return e.until <= start })
	slices.SortFunc(taken, func(a, b extent) int { return int(a.low - b.low) })
	low := int64(0)
	for _, e := range taken {
		if e.low > low {
			l.free = append(l.free, box{low, e.low - low})
		}
		low = max(low, e.high)
	}
	if low < l.size[d] {
		l.free = append(l.free, box{low, l.size[d] - low})
	}
	if i := slices.IndexFunc(l.free, func(b box) bool { return b.height >= need }); i >= 0 {
		l.free = append(l.free[:0], l.free[i])
	}
	n := 0
	for i := range l.free {
		b := box{l.free[i].top, min(need, l.free[i].height)}
		if b.height == 0 {
			break
		}
		need -= b.height
		taken = append(taken, extent{b.top, b.top + b.height, end})
		l.free[i] = box{l.top[d] + b.top, b.height}
		n++
	}
	l.free = l.free[:n]
	if need > 0 { // a job moved here before another one had left
		need = min(need, l.size[d])
		taken = append(taken, extent{0, need, end})
		l.free = append(l.free, box{l.top[d], need})
	}
	l.taken[d] = taken
	return l.free
}

// devicesOf is the number of devices of a node, GPUs or not, counted ones included.
func devicesOf(spec *cluster.NodeSpec) (n int) {
	for _, g := range spec.GPUs {
		n += g.Count
	}
	return n
}
