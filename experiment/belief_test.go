package experiment_test

import (
	"strings"
	"testing"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/experiment"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
)

func TestParseBelief(t *testing.T) {
	for in, want := range map[string]experiment.Belief{
		"truth": {}, "none": {Nothing: true}, "truth+40%": {Noise: 0.4}, "truth+learn": {Learns: true}, "none+learn": {Nothing: true, Learns: true},
		"truth+0.5%+learn": {Noise: 0.005, Learns: true}, "none+7%": {Nothing: true, Noise: 0.07},
	} {
		got, err := experiment.ParseBelief(in)
		if err != nil || got != want {
			t.Errorf("%s is %+v (%v), want %+v", in, got, err, want)
		}
	}
	for _, in := range []string{"", "oracle", "truth+", "truth+40", "truth+-1%", "truth+NaN%", "truth+learn+40%", "truth+learn+learn", "learn", "truth+1%+2%"} {
		if b, err := experiment.ParseBelief(in); err == nil || !strings.Contains(err.Error(), "none+learn") {
			t.Errorf("%q is taken as %+v (%v)", in, b, err)
		}
	}
}

func TestMakeBelief(t *testing.T) {
	a, others := &job.Job{Model: "a"}, []*job.Job{{Model: "b"}}
	truth := perf.Pairs{Speed: map[perf.Pair]float64{{Job: "a", Beside: "b"}: 0.5}}
	ask := func(s string, seed uint64) float64 {
		t.Helper()
		b, err := experiment.ParseBelief(s)
		if err != nil {
			t.Fatal(err)
		}
		return b.Make(truth, seed).Beside(a, others, cluster.GPUType{})
	}
	for in, want := range map[string]float64{"truth": 0.5, "none": 1, "truth+learn": 0.5, "none+learn": 1} {
		if got := ask(in, 1); got != want {
			t.Errorf("%s: %v, want %v", in, got, want)
		}
	}
	for _, in := range []string{"truth+20%", "truth+20%+learn"} {
		if one, same, other := ask(in, 1), ask(in, 1), ask(in, 2); one == 0.5 || one != same || one == other {
			t.Errorf("%s: %v, again %v, under another seed %v", in, one, same, other)
		}
	}
	if s := (experiment.Belief{}).Make(nil, 1); s.Beside(a, others, cluster.GPUType{}) != 1 {
		t.Error("without a truth somebody is disturbed")
	}
}
