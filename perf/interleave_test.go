package perf

import (
	"math"
	"testing"
	"time"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/job"
)

// The profiles of the paper on 8 GPUs, in milliseconds.
var muri = map[string]Stages{
	"vgg16": {82, 75, 66}, "resnet18": {784, 117, 77}, "bert": {0.5, 167, 59}, "gpt2": {0.6, 419, 49}, "a2c": {502, 14, 0.4}, "dqn": {435, 8, 0.5},
}

func group(names ...string) (out []Stages) {
	for _, n := range names {
		out = append(out, muri[n])
	}
	return out
}

// Acceptance C of the spec of Muri: the three-stage recurrence, alone and with the
// measured overhead.
func TestInterleaved(t *testing.T) {
	m := Interleave{Overhead: PublishedOverhead()}
	for _, c := range []struct {
		names          []string
		time, overhead float64
	}{
		{[]string{"gpt2", "a2c"}, 516.4, 676.66},
		{[]string{"gpt2", "bert"}, 586.5, 768.52},
		{[]string{"bert", "dqn"}, 443.5, 581.14},
		{[]string{"vgg16", "resnet18"}, 978, 1281.52},
		{[]string{"gpt2", "a2c", "vgg16", "bert"}, 710.0, 958.33},
	} {
		g := group(c.names...)
		if got := Interleaved(g, BestOrder); math.Abs(got-c.time) > 0.05 {
			t.Errorf("%v: %v, want %v", c.names, got, c.time)
		}
		if got := m.Time(g); math.Abs(got-c.overhead) > 0.05 {
			t.Errorf("%v with overhead: %v, want %v", c.names, got, c.overhead)
		}
		if Interleaved(g, WorstOrder) < Interleaved(g, BestOrder) {
			t.Errorf("%v: the worst order is better than the best", c.names)
		}
	}
}

// A job is slowed down to the pace of its group, and not by those who are not
// there.
func TestInterleave(t *testing.T) {
	of := func(name string, iteration time.Duration) *job.Job {
		h := &job.Hints{Iteration: iteration}
		for i, ms := range muri[name] {
			h.Stages[i] = time.Duration(ms * float64(time.Millisecond))
		}
		return &job.Job{Hints: h}
	}
	gpt2, a2c := of("gpt2", 437*time.Millisecond), of("a2c", 555*time.Millisecond)
	m := Interleave{}
	if got := m.Beside(gpt2, []*job.Job{a2c}, cluster.GPUType{}); math.Abs(got-437/516.4) > 1e-4 {
		t.Errorf("%v", got)
	}
	if got := m.Beside(a2c, []*job.Job{gpt2}, cluster.GPUType{}); got != 1 {
		t.Errorf("it runs at %v beside a job that leaves it its resources", got)
	}
	plain := &job.Job{}
	if got := m.Beside(plain, []*job.Job{plain, plain}, cluster.GPUType{}); math.Abs(got-1.0/3) > 1e-9 {
		t.Errorf("three jobs without stages run at %v each", got)
	}
	if got := m.Beside(plain, []*job.Job{plain, plain, plain, plain}, cluster.GPUType{}); math.Abs(got-1.0/5) > 1e-9 {
		t.Errorf("five jobs without stages run at %v each", got)
	}
}

// Acceptance A and B of the spec of Muri: the formula for k resources with a slot each,
// the efficiencies and the best matching that follow from it, and what the order is worth.
func TestRotated(t *testing.T) {
	a, b, c, d := []float64{2, 1}, []float64{1, 2}, []float64{3, 1}, []float64{1, 3}
	efficiency := func(time float64, jobs ...[]float64) float64 {
		sum := 0.0
		for _, j := range jobs {
			for _, stage := range j {
				sum += stage
			}
		}
		return sum / (float64(len(jobs[0])) * time)
	}
	for _, x := range []struct {
		pair        [][]float64
		time, gamma float64
	}{{[][]float64{a, b}, 3, 1}, {[][]float64{a, c}, 5, 0.7}, {[][]float64{a, d}, 4, 0.875}, {[][]float64{b, c}, 4, 0.875}, {[][]float64{b, d}, 5, 0.7}, {[][]float64{c, d}, 4, 1}} {
		got := Rotated(x.pair, BestOrder)
		if got != x.time || math.Abs(efficiency(got, x.pair...)-x.gamma) > 1e-12 {
			t.Errorf("%v: %v, efficiency %v; want %v and %v", x.pair, got, efficiency(got, x.pair...), x.time, x.gamma)
		}
	}
	four := [][]float64{{4, 1, 1, 1}, {1, 4, 1, 1}, {1, 1, 4, 1}, {1, 1, 1, 4}}
	if best, worst := Rotated(four, BestOrder), Rotated(four, WorstOrder); best != 7 || worst != 13 || efficiency(best, four...) != 1 {
		t.Errorf("four jobs: %v at best, %v at worst", best, worst)
	}
	for pair, want := range map[[2]int]float64{{0, 1}: 7, {0, 2}: 10, {0, 3}: 7, {1, 2}: 7, {1, 3}: 10, {2, 3}: 7} {
		if got := Rotated([][]float64{four[pair[0]], four[pair[1]]}, BestOrder); got != want {
			t.Errorf("jobs %v: %v, want %v", pair, got, want)
		}
	}
	if got := (Interleave{Slots: true}).Time([]Stages{{1, 2, 3}, {3, 1, 2}, {2, 3, 1}, {1, 1, 1}}); got != 6+3 {
		t.Errorf("four jobs on three resources: %v; three of them fit in 6, the fourth takes 3", got)
	}
}
