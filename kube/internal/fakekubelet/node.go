package fakekubelet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	coordination "k8s.io/api/coordination/v1"
	core "k8s.io/api/core/v1"
	kube "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/norn-scheduler/norn/kube/internal/demand"
)

// GPU is the resource name of GPUs.
const GPU core.ResourceName = "nvidia.com/gpu"

// Node is a node that does not exist.
type Node struct {
	Name      string
	Labels    map[string]string // beside kubernetes.io/hostname
	Taints    []core.Taint
	Resources core.ResourceList // capacity and allocatable
}

// Shape is a list of resources: numbers of GPUs, cores and pods, and memory in GiB. GPUs
// and pods are left out where they are 0, as in the requests of containers.
func Shape(gpus, cores, gib, pods int64) core.ResourceList {
	out := core.ResourceList{
		core.ResourceCPU:    *resource.NewQuantity(cores, resource.DecimalSI),
		core.ResourceMemory: *resource.NewQuantity(gib<<30, resource.BinarySI),
	}
	if pods > 0 {
		out[core.ResourcePods] = *resource.NewQuantity(pods, resource.DecimalSI)
	}
	if gpus > 0 {
		out[GPU] = *resource.NewQuantity(gpus, resource.DecimalSI)
	}
	return out
}

// Nodes are equal nodes: prefix-000, prefix-001, ...
func Nodes(prefix string, n int, resources core.ResourceList, labels map[string]string) []Node {
	out := make([]Node, n)
	for i := range out {
		out[i] = Node{Name: fmt.Sprintf("%s-%03d", prefix, i), Labels: labels, Resources: resources}
	}
	return out
}

// node is a node and what the kubelet knows of it.
type node struct {
	name   string
	spec   Node
	labels map[string]string
	up     bool                // it hears the API and is heard
	free   demand.Resources    // of what is allocatable
	short  map[*pod]bool       // its pods that ask for more than they have
	lease  *coordination.Lease // of heartbeats alone
}

