package podmap

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/norn-scheduler/norn/job"
)

// Pods are equal pods of a gang.
type Pods struct {
	Role  string
	Count int32
	Size  Size
}

// Demand is the shape of a gang: a role for each name and size, those with the most GPUs
// first, or a role for each size where these are more than job.MaxRoles. It fails on a
// gang of more sizes. Pods that ask for nothing are left out.
func Demand(pods []Pods) (job.Demand, error) {
	var d job.Demand
	parts := combine(pods, func(a, b *Pods) bool { return a.Role == b.Role && a.Size == b.Size })
	slices.SortStableFunc(parts, func(a, b Pods) int {
		return cmp.Or(cmp.Compare(b.Size.GPU, a.Size.GPU), cmp.Compare(a.Role, b.Role))
	})
	if len(parts) > job.MaxRoles {
		parts = combine(parts, func(a, b *Pods) bool { return a.Size == b.Size })
	}
	if len(parts) > job.MaxRoles {
		return d, fmt.Errorf("has pods of %d sizes, at most %d are read", len(parts), job.MaxRoles)
	}
	for i, p := range parts {
		d.Roles[i] = job.Role{
			Name: p.Role, Tasks: p.Count, GPU: p.Size.GPU, GPUMemory: p.Size.GPUMemory, CPU: p.Size.CPU, Memory: p.Size.Memory, Slots: p.Size.Slots,
		}
		d.Types = job.JoinTypes(d.Types, p.Size.Types)
	}
	return d, nil
}

// combine counts pods that are alike together, where the first of them stands.
func combine(pods []Pods, alike func(a, b *Pods) bool) []Pods {
	var out []Pods
	for _, p := range pods {
		if p.Size.Empty() {
			continue
		}
		if i := slices.IndexFunc(out, func(o Pods) bool { return alike(&o, &p) }); i >= 0 {
			out[i].Count += p.Count
		} else {
			out = append(out, p)
		}
	}
	return out
}

// typeLabels are the labels of nodes that tell the type of their GPUs, the most telling
// first.
var typeLabels = []string{
	"nvidia.com/gpu.product", "amd.com/gpu.product-name", "cloud.google.com/gke-accelerator",
	"karpenter.k8s.aws/instance-gpu-name", "accelerator",
}

// TypeLabels are the labels of nodes that tell the type of their GPUs, the most telling
// first.
func TypeLabels() []string { return slices.Clone(typeLabels) }

// Match is a requirement of a node affinity.
type Match struct {
	Key, Operator string
	Values        []string
}

// Types are the acceptable GPU types that the node selector of a pod tells or else its
// required node affinity, which is a list of alternatives. They are joined by "|"; empty:
// nothing is told, at least not by all alternatives.
func Types(selector map[string]string, affinity [][]Match) string {
	for _, label := range typeLabels {
		if v := selector[label]; v != "" {
			return v
		}
	}
	types := ""
	for _, all := range affinity {
		told := false
		for _, m := range all {
			if m.Operator != "In" || !slices.Contains(typeLabels, m.Key) {
				continue
			}
			told = true
			for _, v := range m.Values {
				types = job.JoinTypes(types, v)
			}
		}
		if !told {
			return ""
		}
	}
	return types
}
