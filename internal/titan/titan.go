// Package titan has what was measured for Titan, a scheduler of jobs that tune
// foundation models. It tells how long the steps of four models take and how
// often their tasks go through their data. They do so less often where a job
// goes on from what another one has learnt, or is trained with it.
//
// Nouns: a model is the backbone that jobs tune. A task is the data set that it
// is tuned on. A pass is one time through a data set. Times are in seconds.
//
// Source: "Titan: A Scheduler for Foundation Model Fine-tuning Workloads", SoCC
// 2022, and the measurements published with it (gaow0007/TitanSched, MIT). Steps
// are fitted to those on V100s: half of them are off by no more than 1.1 %, none
// by more than 10 %.
package titan

import (
	"time"

	"github.com/norn-scheduler/norn/perf"
)

// The cluster of the published simulations.
const (
	NodeGPUs = 4
	MostGPUs = 32               // on which a job runs
	Save     = 30 * time.Second // to write and read the state of a job, when it begins or changes its GPUs
)

// Model is a backbone that jobs tune.
type Model struct {
	Name  string
	Step  perf.Step
	Least int           // samples that a GPU takes in a round, at least
	Begin time.Duration // to load it onto GPUs, beside Save
	Tasks []Task

	// After[i][j] is how many passes task j needs from the weights of task i, and
	// Together[i][j] how many when both are trained as one. 0: it was not measured.
	After, Together [][]float64
}

// Task is a data set that a model is tuned on.
type Task struct {
	Name    string
	Samples float64
	Batch   int     // global
	Passes  float64 // alone, until its target is reached
	Jobs    float64 // of the published workloads
}

// How often tasks go through their data.
const (
	none  = 0
	never = 20 // not within the ten passes that were tried; taken to be twice as many
)

// Named is the model of a name.
func Named(name string) (Model, bool) {
	for _, m := range Models() {
		if m.Name == name {
			return m, true
		}
	}
	return Model{}, false
}

// Task is the task of a name.
func (m *Model) Task(name string) (Task, bool) {
	for _, t := range m.Tasks {
		if t.Name == name {
			return t, true
		}
	}
	return Task{}, false
}

// Most is the most GPUs on which a job with a batch runs: each takes Least samples or more.
func (m *Model) Most(batch int) int { return max(1, min(MostGPUs, batch/m.Least)) }

// Models are the four of the published workloads, the tasks of each by how many jobs have
// them.
func Models() []Model { return []Model{vit(), vitLarge(), robertaBase(), robertaLarge()} }

func vit() Model {
	return Model{
		Name: "vit", Step: perf.Step{Fixed: 0.01754, Sample: 0.003223, Batch: 256, Near: 0.00477, NearGPU: 0.00487, Far: 0.01911, FarGPU: 0.0056},
		Least: 4, Begin: 4161 * time.Millisecond,
		Tasks: []Task{
			{"frgfm#imagenette", 9469, 48, 9, 223}, {"Bingsu#Cat_and_Dog", 8000, 576, 7.96, 212}, {"fashion_mnist", 60000, 576, 10, 191},
			{"cifar100", 50000, 576, 10, 188}, {"imagenet-split-1", 75000, 384, 10, 187}, {"imagenet-split-0", 25000, 192, 10, 151},
			{"mnist", 60000, 48, 10, 147}, {"food101", 75750, 48, 10, 79}, {"imagenet-split-2", 100000, 48, 10, 62},
		},
		After: [][]float64{
			{none, never, never, never, never, 9, never, 9, never},
			{never, none, never, never, never, never, never, never, never},
			{never, never, none, never, never, never, never, never, never},
			{never, never, never, none, never, never, never, never, never},
			{never, never, never, never, none, never, never, never, never},
			{never, never, never, never, never, none, never, never, never},
			{never, never, never, never, never, never, none, never, never},
			{never, never, never, 8, never, never, never, none, 9},
			{never, never, never, 8, never, never, never, never, none},
		},
		Together: [][]float64{
			{none, never, 9, 2, 1, 3, 9, 4, 1},
			{6, none, 8, 2, 1, 7, never, never, 1},
			{4, never, none, 1, 1, 5, 8, 3, 1},
			{4, never, 8, none, 1, 4, 8, 4, 1},
			{2, never, 8, 2, none, 1, 10, 5, 1},
			{5, never, 7, 2, 1, none, never, 4, 1},
			{3, never, 8, 2, 1, 5, none, 1, 1},
			{3, never, 8, 1, 1, 4, 10, none, 1},
			{2, 4, 8, 1, 1, 3, 10, 1, none},
		},
	}
}