func newNode(spec Node) *node {
	labels := map[string]string{"kubernetes.io/hostname": spec.Name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"}
	maps.Copy(labels, spec.Labels)
	return &node{name: spec.Name, spec: spec, labels: labels, up: true, free: demand.List(spec.Resources), short: map[*pod]bool{}}
}

// object is the node as the API has it.
func (n *node) object() *core.Node {
	return &core.Node{
		ObjectMeta: meta.ObjectMeta{Name: n.name, Labels: n.labels},
		Spec:       core.NodeSpec{Taints: n.spec.Taints},
		Status: core.NodeStatus{
			Capacity: n.spec.Resources, Allocatable: n.spec.Resources,
			Conditions: []core.NodeCondition{ready(core.ConditionTrue, "KubeletReady")},
			NodeInfo:   core.NodeSystemInfo{KubeletVersion: "v1.36.3-fake", OperatingSystem: "linux", Architecture: "amd64"},
		},
	}
}

// ready is the condition Ready of a node.
func ready(status core.ConditionStatus, reason string) core.NodeCondition {
	now := meta.Now()
	return core.NodeCondition{Type: core.NodeReady, Status: status, Reason: reason, LastHeartbeatTime: now, LastTransitionTime: now}
}

// register makes all nodes, or takes over those that are there.
func (k *Kubelet) register() error {
	return each(k.opts.Nodes, k.opts.Workers, func(spec *Node) error {
		n := k.nodes[spec.Name]
		_, err := k.client.CoreV1().Nodes().Create(k.ctx, n.object(), meta.CreateOptions{})
		if kube.IsAlreadyExists(err) {
			return k.report(k.ctx, n.name, core.ConditionTrue, "KubeletReady")
		}
		return err
	})
}

// each calls f for all elements, several at once, and joins the errors.
func each[T any](all []T, workers int, f func(*T) error) error {
	todo, errs := make(chan *T), make(chan error)
	for range workers {
		go func() {
			var bad error
			for x := range todo {
				bad = errors.Join(bad, f(x))
			}
			errs <- bad
		}()
	}
	for i := range all {
		todo <- &all[i]
	}
	close(todo)
	var bad error
	for range workers {
		bad = errors.Join(bad, <-errs)
	}
	return bad
}

// report writes whether a node is ready.
func (k *Kubelet) report(ctx context.Context, name string, status core.ConditionStatus, reason string) error {
	const text = `{"status": {"conditions": [{"type": "Ready", "status": %q, "reason": %q, "lastHeartbeatTime": %q, "lastTransitionTime": %q}]}}`
	now := time.Now().UTC().Format(time.RFC3339)
	patch := fmt.Appendf(nil, text, status, reason, now, now)
	_, err := k.client.CoreV1().Nodes().Patch(ctx, name, types.StrategicMergePatchType, patch, meta.PatchOptions{}, "status")
	return err
}

// add notes a node.
func (k *Kubelet) add(n *node) {
	k.nodes[n.name] = n
	k.order = append(k.order, n)
}

// heartbeats renews the leases of all nodes that are up, spread over the period.
func (k *Kubelet) heartbeats() {
	if k.opts.Heartbeat < 0 {
		return
	}
	for at := 0; ; at++ {
		var n *node
		count, up := 0, false
		err := k.do(func() {
			if count = len(k.order); count > 0 {
				n = k.order[at%count]
				up = n.up
			}
		})
		if err != nil {
			return
		}
		if up {
			k.renew(n)
		}
		select {
		case <-k.ctx.Done():
			return
		case <-time.After(max(k.opts.Heartbeat/time.Duration(max(count, 1)), time.Millisecond)):
		}
	}
}

// renew renews the lease of a node. One that could not be written is read again and
// written the next time.
func (k *Kubelet) renew(n *node) {
	leases := k.client.CoordinationV1().Leases(core.NamespaceNodeLease)
	now := meta.NowMicro()
	if n.lease == nil {
		seconds := int32(40)
		fresh := &coordination.Lease{ObjectMeta: meta.ObjectMeta{Name: n.name}, Spec: coordination.LeaseSpec{
			HolderIdentity: &n.name, LeaseDurationSeconds: &seconds, RenewTime: &now,
		}}
		made, err := leases.Create(k.ctx, fresh, meta.CreateOptions{})
		if kube.IsAlreadyExists(err) {
			made, err = leases.Get(k.ctx, n.name, meta.GetOptions{})
		}
		if err == nil {
			n.lease = made
		}
		return
	}
	n.lease.Spec.RenewTime = &now
	renewed, err := leases.Update(k.ctx, n.lease, meta.UpdateOptions{})
	if err != nil {
		n.lease = nil
		return
	}
	n.lease = renewed
}

// Set adds a node, or changes what one has: its resources, labels and taints. Pods stay
// where they are, also where the node has become too small for them.
func (k *Kubelet) Set(ctx context.Context, spec Node) error {
	fresh := newNode(spec)
	nodes := k.client.CoreV1().Nodes()
	_, err := nodes.Create(ctx, fresh.object(), meta.CreateOptions{})
	if kube.IsAlreadyExists(err) {
		err = k.change(ctx, fresh)
	}
	if err != nil {
		return err
	}
	return k.do(func() {
		n := k.nodes[spec.Name]
		if n == nil {
			k.add(fresh)
			for _, obj := range k.known.List() { // bound to it before it was there
				k.seen(obj.(*core.Pod))
			}
			return
		}
		n.free.Add(demand.List(n.spec.Resources), -1)
		n.free.Add(demand.List(spec.Resources), 1)
		n.spec, n.labels = spec, fresh.labels
	})
}

// change writes what a node that is there has by now.
func (k *Kubelet) change(ctx context.Context, fresh *node) error {
	nodes, want := k.client.CoreV1().Nodes(), fresh.object()
	for {
		n, err := nodes.Get(ctx, fresh.name, meta.GetOptions{})
		if err != nil {
			return err
		}
		n.Labels, n.Spec.Taints = want.Labels, want.Spec.Taints
		if n, err = nodes.Update(ctx, n, meta.UpdateOptions{}); err == nil {
			n.Status.Capacity, n.Status.Allocatable = want.Status.Capacity, want.Status.Allocatable
			_, err = nodes.UpdateStatus(ctx, n, meta.UpdateOptions{})
		}
		if !kube.IsConflict(err) {
			return err
		}
	}
}

// Remove takes a node away for good: its containers end, and the API forgets the node. Its
// pods stay in the API, bound to nothing.
func (k *Kubelet) Remove(ctx context.Context, name string) error {
	err := k.do(func() {
		n := k.nodes[name]
		if n == nil {
			return
		}
		for _, p := range k.on(n) {
			k.forget(p)
		}
		delete(k.nodes, name)
		k.order = slices.DeleteFunc(k.order, func(o *node) bool { return o == n })
	})
	if err != nil {
		return err
	}
	return k.client.CoreV1().Nodes().Delete(ctx, name, meta.DeleteOptions{})
}

// Die ends a node as a power cut does: its containers end without a word, and it is not
// ready any more (see NodeController).
func (k *Kubelet) Die(ctx context.Context, name string) error {
	return k.part(ctx, name, true)
}

// Partition takes a node off the network: its pods go on, nothing is heard of them, and
// it does not hear what becomes of them. It is not ready any more.
func (k *Kubelet) Partition(ctx context.Context, name string) error {
	return k.part(ctx, name, false)
}

// part takes a node out of reach; with died, its pods end.
func (k *Kubelet) part(ctx context.Context, name string, died bool) error {
	err := k.with(name, func(n *node) {
		n.up = false
		for _, p := range k.on(n) {
			if died && p.lives() {
				k.lost(p)
			}
		}
	})
	if err != nil || k.opts.NodeController {
		return err
	}
	return k.report(ctx, name, core.ConditionUnknown, "NodeStatusUnknown")
}

// Return brings back a node that has died or was off the network. Pods that ended in the
// meantime are reported, those that the API has forgotten end, and those that were bound
// meanwhile start.
func (k *Kubelet) Return(ctx context.Context, name string) error {
	if err := k.with(name, func(*node) {}); err != nil {
		return err
	}
	if err := k.report(ctx, name, core.ConditionTrue, "KubeletReady"); err != nil {
		return err
	}
	return k.with(name, func(n *node) {
		n.up = true
		for _, p := range k.on(n) {
			if p.orphan {
				k.forget(p)
			}
		}
		for _, p := range k.on(n) {
			k.sync(p)
		}
	})
}

// with has the loop do something with a node.
func (k *Kubelet) with(name string, f func(*node)) error {
	found := false
	err := k.do(func() {
		if n := k.nodes[name]; n != nil {
			found = true
			f(n)
		}
	})
	if err == nil && !found {
		return fmt.Errorf("there is no node %s", name)
	}
	return err
}

// on are the pods of a node, oldest first.
func (k *Kubelet) on(n *node) []*pod {
	var out []*pod
	for _, p := range k.pods {
		if p.node == n {
			out = append(out, p)
		}
	}
	slices.SortFunc(out, func(a, b *pod) int {
		return cmp.Or(a.obj.CreationTimestamp.Compare(b.obj.CreationTimestamp.Time), cmp.Compare(a.obj.UID, b.obj.UID))
	})
	return out
}
