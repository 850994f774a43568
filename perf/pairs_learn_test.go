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

// If the truth is a table of pairs, it is learnt from groups of two to four
// jobs, with noise of 5 %. The first belief is wrong by up to a factor of two.
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

// Beside several, what First says of all of them together stands until a pair is
// learnt, and is then multiplied by what that pair is off.
func TestLearnerKeepsWhatFirstSays(t *testing.T) {
	use := func(name string, sm float64) *job.Job {
		return &job.Job{Model: name, Hints: &job.Hints{GPUUse: sm}}
	}
	a, b, c := use("a", 0.5), use("b", 0.5), use("c", 0.5)
	v100 := cluster.GPUType{Name: "V100"}
	l := perf.Learner{First: perf.Demands{}, Rate: 1}
	both := []*job.Job{b, c} // 1.5 of the device: 1 + 0.5 x 0.5
	if got := l.Beside(a, both, v100); math.Abs(got-1/1.25) > 1e-12 {
		t.Errorf("beside both %v with nothing learnt, want 0.8", got)
	}
	l.Observe(a, []*job.Job{b}, v100, 0.5) // Demands say 1
	if got, pair := l.Beside(a, both, v100), l.Beside(a, []*job.Job{b}, v100); math.Abs(got-0.4) > 1e-12 || pair != 0.5 {
		t.Errorf("beside both %v, beside b %v; want 0.4 and 0.5", got, pair)
	}
	s := func(j *job.Job, throttle int32) perf.Sharer {
		return perf.Sharer{Job: j, Share: cluster.Share{Throttle: throttle}}
	}
	for _, x := range []struct {
		own, other int32
		want       float64
	}{{0, 0, 0.5}, {0, 1000, 1}, {1000, 0, 0}, {0, 500, math.Sqrt(0.5)}} {
		if got := l.Among(s(a, x.own), []perf.Sharer{s(b, x.other)}, v100); math.Abs(got-x.want) > 1e-12 {
			t.Errorf("throttled for %d beside one for %d: %v, want %v", x.own, x.other, got, x.want)
		}
	}
}

// A repeated observation changes the belief only for a while. Two neighbours of
// one sort teach one lesson.
func TestLearnerIsContent(t *testing.T) {
	a, b := model("a"), &job.Job{Name: "b"}
	l := perf.Learner{}
	lessons := 0
	for range 100 {
		all := l.Lessons(nil, perf.Sharer{Job: a}, []perf.Sharer{{Job: b}, {Job: b}}, cluster.GPUType{}, 0.49)
		for _, x := range all {
			l.Learn(x)
		}
		lessons += len(all)
	}
	if got := l.Beside(a, []*job.Job{b, b}, cluster.GPUType{}); lessons > 30 || math.Abs(got-0.49) > 0.005 {
		t.Errorf("%d lessons until %v is believed; want up to 30 until 0.49", lessons, got)
	}
	if got := l.Learnt[perf.Pair{Job: "a", Beside: "b"}]; math.Abs(got-0.7) > 0.005 {
		t.Errorf("learnt %v of the pair, want 0.7; all: %v", got, l.Learnt)
	}
	if x := l.Lessons(nil, perf.Sharer{Job: b}, []perf.Sharer{{Job: a}}, cluster.GPUType{}, 1); len(x) != 1 || x[0].Factor != 1 {
		t.Errorf("that nobody disturbs was to be learnt once: %v", x)
	}
}

// A mistake is the same each time, of its own for each direction, and as large as it was
// asked to be.
func TestMistaken(t *testing.T) {
	const models = 40
	wrong := perf.Mistaken{Of: perf.Pairs{Else: half{}}, Size: 0.4, Seed: 1}
	off, up, directed := 0, 0, 0
	for i := range models {
		for k := range models {
			a, b := model(fmt.Sprint(i)), model(fmt.Sprint(k))
			f := wrong.Beside(a, []*job.Job{b}, cluster.GPUType{})
			if f != wrong.Beside(a, []*job.Job{b}, cluster.GPUType{}) || f > 1 {
				t.Fatalf("%d beside %d runs at %v", i, k, f)
			}
			if f < 0.5/1.4 || f > 0.5*1.4 {
				off++
			}
			if f > 0.5 {
				up++
			}
			if i != k && f != wrong.Beside(b, []*job.Job{a}, cluster.GPUType{}) {
				directed++
			}
		}
	}
	a, b := model("0"), model("1")
	for _, throttle := range []int32{0, 500, 1000} {
		got := wrong.Among(perf.Sharer{Job: a, Share: cluster.Share{Throttle: throttle}}, []perf.Sharer{{Job: b}}, cluster.GPUType{})
		if want := wrong.Beside(a, []*job.Job{b}, cluster.GPUType{}) * float64(1000-throttle) / 1000; math.Abs(got-want) > 1e-12 {
			t.Errorf("throttled for %d it is believed to run at %v, want %v", throttle, got, want)
		}
	}
	const all = models * models
	if math.Abs(float64(off)/all-0.317) > 0.03 || math.Abs(float64(up)/all-0.5) > 0.03 || directed < all*9/10 {
		t.Errorf("of %d pairs %d are off by more than 1.4, %d too fast, %d are of one direction", all, off, up, directed)
	}
}

// half is the Sharing in which all run at half of their speed.
type half struct{}

// Beside implements perf.Sharing.
func (half) Beside(*job.Job, []*job.Job, cluster.GPUType) float64 { return 0.5 }
