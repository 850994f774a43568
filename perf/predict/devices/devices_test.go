package devices_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/perf/predict/devices"
)

func seats(on ...int) (out []perf.Seat) {
	for _, i := range on {
		out = append(out, perf.Seat{Node: fmt.Sprintf("n%d", i/4), Index: i % 4})
	}
	return out
}

// sees has a learner see a job of a model on some devices, of which the slowest counts.
func sees(l *devices.Learner, n int, model string, scores []float64, noise float64, on ...int) {
	slowest := 0.0
	for _, d := range on {
		slowest = max(slowest, scores[d])
	}
	j := job.Job{ID: job.ID(n), Serial: int64(n) + 1, Model: model}
	m := &perf.Reading{When: perf.InRun, Setup: perf.Setup{Tasks: len(on), Type: "V100", Seats: seats(on...)}}
	m.Add(perf.Rate, float64(10+len(model))/slowest*math.Exp(noise))
	l.Observe(&j, m)
}

func score(l *devices.Learner, model string, d int) float64 {
	v := l.Variability()
	class := v.Class(&job.Job{Model: model})
	of, ok := v.Scores[seats(d)[0]]
	if !ok || class == len(v.Classes) {
		return 1
	}
	return of[class]
}

// Eight devices, of which one is 30 % slower and one 10 % faster: jobs of one device tell all.
func TestSingles(t *testing.T) {
	l := devices.New()
	truth := []float64{1, 1, 1, 1.3, 1, 0.9, 1, 1}
	n := 0
	for range 4 {
		for d := range truth {
			sees(l, n, "bert", truth, 0, d)
			n++
		}
	}
	for d, want := range truth {
		if got := score(l, "bert", d); math.Abs(got/want-1) > 0.04 {
			t.Errorf("device %d: score %.3f, want %.3f", d, got, want)
		}
	}
	got := l.Doubts()
	if len(got) != 1 || got[0].Seat != seats(3)[0] || got[0].Class != "B" || got[0].Jobs != 4 || math.Abs(got[0].Score-1.3) > 0.05 {
		t.Errorf("doubtful are %+v, want the fourth device alone", got)
	}
}

// A gang is as slow as its slowest device. Who is it follows from gangs that are fast.
func TestGangs(t *testing.T) {
	l := devices.New()
	truth := []float64{1, 1, 1.4, 1, 1, 1, 1, 1}
	for n, on := range [][]int{{0, 1}, {2, 3}, {4, 5}, {6, 7}, {0, 2}, {1, 3}, {4, 6}, {5, 7}, {2, 4}, {3, 6}} {
		sees(l, n, "resnet50", truth, 0, on...)
	}
	if got := l.Doubts(); len(got) != 1 || got[0].Seat != seats(2)[0] || got[0].Jobs != 3 {
		t.Errorf("doubtful are %+v, want the third device alone, by three gangs", got)
	}
	if got := score(l, "resnet50", 3); math.Abs(got-1) > 0.03 {
		t.Errorf("its companion has score %v", got)
	}
	if got := score(l, "bert", 2); got != 1 {
		t.Errorf("of another class nothing was seen, and its score is %v", got)
	}
}

// Nobody is doubtful where nothing can be compared, by one or two jobs, or among two devices.
func TestTooLittle(t *testing.T) {
	l := devices.New()
	truth := []float64{1, 2, 1, 1}
	if l.Variability() != nil || len(l.Doubts()) != 0 {
		t.Error("something is believed before anything was seen")
	}
	for n := range 6 {
		sees(l, n, "bert", truth, 0, n%2)
	}
	if got := l.Doubts(); len(got) != 0 {
		t.Errorf("of two devices one is doubtful: %+v", got)
	}
	l = devices.New()
	for n, d := range []int{0, 2, 3, 1, 1} {
		sees(l, n, "bert", truth, 0, d)
	}
	if got := l.Doubts(); len(got) != 0 {
		t.Errorf("two jobs make a device doubtful: %+v", got)
	}
	for d := range truth { // jobs of which each is of another sort
		sees(l, 10+d, fmt.Sprint("own", d), truth, 0, d)
	}
	before := score(l, "bert", 1)
	sees(l, 20, "", truth, 0, 1)
	if after := score(l, "bert", 1); after < before-0.5 {
		t.Errorf("jobs that cannot be compared with any have changed a score from %v to %v", before, after)
	}
	j := job.Job{Model: "bert"}
	for _, m := range []*perf.Reading{
		{Setup: perf.Setup{Seats: seats(1)}, Values: []perf.Value{{Name: perf.Rate, Series: []float64{0}}}},
		{Setup: perf.Setup{}, Values: []perf.Value{{Name: perf.Rate, Series: []float64{3}}}},
		{Setup: perf.Setup{Seats: seats(1), Beside: []string{"x"}}, Values: []perf.Value{{Name: perf.Rate, Series: []float64{3}}}},
		{Setup: perf.Setup{Seats: seats(1)}},
	} {
		l.Observe(&j, m) // tells nothing
	}
}

