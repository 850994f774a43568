package podmap

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/label"
	"github.com/norn-scheduler/norn/cluster/unit"
)

// Node is what is used of the object of a node, as the API has it.
type Node struct {
	Name                  string
	Labels                map[string]string
	Taints                []Taint
	Allocatable, Capacity Amounts
	Unschedulable         bool   // kubectl cordon
	Deleted               bool   // it has a time of deletion
	Ready, Reason         string // status and reason of its condition Ready; empty: it has none
}

// Taint is a taint of a node as the API has it.
type Taint struct{ Key, Value, Effect string }

// GPUs are the GPUs of a node that pods ask for by one resource. They are told apart by
// number alone: which of them a pod gets is the choice of the kubelet.
type GPUs struct {
	Resource string // nvidia.com/gpu, amd.com/gpu, nvidia.com/mig-1g.5gb
	Type     string // NVIDIA-A100-SXM4-80GB; the resource where no label tells it
	Memory   unit.Bytes
	Count    int // that pods may use
	Broken   int // that the node has beside them
}

// MaxGPUs bounds the GPUs that a node may have of a resource.
const MaxGPUs = 1 << 20

// GPUs are the GPUs of the node, in order of their resources. It fails on more than
// MaxGPUs of a resource.
func (n *Node) GPUs() ([]GPUs, error) {
	var out []GPUs
	for _, name := range slices.Sorted(maps.Keys(n.Allocatable)) {
		if !IsGPU(name) && !IsSlice(name) {
			continue
		}
		most := max(n.Allocatable[name], n.Capacity[name])
		if most > MaxGPUs {
			return nil, fmt.Errorf("%.0f of %s are more than a node has", most, name)
		}
		if most > 0 {
			out = append(out, GPUs{
				Resource: name, Type: GPUType(name, n.Labels), Memory: GPUMemory(name, n.Labels),
				Count: int(n.Allocatable[name]), Broken: int(most - n.Allocatable[name]),
			})
		}
	}
	return out, nil
}

// Rest is what pods may use of the node beside GPUs.
func (n *Node) Rest() Amounts {
	out := Amounts{}
	for name, v := range n.Allocatable {
		if !IsGPU(name) && !IsSlice(name) {
			out[name] = v
		}
	}
	return out
}

// The taints by which Kubernetes tells of the health of a node.
const (
	outOfService  = "node.kubernetes.io/out-of-service"
	notReady      = "node.kubernetes.io/not-ready"
	unreachable   = "node.kubernetes.io/unreachable"
	unschedulable = "node.kubernetes.io/unschedulable"
)

// OfHealth tells whether Kubernetes tells by a taint of the health of a node (Health),
// so that it is left out of taints and tolerations.
func OfHealth(taint string) bool {
	return taint == notReady || taint == unreachable || taint == unschedulable
}

