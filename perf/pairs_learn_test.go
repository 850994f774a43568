package perf_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
)

// One observation moves a belief by its rate, in the logarithm; the other direction and
// other types are not touched.
func TestLearnerByHand(t *testing.T) {
	a, b, c := model("a"), model("b"), model("c")
	v100, t4 := cluster.GPUType{Name: "V100"}, cluster.GPUType{Name: "T4"}
	l := perf.Learner{First: perf.Pairs{Speed: map[perf.Pair]float64{{Job: "a", Beside: "b"}: 0.8}}, Rate: 0.5}
	l.Observe(a, []*job.Job{b}, v100, 0.2)
	for _, x := range []struct {
		j, beside *job.Job
		t         cluster.GPUType
		want      float64
	}{{a, b, v100, 0.4}, {a, b, t4, 0.8}, {b, a, v100, 1}, {a, c, v100, 1}} {
		if got := l.Beside(x.j, []*job.Job{x.beside}, x.t); math.Abs(got-x.want) > 1e-12 {
			t.Errorf("%s beside %s on %s: %v, want %v", x.j.Model, x.beside.Model, x.t.Name, got, x.want)
		}
	}
	l.Rate = 1
	l.Observe(a, []*job.Job{b, c}, v100, 0.1) // from 0.4 x 1, a quarter: a half for each
	if got := l.Beside(a, []*job.Job{b, c}, v100); math.Abs(got-0.1) > 1e-12 || math.Abs(l.Beside(a, []*job.Job{c}, v100)-0.5) > 1e-12 {
		t.Errorf("%v beside both, %v beside c; want 0.1 and 0.5", got, l.Beside(a, []*job.Job{c}, v100))
	}
	for _, nothing := range []float64{0, -1, math.NaN(), math.Inf(1)} {
		l.Observe(a, []*job.Job{b}, v100, nothing)
	}
	l.Observe(a, nil, v100, 0.5)
	if got := l.Beside(a, []*job.Job{b}, v100); math.Abs(got-0.2) > 1e-12 {
		t.Errorf("observations that tell nothing changed a belief to %v", got)
	}
}

// Where the truth is a table of pairs, it is learnt from groups of two to four jobs, with
// noise of 5 %, from a belief that is wrong by up to a factor of two.
func TestLearnerFindsPairs(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	const models = 5
	jobs := make([]*job.Job, models)
	truth, first := perf.Pairs{Speed: map[perf.Pair]float64{}}, perf.Pairs{Speed: map[perf.Pair]float64{}}
	for i := range jobs {
		jobs[i] = model(fmt.Sprint(i))
	}
	for _, a := range jobs {
		for _, b := range jobs {
			p := perf.Pair{Job: a.Model, Beside: b.Model}
			truth.Speed[p] = 0.5 + 0.5*rng.Float64()
			first.Speed[p] = min(1, truth.Speed[p]*(0.5+1.5*rng.Float64()))
		}
	}
	l := perf.Learner{First: first, Rate: 0.1}
	off := func() (worst float64) {
		for _, a := range jobs {
			for _, b := range jobs {
				pair := []*job.Job{b}
				worst = max(worst, math.Abs(l.Beside(a, pair, cluster.GPUType{})/truth.Beside(a, pair, cluster.GPUType{})-1))
			}
		}
		return worst
	}
	before := off()
	for range 20_000 {
		j, others := jobs[rng.IntN(models)], make([]*job.Job, 1+rng.IntN(3))
		for i := range others {
			others[i] = jobs[rng.IntN(models)]
		}
		l.Observe(j, others, cluster.GPUType{}, truth.Beside(j, others, cluster.GPUType{})*(0.95+0.1*rng.Float64()))
	}
	if after := off(); before < 0.3 || after > 0.05 {
		t.Errorf("the worst pair was off by %.2f, and is by %.3f", before, after)
	}
}
