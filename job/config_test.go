package job

import (
	"math"
	"testing"
)

// A report counts the epochs that were done with the batch before, where the job declares
// that batch. Work that is done again is not taken off.
func TestReport(t *testing.T) {
	d := GPUs(1)
	j := Job{Key: "a", Demand: &d, Batch: 32, Hints: &Hints{Modes: [MaxModes]Mode{{Batch: 32, Pace: 1}, {Batch: 64, Pace: 2}}}}
	var r Record
	if r.Report(Reported{}) == nil {
		t.Error("a job that was never submitted reports")
	}
	r.Submit(&j, 0)
	for _, c := range []struct {
		now  Reported
		want [2]int32
	}{
		{Reported{Batch: 64, Epoch: 4, Pace: 2}, [2]int32{4, 0}},
		{Reported{Batch: 64, Epoch: 6, Noise: 9}, [2]int32{4, 2}},
		{Reported{Batch: 7, Epoch: 8}, [2]int32{4, 4}},
		{Reported{Batch: 32, Epoch: 9}, [2]int32{4, 4}}, // with one that it does not declare
		{Reported{Batch: 32, Epoch: 2}, [2]int32{4, 4}},
		{Reported{Epoch: 5}, [2]int32{7, 4}},
		{Reported{Batch: 64, Epoch: 6}, [2]int32{8, 4}},
	} {
		if err := r.Report(c.now); err != nil {
			t.Fatal(err)
		}
		if r.Config.Reported != c.now || [2]int32(r.Config.Spent[:2]) != c.want {
			t.Errorf("after %+v it has %+v, want epochs %v", c.now, r.Config, c.want)
		}
	}
	for _, bad := range []Reported{{Batch: -1}, {Epoch: -1}, {Noise: -1}, {Noise: math.NaN()}, {Noise: math.Inf(1)}, {Pace: -1}, {Pace: math.NaN()}, {Pace: 1e10}} {
		was := r.Config
		if r.Report(bad) == nil || r.Config != was {
			t.Errorf("%+v is taken", bad)
		}
	}
	for want, r := range map[string]Reported{
		"its own batch": {}, "a batch of 64, after 3 epochs": {Batch: 64, Epoch: 3}, "a gradient noise of 1200": {Noise: 1200}, "a batch of 8, a gradient noise of 0.5, after 1 epoch": {Batch: 8, Noise: 0.5, Epoch: 1, Pace: 2},
	} {
		if got := r.String(); got != want {
			t.Errorf("it says %q, want %q", got, want)
		}
	}
	if got := (Reported{}).Times(); got != 1 {
		t.Errorf("a pace that is not told is %v", got)
	}
}
