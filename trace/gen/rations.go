package gen

import (
	"errors"
	"math"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/trace"
)

// Mix is how many of 100 jobs train image, language and speech models.
type Mix struct{ Image, Language, Speech int }

// DefaultMix is the mix with which Synergy's artifact is checked.
func DefaultMix() Mix { return Mix{20, 70, 10} }

// rationModels are the models of each task whose need of cores and memory was measured
// (perf.MeasuredGrids).
var rationModels = [3][]string{
	{"alexnet", "resnet18", "resnet50", "mobilenet", "shufflenet"},
	{"gnmt", "transformer", "lstm"},
	{"m5", "deepspeech"},
}

func (m Mix) parts() [3]int { return [3]int{m.Image, m.Language, m.Speech} }

func (m Mix) check() error {
	if m.Image < 0 || m.Language < 0 || m.Speech < 0 || m.Image+m.Language+m.Speech != 100 {
		return errors.New("the parts of a mix of image, language and speech models must add up to 100")
	}
	return nil
}

// Rations says what workload is wanted of jobs that need cores and memory
// beside their GPUs, like that of Synergy's evaluation (OSDI 2022, section
// 5.1). Submissions follow a Poisson process. Run times are 60 x 10^x seconds
// in the reference configuration, with x uniform from 1.5 to 3 for 80 % of the
// jobs and from 3 to 4 for the others. The task that is furthest behind its
// part of the mix comes next, and its models take turns.
type Rations struct {
	Jobs    int
	PerHour float64 // jobs submitted
	Mix     Mix     // zero: DefaultMix
	Gangs   bool    // 70 % ask for one GPU, 10 % for 2, 15 % for 4, 5 % for 8; otherwise all for one
	Seed    uint64
}

// NewRations makes the workload.
func NewRations(o Rations) ([]trace.Entry, error) {
	if o.Mix == (Mix{}) {
		o.Mix = DefaultMix()
	}
	if err := o.Mix.check(); err != nil {
		return nil, err
	}
	if o.Jobs < 0 || !(o.PerHour > 0) || math.IsInf(o.PerHour, 1) {
		return nil, errors.New("a workload needs a number of jobs, and a rate of submissions above 0")
	}
	rng := rand.New(rand.NewPCG(o.Seed, 0x73796e65726779))
	var shapes job.Interner
	var given [3]int // jobs of each task
	at := 0.0
	out := make([]trace.Entry, o.Jobs)
	for i := range out {
		at += math.Ceil(rng.ExpFloat64() / o.PerHour * 3600)
		x := 1.5 + 1.5*rng.Float64()
		if rng.Float64() >= 0.8 {
			x = 3 + rng.Float64()
		}
		gpus := 1
		if o.Gangs {
			gpus = gangOf(rng.Float64())
		}
		task := behind(o.Mix.parts(), given, i)
		models := rationModels[task]
		out[i] = trace.Entry{
			Job: job.Job{
				ID: job.ID(i), Key: strconv.Itoa(i), Model: models[given[task]%len(models)], Submit: time.Duration(at) * time.Second,
				Demand: shapes.Get(job.GPUs(gpus)), Retries: -1,
			},
			Truth: trace.Truth{Work: time.Duration(60 * math.Pow(10, x) * float64(time.Second))},
		}
		given[task]++
	}
	return out, nil
}

// behind is the task that is furthest behind its part of so many jobs, the first of equals.
func behind(parts, given [3]int, jobs int) int {
	best, most := 0, math.Inf(-1)
	for k := range parts {
		if by := float64(parts[k])/100 - float64(given[k])/float64(max(1, jobs)); parts[k] > 0 && by > most+1e-12 {
			best, most = k, by
		}
	}
	return best
}

func gangOf(u float64) int {
	switch {
	case u < 0.7:
		return 1
	case u < 0.8:
		return 2
	case u < 0.95:
		return 4
	}
	return 8
}
