package fakekubelet

import (
	"fmt"
	"maps"
	"slices"

	core "k8s.io/api/core/v1"

	"github.com/norn-scheduler/norn/kube/internal/demand"
)

// refusal is why a kubelet rejects a pod.
type refusal struct{ reason, message string }

// admit takes what a pod asks for, or tells why the kubelet rejects it: the device plugin
// is asked first, as in a real kubelet.
func (n *node) admit(p *core.Pod, asked demand.Resources) *refusal {
	if have := n.free[GPU]; asked[GPU] > max(have, 0) {
		return &refusal{"UnexpectedAdmissionError", fmt.Sprintf(
			"Pod was rejected: Allocate failed due to requested number of devices unavailable for %s. Requested: %d, Available: %d, which is unexpected", GPU, asked[GPU], have)}
	}
	for key, value := range p.Spec.NodeSelector {
		if n.labels[key] != value {
			return &refusal{"NodeAffinity", "Pod was rejected: Predicate NodeAffinity failed"}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(asked)) {
		if amount := asked[name]; amount > 0 && amount > n.free[name] {
			total := demand.Amount(n.spec.Resources, name)
			return &refusal{"OutOf" + string(name), fmt.Sprintf(
				"Pod was rejected: Node didn't have enough resource: %s, requested: %d, used: %d, capacity: %d", name, amount, total-n.free[name], total)}
		}
	}
	n.free.Add(asked, -1)
	return nil
}
