package cluster

import "fmt"

// domain is a place in the topology tree. Domain 0 is the whole cluster.
type domain struct {
	name     string
	level    string
	parent   DomainID
	children []DomainID
	nodes    []NodeID // nodes that stand directly in it
	uplink   Uplink
}

// AddDomain adds a place below a parent and returns its number. The level names
// what it is: rack, zone, region.
func (c *Cluster) AddDomain(level, name string, parent DomainID) (DomainID, error) {
	if int(parent) >= len(c.domains) || parent < 0 {
		return 0, fmt.Errorf("%s %q: unknown parent domain %d", level, name, parent)
	}
	id := DomainID(len(c.domains))
	c.domains = append(c.domains, domain{name: name, level: level, parent: parent})
	c.domains[parent].children = append(c.domains[parent].children, id)
	return id, nil
}

// Domains is the number of places, the cluster itself included.
func (c *Cluster) Domains() int { return len(c.domains) }

// Domain names a place: its level, its name and the place around it (-1 for the
// cluster itself).
func (c *Cluster) Domain(d DomainID) (level, name string, parent DomainID) {
	return c.domains[d].level, c.domains[d].name, c.domains[d].parent
}

// DomainNodes are the nodes that stand directly in a place.
func (c *Cluster) DomainNodes(d DomainID) []NodeID { return c.domains[d].nodes }

// NodesIn appends the nodes that stand in a place or in a place in it.
func NodesIn(c *Cluster, d DomainID, out []NodeID) []NodeID {
	out = append(out, c.domains[d].nodes...)
	for _, child := range c.domains[d].children {
		out = NodesIn(c, child, out)
	}
	return out
}

// DomainChildren are the places directly in a place. The slice must not be changed.
func (c *Cluster) DomainChildren(d DomainID) []DomainID { return c.domains[d].children }

// DomainOwnFree is the number of wholly free, usable devices of the nodes that
// stand directly in a place, of a pool and of the types in the mask.
func (c *Cluster) DomainOwnFree(d DomainID, p PoolID, m TypeMask) int {
	n := 0
	for _, i := range c.pool(p).shelves {
		if s := &c.shelves[i]; m.Has(s.typ) && int(d) < len(s.domainFree) {
			n += int(s.domainFree[d])
		}
	}
	return n
}

// DomainFree is the number of wholly free, usable devices inside a place and
// all places in it, of a pool and of the types in the mask.
func (c *Cluster) DomainFree(d DomainID, p PoolID, m TypeMask) int {
	n := c.DomainOwnFree(d, p, m)
	for _, child := range c.domains[d].children {
		n += c.DomainFree(child, p, m)
	}
	return n
}

// Distance is the number of steps up the tree, from the deeper node, to the
// smallest place that has both nodes. It is 0 for the same node, 1 for nodes
// of one rack, 2 for neighbouring racks, and so on.
func (c *Cluster) Distance(a, b NodeID) int {
	if a == b {
		return 0
	}
	x, y := c.nodes[a].spec.Domain, c.nodes[b].spec.Domain
	dx, dy := c.depthOf(x), c.depthOf(y)
	steps := 1
	for ; x != y; steps++ {
		up := max(dx, dy)
		if dx == up {
			x, dx = c.domains[x].parent, dx-1
		}
		if dy == up {
			y, dy = c.domains[y].parent, dy-1
		}
	}
	return steps
}

func (c *Cluster) depthOf(d DomainID) int {
	n := 0
	for d > 0 {
		d = c.domains[d].parent
		n++
	}
	return n
}
