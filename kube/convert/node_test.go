package convert

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/trace/podmap"
)

// list makes a list of resources of pairs of name and quantity.
func list(pairs ...string) corev1.ResourceList {
	out := corev1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		out[corev1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return out
}

// gpuNode is a node as a cloud has it.
func gpuNode(name string) *corev1.Node {
	all := list("cpu", "95690m", "memory", "1128Gi", "pods", "110", "ephemeral-storage", "3T", "hugepages-1Gi", "0", "hugepages-2Mi", "2Gi",
		"nvidia.com/gpu", "8", "rdma/hca_shared", "64", "vendor.io/fpga", "2")
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
		"kubernetes.io/hostname": name, "topology.kubernetes.io/region": "r1", "topology.kubernetes.io/zone": "r1-a", "topology.kubernetes.io/rack": "k7",
		"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB", "nvidia.com/gpu.memory": "81920", "node": "other",
	}}}
	n.Spec.Taints = []corev1.Taint{{Key: "nvidia.com/gpu", Value: "present", Effect: corev1.TaintEffectNoSchedule}}
	n.Status.Allocatable, n.Status.Capacity = all, all.DeepCopy()
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeMemoryPressure, Status: corev1.ConditionFalse}, {Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	return n
}

func mustNode(t *testing.T, n *corev1.Node) *Node {
	t.Helper()
	out, err := NewNode(n, DefaultLevels())
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// clusterOf is the cluster of some nodes.
func clusterOf(slots []string, nodes ...*Node) (*cluster.Cluster, error) {
	c := cluster.New()
	for _, name := range slots {
		if _, err := c.AddSlot(name); err != nil {
			return nil, err
		}
	}
	for _, n := range nodes {
		if err := n.Introduce(c); err != nil {
			return nil, err
		}
		spec, err := n.Spec(c)
		if err != nil {
			return nil, err
		}
		id, err := c.AddNode(spec)
		if err != nil {
			return nil, err
		}
		c.SetHealth(id, n.Health)
	}
	return c, nil
}

// TestNode reads a node, and makes a cluster of two.
func TestNode(t *testing.T) {
	n := mustNode(t, gpuNode("n1"))
	if got, want := fmt.Sprint(n.GPUs), "[{nvidia.com/gpu NVIDIA-A100-SXM4-80GB 80GiB 8 0}]"; got != want {
		t.Errorf("GPUs %s, want %s", got, want)
	}
	if got, want := fmt.Sprint(n.Place), "[{region r1} {zone r1-a} {rack k7}]"; got != want {
		t.Errorf("place %s, want %s", got, want)
	}
	if n.Health != cluster.Up || n.Why != "" || fmt.Sprint(n.Taints) != "[nvidia.com/gpu=present:NoSchedule]" {
		t.Errorf("%v %q, taints %v", n.Health, n.Why, n.Taints)
	}
	plain := gpuNode("n0")
	delete(plain.Status.Allocatable, "nvidia.com/gpu")
	delete(plain.Status.Capacity, "nvidia.com/gpu")
	nodes := []*Node{mustNode(t, plain), n}
	slots, dropped := SlotNames(nodes)
	if want := []string{"pods", "rdma/hca_shared", "hugepages-2Mi", "vendor.io/fpga", "ephemeral-storage"}; !slices.Equal(slots, want) || len(dropped) > 0 {
		t.Errorf("counted resources %v, not %v", slots, dropped)
	}
	c, err := clusterOf(slots, nodes...)
	if err != nil || c.Check() != nil {
		t.Fatal(err, c.Check())
	}
	is := c.Node(1)
	if c.Node(0).Name != "n0" || is.CPU != 95690 || is.Memory != 1128*unit.GiB || is.Slots != (cluster.Slots{110, 64, 2 << 30, 2, 3e12}) || is.Pooled || is.Links != nil {
		t.Errorf("%+v", is)
	}
	if c.FreeGPUs(0, 0) != 8 || c.NodeGPUs(0) != 0 || !c.Together(0, 1, "rack") || c.Domains() != 4 {
		t.Errorf("%d GPUs, %d places", c.FreeGPUs(0, 0), c.Domains())
	}
	for key, want := range map[string]string{"node": "n1", podmap.NodeLabel: "other", "kubernetes.io/hostname": "n1"} {
		if v, _ := is.Label(key); v != want {
			t.Errorf("label %s is %q, want %q", key, v, want)
		}
	}
}

// TestNodeHealth: a node that takes no pods says why.
func TestNodeHealth(t *testing.T) {
	now := metav1.NewTime(time.Unix(1e9, 0))
	for want, change := range map[string]func(n *corev1.Node){
		"up ": func(*corev1.Node) {},
		"cordoned it is cordoned": func(n *corev1.Node) {
			n.Spec.Unschedulable = true
		},
		"cordoned it is not ready (KubeletNotReady)": func(n *corev1.Node) {
			n.Status.Conditions[1].Status, n.Status.Conditions[1].Reason = corev1.ConditionFalse, "KubeletNotReady"
		},
		"cordoned it has not been heard of": func(n *corev1.Node) { n.Status.Conditions[1].Status = corev1.ConditionUnknown },
		"cordoned it has not said that it is ready": func(n *corev1.Node) {
			n.Status.Conditions = nil
		},
		"cordoned it is being deleted": func(n *corev1.Node) { n.DeletionTimestamp = &now },
		"down it is marked as out of service": func(n *corev1.Node) {
			n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: corev1.TaintNodeOutOfService, Effect: corev1.TaintEffectNoExecute})
		},
		"cordoned it was not ready or cordoned until now": func(n *corev1.Node) {
			n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: corev1.TaintNodeNotReady, Effect: corev1.TaintEffectNoSchedule})
		},
		"cordoned it has no cores or no memory for pods": func(n *corev1.Node) { delete(n.Status.Allocatable, "cpu") },
	} {
		n := gpuNode("n1")
		change(n)
		is := mustNode(t, n)
		if got := is.Health.String() + " " + is.Why; got != want {
			t.Errorf("%q, want %q", got, want)
		}
		if len(is.Taints) > 2 || strings.Contains(fmt.Sprint(is.Taints), "not-ready") {
			t.Errorf("%s: taints %v", want, is.Taints)
		}
	}
}

