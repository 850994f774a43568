package kubespec

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/label"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/internal/kubelist"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/trace/clusterspec"
	"github.com/norn-scheduler/norn/trace/podmap"
)

// node is a node that was read.
type node struct {
	podmap.Node
	gpus []podmap.GPUs
}

// node reads an object of kind Node.
func (im *Import) node(raw []byte) error {
	var o struct {
		Metadata meta `json:"metadata"`
		Spec     struct {
			Unschedulable bool           `json:"unschedulable"`
			Taints        []podmap.Taint `json:"taints"`
		} `json:"spec"`
		Status struct {
			Allocatable map[string]kubelist.Quantity `json:"allocatable"`
			Capacity    map[string]kubelist.Quantity `json:"capacity"`
			Conditions  []struct{ Type, Status, Reason string }
		} `json:"status"`
	}
	if err := json.Unmarshal(raw, &o); err != nil {
		return err
	}
	n := node{Node: podmap.Node{
		Name: o.Metadata.Name, Labels: o.Metadata.Labels, Taints: o.Spec.Taints, Unschedulable: o.Spec.Unschedulable, Deleted: o.Metadata.Deleted != nil,
	}}
	var err error
	if n.Allocatable, err = kubelist.Amounts(o.Status.Allocatable, podmap.Quantity); err != nil {
		return fmt.Errorf("allocatable: %w", err)
	}
	if n.Capacity, err = kubelist.Amounts(o.Status.Capacity, podmap.Quantity); err != nil {
		return fmt.Errorf("capacity: %w", err)
	}
	if n.gpus, err = n.GPUs(); err != nil {
		return err
	}
	for _, c := range o.Status.Conditions {
		if c.Type == "Ready" {
			n.Ready, n.Reason = c.Status, c.Reason
		}
	}
	im.nodes = append(im.nodes, n)
	return nil
}

// flavor reads a ResourceFlavor: the labels by which it chooses nodes are kept.
func (im *Import) flavor(raw []byte) error {
	var o struct {
		Spec struct {
			NodeLabels map[string]string `json:"nodeLabels"`
		} `json:"spec"`
	}
	if err := json.Unmarshal(raw, &o); err != nil {
		return err
	}
	if im.flavors == nil {
		im.flavors = map[string]bool{}
	}
	for key := range o.Spec.NodeLabels {
		im.flavors[key] = true
	}
	return nil
}

// topology reads a Topology of Kueue: labels of nodes, the widest place first.
func (im *Import) topology(raw []byte) error {
	var o struct {
		Spec struct {
			Levels []struct {
				NodeLabel string `json:"nodeLabel"`
			} `json:"levels"`
		} `json:"spec"`
	}
	if err := json.Unmarshal(raw, &o); err != nil {
		return err
	}
	var keys []string
	for _, l := range o.Spec.Levels {
		keys = append(keys, l.NodeLabel)
	}
	im.levels = append(im.levels, keys)
	return nil
}

// describe makes groups of one node each.
func (im *Import) describe(s *clusterspec.Spec, told *remarks) error {
	nodes := slices.Clone(im.nodes)
	slices.SortFunc(nodes, func(a, b node) int { return natural(a.Name, b.Name) })
	all := make([]podmap.Amounts, len(nodes))
	for i := range nodes {
		all[i] = nodes[i].Rest()
	}
	slots, dropped := podmap.SlotNames(all)
	for _, name := range dropped {
		told.add("counted resources beyond the six that a cluster has", name)
	}
	levels := im.usedLevels(nodes, told)
	for _, l := range levels {
		s.Levels = append(s.Levels, clusterspec.Level{Name: l.Name})
	}
	keep := im.labels(nodes, levels, told)
	for i := range nodes {
		g, err := group(s, &nodes[i], told)
		if err != nil {
			return fmt.Errorf("node %s: %w", nodes[i].Name, err)
		}
		g.Place = place(&nodes[i], levels, told)
		amounts := map[string]int64{}
		for _, name := range slots {
			amounts[name] = int64(min(all[i][name], cluster.MostSlots))
			if name == "ephemeral-storage" {
				amounts[name] = int64(whole(unit.Bytes(amounts[name])))
			}
		}
		if g.Slots, err = job.SlotsOf(amounts); err != nil {
			return fmt.Errorf("node %s: %w", nodes[i].Name, err)
		}
		for _, key := range slices.Sorted(maps.Keys(nodes[i].Labels)) {
			one := label.Label{Key: podmap.Key(key), Value: nodes[i].Labels[key]}
			if keep[key] && one.Check() == nil {
				g.Labels = append(g.Labels, one)
			}
		}
		s.Nodes = append(s.Nodes, g)
	}
	return nil
}

