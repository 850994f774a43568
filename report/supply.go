package report

import (
	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/eventlog"
	"github.com/norn-scheduler/norn/state"
	"github.com/norn-scheduler/norn/state/dense"
)

// supply is the devices that are there: those of every node that is awake and
// not down, without the broken ones. A cordoned node counts, because what runs
// on it goes on.
type supply struct {
	total unit.Milli
	of    []unit.Milli // what each node contributes
	out   dense.Set    // broken devices
}

// nodes notes what has become of the nodes.
func (c *Collector) nodes(ev *eventlog.Event, s *state.State) {
	if ev.Kind == eventlog.Device {
		if ev.Broken {
			c.supply.out.Add(int(ev.Device))
		} else {
			c.supply.out.Remove(int(ev.Device))
		}
	}
	late := len(c.supply.of) > 0 // the nodes known from the first event on are not
	for len(c.supply.of) < s.Cluster.Nodes() {
		if late && c.allocs != nil {
			c.allocs.missing(cluster.NodeID(len(c.supply.of)))
		}
		c.supply.of = append(c.supply.of, 0)
		c.node(cluster.NodeID(len(c.supply.of)-1), s)
	}
	switch ev.Kind {
	case eventlog.NodeSet, eventlog.Foreign:
		c.node(ev.Node, s)
	case eventlog.Device:
		c.node(s.Cluster.NodeOf(ev.Device), s)
	}
	c.flow.weigh(c.demand, c.supply.total)
	if c.series != nil {
		c.waiters.event(ev.Kind, s, c.idle())
		c.series.set(c.level())
		c.shares.supply(c.supply.total, s.Now)
	}
}

// node counts one node anew.
func (c *Collector) node(n cluster.NodeID, s *state.State) {
	there := s.Cluster.Health(n) != cluster.Down && s.Cluster.Power(n) == cluster.Awake
	was := c.supply.of[n]
	c.supply.of[n] = 0
	if there {
		c.supply.of[n] = c.supply.healthy(s.Cluster, n)
	}
	c.supply.total += c.supply.of[n] - was
	if c.allocs != nil {
		c.allocs.outage(n, there, s.Now)
	}
}

// healthy is the devices of a node that are not broken, without what others use.
func (u *supply) healthy(c *cluster.Cluster, n cluster.NodeID) unit.Milli {
	gpus := unit.Milli(c.NodeGPUs(n)) * unit.One
	for _, s := range c.Foreign(n).GPUs {
		if !u.out.Has(int(s.Device)) {
			gpus -= unit.Milli(s.Milli)
		}
	}
	if u.out.Len() == 0 {
		return gpus
	}
	eachDevice(c, n, func(d cluster.DeviceID, size unit.Milli) {
		if u.out.Has(int(d)) {
			gpus -= size
		}
	})
	return gpus
}

// eachDevice calls f for each device of a node with its size: 1000, or more
// where the devices of a group are only counted.
func eachDevice(c *cluster.Cluster, n cluster.NodeID, f func(d cluster.DeviceID, size unit.Milli)) {
	first, _ := c.DeviceRange(n)
	spec := c.Node(n)
	for _, g := range spec.GPUs {
		switch {
		case g.Count == 0:
		case spec.Pooled:
			f(first, unit.Milli(g.Count)*unit.One)
			first++
		default:
			for range g.Count {
				f(first, unit.One)
				first++
			}
		}
	}
}