// Health says whether a node takes new pods, and why not. It is Down only when it is
// marked as out of service.
func (n *Node) Health() (cluster.Health, string) {
	taint := func(key string) bool {
		return slices.ContainsFunc(n.Taints, func(t Taint) bool { return t.Key == key && t.Effect != label.PreferNoSchedule.String() })
	}
	switch {
	case taint(outOfService):
		return cluster.Down, "it is marked as out of service"
	case n.Deleted:
		return cluster.Cordoned, "it is being deleted"
	case n.Ready == "":
		return cluster.Cordoned, "it has not said that it is ready"
	case n.Ready == "Unknown":
		return cluster.Cordoned, reasoned("it has not been heard of", n.Reason)
	case n.Ready != "True":
		return cluster.Cordoned, reasoned("it is not ready", n.Reason)
	case n.Unschedulable:
		return cluster.Cordoned, "it is cordoned"
	case taint(notReady) || taint(unreachable) || taint(unschedulable):
		return cluster.Cordoned, "it was not ready or cordoned until now"
	case n.Allocatable[CPU] == 0 || n.Allocatable[Memory] == 0:
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

// Effect is the effect of a taint that is called so in the API.
func Effect(name string) (e label.Effect, ok bool) {
	for _, e := range []label.Effect{label.NoSchedule, label.PreferNoSchedule, label.NoExecute} {
		if e.String() == name {
			return e, true
		}
	}
	return 0, false
}

// Repels are the taints by which the node repels jobs, in order. Those that tell of its
// health, and those that cannot be read, are left out.
func (n *Node) Repels() []label.Taint {
	var out []label.Taint
	for _, t := range n.Taints {
		effect, known := Effect(t.Effect)
		one := label.Taint{Key: t.Key, Value: t.Value, Effect: effect}
		if OfHealth(t.Key) || !known {
			continue
		}
		if _, err := label.ParseTaint(one.String()); err == nil {
			out = append(out, one)
		}
	}
	slices.SortFunc(out, func(a, b label.Taint) int { return cmp.Compare(a.String(), b.String()) })
	return slices.Compact(out)
}

// Toleration is a toleration of a pod as the API has it.
type Toleration struct{ Key, Operator, Value, Effect string }

// Tolerate is the taints that a pod tolerates, as a canonical text. Tolerations that
// compare numbers (operators Gt and Lt, an alpha feature of Kubernetes 1.36) tolerate
// nothing; ignored names them. It fails on more tolerations than a job may have.
func Tolerate(tolerations []Toleration) (text string, ignored []string, err error) {
	var out label.Tolerations
	for _, t := range tolerations {
		effect, known := Effect(t.Effect)
		switch {
		case OfHealth(t.Key), t.Effect != "" && !known:
			continue
		case t.Operator == "Gt" || t.Operator == "Lt":
			ignored = append(ignored, fmt.Sprintf("toleration of %s with operator %s", t.Key, t.Operator))
			continue
		}
		one := label.Toleration{Key: t.Key, Effect: effect}
		switch t.Operator {
		case "Equal", "":
			if one.Equal, one.Value = true, t.Value; t.Key == "" {
				continue // which Kubernetes refuses
			}
		case "Exists":
		default:
			continue
		}
		out = append(out, one)
	}
	read, err := label.ParseTolerations(out.String())
	return read.String(), ignored, err
}

// NodeLabel stands for the label "node" of a Kubernetes node. Norn's own label of that
// key is the name of the node (cluster.NodeLabel).
const NodeLabel = "norn-scheduler.github.io/node-label"

// Key is what a label of a Kubernetes node is called in Norn.
func Key(name string) string {
	if name == cluster.NodeLabel {
		return NodeLabel
	}
	return name
}

// GPUType is the type of the GPUs of a resource by the labels of their node: the resource
// itself where no label tells it. Slices have labels of their own where
// several sizes of them are mixed; where they are all of one size, gpu.product tells it.
func GPUType(resource string, labels map[string]string) string {
	if v := labels[resource+".product"]; IsSlice(resource) && v != "" {
		return v
	}
	vendor, what, _ := strings.Cut(resource, "/")
	for _, name := range typeLabels {
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

// GPUMemory is the memory of each GPU of a resource, or 0 where no label tells it.
func GPUMemory(resource string, labels map[string]string) unit.Bytes {
	if IsSlice(resource) {
		if m := mebibytes(labels[resource+".memory"]); m > 0 {
			return m
		}
		_, m := Slice(strings.TrimPrefix(resource, slicePrefix))
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

// pods is the counted resource of which each pod needs one.
const pods = "pods"

// SlotNames are the counted resources of a cluster, at most cluster.MaxSlots: what its
// nodes have beside GPUs, cores and memory. Pods always count. Then come network adapters
// (rdma/*), huge pages, other extended resources and ephemeral storage, of each sort first
// what most nodes have. Pods cannot ask for the resources that are left over, which
// dropped names.
func SlotNames(nodes []Amounts) (kept, dropped []string) {
	count := map[string]int{}
	for _, n := range nodes {
		for name, v := range n {
			if v > 0 && name != CPU && name != Memory && name != pods && cluster.SlotNamed(name) {
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

// slotSort is the place of a sort of counted resources.
func slotSort(name string) int {
	switch {
	case strings.HasPrefix(name, "rdma/") || strings.Contains(name, "rdma") || strings.Contains(name, "hca"):
		return 0
	case strings.HasPrefix(name, "hugepages-"):
		return 1
	case name == "ephemeral-storage":
		return 3
	case strings.HasPrefix(name, "attachable-volumes-"):
		return 4
	}
	return 2
}
