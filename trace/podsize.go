package trace

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/norn-scheduler/norn/cluster/unit"
)

// podSize is what a pod asks for.
type podSize struct {
	gpu       unit.Milli
	gpuMemory unit.Bytes // of a MIG slice
	cpu       unit.Milli
	memory    unit.Bytes
	types     string
}

func (s podSize) empty() bool { return s.gpu == 0 && s.cpu == 0 && s.memory == 0 }

// size is the sum over the containers, or what the largest init container asks
// for when that is more.
func (p *pod) size() (podSize, error) {
	var sum, first podSize
	for i := range p.Spec.Containers {
		one, err := p.Spec.Containers[i].size()
		if err != nil {
			return sum, err
		}
		sum.plus(one)
	}
	for i := range p.Spec.Init {
		one, err := p.Spec.Init[i].size()
		if err != nil {
			return sum, err
		}
		if p.Spec.Init[i].RestartPolicy == "Always" { // a sidecar
			sum.plus(one)
			continue
		}
		first.gpu, first.cpu, first.memory = max(first.gpu, one.gpu), max(first.cpu, one.cpu), max(first.memory, one.memory)
	}
	sum.gpu, sum.cpu, sum.memory = max(sum.gpu, first.gpu), max(sum.cpu, first.cpu), max(sum.memory, first.memory)
	if sum.gpu > unit.One { // several parts of GPUs are rounded up together
		sum.gpu = (sum.gpu + unit.One - 1) / unit.One * unit.One
	}
	sum.types = p.gpuTypes()
	return sum, nil
}

func (s *podSize) plus(o podSize) {
	s.gpu += o.gpu
	s.cpu += o.cpu
	s.memory += o.memory
	s.gpuMemory = max(s.gpuMemory, o.gpuMemory)
}

// size is what a container asks for: requests, or limits where those are
// missing.
func (c *podContainer) size() (podSize, error) {
	var s podSize
	for _, name := range resourceNames(c) {
		text, ok := c.Resources.Requests[name]
		if !ok {
			text = c.Resources.Limits[name]
		}
		v, err := quantity(text)
		if err != nil {
			return s, fmt.Errorf("%s: %w", name, err)
		}
		switch {
		case name == "cpu":
			s.cpu = unit.Milli(math.Round(v * 1000))
		case name == "memory":
			s.memory = unit.Bytes(v)
		case name == "nvidia.com/gpu" || name == "amd.com/gpu" || name == "nvidia.com/gpu.shared":
			s.gpu += unit.Milli(math.Round(v * 1000))
		case strings.HasPrefix(name, "nvidia.com/mig-"):
			part, memory := migSlice(strings.TrimPrefix(name, "nvidia.com/mig-"))
			s.gpu += unit.Milli(math.Round(v * float64(part)))
			s.gpuMemory = max(s.gpuMemory, memory)
		}
	}
	return s, nil
}

func resourceNames(c *podContainer) []string {
	var names []string
	for n := range c.Resources.Requests {
		names = append(names, n)
	}
	for n := range c.Resources.Limits {
		if _, ok := c.Resources.Requests[n]; !ok {
			names = append(names, n)
		}
	}
	slices.Sort(names)
	return names
}

// migSlice reads a profile such as 3g.20gb: a GPU has seven slices.
func migSlice(profile string) (unit.Milli, unit.Bytes) {
	slices, memory, _ := strings.Cut(profile, "g.")
	n, err := strconv.Atoi(slices)
	if err != nil || n < 1 || n > 7 {
		n = 7
	}
	memory, _, _ = strings.Cut(memory, "gb")
	gb, err := strconv.Atoi(memory)
	if err != nil || gb < 0 || gb > 1e4 {
		gb = 0
	}
	return unit.Milli((n*1000 + 6) / 7), unit.Bytes(gb) * unit.GiB
}

var quantitySuffixes = []struct {
	suffix string
	factor float64
}{
	{"Ki", 1 << 10}, {"Mi", 1 << 20}, {"Gi", 1 << 30}, {"Ti", 1 << 40}, {"Pi", 1 << 50}, {"Ei", 1 << 60},
	{"n", 1e-9}, {"u", 1e-6}, {"m", 1e-3}, {"k", 1e3}, {"M", 1e6}, {"G", 1e9}, {"T", 1e12}, {"P", 1e15}, {"E", 1e18},
}

// maxQuantity bounds what a container may ask for, in units.
const maxQuantity = 1 << 50

// quantity reads an amount as Kubernetes writes it: 500m, 2, 16Gi, 1e3.
func quantity(text string) (float64, error) {
	factor := 1.0
	number := text
	for _, s := range quantitySuffixes {
		if rest, ok := strings.CutSuffix(text, s.suffix); ok {
			number, factor = rest, s.factor
			break
		}
	}
	v, err := strconv.ParseFloat(number, 64)
	if v *= factor; err != nil || math.IsNaN(v) || v < 0 || v > maxQuantity {
		return 0, fmt.Errorf("%q is not a quantity", text)
	}
	return v, nil
}

// typeLabels are the labels of nodes that tell the type of their GPUs.
var typeLabels = []string{
	"nvidia.com/gpu.product", "amd.com/gpu.product-name", "cloud.google.com/gke-accelerator",
	"karpenter.k8s.aws/instance-gpu-name", "accelerator",
}

// gpuTypes are the acceptable GPU types that the node selector and the required
// node affinity tell, joined by "|".
func (p *pod) gpuTypes() string {
	for _, label := range typeLabels {
		if v := p.Spec.NodeSelector[label]; v != "" {
			return v
		}
	}
	types := ""
	if p.Spec.Affinity == nil {
		return types
	}
	for _, term := range p.Spec.Affinity.Node.Required.Terms {
		for _, m := range term.Match {
			if m.Operator != "In" || !slices.Contains(typeLabels, m.Key) {
				continue
			}
			for _, v := range m.Values {
				types = joinTypes(types, v)
			}
		}
	}
	return types
}
