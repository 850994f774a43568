package eventlog

import "github.com/norn-scheduler/norn/cluster"

// Inventory is the events that add the nodes of a cluster, with their health
// and power, and what others use of them: what a log begins with.
func Inventory(c *cluster.Cluster) []Event {
	var out []Event
	for i := range cluster.NodeID(c.Nodes()) {
		out = append(out, Event{Kind: NodeAdd, NodeSpec: c.Node(i)})
		if h, p := c.Health(i), c.Power(i); h != cluster.Up || p != cluster.Awake {
			out = append(out, Event{Kind: NodeSet, Node: i, Health: h, Power: p})
		}
	}
	for i := range cluster.DeviceID(c.Devices()) {
		if c.Defect(i) {
			out = append(out, Event{Kind: Device, Device: i, Broken: true})
		}
	}
	for i := range cluster.NodeID(c.Nodes()) {
		if f := c.Foreign(i); !f.None() {
			out = append(out, Event{Kind: Foreign, Node: i, Foreign: &f})
		}
	}
	return out
}