func vitLarge() Model {
	return Model{
		Name: "vit-large", Step: perf.Step{Fixed: 0.07073, Sample: 0.005487, Batch: 256, NearGPU: 0.0001, Far: 0.0479, FarGPU: 0.00291},
		Least: 4, Begin: 14138 * time.Millisecond,
		Tasks: []Task{
			{"frgfm#imagenette", 9469, 48, 7, 118}, {"cifar100", 50000, 192, 10, 109}, {"imagenet-split-1", 75000, 576, 9.99, 105},
			{"Bingsu#Cat_and_Dog", 8000, 576, 3.96, 101}, {"fashion_mnist", 60000, 192, 10, 90}, {"imagenet-split-0", 25000, 48, 10, 66},
			{"mnist", 60000, 192, 10, 62}, {"food101", 75750, 48, 10, 46}, {"imagenet-split-2", 100000, 192, 10, 23},
		},
		After: [][]float64{
			{none, never, never, never, never, never, never, never, never},
			{never, none, never, never, never, never, never, never, never},
			{never, never, none, never, never, never, never, never, never},
			{never, never, never, none, never, never, never, never, never},
			{never, never, never, never, none, never, 10, never, never},
			{never, 9, never, never, never, none, 8, never, never},
			{never, never, never, never, never, never, none, never, never},
			{never, never, never, never, never, never, never, none, never},
			{never, 8, 8, never, never, never, never, never, none},
		},
		Together: [][]float64{
			{none, 2, 1, never, never, 3, never, 3, 1},
			{4, none, 1, never, never, 3, never, 3, 1},
			{3, 3, none, never, never, 3, never, 4, 1},
			{5, 2, 1, none, never, 3, never, never, 1},
			{4, 2, 1, never, none, 3, 9, 4, 1},
			{3, 2, 1, never, never, none, never, 3, 1},
			{3, 2, 1, never, never, 5, none, never, 1},
			{2, 2, 1, never, never, 2, never, none, 1},
			{2, 2, 1, never, never, 3, never, 4, none},
		},
	}
}

func robertaBase() Model {
	return Model{
		Name: "roberta-base", Step: perf.Step{Fixed: 0.02056, Sample: 0.010552, Batch: 52, Near: 0.00017, NearGPU: 0.0001, Far: 0.00641, FarGPU: 0.00183},
		Least: 2, Begin: 30399 * time.Millisecond,
		Tasks: []Task{
			{"sst2", 16838, 128, 10, 172}, {"qnli", 26186, 128, 10, 152}, {"wnli", 159, 16, 1, 55},
			{"rte", 623, 16, 8, 49}, {"stsb", 1438, 16, 9, 33}, {"mrpc", 917, 128, 10, 28},
			{"qqp", 90962, 64, 10, 21}, {"mnli", 98176, 192, 9, 19}, {"snli", 137344, 64, 10, 11},
		},
		After: [][]float64{
			{none, 3, 1, 8, 7, 4, 5, 9, 7},
			{never, none, 1, 2, 3, 5, 5, 9, 8},
			{never, 1, none, 4, 7, 4, 5, 9, 9},
			{never, 3, 1, none, 4, 5, 5, never, 7},
			{never, 3, 1, 4, none, 2, 5, never, 9},
			{never, 2, 1, never, 3, none, 5, never, 9},
			{never, 3, 1, never, 3, 2, none, 9, 9},
			{never, 1, 1, 1, 3, 2, 5, none, 8},
			{never, none, none, 1, 2, 3, 5, 9, none},
		},
		Together: [][]float64{
			{none, 2, never, never, never, never, 7, never, 9},
			{never, none, never, 5, never, never, 10, never, 10},
			{never, 2, none, never, 5, 3, 5, never, 8},
			{never, 2, 2, none, 6, 7, 7, never, 9},
			{never, 3, 2, 7, none, 4, never, never, never},
			{never, 3, 2, never, 4, none, 6, never, 9},
			{never, 3, never, 2, 9, 8, none, never, never},
			{never, 3, never, 1, never, 8, never, none, never},
			{never, 3, never, 2, never, never, never, never, none},
		},
	}
}

func robertaLarge() Model {
	return Model{
		Name: "roberta-large", Step: perf.Step{Fixed: 0.03267, Sample: 0.030413, Batch: 20, Near: 0.00476, NearGPU: 0.00038, Far: 0.00831, FarGPU: 0.00203},
		Least: 2, Begin: 19346 * time.Millisecond,
		Tasks: []Task{
			{"sst2", 16838, 192, 5, 83}, {"qnli", 26186, 128, 9, 79}, {"rte", 623, 16, 8, 26},
			{"wnli", 159, 16, 10, 26}, {"mrpc", 917, 64, 10, 16}, {"stsb", 1438, 192, 9, 16},
			{"qqp", 90962, 128, 10, 12}, {"mnli", 98176, 192, 8, 9}, {"snli", 137344, 192, 6, 3},
		},
		After: [][]float64{
			{none, 9, never, never, 2, 5, 2, 4, 5},
			{never, none, never, never, 2, 3, 2, 4, 4},
			{never, never, none, never, 5, 4, 2, 4, 3},
			{never, 4, never, none, 5, 4, 2, 4, 5},
			{never, never, never, never, none, 7, 3, 6, 5},
			{never, never, never, 3, 1, none, 3, 6, 5},
			{never, never, never, 6, 2, 4, none, never, 5},
			{9, never, 1, 1, 2, 3, 2, none, 3},
			{never, never, never, 4, 3, 4, 2, 2, none},
		},
		Together: [][]float64{
			{none, never, never, never, 6, never, 4, 5, 9},
			{4, none, never, never, 6, never, 4, 10, 7},
			{never, 9, none, never, 6, never, 3, 2, 5},
			{never, never, never, none, never, never, 6, never, 3},
			{never, never, never, never, none, 9, 3, 6, 4},
			{never, 9, never, never, 5, none, 3, 4, 9},
			{never, never, never, 1, never, 9, none, 6, never},
			{3, never, 5, never, 6, never, 6, none, 9},
			{never, never, 8, 4, 4, never, 7, never, none},
		},
	}
}
