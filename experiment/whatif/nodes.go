package whatif

import (
	"cmp"
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/label"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/eventlog"
	"github.com/norn-scheduler/norn/eventlog/replay"
	"github.com/norn-scheduler/norn/experiment"
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
	var how change
	for _, part := range []struct{ sign, text string }{{"+", add}, {"-", remove}} {
		if part.text != "" {
			how.name = strings.TrimSpace(how.name + " " + part.sign + part.text)
		}
	}
	if how.add, err = groups(add); err != nil {
		return nil, err
	}
	if how.remove, err = removed(was, remove); err != nil {
		return nil, err
	}
	return h.with(was, how)
}

// Grown are clusters with more or fewer nodes than the one that was there had, one for each
// part of a text between commas. A part is a number of nodes like most that were there (4,
// or -2 for fewer), shorthand for others (4x8:H100), or a number of GPUs of one machine (2gpus,
// -1gpu). It fails as WithNodes and Resized do.
func (h *History) Grown(text string) ([]*Machine, error) {
	was, err := h.Past.Machine()
	if err != nil {
		return nil, err
	}
	steps, err := changes(was, text)
	if err != nil {
		return nil, err
	}
	var out []*Machine
	for _, how := range steps {
		m, err := h.with(was, how)
		if err != nil {
			return nil, err
		}
		m.Grow = true
		out = append(out, m)
	}
	return out, nil
}

// with is the cluster that was there, changed.
func (h *History) with(was *cluster.Cluster, how change) (*Machine, error) {
	if how.gpus != 0 {
		is, err := h.Was()
		if err != nil {
			return nil, err
		}
		spec, err := resized(is, is.GPUs()+how.gpus)
		return &Machine{Spec: spec, Name: how.name, Resized: true}, err
	}
	c, m, err := how.made(was)
	if err != nil {
		return nil, err
	}
	if m.Spec, err = clusterspec.Of(c); err != nil {
		return nil, err
	}
	last := h.last()
	m.Spec.Tenants, m.Spec.HalfLife = tenantsOf(last), last.HalfLife
	return m, nil
}

// Grow is History.Grown for a described cluster. Its nodes stand as they stood, and those
// that come later do so.
func Grow(spec *clusterspec.Spec, text string) ([]experiment.Growth, error) {
	site, err := spec.Build()
	if err != nil {
		return nil, err
	}
	was := site.Cluster
	steps, err := changes(was, text)
	if err != nil {
		return nil, err
	}
	var out []experiment.Growth
	for _, how := range steps {
		if how.gpus != 0 {
			grown, err := resized(spec, spec.GPUs()+how.gpus)
			if err != nil {
				return nil, err
			}
			out = append(out, experiment.Growth{Name: how.name, Spec: grown})
			continue
		}
		c, m, err := how.made(was)
		if err != nil {
			return nil, err
		}
		for id, now := range m.nodes {
			c.SetHealth(now, was.Health(id))
			c.SetPower(now, was.Power(id))
			if err := c.SetForeign(now, m.foreign(was.Foreign(id))); err != nil {
				return nil, err
			}
		}
		grown, err := clusterspec.Of(c)
		if err != nil {
			return nil, err
		}
		for i := range spec.Nodes {
			if spec.Nodes[i].At > 0 {
				grown.Nodes = append(grown.Nodes, spec.Nodes[i])
			}
		}
		grown.Tenants, grown.HalfLife, grown.Costs = spec.Tenants, spec.HalfLife, spec.Costs
		out = append(out, experiment.Growth{Name: m.Name, Spec: grown})
	}
	return out, nil
}

// change is what a cluster has more or fewer.
type change struct {
	name   string
	add    []clusterspec.Group
	remove map[cluster.NodeID]bool
	gpus   int // of its only node, with a sign; 0: it is nodes that change
}

// ofGPUs is a number of GPUs.
var ofGPUs = regexp.MustCompile(`^([1-9][0-9]{0,4}) ?(?i:gpus?)$`)

// changes are those that a text means, see History.Grown.
func changes(was *cluster.Cluster, text string) ([]change, error) {
	var out []change
	for part := range strings.SplitSeq(text, ",") {
		part = strings.TrimSpace(part)
		how := change{name: part}
		what, fewer := strings.CutPrefix(part, "-")
		what = strings.TrimPrefix(what, "+")
		if g := ofGPUs.FindStringSubmatch(what); g != nil {
			how.gpus, _ = strconv.Atoi(g[1])
			how.name = "+" + unit.Count(how.gpus, "GPU")
			if fewer {
				how.name, how.gpus = "-"+how.name[1:], -how.gpus
			}
			out = append(out, how)
			continue
		}
		n, err := strconv.Atoi(what)
		alike := []clusterspec.Group{{Count: n}}
		switch {
		case what == "":
			return nil, fmt.Errorf("%q: write a number of nodes, such as 4 or -2, nodes, such as 4x8:H100, or GPUs, such as 2gpus", text)
		case err == nil && n < 1:
			return nil, fmt.Errorf("%q: write 1 node or more, such as 4, -2 or 4x8:H100", part)
		case err == nil:
			if alike[0], err = usual(was); err != nil {
				return nil, err
			}
			alike[0].Count = n
			what = unit.Count(n, "node")
		default:
			if alike, err = groups(what); err != nil {
				return nil, err
			}
		}
		if fewer {
			how.name = "-" + what
			how.remove, err = last(was, alike, part)
		} else {
			how.name, how.add = "+"+what, alike
		}
		if err != nil {
			return nil, err
		}
		out = append(out, how)
	}
	return out, nil
}

