package perf

import "github.com/norn-scheduler/norn/job"

// EachUse visits the links that jobs cross, with their speeds and the flows of each job.
func EachUse(n *Network, visit func(id job.ID, link int32, gbps, flows, rate float64)) {
	n.solve()
	for _, s := range n.senders {
		for _, u := range s.uses {
			visit(s.id, u.link, n.links[u.link].gbps, u.flows, s.rate)
		}
	}
}
