package convert

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/tenant"
)

// Queue is an object of the kind Queue: a tenant.
type Queue struct {
	Name, Parent string // no Parent: it is directly below the cluster
	UID          types.UID
	Generation   int64
	Guarantee    unit.Milli // GPUs that it gets back whenever it asks
	Limit        unit.Milli // GPUs that it may hold at most; 0: no limit
	Weight       float64
	Namespaces   []string // that may use it; none: all
	GPUHours     float64  // that it had used by its status
}

// MostGPUs bounds the GPUs and the weight of a Queue.
const MostGPUs = 1_000_000

// ReadQueue reads a Queue. It fails on what its schema would have refused; the error names
// the Queue.
func ReadQueue(of map[string]any) (*Queue, error) {
	var o struct {
		metav1.ObjectMeta `json:"metadata"`
		Spec              struct {
			Parent     string   `json:"parent"`
			Guarantee  int64    `json:"guarantee"`
			Limit      *int64   `json:"limit"`
			Weight     *int64   `json:"weight"`
			Namespaces []string `json:"namespaces"`
		} `json:"spec"`
		Status struct {
			GPUHours float64 `json:"gpuHours"`
		} `json:"status"`
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(of, &o); err != nil {
		return nil, fmt.Errorf("a Queue: %w", err)
	}
	limit, weight := int64(0), int64(1)
	if o.Spec.Limit != nil {
		limit = *o.Spec.Limit
	}
	if o.Spec.Weight != nil {
		weight = *o.Spec.Weight
	}
	switch {
	case o.Name == "":
		return nil, fmt.Errorf("a Queue without a name")
	case o.Spec.Guarantee < 0 || o.Spec.Guarantee > MostGPUs:
		return nil, fmt.Errorf("queue %s: a guarantee of %d GPUs", o.Name, o.Spec.Guarantee)
	case o.Spec.Limit != nil && (limit < 1 || limit > MostGPUs || limit < o.Spec.Guarantee):
		return nil, fmt.Errorf("queue %s: a limit of %d GPUs with a guarantee of %d", o.Name, limit, o.Spec.Guarantee)
	case weight < 1 || weight > MostGPUs:
		return nil, fmt.Errorf("queue %s: a weight of %d", o.Name, weight)
	case !(o.Status.GPUHours >= 0 && o.Status.GPUHours < 1e15): // whoever may write the status
		o.Status.GPUHours = 0
	}
	return &Queue{
		Name: o.Name, UID: o.UID, Generation: o.Generation, Parent: o.Spec.Parent, Namespaces: o.Spec.Namespaces, GPUHours: o.Status.GPUHours,
		Guarantee: unit.Milli(o.Spec.Guarantee) * unit.One, Limit: unit.Milli(limit) * unit.One, Weight: float64(weight),
	}, nil
}

// Admits tells whether jobs of a namespace may use the queue.
func (q *Queue) Admits(namespace string) bool {
	return len(q.Namespaces) == 0 || slices.Contains(q.Namespaces, namespace)
}

// Same tells whether two queues give a tree of tenants the same node.
func (q *Queue) Same(o *Queue) bool {
	return q.Name == o.Name && q.Parent == o.Parent && q.Guarantee == o.Guarantee && q.Limit == o.Limit && q.Weight == o.Weight
}

// Arrange puts queues in an order in which parents come before their children, and otherwise
// by name. Those that have no place in a tree are left out, and it is said why.
func Arrange(all map[string]*Queue) (tree []*Queue, lost map[string]error) {
	lost = map[string]error{}
	depth := map[string]int{}
	for name, q := range all {
		for up := q; up.Parent != ""; up = all[up.Parent] {
			depth[name]++
			if all[up.Parent] == nil {
				lost[name] = fmt.Errorf("its parent %s does not exist", up.Parent)
				if up != q {
					lost[name] = fmt.Errorf("the parent %s of queue %s above it does not exist", up.Parent, up.Name)
				}
				break
			}
			if depth[name] > len(all) {
				lost[name] = fmt.Errorf("its parents go round in a circle")
				break
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if lost[name] == nil {
			tree = append(tree, all[name])
		}
	}
	slices.SortStableFunc(tree, func(a, b *Queue) int { return cmp.Compare(depth[a.Name], depth[b.Name]) })
	return tree, lost
}

// Promised lists, in sentences, guarantees that cannot all be given: those directly below the
// cluster are together more than its GPUs, or those below a queue more than its own.
func Promised(tree []*Queue, gpus unit.Milli) (out []string) {
	sum := map[string]unit.Milli{}
	for _, q := range tree {
		sum[q.Parent] += q.Guarantee
	}
	if sum[""] > gpus {
		out = append(out, fmt.Sprintf("Queues are guaranteed %v GPUs together, the cluster has %v", sum[""], gpus))
	}
	for _, q := range tree {
		if q.Guarantee > 0 && sum[q.Name] > q.Guarantee {
			out = append(out, fmt.Sprintf("Queues below %s are guaranteed %v GPUs together, it has %v itself", q.Name, sum[q.Name], q.Guarantee))
		}
	}
	return out
}

// AddTo makes arranged queues tenants of a tree, with what they had used.
func AddTo(t *tenant.Tree, tree []*Queue) error {
	used := 0.0
	for _, q := range tree {
		parent := tenant.Root
		if q.Parent != "" {
			parent = t.Get(q.Parent)
		} else {
			used += q.GPUHours
		}
		id, err := t.Add(q.Name, parent, q.Guarantee, q.Limit, q.Weight)
		if err != nil {
			return fmt.Errorf("queue %s: %w", q.Name, err)
		}
		t.SetUsage(id, q.GPUHours*3600, 0)
	}
	t.SetUsage(tenant.Root, used*3600, 0)
	return nil
}
