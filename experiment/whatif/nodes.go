package whatif

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/label"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/eventlog"
	"github.com/norn-scheduler/norn/eventlog/replay"
	"github.com/norn-scheduler/norn/trace/clusterspec"
)

// WithNodes is the cluster that was there with other nodes beside its own, or without some
// of them. Both texts are shorthand of package clusterspec (4x8:H100); an empty one is
// nothing. An added node is in a place of its own, and otherwise like a node with the same
// GPUs where the text does not say more. Instead of shorthand, remove may be names of
// nodes with commas between them, in which * stands for any letters. Of alike nodes the
// last ones are removed. It fails where a text cannot be read or means nodes that are not
// there, and as Was does.
func (h *History) WithNodes(add, remove string) (*Machine, error) {
	was, err := h.Past.Machine()
	if err != nil {
		return nil, err
	}
	gone, err := removed(was, remove)
	if err != nil {
		return nil, err
	}
	c, m := cluster.New(), &Machine{Resized: true, nodes: map[cluster.NodeID]cluster.NodeID{}, devices: map[cluster.DeviceID]cluster.DeviceID{}}
	if err := replay.CopyKinds(was, c); err != nil {
		return nil, err
	}
	for id := range cluster.NodeID(was.Nodes()) {
		if gone[id] {
			continue
		}
		now, err := c.AddNode(*was.Node(id))
		if err != nil {
			return nil, err
		}
		m.nodes[id] = now
		from, n := was.DeviceRange(id)
		to, _ := c.DeviceRange(now)
		for i := range cluster.DeviceID(n) {
			m.devices[from+i] = to + i
		}
	}
	if err := addNodes(was, c, add); err != nil {
		return nil, err
	}
	if c.Nodes() == 0 {
		return nil, fmt.Errorf("without %s there is no node", remove)
	}
	if m.Spec, err = clusterspec.Of(c); err != nil {
		return nil, err
	}
	last := h.last()
	m.Spec.Tenants, m.Spec.HalfLife = tenantsOf(last), last.HalfLife
	for _, part := range []struct{ sign, text string }{{"+", add}, {"-", remove}} {
		if part.text != "" {
			m.Name = strings.TrimSpace(m.Name + " " + part.sign + part.text)
		}
	}
	return m, nil
}

// here is an event about a node as it is on the machine; ok is false where that node is not
// there.
func (m *Machine) here(ev eventlog.Event) (out eventlog.Event, ok bool) {
	switch {
	case !m.Resized:
		return ev, false
	case m.nodes == nil:
		return ev, ev.Kind != eventlog.Device || ev.Device < cluster.DeviceID(m.Spec.GPUs())
	case ev.Kind == eventlog.Device:
		ev.Device, ok = m.devices[ev.Device]
		return ev, ok
	}
	if ev.Node, ok = m.nodes[ev.Node]; ok && ev.Foreign != nil {
		f := *ev.Foreign
		f.GPUs = slices.Clone(f.GPUs)
		for i := range f.GPUs {
			f.GPUs[i].Device = m.devices[f.GPUs[i].Device]
		}
		ev.Foreign = &f
	}
	return ev, ok
}

// removed are the nodes of a cluster that a text means.
func removed(c *cluster.Cluster, text string) (map[cluster.NodeID]bool, error) {
	gone := map[cluster.NodeID]bool{}
	if text == "" {
		return gone, nil
	}
	unknown := ""
	for name := range strings.SplitSeq(text, ",") {
		found := false
		for id := range cluster.NodeID(c.Nodes()) {
			if is, _ := path.Match(strings.TrimSpace(name), c.Node(id).Name); is {
				gone[id], found = true, true
			}
		}
		if !found {
			unknown = cmp.Or(unknown, name)
		}
	}
	if unknown == "" {
		return gone, nil
	}
	spec, err := clusterspec.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("%s is neither a node that was there nor a number of them such as 2x8:H100", unknown)
	}
	gone = map[cluster.NodeID]bool{}
	for i := range spec.Nodes {
		g := &spec.Nodes[i]
		want, err := gpusOf(c, g)
		if err != nil {
			return nil, err
		}
		left := g.Count
		for id := cluster.NodeID(c.Nodes()) - 1; id >= 0 && left > 0; id-- {
			if !gone[id] && slices.Equal(c.Node(id).GPUs, want) && (g.Partition == "" || c.PoolName(c.Node(id).Pool) == g.Partition) {
				gone[id] = true
				left--
			}
		}
		if left > 0 {
			return nil, fmt.Errorf("%s: only %s such as these were there", text, unit.CountOrNo(g.Count-left, "node"))
		}
	}
	return gone, nil
}

