// Package demand adds up what a pod asks of its node, by the rules of the kubelet. The
// fake kubelet and the checker of the tests use it; what they test does not.
package demand

import (
	core "k8s.io/api/core/v1"
)

// Resources are amounts by resource: thousandths of cores for cpu, bytes for memory,
// numbers for others.
type Resources map[core.ResourceName]int64

// Amount is an amount of a resource in the units of Resources.
func Amount(list core.ResourceList, name core.ResourceName) int64 {
	q := list[name]
	if name == core.ResourceCPU {
		return q.MilliValue()
	}
	return q.Value()
}

// List is a resource list in the units of Resources.
func List(list core.ResourceList) Resources {
	out := make(Resources, len(list))
	for name := range list {
		out[name] = Amount(list, name)
	}
	return out
}

// Of is what a pod asks for: the sum over its containers and sidecars or, where that is
// more, what an init container asks for beside the sidecars before it; further the
// overhead, and one of the node's pods.
//
// Source: k8s.io/component-helpers/resource, PodRequests.
func Of(pod *core.Pod) Resources {
	sum := Resources{}
	for i := range pod.Spec.Containers {
		sum.Add(List(pod.Spec.Containers[i].Resources.Requests), 1)
	}
	sidecars, peak := Resources{}, Resources{}
	for i := range pod.Spec.InitContainers {
		c := &pod.Spec.InitContainers[i]
		asked := List(c.Resources.Requests)
		if c.RestartPolicy != nil && *c.RestartPolicy == core.ContainerRestartPolicyAlways {
			sum.Add(asked, 1)
			sidecars.Add(asked, 1)
			peak.atLeast(sidecars)
			continue
		}
		asked.Add(sidecars, 1)
		peak.atLeast(asked)
	}
	sum.atLeast(peak)
	if r := pod.Spec.Resources; r != nil { // of the pod as a whole
		for name := range r.Requests {
			sum[name] = Amount(r.Requests, name)
		}
	}
	sum.Add(List(pod.Spec.Overhead), 1)
	sum[core.ResourcePods] = 1
	return sum
}

// Add adds so many times what others are.
func (r Resources) Add(others Resources, times int64) {
	for name, n := range others {
		r[name] += times * n
	}
}

// atLeast raises each amount to that of others.
func (r Resources) atLeast(others Resources) {
	for name, n := range others {
		r[name] = max(r[name], n)
	}
}
