package perf

import (
	"math"
	"strings"
	"time"

	"github.com/norn-scheduler/norn/cluster/unit"
)

// Large is a large model as far as its iterations go that is laid out in parallel, with the best
// plan that there is for its GPUs: by pipelines, by tensors, by data.
type Large struct {
	Name   string        // bert_1.3B
	Base   time.Duration // of an iteration of 256 samples on one V100, if it had the memory
	Memory unit.Bytes    // of all its GPUs together, at least
	Grows  float64       // exponent of the batch
}

// largeModels and largeTypes are a fit by least squares to the 318 best plans that were measured
// for Arena (EuroSys 2026): half are within 11 %, nine in ten within 28 %. The memory is the
// least that a plan was found for.
var largeModels = []Large{
	{"bert_760M", 26300 * time.Millisecond, 32 * unit.GiB, 0.92}, {"bert_1.3B", 42600 * time.Millisecond, 48 * unit.GiB, 0.92},
	{"bert_2.6B", 67400 * time.Millisecond, 128 * unit.GiB, 0.92}, {"bert_6.7B", 149500 * time.Millisecond, 256 * unit.GiB, 0.92},
	{"moe_690M", 9100 * time.Millisecond, 24 * unit.GiB, 0.90}, {"moe_1.3B", 16 * time.Second, 48 * unit.GiB, 0.90},
	{"moe_2.4B", 22400 * time.Millisecond, 80 * unit.GiB, 0.90}, {"moe_10B", 38800 * time.Millisecond, 160 * unit.GiB, 0.90},
	{"moe_27B", 49100 * time.Millisecond, 512 * unit.GiB, 0.90},
	{"wide_resnet_500M", 23100 * time.Millisecond, 32 * unit.GiB, 0.88}, {"wide_resnet_1B", 55 * time.Second, 64 * unit.GiB, 0.88},
	{"wide_resnet_2B", 104900 * time.Millisecond, 96 * unit.GiB, 0.88}, {"wide_resnet_4B", 188100 * time.Millisecond, 160 * unit.GiB, 0.88},
	{"wide_resnet_6.8B", 356200 * time.Millisecond, 320 * unit.GiB, 0.88},
}

// largeType is what such models make of GPUs of a type.
type largeType struct {
	name   string
	time   float64 // of an iteration on one of them, over that on a V100
	scales float64 // exponent of the number of GPUs
	memory unit.Bytes
}

var largeTypes = []largeType{
	{"v100", 1, 0.84, 32 * unit.GiB}, {"a100", 0.45, 0.80, 40 * unit.GiB}, {"a40", 0.772, 0.55, 48 * unit.GiB}, {"a10", 0.934, 0.59, 24 * unit.GiB},
}

// LargeModels are the large models of which iterations were measured, from the smallest of each
// family.
func LargeModels() []Large { return append([]Large(nil), largeModels...) }

// LargeName is the name of a model as LargeModels has it: traces write bert__1.3B, too.
func LargeName(model string) string { return strings.ReplaceAll(model, "__", "_") }

// LargeModel finds a large model by its name; ok is false where nothing was measured.
func LargeModel(name string) (m Large, ok bool) {
	for _, m := range largeModels {
		if m.Name == LargeName(name) {
			return m, true
		}
	}
	return Large{}, false
}

// LargeType tells whether iterations were measured on GPUs of a type, whatever its case.
func LargeType(gpu string) bool { return typeOfLarge(gpu) != nil }

func typeOfLarge(gpu string) *largeType {
	for i := range largeTypes {
		if strings.EqualFold(largeTypes[i].name, gpu) {
			return &largeTypes[i]
		}
	}
	return nil
}

// Iteration is how long an iteration of so many samples takes on GPUs of a type, with the best
// plan, whether they have the memory for it or not. ok is false for a type that was not measured.
func (m Large) Iteration(gpu string, gpus, batch int) (seconds float64, ok bool) {
	t := typeOfLarge(gpu)
	if t == nil || gpus < 1 || batch < 1 {
		return 0, false
	}
	return m.Base.Seconds() * t.time * math.Pow(float64(batch)/256, m.Grows) * math.Pow(float64(gpus), -t.scales), true
}
