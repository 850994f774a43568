package kube

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/kube/convert"
)

// table is the nodes of the cluster, by the numbers that the ledger has for them. A number
// is kept as long as this process leads: a node that has gone is down, and one that comes
// back with other devices gets another number.
type table struct {
	site   convert.Site
	names  []string
	first  []cluster.DeviceID // of each node
	nodes  []*node
	byName map[string]*node // the present one of each name
}

// node is a node as the ledger has it.
type node struct {
	id    cluster.NodeID
	spec  convert.Node // as it was when it was added, its labels and taints as they are
	state cluster.Health
	gone  bool // there is no such node any more
	why   string

	foreign cluster.Foreign
	uses    map[types.UID][]int // devices that pods of others are taken to use, by their numbers within the node
	broken  int                 // devices that it has lost since it was added
	unready bool                // it does not answer: lost, if that lasts
}

// newTable makes a table of what there is.
func newTable(all []*core.Node) *table {
	t := &table{site: convert.SiteOf(all), byName: map[string]*node{}}
	all = slices.Clone(all)
	slices.SortFunc(all, func(a, b *core.Node) int { return cmp.Compare(a.Name, b.Name) })
	for _, n := range all {
		t.add(t.site.Node(n))
	}
	return t
}

// add gives a node a number.
func (t *table) add(spec convert.Node) *node {
	n := &node{id: cluster.NodeID(len(t.nodes)), spec: spec, uses: map[types.UID][]int{}}
	n.state, n.why = healthOf(&spec)
	first := cluster.DeviceID(0)
	if last := len(t.nodes) - 1; last >= 0 {
		first = t.first[last] + cluster.DeviceID(t.nodes[last].devices())
	}
	t.nodes, t.names, t.first = append(t.nodes, n), append(t.names, spec.Name), append(t.first, first)
	t.byName[spec.Name] = n
	return n
}

// devices counts the devices that the ledger has of a node.
func (n *node) devices() int {
	sum := 0
	for _, g := range n.spec.GPUs {
		sum += g.Count
	}
	return sum
}

// healthOf is the health of a node as its object shows it.
func healthOf(spec *convert.Node) (cluster.Health, string) {
	switch {
	case spec.Fenced:
		return cluster.Down, spec.Why
	case !spec.Ready || spec.Cordoned:
		return cluster.Cordoned, spec.Why
	}
	return cluster.Up, ""
}

// known tells whether the ledger can take a node: its types and places are known.
func (t *table) known(c *cluster.Cluster, spec *convert.Node) bool {
	for _, g := range spec.GPUs {
		if _, ok := typeOf(c, g.Type); !ok {
			return false
		}
	}
	_, ok := t.domain(c, spec, false)
	return ok
}

// typeOf finds a GPU type by its name.
func typeOf(c *cluster.Cluster, name string) (cluster.TypeID, bool) {
	for i := range c.Types() {
		if c.Type(cluster.TypeID(i)).Name == name {
			return cluster.TypeID(i), true
		}
	}
	return 0, false
}

// domain is the smallest place of the topology that a node tells, which is made where make
// says so.
func (t *table) domain(c *cluster.Cluster, spec *convert.Node, create bool) (at cluster.DomainID, ok bool) {
	path := ""
	for i, name := range spec.Places {
		if name == "" {
			continue
		}
		path += "/" + name
		next, known := findDomain(c, t.site.Levels[i].Name, path)
		if !known {
			if !create {
				return 0, false
			}
			var err error
			if next, err = c.AddDomain(t.site.Levels[i].Name, path, at); err != nil {
				return at, false
			}
		}
		at = next
	}
	return at, true
}

