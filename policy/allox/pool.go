package allox

import (
	"math"
	"time"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/sched"
	"github.com/norn-scheduler/norn/tenant"
)

// machine is a device that runs one job at a time.
type machine struct {
	device cluster.DeviceID
	node   cluster.NodeID
	kind   int // its type
	host   bool
	memory unit.Bytes // of a GPU
	free   float64    // nanoseconds until it is free; 0: it is now
}

// pool is a part of the cluster, as long as a decision takes.
type pool struct {
	id    cluster.PoolID
	hosts []bool // by kind
	count []int  // by kind: machines that are told apart and can be used
}

func newPool(v *sched.View, id cluster.PoolID) *pool {
	c := v.Cluster()
	b := &pool{id: id, hosts: make([]bool, c.Types()), count: make([]int, c.Types())}
	for t := range b.hosts {
		b.hosts[t] = c.Type(cluster.TypeID(t)).Host
	}
	b.each(c, func(_ cluster.NodeID, d cluster.DeviceID) bool {
		b.count[c.TypeOf(d)]++
		return true
	})
	return b
}

// each visits the devices that can be used, until visit has enough.
func (b *pool) each(c *cluster.Cluster, visit func(cluster.NodeID, cluster.DeviceID) (more bool)) {
	for _, n := range c.PoolNodes(b.id) {
		if !c.Usable(n) || c.Node(n).Pooled {
			continue
		}
		first, count := c.DeviceRange(n)
		for d := first; d < first+cluster.DeviceID(count); d++ {
			if !c.Broken(d) && !visit(n, d) {
				return
			}
		}
	}
}

// holds tells whether a job could run on any machine if nothing else ran.
func (b *pool) holds(c *cluster.Cluster, w *waiting) bool {
	found := false
	b.each(c, func(n cluster.NodeID, d cluster.DeviceID) bool {
		m := b.machine(c, n, d)
		found = w.ever(c, &m)
		return !found
	})
	return found
}

func (b *pool) machine(c *cluster.Cluster, n cluster.NodeID, d cluster.DeviceID) machine {
	t := c.TypeOf(d)
	m := machine{device: d, node: n, kind: int(t), host: b.hosts[t], memory: c.Type(t).Memory}
	if m.memory == 0 {
		m.memory = math.MaxInt64
	}
	return m
}

// machines lists the devices, as the plan stands. One that is shared, or held by a job
// of which nobody knows when it ends, is left out.
func (b *pool) machines(v *sched.View, p *sched.Plan, out []machine) []machine {
	c := v.Cluster()
	until := map[cluster.DeviceID]float64{}
	for j := range v.Running() {
		end, known := j.ExpectedEnd()
		for _, s := range p.Alloc(j.ID).Shares {
			switch {
			case !known || s.Milli < int32(unit.One):
				until[s.Device] = math.Inf(1)
			default:
				until[s.Device] = max(1, float64(end-v.Now))
			}
		}
	}
	b.each(c, func(n cluster.NodeID, d cluster.DeviceID) bool {
		m := b.machine(c, n, d)
		if c.DeviceFree(d) < unit.One {
			end, held := until[d]
			if !held || math.IsInf(end, 1) {
				return true
			}
			m.free = end
		}
		out = append(out, m)
		return true
	})
	return out
}

// times is how long a job has still to run on each kind, in whole nanoseconds; nil
// when it is no job for one machine, or can run on none.
func (b *pool) times(v *sched.View, j sched.Job, unknown time.Duration) []float64 {
	class := v.Class(j.Class())
	d := class.Demand
	if d.Roles[0].Tasks != 1 || d.Roles[0].GPU != unit.One || d.Roles[1].Tasks != 0 || d.Elastic() {
		return nil
	}
	left, known := j.Remaining()
	if !known {
		left = unknown
	}
	out := b.slowness(v, j)
	can := false
	for t := range out {
		if !math.IsInf(out[t], 1) {
			out[t] = min(math.Ceil(float64(left)*out[t]), 1e18)
			can = true
		}
	}
	if !can {
		return nil
	}
	return out
}

// withoutGPU is how fast a job runs on processors, as far as its user knows; 0 when it
// needs a GPU.
func withoutGPU(s *job.Job, j sched.Job) float64 {
	estimate, known := j.Estimate()
	if s.Hints == nil || s.Hints.CPUTime <= 0 || s.Hints.CPUEstimate <= 0 || !known {
		return 0
	}
	return float64(estimate) / float64(s.Hints.CPUEstimate)
}

// least is the shortest time of a job on GPUs, or on processors.
func (b *pool) least(times []float64, host bool) float64 {
	least := math.Inf(1)
	for t, v := range times {
		if b.hosts[t] == host {
			least = min(least, v)
		}
	}
	return least
}

// value is what a job counts for its user when it runs on a kind: its share of the
// kind on which it is fastest, of GPUs before processors, less by as much as it is
// slower here.
func (b *pool) value(times []float64, on int) float64 {
	best := on
	for t, v := range times {
		if v < times[best] || v == times[best] && b.hosts[best] && !b.hosts[t] {
			best = t
		}
	}
	slower := 1.0
	if times[on] > 0 {
		slower = times[best] / times[on]
	}
	return slower / float64(max(1, b.count[best]))
}

// scores sums up the scores of each user's running jobs. The score of a job does
// not change while it runs.
func (b *pool) scores(v *sched.View) map[tenant.ID]float64 {
	out := map[tenant.ID]float64{}
	c := v.Cluster()
	for j := range v.Running() {
		held := v.Alloc(j.ID)
		if j.Pool() != b.id || held == nil {
			continue
		}
		var slow []float64
		if len(held.Shares) == 1 {
			slow = b.slowness(v, j)
		}
		for _, s := range held.Shares {
			t := c.TypeOf(s.Device)
			if slow != nil && !math.IsInf(slow[t], 1) {
				out[j.Tenant()] += b.value(slow, int(t))
			} else {
				out[j.Tenant()] += float64(s.Milli) / 1000 / float64(max(1, b.count[t]))
			}
		}
	}
	return out
}

// slowness is the time that a job takes on each kind for a unit of work: +Inf where
// it cannot run.
func (b *pool) slowness(v *sched.View, j sched.Job) []float64 {
	class := v.Class(j.Class())
	out := make([]float64, len(b.count))
	for t := range out {
		speed := 0.0
		switch {
		case b.count[t] == 0:
		case b.hosts[t]:
			speed = withoutGPU(j.Spec(), j)
		case class.Mask.Has(cluster.TypeID(t)):
			speed = v.TypeSpeed(j, cluster.TypeID(t), 1, false)
		}
		out[t] = math.Inf(1)
		if speed > 0 {
			out[t] = 1 / speed
		}
	}
	return out
}
