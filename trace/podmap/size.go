package podmap

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
)

// Amounts are quantities of resources by their names in Kubernetes, in units: cores,
// bytes, devices.
type Amounts map[string]float64

// Names of resources that are not counted, and the prefix of those that are slices of a
// GPU.
const (
	CPU         = "cpu"
	Memory      = "memory"
	slicePrefix = "nvidia.com/mig-"
)

// IsGPU tells whether a resource is whole GPUs, or parts of GPUs that several pods share.
func IsGPU(name string) bool {
	return name == "nvidia.com/gpu" || name == "amd.com/gpu" || name == "nvidia.com/gpu.shared"
}

// IsSlice tells whether a resource is slices of GPUs (MIG).
func IsSlice(name string) bool { return strings.HasPrefix(name, slicePrefix) }

// Container is what a container asks for.
type Container struct {
	Asks    Amounts
	Sidecar bool // of init containers: it goes on while the others run
}

// Spec is what the parts of a pod ask for.
type Spec struct {
	Containers, Init []Container // in order
	Whole            Amounts     // asked for by the pod as a whole, in place of its containers
	Overhead         Amounts     // of the runtime
}

// Asked is what a container asks for of each resource: its requests, and its limits of
// resources that it does not request.
func Asked[K ~string, V any](requests, limits map[K]V) map[K]V {
	all := make(map[K]V, len(requests)+len(limits))
	maps.Copy(all, limits)
	maps.Copy(all, requests)
	return all
}

// Amounts is what the pod needs of its node: the sum over its containers and sidecars, or
// the most that is needed while an init container runs beside the sidecars before it,
// and the overhead. Source: "Pod resource requests" of the documentation of Kubernetes.
func (p *Spec) Amounts() Amounts {
	sum, beside, first := Amounts{}, Amounts{}, Amounts{}
	for i := range p.Containers {
		sum.add(p.Containers[i].Asks)
	}
	for i := range p.Init {
		c := &p.Init[i]
		if c.Sidecar {
			sum.add(c.Asks)
			beside.add(c.Asks)
			first.raise(beside)
			continue
		}
		with := maps.Clone(beside)
		with.add(c.Asks)
		first.raise(with)
	}
	sum.raise(first)
	maps.Copy(sum, p.Whole)
	sum.add(p.Overhead)
	return sum
}

func (a Amounts) add(more Amounts) {
	for name, v := range more {
		a[name] += v
	}
}

// raise brings each amount to that of another list, where that is more.
func (a Amounts) raise(to Amounts) {
	for name, v := range to {
		a[name] = max(a[name], v)
	}
}

// Size is what a pod asks for, as jobs count it. Sizes are comparable.
type Size struct {
	GPU       unit.Milli
	GPUMemory unit.Bytes // of a slice
	CPU       unit.Milli
	Memory    unit.Bytes
	Slots     job.Slots
	Types     string // acceptable GPU types joined by "|"; empty: any
}

// Empty tells whether nothing is asked for.
func (s *Size) Empty() bool { return s.GPU == 0 && s.CPU == 0 && s.Memory == 0 && s.Slots == "" }

// Size counts GPUs, with slices as parts of them, cores and memory. More than one GPU is
// a whole number of them, rounded up.
func (a Amounts) Size() Size {
	var s Size
	for _, name := range slices.Sorted(maps.Keys(a)) {
		v := a[name]
		switch {
		case name == CPU:
			s.CPU = Milli(v)
		case name == Memory:
			s.Memory = unit.Bytes(v)
		case IsGPU(name):
			s.GPU += Milli(v)
		case IsSlice(name):
			part, memory := Slice(strings.TrimPrefix(name, slicePrefix))
			s.GPU += unit.Milli(math.Round(v * float64(part)))
			if v > 0 {
				s.GPUMemory = max(s.GPUMemory, memory)
			}
		}
	}
	if s.GPU > unit.One { // several parts of GPUs are rounded up together
		s.GPU = (s.GPU + unit.One - 1) / unit.One * unit.One
	}
	return s
}

// Milli is an amount in thousandths.
func Milli(v float64) unit.Milli { return unit.Milli(math.Round(v * 1000)) }

// Slice reads the profile of a slice such as 3g.20gb: which part of a GPU it is, and its
// memory. A GPU has seven slices; a profile that cannot be read is a whole GPU.
func Slice(profile string) (unit.Milli, unit.Bytes) {
	parts, memory, _ := strings.Cut(profile, "g.")
	n, err := strconv.Atoi(parts)
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

// suffixes are the units of quantities.
var suffixes = map[string]float64{
	"Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30, "Ti": 1 << 40, "Pi": 1 << 50, "Ei": 1 << 60,
	"n": 1e-9, "u": 1e-6, "m": 1e-3, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18,
}

// MaxQuantity bounds what a pod may ask for of a resource, in units.
const MaxQuantity = 1 << 50

// Quantity reads an amount as Kubernetes writes it: 500m, 2, 16Gi, 1e3. It fails on text
// that is none, on negative amounts and beyond MaxQuantity.
func Quantity(text string) (float64, error) {
	number := strings.TrimRight(text, "inumkKMGTPE")
	factor := 1.0
	if suffix := text[len(number):]; suffix != "" {
		factor = suffixes[suffix]
	}
	v, err := strconv.ParseFloat(number, 64)
	if v *= factor; err != nil || factor == 0 || math.IsNaN(v) || v < 0 || v > MaxQuantity {
		return 0, fmt.Errorf("%q is not a quantity", text)
	}
	return v, nil
}
