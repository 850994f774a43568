package gen

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/trace"
)

// Loaned says what workload is wanted for a training cluster beside an inference cluster that lends
// it servers, like that of Lyra's evaluation. Its trace is not published. It is known to have
// 50,390 jobs on 3,544 GPUs in fifteen days. Under FIFO the GPUs are in use for 72 % of the time.
// Half of the jobs end within 791 s then, and the mean is 16,610 s. A fifth of the jobs (21 %) can
// run on the GPUs of the lender. One in twenty is elastic, and these take 36 % of the GPU time. A
// job that is preempted begins anew.
//
// Ours are the distributions that meet this: run times are log-normal, sizes powers of two;
// elastic jobs run for long, and can have twice the workers that they ask for. More jobs come by
// day than by night, and fewer at the weekend.
//
// Source: Li et al., "Lyra", EuroSys 2023, section 7.
type Loaned struct {
	Jobs  int     // 0: as many as there are GPUs for fifteen days
	GPUs  int     // of the training cluster, 0: 3,544
	Load  float64 // mean GPUs demanded over GPUs, 0: 0.8, by which FIFO has GPUs in use and jobs wait as published
	Seed  uint64
	Ideal bool // every job is elastic, and can run on the GPUs of the lender
}

const (
	loanedGPUs     = 3544
	loanedLoad     = 0.8
	loanedElastic  = 0.05
	loanedFungible = 0.21
	loanedLongest  = 5 * 24 * 3600. // seconds
)

// NewLoaned makes the workload.
func NewLoaned(o Loaned) ([]trace.Entry, error) {
	if o.GPUs == 0 {
		o.GPUs = loanedGPUs
	}
	if o.Load == 0 {
		o.Load = loanedLoad
	}
	if o.Jobs < 0 || o.GPUs < 1 || !(o.Load > 0) || math.IsInf(o.Load, 1) {
		return nil, errors.New("a workload needs GPUs, a load above 0, and a number of jobs")
	}
	if o.Jobs == 0 {
		o.Jobs = max(1, 50390*o.GPUs/loanedGPUs)
	}
	r := rand.New(rand.NewPCG(o.Seed, 0x6c797261))
	out := make([]trace.Entry, o.Jobs)
	asked := 0.0 // GPU-seconds
	var shapes job.Interner
	for i := range out {
		gpus, seconds := o.fill(&out[i], r, &shapes)
		asked += float64(gpus) * seconds
	}
	// So many come within the time in which they make the load.
	span := asked / o.Load / float64(o.GPUs)
	at := make([]float64, len(out))
	for i := range at {
		at[i] = arrival(r, span)
	}
	slices.Sort(at)
	for i := range out {
		out[i].Job.ID, out[i].Job.Key = job.ID(i), strconv.Itoa(i)
		out[i].Job.Submit = time.Duration(at[i]) * time.Second
	}
	return out, nil
}

// fill draws a job, and returns its size and run time.
func (o *Loaned) fill(e *trace.Entry, r *rand.Rand, shapes *job.Interner) (gpus int, seconds float64) {
	elastic, fungible := r.Float64() < loanedElastic, r.Float64() < loanedFungible
	gpus = 1 << drawn(r, sizesLoaned[:])
	median, deviation := 620., 2.5
	if elastic {
		gpus, median, deviation = 1<<(1+r.IntN(3)), 60_000, 1.1
	}
	for seconds = math.Inf(1); seconds > loanedLongest; {
		seconds = math.Round(max(10, median*math.Exp(deviation*r.NormFloat64())))
	}
	d := job.GPUs(min(gpus, o.GPUs))
	if !fungible && !o.Ideal {
		d.Where = "!lender"
	}
	if elastic || o.Ideal {
		d.Roles[0].Min, d.Roles[0].Max = d.Roles[0].Tasks, 2*d.Roles[0].Tasks
	}
	e.Job = job.Job{Demand: shapes.Get(d), Stop: job.Restart, Resize: job.InPlace, Retries: -1}
	e.Truth.Work = time.Duration(seconds) * time.Second
	return gpus, seconds
}

// sizesLoaned are the shares of jobs of 1, 2, 4, ... GPUs.
var sizesLoaned = [...]float64{0.52, 0.12, 0.12, 0.16, 0.04, 0.03, 0.01}

// drawn draws a place by shares.
func drawn(r *rand.Rand, shares []float64) int {
	x := r.Float64()
	for i, s := range shares {
		if x -= s; x < 0 {
			return i
		}
	}
	return len(shares) - 1
}

// daysLoaned are how busy the days of a week are, from Monday on.
var daysLoaned = [7]float64{0.8, 1.2, 1.6, 1.5, 1.1, 0.5, 0.4}

// arrival draws a moment within a span, in seconds: by day three times as likely as by night,
// and in the middle of the week more likely than at its end.
func arrival(r *rand.Rand, span float64) float64 {
	for {
		at := r.Float64() * span
		hours := math.Mod(at/3600, 24)
		weight := 1 - 0.5*math.Cos(2*math.Pi*(hours-3)/24)
		weight *= daysLoaned[int(at/86400)%7]
		if r.Float64()*1.5*1.6 < weight {
			return at
		}
	}
}
