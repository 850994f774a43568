package perf_test

import (
	"math"
	"slices"
	"testing"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
)

// TestSlice is acceptance 1, 2 and 4 of the specification of EasyScale: V100s do 3 mini-batches in a
// second and P100s 1.5.
func TestSlice(t *testing.T) {
	for _, k := range []struct {
		workers, v100, p100 int
		each                []int // workers on each V100 and P100
		rate                float64
	}{
		{4, 1, 1, []int{3, 1}, 4}, {4, 1, 0, []int{4, 0}, 3}, {4, 2, 0, []int{2, 0}, 6}, {4, 3, 0, []int{2, 0}, 6}, {4, 4, 0, []int{1, 0}, 12},
		{4, 2, 2, []int{2, 1}, 6}, {4, 1, 2, []int{2, 1}, 6},
		{8, 1, 0, []int{8, 0}, 3}, {8, 2, 0, []int{4, 0}, 6}, {8, 3, 0, []int{3, 0}, 8}, {8, 4, 0, []int{2, 0}, 12}, {8, 8, 0, []int{1, 0}, 24},
	} {
		s := perf.Slice(k.workers, []perf.GPUsOf{{GPUs: k.v100, Speed: 3}, {GPUs: k.p100, Speed: 1.5}})
		if got := s.Rate() * float64(k.workers); math.Abs(got-k.rate) > 1e-9 || !slices.Equal(s.Workers, k.each) {
			t.Errorf("%d workers on %d V100 and %d P100: %v, %v mini-batches in a second; want %v, %v", k.workers, k.v100, k.p100, s.Workers, got, k.each, k.rate)
		}
	}
	if s := perf.Slice(4, []perf.GPUsOf{{GPUs: 1, Speed: 3}, {GPUs: 1, Speed: 1.5}}); math.Abs(s.Waste-0.5/4.5) > 1e-9 {
		t.Errorf("waste %v", s.Waste)
	}
	if s := perf.Slice(4, []perf.GPUsOf{{GPUs: 2, Speed: 0}}); s.Rate() != 0 || s.Speed() != 0 {
		t.Errorf("where it cannot run: %+v", s)
	}
}

// TestSliceAgainstBruteForce: no division of workers has a shorter step.
func TestSliceAgainstBruteForce(t *testing.T) {
	speeds := []float64{0, 0.7, 1, 1.5, 3}
	for workers := 1; workers <= 9; workers++ {
		for _, a := range speeds {
			for _, b := range speeds {
				for n := range 4 {
					for m := range 4 {
						best := math.Inf(1)
						for x := 0; x <= workers; x++ {
							for y := 0; y <= workers; y++ {
								if x*n+y*m < workers || x*n > 0 && a == 0 || y*m > 0 && b == 0 {
									continue
								}
								step := 0.0
								if x*n > 0 {
									step = float64(x) / a
								}
								if y*m > 0 {
									step = max(step, float64(y)/b)
								}
								best = min(best, step)
							}
						}
						if s := perf.Slice(workers, []perf.GPUsOf{{GPUs: n, Speed: a}, {GPUs: m, Speed: b}}); s.Step != best && math.Abs(s.Step-best) > 1e-12 {
							t.Fatalf("%d workers, %d GPUs of %v and %d of %v: step %v, best is %v", workers, n, a, m, b, s.Step, best)
						}
					}
				}
			}
		}
	}
}

// TestSlicedSpeed is acceptance 1 of the specification of Singularity, by GPUs: a job of 4 workers
// runs at 1 on 4 of them, at 0.485437 on 2 and at 0.242718 on 1, one of 8 at 0.242718 on 2. On
// unlike GPUs those that are twice as fast have more workers; other jobs run as ever.
func TestSlicedSpeed(t *testing.T) {
	c := cluster.New()
	fast, _ := c.AddType(cluster.GPUType{Name: "V100", Speed: 1})
	slow, _ := c.AddType(cluster.GPUType{Name: "P100", Speed: 0.5})
	node, err := c.AddNode(cluster.NodeSpec{GPUs: []cluster.GPUs{{Type: fast, Count: 8}, {Type: slow, Count: 4}}})
	if err != nil {
		t.Fatal(err)
	}
	on := func(first, n int) *cluster.Alloc {
		a := &cluster.Alloc{Pieces: []cluster.Piece{{Node: node, Tasks: int32(n), Shares: int32(n)}}}
		for i := range n {
			a.Shares = append(a.Shares, cluster.Share{Device: cluster.DeviceID(first + i), Milli: 1000})
		}
		return a
	}
	model := perf.Analytic{Scaling: 1, Spread: 1}
	for _, k := range []struct {
		way               job.ResizeMode
		workers, first, n int
		want              float64
	}{
		{job.TimeSliced, 4, 0, 4, 1}, {job.TimeSliced, 4, 0, 2, 0.485437}, {job.TimeSliced, 4, 0, 1, 0.242718}, {job.TimeSliced, 8, 0, 2, 0.242718},
		{job.TimeSliced, 4, 0, 3, 0.485437}, {job.TimeSliced, 4, 7, 2, 1 / 3.0 / 1.03}, {job.TimeSliced, 2, 7, 3, 0.485437}, {job.InPlace, 4, 0, 3, 0.75},
	} {
		d := job.GPUs(k.workers)
		d.Roles[0].Min, d.Roles[0].Max = 1, int32(k.workers)
		j := &job.Job{Demand: &d, Resize: k.way}
		if got := perf.With(model, j, c, on(k.first, k.n), job.Config{}); math.Abs(got-k.want) > 1e-6 {
			t.Errorf("%+v: %v", k, got)
		}
		if got := perf.On(model, j, c, fast, k.n, false); k.first == 0 && math.Abs(got-k.want) > 1e-6 {
			t.Errorf("%+v: believed %v", k, got)
		}
	}
}
