package gen

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/trace"
)

// Sorts says what workload is wanted of training jobs whose speeds were measured on several
// GPU types, like that of Gavel's evaluation (OSDI 2020, section 7.1): 26 sorts, a model with
// a batch size, each as likely as the others. Submissions follow a Poisson process. Run times
// on the fastest type are 10^x minutes, with x uniform from 1.5 to 3 for 80 % of the jobs and
// from 3 to 4 for the others.
type Sorts struct {
	Jobs    int
	PerHour float64 // jobs submitted; 0: all at once
	Gangs   bool    // 70 % ask for one GPU, 10 % for 2, 15 % for 4, 5 % for 8; otherwise all for one
	Seed    uint64
}

// trained is a model, and the samples of a batch; 0: the model has but one.
type trained struct {
	model string
	batch int
}

// sorts are those whose speeds the authors of Gavel have measured.
func sorts() []trained {
	var out []trained
	for _, m := range []struct {
		model         string
		batch, double int // the least batch size, and how often it is doubled
	}{{"ResNet-50", 16, 3}, {"ResNet-18", 16, 4}, {"Transformer", 16, 4}, {"LM", 5, 4}, {"Recommendation", 512, 4}} {
		for i := range m.double + 1 {
			out = append(out, trained{m.model, m.batch << i})
		}
	}
	return append(out, trained{"A3C", 0}, trained{"CycleGAN", 0})
}

func (s trained) name() string {
	if s.batch == 0 {
		return s.model
	}
	return fmt.Sprintf("%s (batch size %d)", s.model, s.batch)
}

// NewSorts makes the workload.
func NewSorts(o Sorts) ([]trace.Entry, error) {
	if o.Jobs < 0 || !(o.PerHour >= 0) || math.IsInf(o.PerHour, 1) {
		return nil, errors.New("a workload needs a number of jobs, and a rate of submissions of 0 or more")
	}
	rng := rand.New(rand.NewPCG(o.Seed, 0x676176656c))
	var shapes job.Interner
	all := sorts()
	at := 0.0
	out := make([]trace.Entry, o.Jobs)
	for i := range out {
		if o.PerHour > 0 {
			at += rng.ExpFloat64() / o.PerHour * 3600
		}
		x := 1.5 + 1.5*rng.Float64()
		if rng.Float64() >= 0.8 {
			x = 3 + rng.Float64()
		}
		gpus := 1
		if o.Gangs {
			gpus = gangOf(rng.Float64())
		}
		s := all[rng.IntN(len(all))]
		out[i] = trace.Entry{
			Job: job.Job{
				ID: job.ID(i), Key: strconv.Itoa(i), Name: s.name(), Model: s.model, Batch: s.batch, Submit: time.Duration(at * float64(time.Second)).Truncate(time.Millisecond),
				Demand: shapes.Get(job.GPUs(gpus)), Retries: -1,
			},
			Truth: trace.Truth{Work: time.Duration(60 * math.Pow(10, x) * float64(time.Second)).Truncate(time.Millisecond)},
		}
	}
	return out, nil
}