// build makes the cluster of the table.
func (t *table) build() (*cluster.Cluster, error) {
	c := cluster.New()
	for _, name := range t.site.Slots {
		if _, err := c.AddSlot(name); err != nil {
			return nil, err
		}
	}
	for _, n := range t.nodes {
		for _, g := range n.spec.GPUs {
			if _, known := typeOf(c, g.Type); known {
				continue
			}
			if _, err := c.AddType(cluster.GPUType{Name: g.Type, Memory: g.Memory}); err != nil {
				return nil, fmt.Errorf("node %s: %w", n.spec.Name, err)
			}
		}
	}
	for _, n := range t.nodes {
		spec, err := t.spec(c, n, true)
		if err != nil {
			return nil, err
		}
		if _, err := c.AddNode(spec); err != nil {
			return nil, fmt.Errorf("node %s: %w", n.spec.Name, err)
		}
		c.SetHealth(n.id, n.state)
		for i := range n.broken {
			c.SetBroken(t.first[n.id]+cluster.DeviceID(n.devices()-1-i), true)
		}
		if err := c.SetForeign(n.id, n.foreign); err != nil {
			return nil, fmt.Errorf("node %s: what others use: %w", n.spec.Name, err)
		}
	}
	return c, nil
}

// spec is a node as the ledger takes it.
func (t *table) spec(c *cluster.Cluster, n *node, create bool) (cluster.NodeSpec, error) {
	out := cluster.NodeSpec{
		Name: n.spec.Name, CPU: n.spec.CPU, Memory: n.spec.Memory, Slots: n.spec.Slots, Labels: n.spec.Labels, Taints: n.spec.Taints,
	}
	for _, g := range n.spec.GPUs {
		typ, ok := typeOf(c, g.Type)
		if !ok {
			return out, fmt.Errorf("node %s: GPU type %s is not known", n.spec.Name, g.Type)
		}
		out.GPUs = append(out.GPUs, cluster.GPUs{Type: typ, Count: g.Count})
	}
	at, ok := t.domain(c, &n.spec, create)
	if !ok {
		return out, fmt.Errorf("node %s: its place in the topology is not known", n.spec.Name)
	}
	out.Domain = at
	return out, nil
}

// others sums up what others use of a node: all pods there that hold no seat of a job, and
// what the node has less than when it was added.
func (t *table) others(n *node, now *convert.Node, pods []*core.Pod, taken []bool) cluster.Foreign {
	var f cluster.Foreign
	f.CPU, f.Memory = max(0, n.spec.CPU-now.CPU), max(0, n.spec.Memory-now.Memory)
	for i := range f.Slots {
		f.Slots[i] = max(0, n.spec.Slots[i]-now.Slots[i])
	}
	slices.SortFunc(pods, func(a, b *core.Pod) int { return cmp.Compare(a.UID, b.UID) })
	there := map[types.UID]bool{}
	for _, p := range pods {
		use := t.site.Use(p)
		f.CPU += use.CPU
		f.Memory += use.Memory
		f.Slots.Add(1, &use.Slots)
		there[p.UID] = true
		t.occupy(n, p.UID, &use, taken)
	}
	maps.DeleteFunc(n.uses, func(uid types.UID, _ []int) bool { return !there[uid] })
	var all []int
	for _, devices := range n.uses {
		all = append(all, devices...)
	}
	slices.Sort(all)
	for _, i := range slices.Compact(all) {
		f.GPUs = append(f.GPUs, cluster.Share{Device: t.first[n.id] + cluster.DeviceID(i), Milli: int32(unit.One)})
	}
	return f
}

// occupy chooses the devices that a pod of others is taken to use, those first that no job
// has: which ones it really uses is only known to the node. taken tells of each device
// whether a job has it.
func (t *table) occupy(n *node, pod types.UID, use *convert.Use, taken []bool) {
	if len(use.GPUs) == 0 || n.uses[pod] != nil {
		return
	}
	used := make([]bool, len(taken))
	for _, devices := range n.uses {
		for _, i := range devices {
			used[i] = true
		}
	}
	var mine []int
	at := 0
	for _, g := range n.spec.GPUs {
		need := use.GPUs[g.Resource]
		for _, jobs := range []bool{false, true} {
			for i := at + g.Count - 1; i >= at && need > 0; i-- {
				if !used[i] && taken[i] == jobs {
					used[i] = true
					mine = append(mine, i)
					need--
				}
			}
		}
		at += g.Count
	}
	n.uses[pod] = mine
}

// findDomain is a place of the topology by its level and name; none: there is no such
// place.
func findDomain(c *cluster.Cluster, level, name string) (cluster.DomainID, bool) {
	for i := range cluster.DomainID(c.Domains()) {
		if l, n, _ := c.Domain(i); l == level && n == name {
			return i, true
		}
	}
	return 0, false
}
