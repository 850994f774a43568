package engine

import (
	"fmt"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/eventlog"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/sched"
)

// Switching is a world that can send nodes to sleep and wake them. In other worlds no node sleeps.
type Switching interface {
	// Switch carries out an order about a node. A node that is woken boots, and the world tells
	// when it is awake (eventlog.NodeSet).
	Switch(order sched.PowerOrder)
}

// power asks which nodes are to sleep or to wake up, and carries it out. It follows a decision of
// the policy, which hears of it at the next one. An order to a node that a job is still leaving is
// left out; it may be given again.
func (e *Engine) power() error {
	e.rouse = unit.Never
	if e.cfg.Sleeper == nil || e.can.power == nil {
		return nil
	}
	v := e.beside()
	e.ordered = e.cfg.Sleeper.Power(&v, e.ordered[:0])
	for _, o := range e.ordered {
		if err := e.switches(o); err != nil {
			return err
		}
	}
	if e.rouse = e.cfg.Sleeper.NextWake(&v); e.rouse <= e.state.Now {
		return fmt.Errorf("the choice of nodes that sleep is to be made again at %s, which is not later", unit.Human(e.rouse))
	}
	return nil
}

// switches carries out one order.
func (e *Engine) switches(o sched.PowerOrder) error {
	c := e.state.Cluster
	if o.Node < 0 || int(o.Node) >= c.Nodes() {
		return fmt.Errorf("node number %d, which is to sleep or to wake up, is not known", o.Node)
	}
	from, to := cluster.Asleep, cluster.Booting
	if o.Sleep {
		from, to = cluster.Awake, cluster.Asleep
	}
	switch {
	case c.Power(o.Node) != from:
		return fmt.Errorf("node %s is %s and cannot become %s", c.Node(o.Node).Name, c.Power(o.Node), to)
	case o.Sleep && c.Busy(o.Node):
		return fmt.Errorf("node %s is to sleep, but jobs use it", c.Node(o.Node).Name)
	case o.Sleep && e.drains.uses(o.Node): // which no view tells
		return nil
	}
	e.can.power.Switch(o)
	e.ev = eventlog.Event{Time: e.state.Now, Kind: eventlog.NodeSet, Node: o.Node, Health: c.Health(o.Node), Power: to, Reason: job.Reason{Code: job.Sleeps, Need: int32(o.Node), Job: job.None}}
	return e.apply(&e.ev)
}

// uses tells whether a job is still leaving a node. One of which nobody knows what it had may be
// leaving any.
func (d *drains) uses(node cluster.NodeID) bool {
	for _, l := range d.leaving {
		if len(l.alloc.Pieces) == 0 {
			return true
		}
		for i := range l.alloc.Pieces {
			if l.alloc.Pieces[i].Node == node {
				return true
			}
		}
	}
	return false
}
