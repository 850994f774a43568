package kube

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/kube/convert"
	"github.com/norn-scheduler/norn/kube/names"
)

// table is the nodes of the cluster, by the numbers that the ledger has for them. A number
// is kept as long as this process leads: a node that has gone is down, and one that comes
// back with other devices gets another number.
type table struct {
	levels convert.Levels
	slots  []string // the counted resources
	types  convert.Types
	names  []string
	first  []cluster.DeviceID // of each node
	nodes  []*node
	byName map[string]*node // the present one of each name
}

// node is a node as the ledger has it.
type node struct {
	id    cluster.NodeID
	is    *convert.Node // as it was when it was added, its labels and taints as they are
	now   *convert.Node // as it is
	state cluster.Health
	gone  bool // there is no such node any more
	why   string
	next  time.Duration // when it is looked at again, as it is taken back

	foreign cluster.Foreign
	uses    map[types.UID][]int    // devices that pods of others are taken to use, by their numbers within the node
	broken  int                    // devices that do not work at present
	coming  map[types.UID]newcomer // that are being bound to it
}

// newTable makes a table of what there is. It calls note for each node that is left out,
// with the error.
func newTable(all []*core.Node, levels convert.Levels, note func(node string, err error)) *table {
	t := &table{levels: levels, byName: map[string]*node{}, types: convert.Types{}}
	var nodes []*convert.Node
	for _, n := range all {
		is, err := convert.NewNode(n, levels)
		if err != nil {
			note(n.Name, err)
			continue
		}
		nodes = append(nodes, is)
	}
	t.slots, _ = convert.SlotNames(nodes)
	slices.SortFunc(nodes, func(a, b *convert.Node) int { return cmp.Compare(a.Name, b.Name) })
	for _, is := range nodes {
		if err := t.add(is); err != nil {
			note(is.Name, err)
		}
	}
	return t
}

// add gives a node a number. It fails on one whose GPUs are called like others.
func (t *table) add(is *convert.Node) error {
	for _, g := range is.GPUs {
		if by, known := t.types[g.Type]; known && by != g.Resource {
			return fmt.Errorf("GPUs of type %s are %s here and %s elsewhere", g.Type, g.Resource, by)
		}
		t.types[g.Type] = g.Resource
	}
	n := &node{id: cluster.NodeID(len(t.nodes)), is: is, now: is, uses: map[types.UID][]int{}, coming: map[types.UID]newcomer{}, state: is.Health, why: is.Why}
	first := cluster.DeviceID(0)
	if last := len(t.nodes) - 1; last >= 0 {
		first = t.first[last] + cluster.DeviceID(t.nodes[last].devices())
	}
	t.nodes, t.names, t.first = append(t.nodes, n), append(t.names, is.Name), append(t.first, first)
	t.byName[is.Name] = n
	n.broken = n.lacks(is)
	return nil
}

// devices counts the devices that the ledger has of a node, working or not.
func (n *node) devices() int {
	sum := 0
	for _, g := range n.is.GPUs {
		sum += g.Count + g.Broken
	}
	return sum
}

// lacks is how many of its devices a node does not offer at present.
func (n *node) lacks(now *convert.Node) int {
	lacks := n.devices()
	for _, g := range now.GPUs {
		lacks -= g.Count
	}
	return max(0, lacks)
}

// known tells whether the ledger can take a node: its types and places are known.
func (t *table) known(c *cluster.Cluster, n *node) bool {
	_, err := t.spec(c, n)
	return err == nil
}

// spec is a node as the ledger takes it, with all of its devices.
func (t *table) spec(c *cluster.Cluster, n *node) (cluster.NodeSpec, error) {
	whole := *n.is
	whole.GPUs = slices.Clone(whole.GPUs)
	for i := range whole.GPUs {
		g := &whole.GPUs[i]
		g.Count, g.Broken = g.Count+g.Broken, 0
	}
	return whole.Spec(c)
}

// build makes the cluster of the table.
func (t *table) build() (*cluster.Cluster, error) {
	c := cluster.New()
	for _, name := range t.slots {
		if _, err := c.AddSlot(name); err != nil {
			return nil, err
		}
	}
	for _, n := range t.nodes {
		if err := n.is.Introduce(c); err != nil {
			return nil, err
		}
		spec, err := t.spec(c, n)
		if err != nil {
			return nil, err
		}
		if _, err := c.AddNode(spec); err != nil {
			return nil, fmt.Errorf("node %s: %w", n.is.Name, err)
		}
		c.SetHealth(n.id, n.state)
		for i := range n.broken {
			c.SetBroken(t.first[n.id]+cluster.DeviceID(n.devices()-1-i), true)
		}
		if err := c.SetForeign(n.id, n.foreign); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// others sums up what others use of a node: all pods there that hold no seat of a job, and
// what the node has less than when it was added.
func (t *table) others(n *node, has, now *cluster.NodeSpec, pods []*core.Pod, taken []bool) cluster.Foreign {
	var f cluster.Foreign
	f.CPU, f.Memory = max(0, has.CPU-now.CPU), max(0, has.Memory-now.Memory)
	for i := range f.Slots {
		f.Slots[i] = max(0, has.Slots[i]-now.Slots[i])
	}
	slices.SortFunc(pods, func(a, b *core.Pod) int { return cmp.Compare(a.UID, b.UID) })
	there := map[types.UID]bool{}
	for _, p := range pods {
		use := convert.UseOf(p, t.slots)
		f.CPU += use.CPU
		f.Memory += use.Memory
		f.Slots.Add(1, &use.Slots)
		there[p.UID] = true
		t.occupy(n, p, &use, taken)
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

// occupy chooses the devices that a pod of others is taken to use: those that it is noted to
// have, if it is one that leaves, else those first that no job has. Which ones it really uses
// is only known to the node. taken tells of each device whether a job has it.
func (t *table) occupy(n *node, p *core.Pod, use *convert.Use, taken []bool) {
	pod := p.UID
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
	at, left := 0, 0 // to be chosen
	for _, count := range use.GPUs {
		left += count
	}
	noted, ok := devicesOf(p.Annotations[names.Devices], len(taken))
	if ok && len(noted) == left && !slices.ContainsFunc(noted, func(i int) bool { return used[i] || taken[i] }) {
		n.uses[pod] = noted
		return
	}
	for _, g := range n.is.GPUs {
		need := use.GPUs[g.Resource]
		for _, jobs := range []bool{false, true} {
			for i := at + g.Count + g.Broken - 1; i >= at && need > 0; i-- {
				if !used[i] && taken[i] == jobs {
					used[i] = true
					mine = append(mine, i)
					need--
				}
			}
		}
		at += g.Count + g.Broken
	}
	n.uses[pod] = mine
}
