// Package convert turns objects of Kubernetes into Norn's nouns, and what Norn remembers
// into annotations. All its functions are pure: they call no API server, and what they
// are given they do not change.
//
// Nouns:
//   - A Node is what is used of a node: GPUs by type, amounts, place, health.
//   - An Ask is what a pod asks for, and where it may be.
//   - A Set is equal pods of a job; a demand (job.Demand) is made of sets.
//   - A Member is a pod of a gang, with its rank.
//   - A JobAsk is a batch/v1 Job.
//   - A Plan says where each rank of a run goes.
//
// Amounts are in cores, bytes and devices (podmap.Amounts). Package trace/podmap has the
// rules for gangs, GPU resources and the sum of a pod's demands. Lists of pods are read
// by the same rules.
//
// Users can write anything into their objects. Whatever is read is bounded and checked:
// it leads to an error, which says what is wrong, and never to a panic.
package convert

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/norn-scheduler/norn/trace/podmap"
)

// amounts turns quantities into numbers. Cores are exact to a thousandth, all else to
// one. It fails on an amount that is negative or beyond podmap.MaxQuantity.
func amounts(list corev1.ResourceList) (podmap.Amounts, error) {
	out := make(podmap.Amounts, len(list))
	for name, q := range list {
		v, ok := amount(name, q)
		if !ok {
			return nil, fmt.Errorf("%s of %s is no amount", q.String(), name)
		}
		out[string(name)] = v
	}
	return out, nil
}

func amount(name corev1.ResourceName, q resource.Quantity) (v float64, ok bool) {
	if approximate := q.AsApproximateFloat64(); !(approximate >= 0 && approximate <= podmap.MaxQuantity) {
		return 0, false
	}
	if name == corev1.ResourceCPU {
		return float64(q.MilliValue()) / 1000, true
	}
	return float64(q.Value()), true
}
