package report

import (
	"time"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/eventlog"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/state"
)

// Energy is what a run has consumed, in kilowatt-hours, by the power of perf.DrawOf: without cooling, and
// with every GPU busy that a job has.
type Energy struct {
	KWh     float64 `json:"kwh"`
	JobsKWh float64 `json:"jobs_kwh"`         // of it what GPUs of jobs draw beyond being idle
	Busy    float64 `json:"nodes_busy_share"` // node time in which a job had anything, of that in which nodes were awake or booted
	Slept   *Slept  `json:"sleep,omitempty"`  // nil: no node ever slept
}

// Slept is what came of nodes that sleep.
type Slept struct {
	Nodes   float64 `json:"nodes_mean"`     // asleep, over time
	Wakes   float64 `json:"wakes_per_day"`  // moments at which nodes were woken
	PerWake float64 `json:"nodes_per_wake"` // that were woken at such a moment
	Delayed int     `json:"delayed_jobs"`   // began on a node that had woken at that very moment
}

// energy integrates power over time.
type energy struct {
	began            time.Duration
	nodes            []powered
	idle, jobs       float64 // watts
	asleep, up, busy int     // nodes

	woken         map[cluster.NodeID]time.Duration // when nodes have woken up that slept
	wakes, roused int
	last          time.Duration // a wake
	slept         bool
	delayed       int

	idleJ, jobsJ        float64 // joules
	asleepT, upT, busyT float64 // node-seconds
}

// powered is a node: what it draws when it is idle, in watts, and whether it sleeps or is awake.
type powered struct {
	watts      float64
	asleep, up bool
}

// advance moves on by a time.
func (e *energy) advance(dt time.Duration) {
	s := dt.Seconds()
	e.idleJ, e.jobsJ = e.idleJ+e.idle*s, e.jobsJ+e.jobs*s
	e.asleepT, e.upT, e.busyT = e.asleepT+float64(e.asleep)*s, e.upT+float64(e.up)*s, e.busyT+float64(e.busy)*s
}

// event takes in an event that the state has folded in.
func (e *energy) event(ev *eventlog.Event, s *state.State) {
	if len(e.nodes) == 0 {
		e.began = s.Now
	}
	switch fresh := len(e.nodes) < s.Cluster.Nodes(); {
	case fresh:
		for len(e.nodes) < s.Cluster.Nodes() {
			e.nodes = append(e.nodes, powered{})
			e.node(cluster.NodeID(len(e.nodes)-1), s.Cluster)
		}
	case ev.Kind == eventlog.NodeSet:
		e.node(ev.Node, s.Cluster)
		e.switched(ev)
	case ev.Kind == eventlog.Start && len(e.woken) > 0:
		e.begins(ev, s)
	}
	switch ev.Kind {
	case eventlog.Start, eventlog.Assign, eventlog.Move, eventlog.Resize, eventlog.Preempt, eventlog.Gone, eventlog.End, eventlog.Evict, eventlog.Fail, eventlog.Cancel, eventlog.Carry, eventlog.NodeAdd, eventlog.NodeSet, eventlog.Device:
		e.jobs = perf.JobsDraw(s.Cluster)
	}
	e.busy = cluster.BusyNodes(s.Cluster)
}

// node counts a node anew.
func (e *energy) node(id cluster.NodeID, c *cluster.Cluster) {
	n := &e.nodes[id]
	e.count(n, -1)
	n.watts, n.asleep, n.up = perf.NodeDraw(c, id), false, false
	if c.Health(id) != cluster.Down {
		n.asleep = c.Power(id) == cluster.Asleep
		n.up = !n.asleep
	}
	e.count(n, 1)
}

// count adds a node to the sums, or takes it away.
func (e *energy) count(n *powered, sign int) {
	e.idle += float64(sign) * n.watts
	if n.asleep {
		e.asleep += sign
	}
	if n.up {
		e.up += sign
	}
}

// switched counts wakes.
func (e *energy) switched(ev *eventlog.Event) {
	switch ev.Power {
	case cluster.Asleep:
		e.slept = true
	case cluster.Booting:
		if e.woken == nil {
			e.woken = map[cluster.NodeID]time.Duration{}
		}
		if e.woken[ev.Node] = unit.Never; e.wakes == 0 || ev.Time > e.last {
			e.wakes++
		}
		e.roused++
		e.last = ev.Time
	case cluster.Awake:
		if _, booted := e.woken[ev.Node]; booted {
			e.woken[ev.Node] = ev.Time
		}
	}
}

// begins counts a job that begins where a node has just woken up.
func (e *energy) begins(ev *eventlog.Event, s *state.State) {
	a := s.Alloc(ev.Job)
	for i := range a.Pieces {
		if at, booted := e.woken[a.Pieces[i].Node]; booted && at == ev.Time {
			e.delayed++
			return
		}
	}
}

// result is what was consumed up to a moment; nil: nothing can be said.
func (e energy) result(now time.Duration) *Energy {
	if e.upT+e.asleepT == 0 {
		return nil
	}
	out := &Energy{KWh: (e.idleJ + e.jobsJ) / 3.6e6, JobsKWh: e.jobsJ / 3.6e6}
	if e.upT > 0 {
		out.Busy = e.busyT / e.upT
	}
	if e.slept {
		out.Slept = &Slept{Nodes: e.asleepT / (now - e.began).Seconds(), Wakes: float64(e.wakes) / ((now - e.began).Hours() / 24), Delayed: e.delayed}
		if e.wakes > 0 {
			out.Slept.PerWake = float64(e.roused) / float64(e.wakes)
		}
	}
	return out
}
