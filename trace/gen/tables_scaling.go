package gen

import "github.com/norn-scheduler/norn/perf"

// scaled is how fast a model trains with a global batch on 1, 2, 4, ... 64 GPUs, in steps per
// second; 0 where it was not measured or does not run.
type scaled struct {
	perf.Trained
	perf.Curve
}

// scaledModels are the models that jobs are taken to train which do not tell one, on A100s, 8 to
// a node. scaledBesides are further ones that traces name, on T4s, 4 to a node.
//
// Source: the throughputs published with ElasticFlow (ASPLOS 2023), rounded to four digits.
var (
	scaledModels = []scaled{
		{perf.Trained{Model: "bert", Batch: 64}, perf.Curve{6.031, 8.643, 10.36, 11.06, 10.99, 10.61, 9.246}},
		{perf.Trained{Model: "bert", Batch: 128}, perf.Curve{3.575, 5.679, 8.451, 9.994, 10.77, 10.71, 9.445}},
		{perf.Trained{Model: "deepspeech2", Batch: 32}, perf.Curve{3.023, 5.366, 7.544, 9.816, 12.88, 14.46}},
		{perf.Trained{Model: "deepspeech2", Batch: 64}, perf.Curve{1.6, 2.961, 5.253, 7.406, 9.401, 12.48, 13.97}},
		{perf.Trained{Model: "gpt2", Batch: 128}, perf.Curve{7.309, 11.95, 16.67, 18.7, 19.87, 18.6, 16.65}},
		{perf.Trained{Model: "gpt2", Batch: 256}, perf.Curve{4.097, 6.96, 11.44, 15.66, 17.87, 18.86, 15.64}},
		{perf.Trained{Model: "inception3", Batch: 64}, perf.Curve{4.821, 8.19, 11.69, 13.39, 13.69, 13.69, 13.05}},
		{perf.Trained{Model: "inception3", Batch: 128}, perf.Curve{2.562, 4.659, 7.804, 10.85, 12.8, 12.84, 12.34}},
		{perf.Trained{Model: "resnet50", Batch: 64}, perf.Curve{6.843, 11.84, 18.3, 21.27, 21.51, 22.75, 20.97}},
		{perf.Trained{Model: "resnet50", Batch: 128}, perf.Curve{3.655, 6.62, 11.22, 16.53, 20.16, 20.29, 21.07}},
		{perf.Trained{Model: "resnet50", Batch: 256}, perf.Curve{1.843, 3.449, 6.191, 10.38, 15.15, 17.82, 18.85}},
		{perf.Trained{Model: "resnet50_cifar10", Batch: 64}, perf.Curve{28.6, 27.62, 28.71, 27.57}},
		{perf.Trained{Model: "resnet50_cifar10", Batch: 128}, perf.Curve{26.4, 26.88, 27.96, 26.58}},
		{perf.Trained{Model: "resnet50_cifar10", Batch: 256}, perf.Curve{19.65, 24.03, 25.54, 25.25}},
		{perf.Trained{Model: "vgg16", Batch: 64}, perf.Curve{5.053, 9.036, 14.76, 19.33, 25.89, 30.56, 29.53}},
		{perf.Trained{Model: "vgg16", Batch: 128}, perf.Curve{2.625, 4.874, 8.721, 13.57, 18.06, 23.62, 25.78}},
		{perf.Trained{Model: "vgg16", Batch: 256}, perf.Curve{1.314, 2.523, 4.642, 7.996, 12.62, 16.37, 20.66}},
	}
	scaledBesides = []scaled{
		{perf.Trained{Model: "bert", Batch: 384}, perf.Curve{0.03441, 0.07202, 0.1427, 0.1935, 0.3596, 0.489, 0.4693}},
		{perf.Trained{Model: "cifar10", Batch: 2048}, perf.Curve{0.7124, 1.193, 2.535, 3.847, 6.477, 4.513, 3.714}},
		{perf.Trained{Model: "cifar10", Batch: 4096}, perf.Curve{0.3563, 0.5971, 1.266, 2.225, 4.474, 4.44, 3.315}},
		{perf.Trained{Model: "deepspeech2", Batch: 320}, perf.Curve{0.09845, 0.1925, 0.3813, 0.6467, 0.787, 0.8778}},
		{perf.Trained{Model: "deepspeech2", Batch: 640}, perf.Curve{0.04923, 0.09688, 0.1928, 0.3665, 0.6768, 0.7195, 0.8375}},
		{perf.Trained{Model: "imagenet", Batch: 3200}, perf.Curve{0.06776, 0.1342, 0.2502, 0.4942, 0.9558, 1.44, 1.598}},
		{perf.Trained{Model: "imagenet", Batch: 6400}, perf.Curve{0.03388, 0.06717, 0.1252, 0.2475, 0.4798, 0.9147, 1.271}},
		{perf.Trained{Model: "ncf", Batch: 32768}, perf.Curve{46.91, 37.62, 56.34, 23.23, 32.49, 26.05, 22.48}},
		{perf.Trained{Model: "yolov3", Batch: 64}, perf.Curve{0.4381, 0.8288, 1.315, 0.611, 0.8515}},
	}
)
