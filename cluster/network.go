package cluster

import (
	"fmt"
	"time"
)

// NICs are the network adapters of a node, all alike. Adapter k of n serves the k-th of n
// groups of the node's GPUs of consecutive numbers: it is the rail of these GPUs. Zero fields
// are not known.
type NICs struct {
	Count   int
	GBps    float64       // of each, one way
	Latency time.Duration // from a GPU to the first switch
}

// Total is the speed of all adapters together, in GB/s one way.
func (n NICs) Total() float64 { return float64(n.Count) * n.GBps }

// Of is the adapter of a device, by its index among so many of the node.
func (n NICs) Of(device, devices int) int { return device * n.Count / max(1, devices) }

// Check tells what is wrong with adapters; nil: nothing.
func (n NICs) Check() error {
	switch {
	case n == NICs{}:
		return nil
	case n.Count < 1 || n.Count > MaxNICs:
		return fmt.Errorf("%d network adapters: write a count from 1 to %d", n.Count, MaxNICs)
	}
	return Uplink{n.GBps, n.Latency}.check("network adapters", true)
}

// MaxNICs is the largest number of network adapters of a node.
const MaxNICs = 256

// Uplink is the way from a place to the place around it, all of its cables together. A speed of
// zero is not known, and counts as fast enough for whatever is inside.
type Uplink struct {
	GBps    float64       // one way
	Latency time.Duration // from switch to switch
}

// Check tells what is wrong with an uplink; nil: nothing.
func (u Uplink) Check() error { return u.check("an uplink", false) }

func (u Uplink) check(of string, needed bool) error {
	switch {
	case !(u.GBps >= 0 && u.GBps <= 1e9) || needed && u.GBps == 0:
		return fmt.Errorf("%s of %v GB/s: write a speed above 0, at most 1e9", of, u.GBps)
	case u.Latency < 0 || u.Latency > time.Second:
		return fmt.Errorf("%s with a latency of %v: write one such as 2us, at most 1s", of, u.Latency)
	}
	return nil
}

// SetUplink sets the way from a place to the place around it. The cluster itself has none.
func SetUplink(c *Cluster, d DomainID, u Uplink) { c.domains[d].uplink = u }

// UplinkOf is the way from a place to the place around it.
func UplinkOf(c *Cluster, d DomainID) Uplink { return c.domains[d].uplink }

// Networked tells whether the speed of any network adapter or uplink is known.
func Networked(c *Cluster) bool {
	for i := range c.nodes {
		if c.nodes[i].spec.NICs.Count > 0 {
			return true
		}
	}
	return false
}