// usual are nodes such as a cluster has most, of those with GPUs.
func usual(c *cluster.Cluster) (clusterspec.Group, error) {
	type kind struct {
		gpus string
		pool cluster.PoolID
	}
	count, most, at := map[kind]int{}, 0, cluster.NodeID(0)
	for id := range cluster.NodeID(c.Nodes()) {
		n := c.Node(id)
		if _, gpus := c.DeviceRange(id); gpus == 0 {
			continue
		}
		k := kind{fmt.Sprint(n.GPUs), n.Pool}
		if count[k]++; count[k] > most {
			most, at = count[k], id
		}
	}
	if most == 0 {
		return clusterspec.Group{}, errors.New("no node has GPUs: say which nodes are meant, such as 4x8:H100")
	}
	n := c.Node(at)
	g := clusterspec.Group{Partition: c.PoolName(n.Pool), Pooled: n.Pooled}
	for _, x := range n.GPUs {
		if x.Count > 0 {
			g.GPUs = append(g.GPUs, clusterspec.GPUs{Type: c.Type(x.Type).Name, Count: x.Count})
		}
	}
	return g, nil
}

// made is a cluster with the change, and where its nodes and devices were.
func (how change) made(was *cluster.Cluster) (*cluster.Cluster, *Machine, error) {
	c := cluster.New()
	m := &Machine{Name: how.name, Resized: true, nodes: map[cluster.NodeID]cluster.NodeID{}, devices: map[cluster.DeviceID]cluster.DeviceID{}}
	if err := replay.CopyKinds(was, c); err != nil {
		return nil, nil, err
	}
	for id := range cluster.NodeID(was.Nodes()) {
		if how.remove[id] {
			continue
		}
		now, err := c.AddNode(*was.Node(id))
		if err != nil {
			return nil, nil, err
		}
		m.nodes[id] = now
		from, n := was.DeviceRange(id)
		to, _ := c.DeviceRange(now)
		for i := range cluster.DeviceID(n) {
			m.devices[from+i] = to + i
		}
	}
	if err := addNodes(was, c, how.add); err != nil {
		return nil, nil, err
	}
	if c.Nodes() == 0 {
		_, gone, _ := strings.Cut(how.name, "-")
		return nil, nil, fmt.Errorf("without %s there is no node", gone)
	}
	return c, m, nil
}

// foreign is what others use of a node, as it is on the machine.
func (m *Machine) foreign(f cluster.Foreign) cluster.Foreign {
	f.GPUs = slices.Clone(f.GPUs)
	for i := range f.GPUs {
		f.GPUs[i].Device = m.devices[f.GPUs[i].Device]
	}
	return f
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
		f := m.foreign(*ev.Foreign)
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
	alike, err := groups(text)
	if err != nil {
		return nil, fmt.Errorf("%s is neither a node that was there nor a number of them such as 2x8:H100", unknown)
	}
	return last(c, alike, text)
}

// groups are the nodes of a shorthand; none of an empty one.
func groups(text string) ([]clusterspec.Group, error) {
	if text == "" {
		return nil, nil
	}
	spec, err := clusterspec.Parse(text)
	if err != nil {
		return nil, err
	}
	return spec.Nodes, nil
}

// last are the last nodes of a cluster that are like some.
func last(c *cluster.Cluster, alike []clusterspec.Group, text string) (map[cluster.NodeID]bool, error) {
	gone := map[cluster.NodeID]bool{}
	for i := range alike {
		g := &alike[i]
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

// addNodes adds nodes.
func addNodes(was, c *cluster.Cluster, alike []clusterspec.Group) error {
	prefix := "added-"
	for slices.ContainsFunc(names(c), func(name string) bool { return strings.HasPrefix(name, prefix) }) {
		prefix = "also-" + prefix
	}
	number := 0
	for i := range alike {
		g := &alike[i]
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
		up := cluster.UplinkOf(c, n.Domain)
		if n.Domain, err = c.AddDomain(level, "added", parent); err != nil {
			return n, err
		}
		cluster.SetUplink(c, n.Domain, up)
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
