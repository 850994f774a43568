package shockwave

import (
	"math"
	"slices"
)

// samples is how many samples an epoch of each model has.
var samples = map[string]int{
	"ResNet-18": 50000, "ResNet-50": 100000, "Transformer": 10000, "LM": 59675, "Recommendation": 117907, "CycleGAN": 6287, "A3C": 4,
}

// largest is the largest batch size that each model is measured with.
var largest = map[string]int{"ResNet-18": 256, "ResNet-50": 128, "Transformer": 128, "LM": 80, "Recommendation": 8192}

// shape is a model as a job begins with it.
type shape struct {
	model       string
	batch, gpus int
}

// doublings is at which epochs jobs under GNS double their batch size.
var doublings = map[shape][]int{
	{"ResNet-18", 16, 1}: {31, 41, 51, 71}, {"ResNet-18", 32, 1}: {21, 31, 51}, {"ResNet-18", 64, 1}: {11, 31}, {"ResNet-18", 128, 1}: {11},
	{"ResNet-18", 16, 2}: {21, 31, 91, 111}, {"ResNet-18", 32, 2}: {11, 21, 41}, {"ResNet-18", 64, 2}: {21, 41}, {"ResNet-18", 128, 2}: {41},
	{"ResNet-18", 16, 4}: {11, 21, 81, 91}, {"ResNet-18", 32, 4}: {21, 31, 61}, {"ResNet-18", 64, 4}: {11, 61}, {"ResNet-18", 128, 4}: {11},
	{"ResNet-50", 64, 1}: {101}, {"ResNet-50", 32, 2}: {101, 111}, {"ResNet-50", 64, 2}: {81}, {"ResNet-50", 32, 4}: {131, 221}, {"ResNet-50", 64, 4}: {191},
	{"LM", 5, 1}: {31, 41, 61, 71}, {"LM", 10, 1}: {11, 21, 41}, {"LM", 20, 1}: {11, 41}, {"LM", 40, 1}: {11},
	{"LM", 5, 2}: {31, 51, 61, 71}, {"LM", 10, 2}: {11, 31, 41}, {"LM", 20, 2}: {31, 41}, {"LM", 40, 2}: {11},
	{"LM", 5, 4}: {11, 31, 71, 91}, {"LM", 10, 4}: {11, 31, 61}, {"LM", 20, 4}: {11, 61}, {"LM", 40, 4}: {61},
	{"Recommendation", 512, 1}: {21, 41, 71, 91}, {"Recommendation", 1024, 1}: {21, 51, 91}, {"Recommendation", 2048, 1}: {21, 41}, {"Recommendation", 4096, 1}: {41},
}

// gns is the batch size of each epoch under GNS. The last epoch goes back to the
// first batch size where there is a second doubling at all, as the published loop
// ends before it.
func gns(s shape, epochs int) []int {
	out := slices.Repeat([]int{s.batch}, epochs)
	at := doublings[s]
	if len(at) == 0 || epochs <= at[0] {
		return out
	}
	for k, from := range at {
		to := epochs
		if k+1 < len(at) {
			to = min(to, at[k+1])
		}
		for e := from; e < to; e++ {
			if k > 0 && e+1 >= epochs {
				break
			}
			out[e] = min(s.batch<<(k+1), largest[s.model])
		}
	}
	return out
}

// doubled is the batch size of an epoch under GNS, in a job without end.
func doubled(s shape, epoch int) int {
	n := 0
	for _, from := range doublings[s] {
		if epoch >= from {
			n++
		}
	}
	if n == 0 {
		return s.batch
	}
	return min(s.batch<<n, largest[s.model])
}

// critical tells whether an epoch is one in which Accordion keeps to the first batch
// size.
func critical(s shape, epoch int) bool {
	head := 10
	switch s.model {
	case "LM":
	case "Recommendation":
		switch s.batch {
		case 512, 1024:
			head = 30
		case 2048:
			head = 40
		}
	case "ResNet-50":
		return epoch%30 < 10
	case "ResNet-18":
		if s.batch == 256 {
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

// accordion is the batch size of each epoch under Accordion, as the scheduler is told
// it beforehand: never larger before 30 % of the job, which the job itself does not
// keep to.
func accordion(s shape, epochs int) []int {
	out := slices.Repeat([]int{s.batch}, epochs)
	for e := range out {
		told := critical(s, e) || s.model == "Recommendation" && (e >= 60 && e < 70 || e >= 80 && e < 90)
		if !told && float64(e) > float64(epochs)*0.3 {
			out[e] = largest[s.model]
		}
	}
	return out
}

// iterations is how many steps an epoch takes.
func iterations(model string, batch int) int {
	return int(math.Ceil(float64(samples[model]) / float64(batch)))
}
