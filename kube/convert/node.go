package convert

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/label"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/trace/podmap"
)

// Node is what is used of a node.
type Node struct {
	Name    string
	GPUs    []podmap.GPUs   // in order of their resources
	Amounts podmap.Amounts  // that pods may use, GPUs aside
	Labels  []label.Label   // in order of their keys
	Taints  []label.Taint   // those that tell of its health aside
	Place   []podmap.Domain // where it stands, the widest place first
	Health  cluster.Health  // Down only when it is marked as out of service
	Why     string          // it is not up; empty: it is
	Reclaim *Reclaim        // nil: it is not taken back
}

// NewNode reads a node: its GPUs from allocatable and from the labels of GPU feature
// discovery. It fails on a node that has amounts that cannot be, or a label or taint that
// Kubernetes would refuse.
func NewNode(n *corev1.Node, levels Levels) (*Node, error) {
	bad := func(err error) (*Node, error) { return nil, fmt.Errorf("node %s: %w", n.Name, err) }
	if len(validation.IsDNS1123Subdomain(n.Name)) > 0 {
		return bad(fmt.Errorf("%q is no name of a node", n.Name))
	}
	is, err := observed(n)
	if err != nil {
		return bad(err)
	}
	out := &Node{Name: n.Name, Amounts: is.Rest(), Taints: is.Repels(), Place: levels.Place(n.Labels)}
	if out.GPUs, err = is.GPUs(); err != nil {
		return bad(err)
	}
	for _, k := range slices.Sorted(maps.Keys(n.Labels)) {
		l := label.Label{Key: podmap.Key(k), Value: n.Labels[k]}
		if err := l.Check(); err != nil {
			return bad(err)
		}
		out.Labels = append(out.Labels, l)
	}
	if err := label.Sort(out.Labels); err != nil {
		return bad(err)
	}
	out.Health, out.Why = is.Health()
	if out.Reclaim, err = ParseReclaim(n.Annotations); err != nil { // nobody is thrown off for a slip of the pen
		out.Health, out.Why = max(out.Health, cluster.Cordoned), err.Error()
	} else if out.Reclaim != nil && out.Health == cluster.Up {
		out.Health, out.Why = cluster.Cordoned, out.Reclaim.Note()
	}
	return out, nil
}

// observed is what the rules for nodes look at.
func observed(n *corev1.Node) (*podmap.Node, error) {
	is := &podmap.Node{Name: n.Name, Labels: n.Labels, Unschedulable: n.Spec.Unschedulable, Deleted: n.DeletionTimestamp != nil}
	var err error
	if is.Allocatable, err = amounts(n.Status.Allocatable); err != nil {
		return nil, err
	}
	if is.Capacity, err = amounts(n.Status.Capacity); err != nil {
		return nil, err
	}
	for i := range n.Spec.Taints {
		t := &n.Spec.Taints[i]
		is.Taints = append(is.Taints, podmap.Taint{Key: t.Key, Value: t.Value, Effect: string(t.Effect)})
	}
	for i := range n.Status.Conditions {
		if c := &n.Status.Conditions[i]; c.Type == corev1.NodeReady {
			is.Ready, is.Reason = string(c.Status), c.Reason
			break
		}
	}
	return is, nil
}

// SlotNames are the counted resources of a cluster, as podmap.SlotNames chooses them.
func SlotNames(nodes []*Node) (kept, dropped []string) {
	all := make([]podmap.Amounts, len(nodes))
	for i, n := range nodes {
		all[i] = n.Amounts
	}
	return podmap.SlotNames(all)
}

// pods is the counted resource of which each pod needs one.
const pods = string(corev1.ResourcePods)

// slotsOf are the amounts of the counted resources that a cluster has.
func slotsOf(a podmap.Amounts, c *cluster.Cluster) cluster.Slots {
	var out cluster.Slots
	for i, name := range c.SlotNames() {
		out[i] = int64(min(a[name], cluster.MostSlots))
	}
	return out
}

// Spec is the node as a cluster describes it. The cluster must know all names in it,
// which Add tells. It fails where the cluster does not.
func (n *Node) Spec(c *cluster.Cluster) (cluster.NodeSpec, error) {
	spec := cluster.NodeSpec{
		Name: n.Name, CPU: podmap.Milli(n.Amounts[podmap.CPU]), Memory: unit.Bytes(n.Amounts[podmap.Memory]),
		Slots: slotsOf(n.Amounts, c), Labels: n.Labels, Taints: n.Taints,
	}
	for _, g := range n.GPUs {
		t, known := c.TypeByName(g.Type)
		if !known {
			return spec, fmt.Errorf("node %s: the cluster does not know GPU type %s", n.Name, g.Type)
		}
		if g.Count > 0 {
			spec.GPUs = append(spec.GPUs, cluster.GPUs{Type: t, Count: g.Count})
			spec.Pooled = spec.Pooled || g.Count > cluster.MaxGroup
		}
	}
	for _, d := range n.Place {
		id, known := domain(c, d, spec.Domain)
		if !known {
			return spec, fmt.Errorf("node %s: the cluster does not know %s %s", n.Name, d.Level, d.Name)
		}
		spec.Domain = id
	}
	return spec, nil
}

// domain finds a place in another one.
func domain(c *cluster.Cluster, d podmap.Domain, in cluster.DomainID) (cluster.DomainID, bool) {
	for _, id := range c.DomainChildren(in) {
		if level, name, _ := c.Domain(id); level == d.Level && name == d.Name {
			return id, true
		}
	}
	return 0, false
}

// Introduce makes the GPU types and places of a node known to a cluster. It fails on more
// types than a cluster has.
func (n *Node) Introduce(c *cluster.Cluster) error {
	for _, g := range n.GPUs {
		if _, err := c.AddType(cluster.GPUType{Name: g.Type, Memory: g.Memory}); err != nil {
			return fmt.Errorf("node %s: %w", n.Name, err)
		}
	}
	at := cluster.DomainID(0)
	for _, d := range n.Place {
		id, known := domain(c, d, at)
		if !known {
			var err error
			if id, err = c.AddDomain(d.Level, d.Name, at); err != nil {
				return fmt.Errorf("node %s: %w", n.Name, err)
			}
		}
		at = id
	}
	return nil
}

// Types are the GPU types of a cluster: by the name of each, the resource by which pods
// ask for it. Two resources must not have types of one name.
type Types map[string]string

// Of are the types that pods may use which ask for a resource and wish for some types, as
// in job.Demand: joined by "|", those that are wished for in their order; empty: all types
// of the cluster. Wishes that name a type which the cluster does not have count for
// nothing, for labels other than that of the type may have been meant. A resource that
// the cluster does not have is its own type, which no node has.
func (t Types) Of(resource, wish string) string {
	if wish != "" {
		wished := strings.Split(wish, "|")
		if !slices.ContainsFunc(wished, func(name string) bool { return t[name] != resource }) {
			return wish
		}
	}
	var out []string
	for _, name := range slices.Sorted(maps.Keys(t)) {
		if t[name] == resource {
			out = append(out, name)
		}
	}
	switch len(out) {
	case 0:
		return resource
	case len(t):
		return ""
	}
	return strings.Join(out, "|")
}
