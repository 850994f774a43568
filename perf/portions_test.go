package perf_test

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
)

// throttled is a job that is kept from using its device for some thousandths of the
// time.
func throttled(j *job.Job, throttle int32) perf.Sharer {
	return perf.Sharer{Job: j, Share: cluster.Share{Throttle: throttle}}
}

// TestThrottledDemands: a neighbour that is throttled disturbs as much less as it
// demands less, and who is throttled itself runs that much slower.
func TestThrottledDemands(t *testing.T) {
	m, gpu := perf.Demands{}, cluster.GPUType{Name: "V100"}
	a, b := demanding(perf.Demand{0.6}), demanding(perf.Demand{0.8})
	for _, c := range []struct {
		own, other int32
		want       float64
	}{
		{0, 0, 1 / (1 + 0.6*0.4)},        // 1.4 of the multiprocessors are asked for
		{0, 500, 1},                      // 0.6 + 0.4 fit
		{0, 1000, 1},                     // as alone
		{500, 0, 0.5 / (1 + 0.6*0.4)},    // as not throttled, half of the time
		{1000, 0, 0},                     // it stands still
		{250, 250, 0.75 / (1 + 0.6*0.2)}, // 0.6 + 0.6
	} {
		got := perf.Among(m, throttled(a, c.own), []perf.Sharer{throttled(b, c.other)}, gpu)
		if math.Abs(got-c.want) > 1e-12 {
			t.Errorf("throttled %d beside %d: %v, not %v", c.own, c.other, got, c.want)
		}
	}
	switching := perf.Demands{Switch: 0.03}
	if got := perf.Among(switching, throttled(a, 0), []perf.Sharer{throttled(a, 1000)}, gpu); got != 1 {
		t.Errorf("beside one who stands still: %v", got)
	}
}

// TestFrozenInTurns: under measured pairs a throttled job is one that is frozen now
// and then, and the factor is the mean over who is awake.
func TestFrozenInTurns(t *testing.T) {
	named := func(model string) *job.Job { return &job.Job{Model: model} }
	m := perf.Pairs{Speed: map[perf.Pair]float64{{Job: "a", Beside: "b"}: 0.5, {Job: "a", Beside: "c"}: 0.8}}
	a, b, c := named("a"), named("b"), named("c")
	for _, k := range []struct {
		own, b, c int32
		want      float64
	}{
		{0, 0, 0, 0.4},
		{0, 1000, 0, 0.8},
		{0, 500, 0, 0.5*0.8 + 0.5*0.4},
		{200, 500, 250, 0.8 * (0.5*0.25*1 + 0.5*0.75*0.8 + 0.5*0.25*0.5 + 0.5*0.75*0.4)},
		{1000, 0, 0, 0},
	} {
		got := perf.Among(m, throttled(a, k.own), []perf.Sharer{throttled(b, k.b), throttled(c, k.c)}, cluster.GPUType{})
		if math.Abs(got-k.want) > 1e-12 {
			t.Errorf("%+v: %v", k, got)
		}
	}
}

// TestAmongUnthrottled: without throttles, Among is Beside; more throttle for a
// neighbour never slows a job down, more for itself never speeds it up.
func TestAmongUnthrottled(t *testing.T) {
	gpu := cluster.GPUType{Name: "V100"}
	rapid.Check(t, func(t *rapid.T) {
		draw := func(label string) *job.Job {
			d := perf.Demand{}
			for r := range d {
				d[r] = rapid.Float64Range(0, 1).Draw(t, label)
			}
			return demanding(d)
		}
		self := draw("self")
		var jobs []*job.Job
		var others []perf.Sharer
		for range rapid.IntRange(0, 3).Draw(t, "others") {
			jobs = append(jobs, draw("other"))
			others = append(others, throttled(jobs[len(jobs)-1], 0))
		}
		m := perf.Demands{Switch: rapid.SampledFrom([]float64{0, 0.03}).Draw(t, "switch")}
		if got, want := perf.Among(m, throttled(self, 0), others, gpu), m.Beside(self, jobs, gpu); math.Abs(got-want) > 1e-12 {
			t.Fatalf("%v, but Beside says %v", got, want)
		}
		own := rapid.Int32Range(0, 900).Draw(t, "own")
		now := perf.Among(m, throttled(self, own), others, gpu)
		if more := perf.Among(m, throttled(self, own+100), others, gpu); more > now+1e-12 {
			t.Fatalf("throttled more it runs at %v, not %v", more, now)
		}
		for i := range others {
			others[i].Share.Throttle = rapid.Int32Range(0, 1000).Draw(t, "throttle")
		}
		if less := perf.Among(m, throttled(self, own), others, gpu); less < now-1e-12 {
			t.Fatalf("beside throttled neighbours it runs at %v, not %v", less, now)
		}
	})
}
