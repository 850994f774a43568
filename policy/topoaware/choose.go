package topoaware

import (
	"encoding/binary"
	"slices"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/fabric"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
)

// choice is GPUs of a node, and what they are worth.
type choice struct {
	set         fabric.Set
	system, own float64
}

// best is the set of so many of some GPUs of a node that is worth most to all. Of equal ones it is that of the
// lowest numbers.
func (j *judge) best(k perf.Sized, n *node, among fabric.Set) (best choice) {
	best.system = -1
	among.Each(k.GPUs, func(s fabric.Set) {
		c := j.of(k, n, s)
		if worth := j.system(&c, n); worth > best.system {
			best = choice{s, worth, j.own(&c)}
		}
	})
	return best
}

// fill is the set by Best Fit: of the socket with the fewest free GPUs, of equal ones the last, and then of the
// next one.
func (j *judge) fill(k perf.Sized, n *node, among fabric.Set) choice {
	var s fabric.Set
	for left := k.GPUs; left > 0; {
		var from fabric.Set
		for _, socket := range n.sockets {
			if here := among & socket &^ s; here != 0 && (from == 0 || here.Len() <= from.Len()) {
				from = here
			}
		}
		take := from.Lowest(min(left, from.Len()))
		s |= take
		left -= take.Len()
	}
	return j.worth(k, n, s)
}

// worth is what a set is worth.
func (j *judge) worth(k perf.Sized, n *node, s fabric.Set) choice {
	c := j.of(k, n, s)
	return choice{s, j.system(&c, n), j.own(&c)}
}

// Rule is by what GPUs are chosen.
type Rule uint8

// The rules.
const (
	Utility Rule = iota // what is worth most to all
	BestFit             // sockets with few free GPUs first
	First               // the lowest numbers
)

// chooser chooses GPUs on nodes, and keeps what it has found: equal nodes are judged once.
type chooser struct {
	judge
	rule Rule

	layouts fabric.ByLinks[*layout]
	flat    [fabric.MaxDevices + 1]*layout
	sorts   map[perf.Sized]uint32 // numbers of sorts, for keys

	now  node // scratch
	key  []byte
	seen []job.ID
}

// mostFound bounds the choices of a layout that are kept.
const mostFound = 1 << 16

// layoutOf is the layout of a node; nil where it has too many GPUs.
func (h *chooser) layoutOf(c *cluster.Cluster, id cluster.NodeID) *layout {
	_, n := c.DeviceRange(id)
	l := c.Node(id).Links
	switch {
	case n > fabric.MaxDevices:
		return nil
	case l == nil && h.flat[n] == nil:
		h.flat[n] = flatLayout(n)
		fallthrough
	case l == nil:
		return h.flat[n]
	}
	return h.layouts.Of(l, newLayout)
}

// occupancy is what jobs are on which devices, as the plan stands.
type occupancy struct {
	c     *cluster.Cluster
	on    func(cluster.DeviceID) []job.ID
	job   func(job.ID) *job.Job
	alloc func(job.ID) *cluster.Alloc
}

// on is the choice of some GPUs of a node for a job.
func (h *chooser) on(k perf.Sized, st *occupancy, id cluster.NodeID, l *layout, among fabric.Set) choice {
	h.look(st, id, l)
	return h.choose(k, among)
}

// alone is the choice on a node on which nobody runs.
func (h *chooser) alone(k perf.Sized, l *layout, among fabric.Set) choice {
	h.now = node{layout: l, free: among, running: h.now.running[:0]}
	return h.choose(k, among)
}

// choose is the choice of some free GPUs of the node that is looked at.
func (h *chooser) choose(k perf.Sized, among fabric.Set) choice {
	l := h.now.layout
	h.key = h.key[:0]
	for _, x := range []uint32{h.number(k), uint32(among), uint32(h.now.free)} {
		h.key = binary.LittleEndian.AppendUint32(h.key, x)
	}
	for _, r := range h.now.running {
		h.key = binary.LittleEndian.AppendUint32(h.key, h.number(r.sort))
		h.key = binary.LittleEndian.AppendUint32(h.key, r.on)
	}
	if found, ok := l.found[string(h.key)]; ok {
		return found
	}
	if l.found == nil || len(l.found) >= mostFound {
		l.found = map[string]choice{}
	}
	var found choice
	switch h.rule {
	case Utility:
		found = h.best(k, &h.now, among)
	case BestFit:
		found = h.fill(k, &h.now, among)
	default:
		found = h.worth(k, &h.now, among.Lowest(k.GPUs))
	}
	l.found[string(h.key)] = found
	return found
}

// number is that of a sort of jobs.
func (h *chooser) number(k perf.Sized) uint32 {
	n, ok := h.sorts[k]
	if !ok {
		if h.sorts == nil {
			h.sorts = map[perf.Sized]uint32{}
		}
		n = uint32(len(h.sorts))
		h.sorts[k] = n
	}
	return n
}

// look finds out what is free on a node, and who runs on it alone: jobs on several nodes were not measured.
func (h *chooser) look(st *occupancy, id cluster.NodeID, l *layout) {
	h.now = node{layout: l, running: h.now.running[:0]}
	h.seen = h.seen[:0]
	first, n := st.c.DeviceRange(id)
	for i := range n {
		d := first + cluster.DeviceID(i)
		if st.c.DeviceFree(d) == unit.One && st.c.UsableDevice(d) {
			h.now.free |= 1 << i
			continue
		}
		if h.known == nil {
			continue
		}
		for _, other := range st.on(d) {
			if a := st.alloc(other); a != nil && len(a.Pieces) == 1 && !slices.Contains(h.seen, other) {
				h.seen = append(h.seen, other)
				var set fabric.Set
				for _, s := range a.Shares {
					set |= 1 << (s.Device - first)
				}
				h.now.running = append(h.now.running, neighbour{perf.SizedOf(st.job(other), len(a.Shares)), l.uses(set)})
			}
		}
	}
}
