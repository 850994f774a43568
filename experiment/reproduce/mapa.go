package reproduce

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/norn-scheduler/norn/experiment"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/trace"
)

// The world of MAPA: a DGX-1 with V100, and jobs of one to five GPUs with rings, half of them sensitive, which
// are all there at the start. The paper's own are run times of training that were measured on such a machine.
// Here a sensitive job communicates for a part of its time where it is linked best, and takes longer elsewhere
// by what the paper's fit foretells. The part is not published.

const (
	mapaPolicy   = "mapa"
	mapaGreedy   = "mapa(rule=greedy)"
	mapaTopo     = "mapa(rule=topo-aware)"
	mapaBaseline = "mapa(rule=baseline)"
)

// mapaCommunication is the part of their time for which sensitive jobs communicate.
const mapaCommunication = 0.3

// mapaWorld is 300 jobs that are drawn.
func mapaWorld(draw uint64) World {
	return World{Make: func(string, experiment.Choice) (*experiment.Experiment, trace.Source, error) {
		x, err := plain("1x8:V100/dgx1")
		if err != nil {
			return nil, nil, err
		}
		x.Communication = mapaCommunication
		r := rand.New(rand.NewPCG(draw, 0))
		var shapes job.Interner
		var jobs experiment.Jobs
		for i := range 300 {
			j := job.Job{Key: fmt.Sprint(i), Demand: shapes.Get(job.GPUs(1 + r.IntN(5))), Hints: &job.Hints{Pattern: "ring", Sensitive: r.IntN(2) == 0}}
			jobs = append(jobs, trace.Entry{Job: j, Truth: trace.Truth{Work: time.Duration(300+r.IntN(1200)) * time.Second}})
		}
		return x, renumbered(jobs).Source(), nil
	}}
}

// slowed are by how much longer sensitive jobs of several GPUs take than on the best links, in order.
func slowed(o *experiment.Outcome) []float64 {
	var out []float64
	for _, r := range records(o, 0, o.State.Jobs()) {
		if perf.MindsBandwidth(r.Job) && r.Job.Demand.GPUs() > 1 && r.Progress > 0 {
			out = append(out, (r.End-r.FirstStart).Seconds()/r.Progress.Seconds())
		}
	}
	slices.Sort(out)
	return out
}

// longer is a quantile of the run times of sensitive jobs, over those on the best links.
func longer(key, name string, at float64) Metric {
	return quantileOf(key, name+" of the run time of sensitive jobs over that on the best links", at, slowed)
}

// meanLonger is their mean.
func meanLonger() Metric {
	return meanOf("mean-links", "mean of the run time of sensitive jobs over that on the best links", slowed)
}

// mapa: against the lowest numbers, run times are 12.4 % shorter at the 75th percentile, and up to 35 % for the
// worst job.
func mapa() []Study {
	s := Study{
		System: "mapa", Name: "dgx1", CPU: 1, Policy: mapaPolicy,
		About: fmt.Sprintf("300 jobs of 1 to 5 GPUs on a DGX-1 with V100, half of them sensitive, which communicate for %g of their time", mapaCommunication),
		Claims: []Claim{
			{Baseline: mapaBaseline, Metric: longer("p75-links", "75th percentile", 0.75), Published: exactly(1.124), Tolerance: 0.25, Place: "abstract: 12.4 % speed-up at the 75th percentile"},
			{Baseline: mapaBaseline, Metric: longer("worst-links", "largest", 1), Published: between(1, 1/(1-0.35)), Tolerance: 0.25, Place: "abstract: worst case up to 35 % shorter"},
			{Baseline: mapaGreedy, Metric: meanLonger(), Published: better(), Place: "acceptance F: no worse than greedy"},
			{Policy: mapaGreedy, Baseline: mapaTopo, Metric: meanLonger(), Published: better(), Place: "acceptance F: greedy is better than topo-aware"},
			{Policy: mapaTopo, Baseline: mapaBaseline, Metric: meanLonger(), Published: better(), Place: "acceptance F: topo-aware is no worse than baseline"},
		},
	}
	for draw := range uint64(8) {
		s.Worlds = append(s.Worlds, mapaWorld(draw))
	}
	return []Study{s}
}
