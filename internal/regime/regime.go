// Package regime has the rules by which training jobs change their batch size as they
// go on, as the traces of Shockwave (Zheng et al., NSDI 2023) have them.
//
// Nouns: a Shape is a model as a job begins with it; epochs are counted from 0; a batch
// size is global, in samples. Under GNS a job doubles its batch at certain epochs, as
// the noise of its gradients grows. Under Accordion it takes the largest batch except in
// critical epochs, in which gradients change fast.
//
// Source: tables and rules of the code published with the paper (uw-mad-dash/shockwave).
package regime

import "math"

// samples is how many samples an epoch of each model has.
var samples = map[string]int{
	"ResNet-18": 50000, "ResNet-50": 100000, "Transformer": 10000, "LM": 59675, "Recommendation": 117907, "CycleGAN": 6287, "A3C": 4,
}

// largest is the largest batch size that each model is measured with.
var largest = map[string]int{"ResNet-18": 256, "ResNet-50": 128, "Transformer": 128, "LM": 80, "Recommendation": 8192}

// Shape is a model as a job begins with it.
type Shape struct {
	Model       string
	Batch, GPUs int
}

// doublings is at which epochs jobs under GNS double their batch size.
var doublings = map[Shape][]int{
	{"ResNet-18", 16, 1}: {31, 41, 51, 71}, {"ResNet-18", 32, 1}: {21, 31, 51}, {"ResNet-18", 64, 1}: {11, 31}, {"ResNet-18", 128, 1}: {11},
	{"ResNet-18", 16, 2}: {21, 31, 91, 111}, {"ResNet-18", 32, 2}: {11, 21, 41}, {"ResNet-18", 64, 2}: {21, 41}, {"ResNet-18", 128, 2}: {41},
	{"ResNet-18", 16, 4}: {11, 21, 81, 91}, {"ResNet-18", 32, 4}: {21, 31, 61}, {"ResNet-18", 64, 4}: {11, 61}, {"ResNet-18", 128, 4}: {11},
	{"ResNet-50", 64, 1}: {101}, {"ResNet-50", 32, 2}: {101, 111}, {"ResNet-50", 64, 2}: {81}, {"ResNet-50", 32, 4}: {131, 221}, {"ResNet-50", 64, 4}: {191},
	{"LM", 5, 1}: {31, 41, 61, 71}, {"LM", 10, 1}: {11, 21, 41}, {"LM", 20, 1}: {11, 41}, {"LM", 40, 1}: {11},
	{"LM", 5, 2}: {31, 51, 61, 71}, {"LM", 10, 2}: {11, 31, 41}, {"LM", 20, 2}: {31, 41}, {"LM", 40, 2}: {11},
	{"LM", 5, 4}: {11, 31, 71, 91}, {"LM", 10, 4}: {11, 31, 61}, {"LM", 20, 4}: {11, 61}, {"LM", 40, 4}: {61},
	{"Recommendation", 512, 1}: {21, 41, 71, 91}, {"Recommendation", 1024, 1}: {21, 51, 91}, {"Recommendation", 2048, 1}: {21, 41}, {"Recommendation", 4096, 1}: {41},
}

// Doublings is at which epochs a job under GNS doubles its batch size.
func (s Shape) Doublings() []int { return doublings[s] }

// GNS is the batch size of an epoch under GNS.
func (s Shape) GNS(epoch int) int {
	n := 0
	for _, from := range doublings[s] {
		if epoch >= from {
			n++
		}
	}
	if n == 0 {
		return s.Batch
	}
	return min(s.Batch<<n, largest[s.Model])
}

// Critical tells whether an epoch is one in which Accordion keeps to the first batch
// size.
func (s Shape) Critical(epoch int) bool {
	head := 10
	switch s.Model {
	case "LM":
	case "Recommendation":
		switch s.Batch {
		case 512, 1024:
			head = 30
		case 2048:
			head = 40
		}
	case "ResNet-50":
		return epoch%30 < 10
	case "ResNet-18":
		if s.Batch == 256 {
			head = 20
		}
		if epoch >= 150 && epoch < 160 || epoch >= 250 && epoch < 260 {
			return true
		}
	default:
		return true // the model never changes
	}
	return epoch < head
}

// Accordion is the batch size of an epoch under Accordion, in a job of so many: never a
// larger one in the first 30 % of them.
func (s Shape) Accordion(epoch, epochs int) int {
	critical := s.Critical(epoch) || s.Model == "Recommendation" && (epoch >= 60 && epoch < 70 || epoch >= 80 && epoch < 90)
	if critical || float64(epoch) <= float64(epochs)*0.3 {
		return s.Batch
	}
	return largest[s.Model]
}

// Samples is how many samples an epoch of a model has; 0: it is not known.
func Samples(model string) int { return samples[model] }

// Largest is the largest batch size with which a model was measured.
func Largest(model string) int { return largest[model] }

// Iterations is how many steps an epoch of a known model takes.
func Iterations(model string, batch int) int {
	return int(math.Ceil(float64(samples[model]) / float64(batch)))
}
