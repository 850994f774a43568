package gen

import (
	"time"

	"github.com/norn-scheduler/norn/perf"
)

// Family is a foundation model with the data sets that it is tuned on.
type Family struct {
	Name string
	Step perf.Step   // how long a step of its training takes
	Cost perf.Switch // beginning on GPUs with and without its runtime
	Sets []DataSet

	// How many epochs the tasks take at least and at most. The paper does not say;
	// they are set so that jobs take about as long as it reports of its own.
	Epochs [2]float64

	// The speedup to the target from another task's weights: lognormal with these
	// quartiles, cut to 0.5 to 10. [Ymir, figure of random pairs]
	Low, High float64
	// Correlation of the similarity of two tasks with their gain. [Ymir, table]
	Correlation float64
	// How wrong K is foretold: mean and largest relative error, alone and merged.
	Alone, Merged Wrong
	// Measured gains, as in titan.Model, in the order of Sets; nil: they are drawn.
	After, Together [][]float64

	// LossNoise is the error of each loss of a measured trace, so large that K is foretold
	// from it as wrongly as Alone says.
	LossNoise float64
}

// Wrong is the size of relative errors.
type Wrong struct{ Mean, Most float64 }

// DataSet is what a task is trained on.
type DataSet struct {
	Name    string
	Samples float64
	Batch   int     // global
	Share   float64 // of the jobs
	Epochs  float64 // that it takes, as measured; 0: they are drawn
}

// Families are the three of Ymir's evaluation. The steps of vit and roberta are
// fitted to Titan's measurements on V100s (largest error of the single-GPU fit:
// 0.5 %). Their data sets, batch sizes and shares are those of Titan's
// workloads for ViT-B and RoBERTa-B. The sizes of the sets are those of their
// publishers. Nothing measured of vicuna was at hand: its step is put together
// from the arithmetic of a 7-billion model with adapters on an A100 and from
// Titan's synchronisation of RoBERTa-large, and its sets are invented.
func Families() []Family {
	const k = 1000
	return []Family{
		{
			Name: "vit", Step: perf.Step{Fixed: 0.0175, Sample: 0.00322, Batch: 256, Near: 0.005, NearGPU: 0.00475, Far: 0.0189, FarGPU: 0.00561},
			Cost: perf.Switch{Cold: 46 * time.Second, Warm: 3 * time.Second, Save: 12 * time.Second, Reverse: true},
			Sets: []DataSet{
				{"imagenette", 9.469 * k, 48, 50, 0}, {"imagenet-split-1", 128 * k, 384, 48, 0}, {"cifar100", 50 * k, 576, 48, 0},
				{"cat-and-dog", 8 * k, 576, 47, 0}, {"fashion-mnist", 60 * k, 576, 40, 0}, {"imagenet-split-0", 128 * k, 192, 29, 0},
				{"mnist", 60 * k, 48, 27, 0}, {"food101", 75.75 * k, 48, 18, 0}, {"imagenet-split-2", 128 * k, 48, 13, 0},
			},
			Epochs: [2]float64{6, 24}, Low: 0.75, High: 2.1, Correlation: 0.44, Alone: Wrong{0.057, 0.081}, Merged: Wrong{0.154, 0.268}, LossNoise: 0.0015,
		},
		{
			Name: "roberta", Step: perf.Step{Fixed: 0.0206, Sample: 0.01055, Batch: 52, Near: 0.0005, Far: 0.0065, FarGPU: 0.001825},
			Cost: perf.Switch{Cold: 52 * time.Second, Warm: 4 * time.Second, Save: 16 * time.Second, Reverse: true},
			Sets: []DataSet{
				{"qnli", 104.743 * k, 128, 36, 0}, {"sst2", 67.349 * k, 128, 36, 0}, {"rte", 2.49 * k, 16, 12, 0},
				{"wnli", 0.635 * k, 16, 11, 0}, {"stsb", 5.749 * k, 16, 8, 0}, {"mrpc", 3.668 * k, 128, 6, 0},
				{"qqp", 363.846 * k, 64, 5, 0}, {"mnli", 392.702 * k, 192, 4, 0}, {"snli", 550.152 * k, 64, 2, 0},
			},
			Epochs: [2]float64{1, 4}, Low: 1, High: 3, Correlation: 0.79, Alone: Wrong{0.083, 0.248}, Merged: Wrong{0.137, 0.316}, LossNoise: 0.043,
		},
		{
			Name: "vicuna", Step: perf.Step{Fixed: 0.05, Sample: 0.1, Batch: 8, Near: 0.0048, Far: 0.0073, FarGPU: 0.0018},
			Cost: perf.Switch{Cold: 63 * time.Second, Warm: 8 * time.Second, Save: 33 * time.Second, Reverse: true},
			Sets: []DataSet{
				{"dialogue", 15 * k, 32, 1, 0}, {"instruct", 52 * k, 64, 1, 0}, {"math", 7.5 * k, 32, 1, 0},
				{"code", 20 * k, 64, 1, 0}, {"summary", 12 * k, 32, 1, 0}, {"medical", 6 * k, 32, 1, 0},
				{"legal", 3 * k, 16, 1, 0}, {"finance", 5 * k, 16, 1, 0}, {"roleplay", 9 * k, 32, 1, 0},
			},
			Epochs: [2]float64{2, 8}, Low: 0.75, High: 1.55, Correlation: 0.57, Alone: Wrong{0.113, 0.223}, Merged: Wrong{0.111, 0.329}, LossNoise: 0.07,
		},
	}
}

// askedSizes are the sizes that jobs ask for in Titan's workloads, and how many of
// a hundred ask for no more.
var askedSizes = []struct {
	gpus int
	upTo float64
}{{1, 0.41}, {2, 0.50}, {4, 0.55}, {8, 0.99}, {16, 1}}
