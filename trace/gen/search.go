package gen

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/trace"
)

// Search says what workload is wanted of apps that search hyper-parameters by successive
// halving, like those of Themis' evaluation (NSDI 2020, section 8.1). Its traces are not
// published. Known is that apps are of many jobs, 60 % train language models, 30 % speech
// models and 10 % image models, and jobs need few GPUs or several.
//
// An app has 4, 8, 16 or 32 jobs, submitted at once, which each do 8 units of work on the first
// rung. The best half goes on for twice as many units, until one is left. A unit takes 300 s on one
// GPU in the median, so that the winner of eight takes 600 GPU-minutes and those that lose first
// 40; the two jobs that the paper tells of take 580 and 83. It is log-normal with a deviation of 1
// between apps and of 0.1 between the jobs of one. The winner is drawn, and nobody knows it: users
// estimate each job as if it won. Apps come by a Poisson process.
type Search struct {
	Jobs int     // at least so many: no app is cut
	GPUs int     // of the cluster that the trace is meant for
	Load float64 // mean GPUs demanded over GPUs, 0: 1
	Most int     // GPUs that one job can use, each of them as well as one alone; 0: 1
	Seed uint64
}

// searchModels are the models of each task of Themis' evaluation.
var searchModels = [3][]string{
	{"inception3", "alexnet", "resnet50", "vgg16", "vgg19"},
	{"bidaf", "lm", "gnmt", "transformer"},
	{"wavenet", "deepspeech"},
}

// Spreads is by which factor the models of a Search are slowed down for each step by which
// the GPUs of a job are apart (perf.Analytic). Which models that are is known (those with
// large weights), and that it is 1.1 in a rack where nothing else is told; by how much
// each is slowed down is ours.
func Spreads() map[string]float64 {
	return map[string]float64{
		"inception3": 0.9, "resnet50": 0.9, "alexnet": 0.6, "vgg16": 0.5, "vgg19": 0.5,
		"bidaf": 0.9, "lm": 0.8, "gnmt": 0.8, "transformer": 0.7, "wavenet": 0.9, "deepspeech": 0.7,
	}
}

// firstRung is the units of work of each job on the first rung.
const firstRung = 8

// NewSearch makes the workload.
func NewSearch(o Search) ([]trace.Entry, error) {
	if o.Load == 0 {
		o.Load = 1
	}
	if o.Most == 0 {
		o.Most = 1
	}
	if o.Jobs < 1 || o.GPUs < 1 || o.Most < 0 || o.Most > o.GPUs || !(o.Load > 0) || math.IsInf(o.Load, 1) || o.Jobs > maxJobs {
		return nil, errors.New("searches need a number of jobs, a cluster of at least as many GPUs as one job can use, and a load above 0")
	}
	rng := rand.New(rand.NewPCG(o.Seed, 0x736561726368))
	var shapes job.Interner
	d := job.GPUs(o.Most)
	if o.Most > 1 {
		d.Roles[0].Min, d.Roles[0].Max = 1, int32(o.Most)
	}
	var out []trace.Entry
	var from []int     // the first job of each app
	var gaps []float64 // before each app
	work := 0.0        // GPU-seconds
	for len(out) < o.Jobs {
		from, gaps = append(from, len(out)), append(gaps, rng.ExpFloat64())
		app := newApp(rng, len(from), o.Most)
		for i := range app {
			app[i].Job.Demand = shapes.Get(d)
			work += app[i].Truth.Work.Seconds() * float64(o.Most)
		}
		out = append(out, app...)
	}
	at, unit := 0.0, work/(o.Load*float64(o.GPUs))/float64(len(from))
	for k, first := range from {
		last := len(out)
		if k+1 < len(from) {
			last = from[k+1]
		}
		for i := first; i < last; i++ {
			out[i].Job.ID, out[i].Job.Submit = job.ID(i), time.Duration(at)*time.Second
		}
		at += gaps[k] * unit
	}
	return out, nil
}

// newApp draws the jobs of an app, whose demand and submission are still to be told.
func newApp(rng *rand.Rand, number, most int) []trace.Entry {
	u, task := rng.IntN(10), 0
	for parts := [3]int{1, 6, 3}; u >= parts[task]; task++ {
		u -= parts[task]
	}
	models := searchModels[task]
	model := models[rng.IntN(len(models))]
	n := 4 << rng.IntN(4)
	one := 300 * math.Exp(rng.NormFloat64()) / float64(most)
	var rungs job.Rungs
	for i := range rungs {
		if n>>i == 0 {
			break
		}
		rungs[i] = job.Rung{Jobs: int32(n >> i), Units: float64(int(firstRung) << i)}
	}
	out := make([]trace.Entry, n)
	for i, rank := range rng.Perm(n) {
		iteration := time.Duration(one*math.Exp(0.1*rng.NormFloat64())*1e6) * time.Microsecond
		units, all := 0.0, 0.0
		for _, r := range rungs.All() {
			if all += r.Units; rank < int(r.Jobs) {
				units += r.Units
			}
		}
		name := fmt.Sprintf("search-%d", number)
		out[i] = trace.Entry{
			Job: job.Job{
				Key: fmt.Sprintf("%s-%d", name, i+1), Name: name, User: fmt.Sprintf("user-%d", number%20), App: name, Model: model,
				Units: all, Unit: "iterations", Estimate: time.Duration(all) * iteration, Retries: -1, Hints: &job.Hints{Rungs: rungs, Iteration: iteration},
			},
			Truth: trace.Truth{Work: time.Duration(units) * iteration},
		}
	}
	return out
}