// A device that becomes slow is found, and one that was mended is not doubtful for long: what gangs said of it
// before is forgotten.
func TestDrift(t *testing.T) {
	l := devices.New()
	truth := []float64{1, 1, 1, 1, 1, 1}
	n := 0
	work := func(rounds int, gang bool) {
		for range rounds {
			for d := range truth {
				sees(l, n, "bert", truth, 0, d)
				n++
			}
			if gang {
				sees(l, n, "bert", truth, 0, 0, 1, 2, 3, 4, 5)
				n++
			}
		}
	}
	work(20, true)
	if got := l.Doubts(); len(got) != 0 {
		t.Fatalf("doubtful are %+v", got)
	}
	truth[4] = 1.5
	work(200, false)
	if got := l.Doubts(); len(got) != 1 || got[0].Seat != seats(4)[0] || math.Abs(got[0].Score-1.5) > 0.05 {
		t.Errorf("doubtful are %+v, want the fifth device alone", got)
	}
	truth[4] = 1
	work(200, false)
	if got := l.Doubts(); len(got) != 0 {
		t.Errorf("doubtful are %+v after it was mended", got)
	}
}

// On random devices and jobs scores come near to the truth, up to a factor that all have, as far as jobs
// of one device and gangs can tell; equal readings make equal beliefs.
func TestTruth(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(4, 24).Draw(t, "devices")
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		truth := make([]float64, n)
		for d := range truth {
			truth[d] = math.Exp(0.03 * rng.NormFloat64())
			if rng.IntN(8) == 0 {
				truth[d] *= 1.2 + rng.Float64()
			}
		}
		a, b := devices.New(), devices.New()
		at := 0
		see := func(model string, on ...int) {
			noise := 0.005 * rng.NormFloat64()
			for _, l := range []*devices.Learner{a, b} {
				sees(l, at, model, truth, noise, on...)
			}
			at++
		}
		for range 3 {
			for d := range truth {
				see([]string{"bert", "gpt2", "transformer"}[rng.IntN(3)], d)
			}
			for range n {
				perm := rng.Perm(n)
				see("bert", perm[:1+rng.IntN(min(8, n))]...)
			}
		}
		shift := 0.0
		for d := range truth {
			shift += math.Log(score(a, "bert", d)/truth[d]) / float64(n)
		}
		for d := range truth {
			if got := math.Log(score(a, "bert", d)/truth[d]) - shift; math.Abs(got) > 0.08 {
				t.Errorf("device %d of %d: score %.3f, true %.3f, all are off by %.3f", d, n, score(a, "bert", d), truth[d], shift)
			}
			if score(a, "bert", d) != score(b, "bert", d) {
				t.Error("equal readings make unequal beliefs")
			}
		}
	})
}

// BenchmarkObserve is what a reading costs of 2,000 jobs on 10,000 devices, where one in ten is a gang.
func BenchmarkObserve(b *testing.B) {
	rng := rand.New(rand.NewPCG(1, 2))
	truth := make([]float64, 10000)
	for d := range truth {
		truth[d] = 1 + 0.1*rng.Float64()
	}
	for b.Loop() {
		l := devices.New()
		for n := range 2000 {
			first, gpus := rng.IntN(9900), 1
			if n%10 == 0 {
				gpus = 1 << rng.IntN(6)
			}
			on := make([]int, gpus)
			for i := range on {
				on[i] = first + i
			}
			sees(l, n, []string{"bert", "resnet50", "lstm"}[n%3], truth, 0, on...)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Milliseconds())/float64(b.N)/2000, "ms/reading")
}
