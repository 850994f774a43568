package sim

import (
	"cmp"
	"slices"
	"time"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/label"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/eventlog"
	"github.com/norn-scheduler/norn/sched"
)

// copies is data on its way into places, and what has come of it.
type copies struct {
	under []copying                          // in order of arrival
	free  map[cluster.DomainID]time.Duration // when the way into a place is free
	done  int
	moved unit.Bytes
}

// copying is one copy, or data that is to be dropped.
type copying struct {
	at    time.Duration
	order sched.CopyOrder
}

// Copied is how many copies have arrived, and how much data that was.
func Copied(w *Sim) (n int, moved unit.Bytes) { return w.copies.done, w.copies.moved }

// Copy implements engine.Copying: copies into a place come one after the other, at Config.CopyGBps.
func (w *Sim) Copy(o sched.CopyOrder) {
	c, at := &w.copies, w.state.Now
	if !o.Drop && w.cfg.CopyGBps > 0 {
		if c.free == nil {
			c.free = map[cluster.DomainID]time.Duration{}
		}
		takes, err := unit.Seconds(float64(o.Size) / 1e9 / w.cfg.CopyGBps)
		if err != nil {
			takes = unit.Never
		}
		at = unit.Later(max(at, c.free[o.To]), takes)
		c.free[o.To] = at
	}
	first, _ := slices.BinarySearchFunc(c.under, at, func(x copying, at time.Duration) int {
		return cmp.Or(cmp.Compare(x.at, at), -1) // behind those of the same moment
	})
	c.under = slices.Insert(c.under, first, copying{at, o})
}

// next is when the next copy arrives.
func (c *copies) next() time.Duration {
	if len(c.under) == 0 {
		return unit.Never
	}
	return c.under[0].at
}

// arrived tells the labels of the nodes to which data has come, or of which it was dropped.
func (c *copies) arrived(now time.Duration, cl *cluster.Cluster, out []eventlog.Event) []eventlog.Event {
	labels := map[cluster.NodeID][]label.Label{}
	var nodes []cluster.NodeID
	for len(c.under) > 0 && c.under[0].at <= now {
		o := c.under[0].order
		if c.under = c.under[1:]; !o.Drop {
			c.done++
			c.moved += o.Size
		}
		for _, id := range cluster.NodesIn(cl, o.To, nil) {
			if _, known := labels[id]; !known {
				labels[id] = slices.Clone(labelsOf(cl, id, out))
				nodes = append(nodes, id)
			}
			labels[id] = slices.DeleteFunc(labels[id], func(l label.Label) bool { return l.Key == sched.DataLabel+o.Data })
			if !o.Drop {
				labels[id] = append(labels[id], label.Label{Key: sched.DataLabel + o.Data})
			}
		}
	}
	for _, id := range nodes {
		n := cl.Node(id)
		out = append(out, eventlog.Event{Time: now, Kind: eventlog.NodeLabels, Node: id, NodeSpec: &cluster.NodeSpec{Labels: labels[id], Taints: n.Taints}})
	}
	return out
}

// labelsOf are the labels of a node, as the last of some events about it has them.
func labelsOf(cl *cluster.Cluster, id cluster.NodeID, events []eventlog.Event) []label.Label {
	for _, ev := range slices.Backward(events) {
		if ev.Kind == eventlog.NodeLabels && ev.Node == id {
			return ev.NodeSpec.Labels
		}
	}
	return cl.Node(id).Labels
}
