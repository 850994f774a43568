package convert

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/trace/podmap"
)

// Use is what a pod takes of its node.
type Use struct {
	CPU    unit.Milli
	Memory unit.Bytes
	Slots  cluster.Slots
	GPUs   map[string]int // by the resource that the pod asks for, as in GPUs.Resource
}

// UseOf is what a pod takes of the node that it is bound to, one of pods included; nothing
// once it has ended. The slots are the names of the counted resources of the cluster, in
// order.
func UseOf(p *corev1.Pod, slots []string) Use {
	all := taken(p)
	out := Use{CPU: podmap.Milli(min(all[podmap.CPU], podmap.MaxQuantity/1000)), Memory: unit.Bytes(min(all[podmap.Memory], podmap.MaxQuantity))}
	for i, name := range slots[:min(len(slots), cluster.MaxSlots)] {
		out.Slots[i] = int64(min(all[name], cluster.MostSlots))
	}
	for name, v := range all {
		if v > 0 && (podmap.IsGPU(name) || podmap.IsSlice(name)) {
			if out.GPUs == nil {
				out.GPUs = map[string]int{}
			}
			out.GPUs[name] = int(min(v, 1<<20))
		}
	}
	return out
}

// taken is what a pod takes of each resource. Of a pod that is being resized it is the
// most of what its spec asks for, what it was allocated and what it has; a resize that
// its node can never do does not count. Amounts that cannot be count as 0. Source: pods
// that are resized in place, KEP-1287.
func taken(p *corev1.Pod) podmap.Amounts {
	if p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed {
		return podmap.Amounts{}
	}
	infeasible := false
	for i := range p.Status.Conditions {
		c := &p.Status.Conditions[i]
		infeasible = infeasible || c.Type == corev1.PodResizePending && c.Reason == corev1.PodReasonInfeasible
	}
	statuses := map[string]*corev1.ContainerStatus{}
	for _, all := range [][]corev1.ContainerStatus{p.Status.ContainerStatuses, p.Status.InitContainerStatuses} {
		for i := range all {
			statuses[all[i].Name] = &all[i]
		}
	}
	effective := func(spec, has, given corev1.ResourceList, told bool) podmap.Amounts {
		out := sane(spec)
		if !told {
			return out
		}
		if infeasible {
			out = podmap.Amounts{}
		}
		raise(out, sane(has))
		raise(out, sane(given))
		return out
	}
	container := func(c *corev1.Container, resizes bool) podmap.Container {
		asks := podmap.Asked(c.Resources.Requests, c.Resources.Limits)
		one := podmap.Container{Sidecar: sidecar(c)}
		if s := statuses[c.Name]; resizes && s != nil && s.Resources != nil {
			one.Asks = effective(asks, s.Resources.Requests, s.AllocatedResources, true)
		} else {
			one.Asks = sane(asks)
		}
		return one
	}
	sum := podmap.Spec{Overhead: sane(p.Spec.Overhead)}
	for i := range p.Spec.Containers {
		sum.Containers = append(sum.Containers, container(&p.Spec.Containers[i], true))
	}
	for i := range p.Spec.InitContainers {
		c := &p.Spec.InitContainers[i]
		sum.Init = append(sum.Init, container(c, sidecar(c)))
	}
	if r := p.Spec.Resources; r != nil {
		var has corev1.ResourceList
		if p.Status.Resources != nil {
			has = p.Status.Resources.Requests
		}
		sum.Whole = effective(whole(r, p.Spec.Containers, p.Spec.InitContainers), has, p.Status.AllocatedResources, p.Status.Resources != nil)
	}
	all := sum.Amounts()
	all[pods] = 1
	return all
}

// sane is the amounts that can be.
func sane(list corev1.ResourceList) podmap.Amounts {
	out := make(podmap.Amounts, len(list))
	for name, q := range list {
		if v, ok := amount(name, q); ok {
			out[string(name)] = v
		}
	}
	return out
}

func raise(a, to podmap.Amounts) {
	for name, v := range to {
		a[name] = max(a[name], v)
	}
}
