package cluster

import "fmt"

// domain is a place in the topology tree. Domain 0 is the whole cluster.
type domain struct {
	name     string
	level    string
	parent   DomainID
	children []DomainID
	nodes    []NodeID // nodes that stand directly in it
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

// LinkClass is how two devices of a node are linked, best first.
type LinkClass uint8

// The classes of links inside a node.
const (
	SameDevice  LinkClass = iota
	NVLink                // direct, or through a switch at full speed
	PCIeSwitch            // one PCIe switch
	Socket                // the same CPU socket, through its root complex
	CrossSocket           // between sockets
)

func (l LinkClass) String() string {
	return [...]string{"same", "nvlink", "pcie", "socket", "cross-socket"}[l]
}

// Links tells how the devices of a node are linked with each other, by their
// index in the node.
type Links struct {
	n       int
	class   []LinkClass
	gbps    []float64
	byClass [CrossSocket + 1]float64
}

// Typical link speeds in GB/s, used where a description gives none: NVLink 2.0
// (one brick), PCIe 3.0 x16, and the same across sockets.
var typicalGBps = [CrossSocket + 1]float64{NVLink: 25, PCIeSwitch: 12, Socket: 12, CrossSocket: 9}

// NewLinks makes the links of n devices, all CrossSocket.
func NewLinks(n int) *Links {
	l := &Links{n: n, class: make([]LinkClass, n*n), gbps: make([]float64, n*n), byClass: typicalGBps}
	for i := range n {
		for j := range n {
			if i != j {
				l.class[i*n+j] = CrossSocket
				l.gbps[i*n+j] = typicalGBps[CrossSocket]
			}
		}
	}
	return l
}

// Devices is the number of devices.
func (l *Links) Devices() int { return l.n }

// Connect sets the link between two devices; a speed of zero means the typical
// one of the class.
func (l *Links) Connect(i, j int, class LinkClass, gbps float64) {
	if gbps == 0 {
		gbps = l.byClass[class]
	}
	l.class[i*l.n+j], l.class[j*l.n+i] = class, class
	l.gbps[i*l.n+j], l.gbps[j*l.n+i] = gbps, gbps
}

// Between is the link between two devices: its class and its speed in GB/s.
func (l *Links) Between(i, j int) (LinkClass, float64) {
	return l.class[i*l.n+j], l.gbps[i*l.n+j]
}

// LinkPreset returns well-known layouts for n devices: "nvswitch" (all pairs by
// NVLink at full speed), "pcie" (pairs under a switch, two sockets), "dgx1" (the
// hybrid mesh of eight V100s, sockets of four).
func LinkPreset(name string, n int) (*Links, error) {
	l := NewLinks(n)
	half := (n + 1) / 2
	switch name {
	case "nvswitch":
		for i := range n {
			for j := range i {
				l.Connect(i, j, NVLink, 300)
			}
		}
	case "pcie":
		for i := range n {
			for j := range i {
				switch {
				case i/2 == j/2:
					l.Connect(i, j, PCIeSwitch, 0)
				case i/half == j/half:
					l.Connect(i, j, Socket, 0)
				}
			}
		}
	case "dgx1":
		if n != 8 {
			return nil, fmt.Errorf("links dgx1 are for 8 GPUs, the node has %d", n)
		}
		for i := range n {
			for j := range i {
				if i/4 == j/4 {
					l.Connect(i, j, Socket, 0)
				}
			}
		}
		for _, p := range dgx1Pairs {
			l.Connect(p.a, p.b, NVLink, 25*p.bricks)
		}
	default:
		return nil, fmt.Errorf("unknown links %q: write nvswitch, pcie or dgx1", name)
	}
	return l, nil
}

// dgx1Pairs are the NVLink pairs of a DGX-1V and their number of bricks.
var dgx1Pairs = []struct {
	a, b   int
	bricks float64
}{
	{0, 1, 1}, {0, 2, 1}, {0, 3, 2}, {0, 4, 2}, {1, 2, 2}, {1, 3, 1}, {1, 5, 2}, {2, 3, 2},
	{2, 6, 1}, {3, 7, 1}, {4, 5, 1}, {4, 6, 1}, {4, 7, 2}, {5, 6, 2}, {5, 7, 1}, {6, 7, 2},
}
