package convert

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
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
	GPUs    []GPUs         // in order of their resources
	Amounts podmap.Amounts // that pods may use, GPUs aside
	Labels  []label.Label  // in order of their keys
	Taints  []label.Taint  // those that tell of its health aside
	Place   []Domain       // where it stands, the widest place first
	Health  cluster.Health // Down only when it is marked as out of service
	Why     string         // it is not up; empty: it is
}

// GPUs are the GPUs of a node that pods ask for by one resource. They are told apart by
// number alone: which of them a pod gets is the choice of the kubelet.
type GPUs struct {
	Resource string // nvidia.com/gpu, amd.com/gpu, nvidia.com/mig-1g.5gb
	Type     string // NVIDIA-A100-SXM4-80GB; the resource where no label tells it
	Memory   unit.Bytes
	Count    int // that pods may use
	Broken   int // that the node has beside them
}

// NewNode reads a node: its GPUs from allocatable and from the labels of GPU feature
// discovery. It fails on a node that has amounts that cannot be, or a label or taint that
// Kubernetes would refuse.
func NewNode(n *corev1.Node, levels Levels) (*Node, error) {
	bad := func(err error) (*Node, error) { return nil, fmt.Errorf("node %s: %w", n.Name, err) }
	all, err := amounts(n.Status.Allocatable)
	if err != nil {
		return bad(err)
	}
	has, err := amounts(n.Status.Capacity)
	if err != nil {
		return bad(err)
	}
	out := &Node{Name: n.Name, Amounts: podmap.Amounts{}, Taints: taints(n.Spec.Taints), Place: levels.place(n.Labels)}
	if len(validation.IsDNS1123Subdomain(n.Name)) > 0 {
		return bad(fmt.Errorf("%q is no name of a node", n.Name))
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if !podmap.IsGPU(name) && !podmap.IsSlice(name) {
			out.Amounts[name] = all[name]
			continue
		}
		if most := max(all[name], has[name]); most > 0 {
			if most > 1<<20 {
				return bad(fmt.Errorf("%.0f of %s are more than a node has", most, name))
			}
			out.GPUs = append(out.GPUs, GPUs{
				Resource: name, Type: gpuType(name, n.Labels), Memory: gpuMemory(name, n.Labels), Count: int(all[name]), Broken: int(most - all[name]),
			})
		}
	}
	for _, k := range slices.Sorted(maps.Keys(n.Labels)) {
		l := label.Label{Key: key(k), Value: n.Labels[k]}
		if err := l.Check(); err != nil {
			return bad(err)
		}
		out.Labels = append(out.Labels, l)
	}
	if err := label.Sort(out.Labels); err != nil {
		return bad(err)
	}
	out.Health, out.Why = health(n, out)
	return out, nil
}

// health says whether a node takes new pods, and why not.
func health(n *corev1.Node, is *Node) (cluster.Health, string) {
	i := slices.IndexFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool { return c.Type == corev1.NodeReady })
	taint := func(key string) bool {
		return slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == key && t.Effect != corev1.TaintEffectPreferNoSchedule })
	}
	switch {
	case taint(corev1.TaintNodeOutOfService):
		return cluster.Down, "it is marked as out of service"
	case n.DeletionTimestamp != nil:
		return cluster.Cordoned, "it is being deleted"
	case i < 0:
		return cluster.Cordoned, "it has not said that it is ready"
	case n.Status.Conditions[i].Status == corev1.ConditionUnknown:
		return cluster.Cordoned, reasoned("it has not been heard of", n.Status.Conditions[i].Reason)
	case n.Status.Conditions[i].Status != corev1.ConditionTrue:
		return cluster.Cordoned, reasoned("it is not ready", n.Status.Conditions[i].Reason)
	case n.Spec.Unschedulable:
		return cluster.Cordoned, "it is cordoned"
	case taint(corev1.TaintNodeNotReady) || taint(corev1.TaintNodeUnreachable) || taint(corev1.TaintNodeUnschedulable):
		return cluster.Cordoned, "it was not ready or cordoned until now"
	case is.Amounts[podmap.CPU] == 0 || is.Amounts[podmap.Memory] == 0:
		return cluster.Cordoned, "it has no cores or no memory for pods"
	}
	return cluster.Up, ""
}

