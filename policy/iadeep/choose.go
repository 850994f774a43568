package iadeep

import (
	"fmt"
	"slices"
	"strings"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/policy/kit/beside"
	"github.com/norn-scheduler/norn/sched"
)

// spot is a GPU for a job.
type spot struct {
	device cluster.DeviceID
	idle   bool
	sum    float64 // predicted interference
	score  float64 // of its node
}

// short is why a GPU, or a node, does not take a job.
type short int

const (
	nothing short = iota
	memoryShort
	jobsShort
	timeShort
	tuningShort
	othersShort
	shorts
)

var shortTexts = [shorts]string{
	memoryShort: "without the memory that it asks for", jobsShort: "with as many jobs as may share", timeShort: "with no time or memory left",
	tuningShort: "where batches are being tuned", othersShort: "on nodes without the CPU or memory that it asks for",
}

// counts are how many GPUs were passed over for each reason.
type counts [shorts]int

func (n *counts) add(why short) {
	if n != nil {
		n[why]++
	}
}

// place starts a job on an idle GPU, or beside others.
func (f *policy) place(v *sched.View, p *sched.Plan, j sched.Job) {
	kind := refused{j.Class(), perf.SortOf(j.Spec())}
	if why, known := f.why[kind]; known {
		p.Wait(j.ID, why)
		return
	}
	best, found := f.choose(v, p, j, nil)
	if !found {
		var not counts
		f.choose(v, p, j, &not)
		f.why[kind] = not.reason()
		p.Wait(j.ID, f.why[kind])
		return
	}
	f.start(v, p, j, &best)
}

// choose is the GPU for a job; found is false when there is none. Given counts, it looks
// at all nodes and counts why GPUs are passed over.
func (f *policy) choose(v *sched.View, p *sched.Plan, j sched.Job, not *counts) (best spot, found bool) {
	c, class, takes := v.Cluster(), v.Class(j.Class()), perf.MemoryOf(j.Spec())
	role := &class.Demand.Roles[0]
	for _, n := range c.PoolNodes(class.Scope) {
		if !c.Usable(n) || c.Node(n).Pooled || class.NoType {
			continue
		}
		score := f.scores[n]
		if not == nil && (!f.room[n] || found && f.cfg.Choice == OnNode && score <= best.score) {
			continue
		}
		cpu, accounted := c.CPUFree(n)
		ram, told := c.MemoryFree(n)
		if accounted && cpu < role.CPU || told && ram < role.Memory {
			not.add(othersShort)
			continue
		}
		for d := range beside.Devices(v, n, j) {
			on := p.On(d)
			s := spot{d, len(on) == 0, 0, score}
			if why := f.takes(v, &s, on, takes); why != nothing {
				not.add(why)
				continue
			}
			if !s.idle && f.cfg.Choice != FirstFit {
				s.sum = f.crowds.with(f.learnt, d, kindOf(j))
			}
			if !found || f.better(&s, &best) {
				best, found = s, true
			}
		}
	}
	return best, found
}

func kindOf(j sched.Job) string { return perf.SortOf(j.Spec()) }

// books is the memory that is booked for a job: what it asks for, or else what it tells
// that it takes, but no more than there is.
func books(v *sched.View, j sched.Job, d cluster.DeviceID) unit.Bytes {
	takes := perf.MemoryOf(j.Spec())
	if all := v.Cluster().Type(v.Cluster().TypeOf(d)).Memory; all > 0 {
		return min(takes, all)
	}
	return takes
}

// better tells whether a GPU is chosen before one that was met earlier.
func (f *policy) better(a, b *spot) bool {
	if f.cfg.Choice == FirstFit {
		return a.score < b.score
	}
	if f.cfg.Choice == OnNode && a.score != b.score {
		return a.score > b.score
	}
	if a.idle != b.idle {
		return a.idle
	}
	return a.sum < b.sum
}

// takes tells why a GPU cannot take one more job of that memory; nothing when it can.
func (f *policy) takes(v *sched.View, s *spot, on []job.ID, memory unit.Bytes) short {
	c := v.Cluster()
	switch {
	case s.idle && c.DeviceFree(s.device) < unit.One:
		return jobsShort
	case c.DeviceMemoryFree(s.device) < memory && !(s.idle && memory > c.Type(c.TypeOf(s.device)).Memory):
		return memoryShort
	case s.idle:
	case f.tuned[s.device]:
		return tuningShort
	case len(on) >= f.cfg.Most || !f.open[s.device]:
		return jobsShort
	case f.busy[s.device]:
		return timeShort
	}
	return nothing
}

// look notes what the choices of this decision go by: scores of nodes, and which GPUs
// take one more job.
func (f *policy) look(v *sched.View) {
	f.scores, f.room = make([]float64, v.Cluster().Nodes()), make([]bool, v.Cluster().Nodes())
	f.open, f.busy = make([]bool, v.Cluster().Devices()), make([]bool, v.Cluster().Devices())
	for d := range v.Devices() {
		used, on := v.Used(d), v.On(d)
		f.open[d] = f.mine(v, on) && f.began(v, on)
		f.busy[d] = used.Known && used.Use >= f.cfg.Util || f.filled(v, d, on) >= f.cfg.Util
	}
	for n := range cluster.NodeID(v.Cluster().Nodes()) {
		f.sum(v, n, v.On)
	}
}

