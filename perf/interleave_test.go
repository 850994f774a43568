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
	m := Interleave{Overhead: PublishedOverhead}
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