// group is a node as a description has it, without place, counted resources and labels.
func group(s *clusterspec.Spec, n *node, told *remarks) (clusterspec.Group, error) {
	rest := n.Rest()
	g := clusterspec.Group{Name: n.Name, Count: 1, CPU: podmap.Milli(min(rest[podmap.CPU], podmap.MaxQuantity/1000)), Memory: whole(unit.Bytes(rest[podmap.Memory]))}
	parts, sliced := 0, podmap.GPUs{}
	for _, x := range n.gpus {
		switch {
		case podmap.IsSlice(x.Resource):
			parts += x.Count * sevenths(x.Resource)
			sliced = podmap.GPUs{Type: podmap.GPUType("nvidia.com/gpu", n.Labels), Memory: podmap.GPUMemory("nvidia.com/gpu", n.Labels)}
		default:
			if x.Resource == "nvidia.com/gpu.shared" || n.Labels["nvidia.com/gpu.replicas"] != "" && n.Labels["nvidia.com/gpu.replicas"] != "1" {
				told.add("nodes whose GPUs several pods take turns on: each turn counts as a GPU", n.Name)
			}
			addGPUs(s, &g, &x)
		}
		if x.Broken > 0 {
			told.add("nodes with GPUs that pods may not use, which are left out", n.Name)
		}
	}
	if parts > 0 {
		told.add("nodes with slices of GPUs (MIG), which are described as the whole GPUs that they are parts of", n.Name)
		sliced.Count = (parts + 6) / 7
		addGPUs(s, &g, &sliced)
	}
	var why string
	if g.Health, why = n.Health(); why != "" {
		told.add("nodes that take no new work, since "+why, n.Name)
	}
	for _, t := range n.Repels() {
		if podmap.IsGPU(t.Key) { // pods that ask for such a GPU tolerate it, by the admission plugin ExtendedResourceToleration
			told.add("taints that keep pods without GPUs off ("+t.Key+"), which are left out", n.Name)
			continue
		}
		g.Taints = append(g.Taints, t)
	}
	return g, nil
}

// whole rounds down to a GiB, from 16 of them on: machines that are alike differ by less.
func whole(b unit.Bytes) unit.Bytes {
	if b < 16*unit.GiB {
		return b
	}
	return b / unit.GiB * unit.GiB
}

// sevenths is which part of a GPU a slice is.
func sevenths(resource string) int {
	part, _ := podmap.Slice(strings.TrimPrefix(resource, "nvidia.com/mig-"))
	return int(math.Round(7 * float64(part) / float64(unit.One)))
}

// addGPUs adds GPUs of a type to a node, and the type to the description.
func addGPUs(s *clusterspec.Spec, g *clusterspec.Group, x *podmap.GPUs) {
	if x.Count == 0 {
		return
	}
	if i := slices.IndexFunc(s.Types, func(t cluster.GPUType) bool { return t.Name == x.Type }); i < 0 {
		s.Types = append(s.Types, cluster.GPUType{Name: x.Type, Memory: x.Memory})
	} else if x.Memory > 0 && (s.Types[i].Memory == 0 || x.Memory < s.Types[i].Memory) {
		s.Types[i].Memory = x.Memory // what a job may count on
	}
	i := slices.IndexFunc(g.GPUs, func(o clusterspec.GPUs) bool { return o.Type == x.Type })
	if i < 0 {
		i = len(g.GPUs)
		g.GPUs = append(g.GPUs, clusterspec.GPUs{Type: x.Type})
	}
	g.GPUs[i].Count += x.Count
	g.Pooled = g.Pooled || g.GPUs[i].Count > cluster.MaxGroup
}