// addNodes adds the nodes that a text means.
func addNodes(was, c *cluster.Cluster, text string) error {
	if text == "" {
		return nil
	}
	spec, err := clusterspec.Parse(text)
	if err != nil {
		return err
	}
	prefix := "added-"
	for slices.ContainsFunc(names(c), func(name string) bool { return strings.HasPrefix(name, prefix) }) {
		prefix = "also-" + prefix
	}
	number := 0
	for i := range spec.Nodes {
		g := &spec.Nodes[i]
		n, err := nodeLike(was, c, g)
		if err != nil {
			return err
		}
		model := n.Name
		for range g.Count {
			number++
			one := n
			one.Name = fmt.Sprint(prefix, number)
			one.Labels = slices.Clone(n.Labels)
			for k, l := range one.Labels {
				if l.Value == model { // such as the name of the host
					one.Labels[k] = label.Label{Key: l.Key, Value: one.Name}
				}
			}
			if _, err := c.AddNode(one); err != nil {
				return err
			}
		}
	}
	return nil
}

func names(c *cluster.Cluster) []string {
	out := make([]string, c.Nodes())
	for id := range cluster.NodeID(c.Nodes()) {
		out[id] = c.Node(id).Name
	}
	return out
}

// nodeLike is a node of a group, of which what is not told is as it is of a node that was
// there with the same GPUs. It has the name of that.
func nodeLike(was, c *cluster.Cluster, g *clusterspec.Group) (n cluster.NodeSpec, err error) {
	if n.GPUs, err = gpusOf(c, g); err != nil {
		return n, err
	}
	pool, named := cluster.PoolID(0), g.Partition != ""
	if named {
		pool = c.AddPool(g.Partition)
	}
	at := cluster.None
	for id := range cluster.NodeID(was.Nodes()) {
		like := was.Node(id)
		if slices.Equal(like.GPUs, n.GPUs) && (at == cluster.None || named && like.Pool == pool && was.Node(cluster.NodeID(at)).Pool != pool) {
			at = int(id)
		}
	}
	if at == cluster.None {
		n.Pooled = g.Pooled
	} else if n = *was.Node(cluster.NodeID(at)); n.Domain > 0 {
		level, _, parent := was.Domain(n.Domain)
		if n.Domain, err = c.AddDomain(level, "added", parent); err != nil {
			return n, err
		}
	}
	if named {
		n.Pool = pool
	}
	if g.CPU > 0 {
		n.CPU = g.CPU
	}
	if g.Memory > 0 {
		n.Memory = g.Memory
	}
	for name, amount := range g.Slots.All() {
		slot, err := c.AddSlot(name)
		if err != nil {
			return n, err
		}
		n.Slots[slot] = amount
	}
	return n, nil
}

// gpusOf are the GPUs of a node of a group, by the types of a cluster. A type may be a part
// of a name, such as H100 of NVIDIA-H100-80GB-HBM3, and need not be told where there is one.
func gpusOf(c *cluster.Cluster, g *clusterspec.Group) ([]cluster.GPUs, error) {
	var out []cluster.GPUs
	for _, x := range g.GPUs {
		var fit []string
		t, known := c.TypeByName(x.Type)
		for i := range c.Types() {
			if k := c.Type(cluster.TypeID(i)); !k.Host && (x.Type == clusterspec.UnnamedType || strings.Contains(strings.ToLower(k.Name), strings.ToLower(x.Type))) {
				fit = append(fit, k.Name)
			}
		}
		switch {
		case known:
		case len(fit) == 1:
			t, _ = c.TypeByName(fit[0])
		case len(fit) > 1 || x.Type == clusterspec.UnnamedType:
			return nil, fmt.Errorf("say of which type the GPUs are: %s", strings.Join(fit, ", "))
		default:
			var err error
			if t, err = c.AddType(cluster.GPUType{Name: x.Type}); err != nil {
				return nil, err
			}
		}
		out = append(out, cluster.GPUs{Type: t, Count: x.Count})
	}
	return out, nil
}
