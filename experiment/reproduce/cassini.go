package reproduce

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/norn-scheduler/norn/experiment"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/trace"
	"github.com/norn-scheduler/norn/trace/gen"
)

// The world of CASSINI: 24 servers with one GPU and one adapter of 50 Gbit/s each below twelve switches that are
// over-subscribed two to one, and jobs of thirteen models that come at random. What the models send is the
// assumption of norn sim --assume bursts: the paper's measured profiles are not published.

const (
	cassiniThemis = "cassini"
	cassiniPollux = "cassini(host=pollux)"
	cassiniShift  = "cassini(candidates=1)"
	cassiniPlace  = "cassini(shift=false)"
	cassiniAll    = "cassini(fit=-1e6)"
)

// cassiniLoad is the part of the GPUs that jobs keep busy, on average.
const cassiniLoad = 0.9

// cassiniWorld is 200 jobs of 2 to 6 GPUs that arrive at random.
func cassiniWorld(draw uint64, step time.Duration) World {
	return World{Make: func(string, experiment.Choice) (*experiment.Experiment, trace.Source, error) {
		x, err := plain("cassini")
		if err != nil {
			return nil, nil, err
		}
		r := rand.New(rand.NewPCG(draw, 0))
		var shapes job.Interner
		var jobs experiment.Jobs
		at := 0.0
		for i := range 200 {
			n, work := 2+r.IntN(5), 300+r.IntN(1500)
			at += r.ExpFloat64() * 4 * 1050 / (24 * cassiniLoad)
			j := job.Job{Key: fmt.Sprint(i), Submit: time.Duration(at * float64(time.Second)), Demand: shapes.Get(job.GPUs(n))}
			jobs = append(jobs, trace.Entry{Job: j, Truth: trace.Truth{Work: time.Duration(work) * time.Second}})
		}
		return x, &gen.AssumedBursts{Source: renumbered(jobs).Source(), Seed: draw, Step: step}, nil
	}}
}

// stretched are by how much longer iterations of gangs take than alone, in order.
func stretched(o *experiment.Outcome) []float64 {
	var out []float64
	for _, r := range records(o, 0, o.State.Jobs()) {
		if r.Job.Demand.GPUs() > 1 && r.Progress > 0 {
			out = append(out, r.AllocatedTime.Seconds()/r.Progress.Seconds())
		}
	}
	slices.Sort(out)
	return out
}

func meanStretch() Metric {
	return meanOf("mean-iteration", "mean time of an iteration over that alone", stretched)
}

func tailStretch() Metric {
	return quantileOf("p99-iteration", "99th percentile of the time of an iteration over that alone", 0.99, stretched)
}

// cassiniStudies: iterations up to 1.6 times as fast on average, 2.5 times in the tail.
func cassiniStudies() []Study {
	about := fmt.Sprintf("200 jobs of 13 models on 24 servers, over-subscribed two to one, load %g, iterations that are multiples of ", cassiniLoad)
	fits := Study{System: "cassini", Name: "themis", CPU: 0.1, Policy: cassiniThemis, About: about + "120 ms", Claims: cassiniClaims("themis")}
	fits.Claims = append(fits.Claims,
		Claim{Baseline: cassiniShift, Metric: meanStretch(), Published: better(), Place: "ours: places and shifts over shifts alone"},
		Claim{Baseline: cassiniPlace, Metric: meanStretch(), Published: better(), Place: "ours: over places alone"},
		Claim{Baseline: cassiniAll, Metric: meanStretch(), Published: better(), Place: "ours: shifts only where bursts fit, over shifts everywhere, as in the paper"})
	free := Study{System: "cassini", Name: "free", CPU: 0.1, Policy: cassiniThemis, About: about + "10 ms, so that few fit each other", Claims: cassiniClaims("themis")}
	pollux := Study{System: "cassini", Name: "pollux", CPU: 1, Policy: cassiniPollux, About: about + "120 ms", Claims: cassiniClaims("pollux")}
	for draw := range uint64(10) {
		fits.Worlds = append(fits.Worlds, cassiniWorld(draw, 120*time.Millisecond))
		free.Worlds = append(free.Worlds, cassiniWorld(draw, 10*time.Millisecond))
	}
	pollux.Worlds = fits.Worlds[:3]
	return []Study{fits, free, pollux}
}

// cassiniClaims are those of the abstract, against a host.
func cassiniClaims(host string) []Claim {
	return []Claim{
		{Baseline: host, Metric: meanStretch(), Published: between(1, 1.6), Tolerance: 0, Place: "abstract, up to, iterations"},
		{Baseline: host, Metric: tailStretch(), Published: between(1, 2.5), Tolerance: 0, Place: "abstract, up to, the tail of iterations"},
		{Baseline: host, Metric: meanJCT(), Published: between(1, 1.6), Tolerance: 0, Place: "abstract, up to, completion times"},
	}
}