// usedLevels are the levels of the topology that the labels of some node tell. Labels that
// only a Topology of Kueue knows are levels, too, called like the end of their names.
func (im *Import) usedLevels(nodes []node, told *remarks) podmap.Levels {
	levels := podmap.DefaultLevels()
	for _, keys := range im.levels {
		at := 0
		for _, key := range keys {
			name, known := levels.Named(key)
			if name == cluster.EachNode {
				continue
			}
			if known {
				at = slices.IndexFunc(levels, func(l podmap.Level) bool { return l.Name == name }) + 1
				continue
			}
			with := slices.Insert(slices.Clone(levels), at, podmap.Level{Name: key[strings.LastIndexByte(key, '/')+1:], Keys: []string{key}})
			if with.Check() != nil {
				told.add("levels of topologies that have no proper name", key)
				continue
			}
			levels, at = with, at+1
		}
	}
	var used podmap.Levels
	for _, l := range levels {
		if slices.ContainsFunc(nodes, func(n node) bool { return len(podmap.Levels{l}.Place(n.Labels)) > 0 }) {
			used = append(used, l)
		}
	}
	return used
}

// place is the path of a node. A level of which the node has no label, and that is above
// one of which it has, is bridged.
func place(n *node, levels podmap.Levels, told *remarks) []string {
	var path []string
	bridged := 0
	for _, l := range levels {
		at := podmap.Levels{l}.Place(n.Labels)
		if len(at) == 0 {
			path = append(path, "no-"+l.Name)
			bridged++
			continue
		}
		path, bridged = append(path, at[0].Name), 0
	}
	path = path[:len(path)-bridged]
	if slices.ContainsFunc(path, func(name string) bool { return strings.HasPrefix(name, "no-") }) {
		told.add("nodes without a label of a level above others that they tell, which stand in a place called no- and the level", n.Name)
	}
	return path
}

// discovered are the beginnings of labels by which tools say what they found out about a
// node. Pods seldom choose nodes by them, but for the type of GPU.
var discovered = []string{"feature.node.kubernetes.io/", "nvidia.com/", "amd.com/", "beta.amd.com/", "beta.kubernetes.io/", "failure-domain.beta.kubernetes.io/"}

// labels are those of which a description tells, by which users may have chosen nodes:
// without what places and names tell already, what tools have found out, and what is
// another value on each node.
func (im *Import) labels(nodes []node, levels podmap.Levels, told *remarks) map[string]bool {
	values, count := map[string]map[string]bool{}, map[string]int{}
	for i := range nodes {
		for key, v := range nodes[i].Labels {
			if values[key] == nil {
				values[key] = map[string]bool{}
			}
			values[key][v] = true
			count[key]++
		}
	}
	keep := map[string]bool{}
	types := podmap.TypeLabels()
	for _, key := range slices.Sorted(maps.Keys(values)) {
		_, isPlace := levels.Named(key)
		tool := slices.ContainsFunc(discovered, func(p string) bool { return strings.HasPrefix(key, p) })
		switch {
		case im.flavors[key] || slices.Contains(types, key):
			keep[key] = true
		case isPlace:
		case tool:
			told.add("labels that tools write, which are left out", key)
		case count[key] > 1 && len(values[key]) == count[key]:
			told.add("labels with another value on each node, which are left out", key)
		default:
			keep[key] = true
		}
	}
	return keep
}

// natural compares names so that node-2 comes before node-10.
func natural(a, b string) int {
	x, y := a, b
	for x != "" && y != "" {
		dx, dy := digits(x), digits(y)
		if dx == 0 || dy == 0 {
			if x[0] != y[0] {
				return cmp.Compare(x[0], y[0])
			}
			x, y = x[1:], y[1:]
			continue
		}
		nx, ny := strings.TrimLeft(x[:dx], "0"), strings.TrimLeft(y[:dy], "0")
		if c := cmp.Or(cmp.Compare(len(nx), len(ny)), cmp.Compare(nx, ny), cmp.Compare(dx, dy)); c != 0 {
			return c
		}
		x, y = x[dx:], y[dy:]
	}
	return cmp.Or(cmp.Compare(len(x), len(y)), cmp.Compare(a, b))
}

// digits is how many digits a text begins with.
func digits(s string) int { return len(s) - len(strings.TrimLeft(s, "0123456789")) }