// TestGPUTypes names types by the labels of GPU feature discovery.
func TestGPUTypes(t *testing.T) {
	product := map[string]string{"nvidia.com/gpu.product": "NVIDIA-A100", "nvidia.com/gpu.memory": "40960"}
	mixed := map[string]string{
		"nvidia.com/gpu.product": "NVIDIA-A100", "nvidia.com/mig-1g.5gb.product": "NVIDIA-A100-MIG-1g.5gb", "nvidia.com/mig-1g.5gb.memory": "4864",
	}
	for _, c := range []struct {
		resource string
		labels   map[string]string
		typ      string
		memory   unit.Bytes
	}{
		{"nvidia.com/gpu", product, "NVIDIA-A100", 40 * unit.GiB},
		{"nvidia.com/gpu.shared", product, "NVIDIA-A100/shared", 40 * unit.GiB},
		{"nvidia.com/mig-1g.5gb", mixed, "NVIDIA-A100-MIG-1g.5gb", 4864 * unit.MiB},
		{"nvidia.com/mig-3g.20gb", mixed, "NVIDIA-A100/mig-3g.20gb", 20 * unit.GiB},
		{"nvidia.com/gpu", nil, "nvidia.com/gpu", 0},
		{"amd.com/gpu", product, "amd.com/gpu", 0},
		{"amd.com/gpu", map[string]string{"amd.com/gpu.product-name": "MI300X", "amd.com/gpu.vram": "192G"}, "MI300X", 192 * unit.GiB},
		{"nvidia.com/gpu", map[string]string{"cloud.google.com/gke-accelerator": "nvidia-l4", "nvidia.com/gpu.memory": "much"}, "nvidia-l4", 0},
	} {
		n := gpuNode("n1")
		delete(n.Status.Allocatable, "nvidia.com/gpu")
		n.Status.Allocatable[corev1.ResourceName(c.resource)] = resource.MustParse("2")
		n.Labels = c.labels
		is := mustNode(t, n)
		if len(is.GPUs) != 1 || is.GPUs[0].Type != c.typ || is.GPUs[0].Memory != c.memory || is.GPUs[0].Resource != c.resource || is.GPUs[0].Count != 2 {
			t.Errorf("%s with %v: %+v, want %s with %v", c.resource, c.labels, is.GPUs, c.typ, c.memory)
		}
	}
	broken := gpuNode("n1")
	broken.Status.Allocatable["nvidia.com/gpu"] = resource.MustParse("6")
	if g := mustNode(t, broken).GPUs[0]; g.Count != 6 || g.Broken != 2 {
		t.Errorf("%+v", g)
	}
	many := gpuNode("n1")
	many.Status.Allocatable["nvidia.com/gpu"] = resource.MustParse("128")
	c, err := clusterOf(nil, mustNode(t, many))
	if err != nil || !c.Node(0).Pooled {
		t.Errorf("128 GPUs, %v", err)
	}
}

