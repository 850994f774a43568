package tiresias

import (
	"slices"
	"strings"

	"github.com/norn-scheduler/norn/sched"
)

// history is the service of the jobs that have ended, from which the Gittins
// index is judged. New samples count once there are enough of them to matter (a
// fiftieth of those that count already), so that the cost of sorting them in is
// shared.
type history struct {
	samples []float64 // that count, sorted
	sums    []float64 // sums[i] is the sum of the first i samples
	fresh   []float64 // that do not count yet
}

// add tells whether the index has changed.
func (h *history) add(service float64) bool {
	h.fresh = append(h.fresh, service)
	if len(h.fresh) < 1+len(h.samples)/50 {
		return false
	}
	h.samples = append(h.samples, h.fresh...)
	h.fresh = h.fresh[:0]
	slices.Sort(h.samples)
	h.sums = append(h.sums[:0], 0)
	for i, s := range h.samples {
		h.sums = append(h.sums, h.sums[i]+s)
	}
	return true
}

// learn adds the jobs that ended before the policy was made, in the order in
// which they ended.
func (h *history) learn(v *sched.View, width func(sched.Job) float64) {
	for j := range v.Past() {
		h.add(j.RunTime().Seconds() * width(j))
	}
}

// index is the Gittins index of a job with attained service a over the next
// quantum of service, in 1/GPU-seconds: with S the service of a job,
//
//	P(S - a <= quantum | S > a) / E[min(S - a, quantum) | S > a]
//
// It is 0 when no known job had more service than a.
func (h *history) index(a, quantum float64) float64 {
	first := after(h.samples, a)
	last := after(h.samples, a+quantum)
	more := len(h.samples) - first
	if more == 0 {
		return 0
	}
	ends := last - first
	spent := h.sums[last] - h.sums[first] - a*float64(ends) + quantum*float64(more-ends)
	if spent <= 0 {
		return 0
	}
	return float64(ends) / spent
}

// after is the number of samples that are not larger than a.
func after(samples []float64, a float64) int {
	i, _ := slices.BinarySearchFunc(samples, a, func(s, a float64) int {
		if s <= a {
			return -1
		}
		return 1
	})
	return i
}

// skews are the shares of the largest tensor in all tensors of a model, from
// the tensor sizes published with Tiresias.
var skews = []struct {
	model string
	skew  float64
}{
	{"alexnet", 0.611}, {"vgg11", 0.774}, {"vgg16", 0.744}, {"vgg19", 0.717},
	{"inception3", 0.138}, {"inception4", 0.044}, {"resnet50", 0.112}, {"resnet101", 0.075}, {"resnet152", 0.060},
}

// Skew is the share of the largest tensor in all tensors of a model; known is
// false for models about which nothing is known.
func Skew(model string) (skew float64, known bool) {
	for _, s := range skews {
		if strings.EqualFold(s.model, model) {
			return s.skew, true
		}
	}
	return 0, false
}