// sum sums up the GPUs of a node, of which it is told who is on each.
func (f *policy) sum(v *sched.View, n cluster.NodeID, on func(cluster.DeviceID) []job.ID) {
	f.scores[n], f.room[n] = f.score(v, n, on), false
	first, count := v.Cluster().DeviceRange(n)
	for d := first; d < first+cluster.DeviceID(count); d++ {
		f.room[n] = f.room[n] || f.takes(v, &spot{device: d, idle: len(on(d)) == 0}, on(d), 0) == nothing
	}
}

// began tells whether all jobs of a GPU have begun before this moment, so that what they
// hold can be changed.
func (f *policy) began(v *sched.View, on []job.ID) bool {
	for _, id := range on {
		if j := v.Job(id); j.Phase() != job.Running || j.Since() == v.Now || j.Profiling() {
			return false
		}
	}
	return true
}

// score is the part of the memory of a node's GPUs that is left, in the mean; -1 when
// all of them are being tuned.
func (f *policy) score(v *sched.View, n cluster.NodeID, on func(cluster.DeviceID) []job.ID) float64 {
	first, count := v.Cluster().DeviceRange(n)
	sum, open := 0.0, false
	for d := first; d < first+cluster.DeviceID(count); d++ {
		sum += f.filled(v, d, on(d))
		open = open || !f.tuned[d]
	}
	if !open {
		return -1
	}
	return 1 - sum/float64(max(1, count))
}

// filled is the part of the memory of a GPU that is booked. Where it is not told, each
// job counts for a part that lets the most jobs share that may.
func (f *policy) filled(v *sched.View, d cluster.DeviceID, on []job.ID) float64 {
	all := v.Cluster().Type(v.Cluster().TypeOf(d)).Memory
	if free := v.Cluster().DeviceMemoryFree(d); all > 0 && free < all {
		return 1 - float64(free)/float64(all)
	}
	return float64(len(on)) / float64(max(f.cfg.Most, len(on)+1))
}

// start gives a job its GPU, or an equal part of it.
func (f *policy) start(v *sched.View, p *sched.Plan, j sched.Job, s *spot) {
	on := slices.Clone(p.On(s.device))
	part := int32(int(unit.One) / (len(on) + 1))
	role := &j.Spec().Demand.Roles[0]
	f.alloc.Reset()
	beside.AddTask(&f.alloc, v.Cluster().NodeOf(s.device), role, cluster.Share{Device: s.device, Milli: part, Memory: books(v, j, s.device)})
	if !beside.Join(p, j.ID, &f.alloc) {
		p.Wait(j.ID, beside.Because("the job on the GPU that it would share cannot be changed now"))
		return
	}
	if len(on) > 0 {
		f.begin(v, p, j, on)
		f.tuned[s.device] = true
	} else if owns(j) { // where it ran before
		f.remember(v, p, j.ID, note{})
	}
	f.crowds.changed(v, s.device, p.On(s.device))
	f.open[s.device] = false // until it has begun
	f.sum(v, v.Cluster().NodeOf(s.device), p.On)
}

// reason says why no GPU takes a job.
func (n *counts) reason() job.Reason {
	var parts []string
	for why, count := range n {
		if count > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", count, shortTexts[why]))
		}
	}
	if len(parts) == 0 {
		return beside.Because("no GPU is there for it")
	}
	return beside.Because("no GPU takes it: %s", strings.Join(parts, ", "))
}

// crowds is what the predicted interference on each GPU would be with one more job. Its
// answers hold for one decision.
type crowds struct {
	names map[perf.Crowd]int
	sorts [][]string // by the number of a crowd
	of    []int      // by device
	kinds map[string][]float64
}

// asked marks what has not been predicted yet.
const asked = -1e300

// reset notes the crowds on all devices.
func (c *crowds) reset(v *sched.View) {
	c.names, c.kinds, c.sorts = map[perf.Crowd]int{}, map[string][]float64{}, c.sorts[:0]
	for len(c.of) < v.Cluster().Devices() {
		c.of = append(c.of, 0)
	}
	for d := range cluster.DeviceID(len(c.of)) {
		if on := v.On(d); len(on) > 0 {
			c.changed(v, d, on)
		}
	}
}

// changed notes the crowd on a device.
func (c *crowds) changed(v *sched.View, d cluster.DeviceID, on []job.ID) {
	sorts := make([]string, 0, len(on)+1)
	for _, id := range on {
		sorts = append(sorts, kindOf(v.Job(id)))
	}
	name := perf.NewCrowd(sorts)
	n, known := c.names[name]
	if !known {
		n = len(c.sorts)
		c.names[name], c.sorts = n, append(c.sorts, sorts)
	}
	c.of[d] = n
}

// with is the predicted interference on a device with one more job of a sort.
func (c *crowds) with(l *learnt, d cluster.DeviceID, sort string) float64 {
	sums := c.kinds[sort]
	n := c.of[d]
	if len(sums) <= n {
		for len(sums) < len(c.sorts) {
			sums = append(sums, asked)
		}
		c.kinds[sort] = sums
	}
	if sums[n] == asked {
		sums[n] = l.predict(perf.NewCrowd(append(append([]string(nil), c.sorts[n]...), sort)))
	}
	return sums[n]
}