// TestTypes: pods may use the types of the resource that they ask for.
func TestTypes(t *testing.T) {
	types := Types{"A100": "nvidia.com/gpu", "H100": "nvidia.com/gpu", "A100-MIG": "nvidia.com/mig-1g.5gb"}
	for _, c := range []struct{ resource, wish, want string }{
		{"nvidia.com/gpu", "", "A100|H100"}, {"nvidia.com/gpu", "H100", "H100"}, {"nvidia.com/gpu", "H100|A100", "H100|A100"},
		{"nvidia.com/gpu", "nvidia-h100", "A100|H100"}, {"nvidia.com/gpu", "A100-MIG", "A100|H100"}, {"nvidia.com/mig-1g.5gb", "", "A100-MIG"},
		{"amd.com/gpu", "", "amd.com/gpu"},
	} {
		if got := types.Of(c.resource, c.wish); got != c.want {
			t.Errorf("%s, %q: %s, want %s", c.resource, c.wish, got, c.want)
		}
	}
	if got := (Types{"A100": "nvidia.com/gpu"}).Of("nvidia.com/gpu", ""); got != "" {
		t.Errorf("of one type %q", got)
	}
	n := mustNode(t, gpuNode("n1"))
	if _, err := n.Spec(cluster.New()); err == nil || !strings.Contains(err.Error(), "node n1: the cluster does not know GPU type NVIDIA-A100-SXM4-80GB") {
		t.Error(err)
	}
	n.GPUs = nil
	if _, err := n.Spec(cluster.New()); err == nil || !strings.Contains(err.Error(), "node n1: the cluster does not know region r1") {
		t.Error(err)
	}
}

// TestSlotNames: where a cluster has more than it can count, the least useful is left out.
func TestSlotNames(t *testing.T) {
	n := gpuNode("n1")
	for i := range 5 {
		n.Status.Allocatable[corev1.ResourceName(fmt.Sprintf("vendor.io/x%d", i))] = resource.MustParse("1")
	}
	other := gpuNode("n2")
	other.Status.Allocatable["vendor.io/x4"] = resource.MustParse("1")
	kept, dropped := SlotNames([]*Node{mustNode(t, n), mustNode(t, other)})
	if want := []string{"pods", "rdma/hca_shared", "hugepages-2Mi", "vendor.io/fpga", "vendor.io/x4", "vendor.io/x0"}; !slices.Equal(kept, want) {
		t.Errorf("%v, want %v", kept, want)
	}
	if want := []string{"vendor.io/x1", "vendor.io/x2", "vendor.io/x3", "ephemeral-storage"}; !slices.Equal(dropped, want) {
		t.Errorf("without %v, want %v", dropped, want)
	}
}

// TestNodeErrors: what cannot be is an error that names the node.
func TestNodeErrors(t *testing.T) {
	for want, change := range map[string]func(n *corev1.Node){
		"is no amount":           func(n *corev1.Node) { n.Status.Allocatable["cpu"] = resource.MustParse("-1") },
		"more than a node has":   func(n *corev1.Node) { n.Status.Allocatable["nvidia.com/gpu"] = resource.MustParse("9999999") },
		"of memory is no amount": func(n *corev1.Node) { n.Status.Capacity["memory"] = resource.MustParse("9E") },
		"is no name of a node":   func(n *corev1.Node) { n.Name = "N_1" },
		`label "a b="`:           func(n *corev1.Node) { n.Labels["a b"] = "" },
		"is given twice":         func(n *corev1.Node) { n.Labels[podmap.NodeLabel] = "x" },
	} {
		n := gpuNode("n1")
		change(n)
		if _, err := NewNode(n, DefaultLevels()); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "node "+n.Name) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