func reasoned(what, reason string) string {
	if reason == "" {
		return what
	}
	return what + " (" + reason + ")"
}

// gpuType is the type of the GPUs of a resource. Slices have labels of their own where
// several sizes of them are mixed; where they are all of one size, gpu.product tells it.
func gpuType(resource string, labels map[string]string) string {
	if v := labels[resource+".product"]; podmap.IsSlice(resource) && v != "" {
		return v
	}
	vendor, what, _ := strings.Cut(resource, "/")
	for _, name := range podmap.TypeLabels() {
		domain, _, _ := strings.Cut(name, "/")
		if v := labels[name]; v != "" && (domain == vendor || domain != "nvidia.com" && domain != "amd.com") {
			if what == "gpu" {
				return v
			}
			return v + "/" + strings.TrimPrefix(what, "gpu.")
		}
	}
	return resource
}

// gpuMemory is the memory of each GPU of a resource, or 0 where no label tells it.
func gpuMemory(resource string, labels map[string]string) unit.Bytes {
	if podmap.IsSlice(resource) {
		if m := mebibytes(labels[resource+".memory"]); m > 0 {
			return m
		}
		_, m := podmap.Slice(strings.TrimPrefix(resource, "nvidia.com/mig-"))
		return m
	}
	if strings.HasPrefix(resource, "amd.com/") {
		m, err := unit.ParseBytes(labels["amd.com/gpu.vram"]) // 64G
		if err != nil || m > 1<<50 {
			return 0
		}
		return m
	}
	return mebibytes(labels["nvidia.com/gpu.memory"])
}

func mebibytes(text string) unit.Bytes {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 || n > 1<<30 {
		return 0
	}
	return unit.Bytes(n) * unit.MiB
}

// SlotNames are the counted resources of a cluster, at most cluster.MaxSlots: what its
// nodes have beside GPUs, cores and memory. Pods always count. Then come network adapters
// (rdma/*), huge pages, other extended resources and ephemeral storage, of each sort first
// what most nodes have. Pods cannot ask for the resources that are left over, which
// dropped names.
func SlotNames(nodes []*Node) (kept, dropped []string) {
	count := map[string]int{}
	for _, n := range nodes {
		for name, v := range n.Amounts {
			if v > 0 && name != podmap.CPU && name != podmap.Memory && name != pods && cluster.SlotNamed(name) {
				count[name]++
			}
		}
	}
	all := slices.SortedFunc(maps.Keys(count), func(a, b string) int {
		return cmp.Or(cmp.Compare(slotSort(a), slotSort(b)), cmp.Compare(count[b], count[a]), cmp.Compare(a, b))
	})
	all = slices.Insert(all, 0, pods)
	n := min(len(all), cluster.MaxSlots)
	return all[:n:n], all[n:]
}

// pods is the counted resource of which each pod needs one.
const pods = string(corev1.ResourcePods)

// slotSort is the place of a sort of counted resources.
func slotSort(name string) int {
	switch {
	case strings.HasPrefix(name, "rdma/") || strings.Contains(name, "rdma") || strings.Contains(name, "hca"):
		return 0
	case strings.HasPrefix(name, corev1.ResourceHugePagesPrefix):
		return 1
	case name == string(corev1.ResourceEphemeralStorage):
		return 3
	case strings.HasPrefix(name, corev1.ResourceAttachableVolumesPrefix):
		return 4
	}
	return 2
}

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
func domain(c *cluster.Cluster, d Domain, in cluster.DomainID) (cluster.DomainID, bool) {
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
