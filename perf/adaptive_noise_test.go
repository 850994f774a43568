package perf

import (
	"math"
	"testing"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/job"
)

// four is a cluster of one node of four GPUs, and what a job holds there.
func four(t *testing.T, gpus int) (*cluster.Cluster, *cluster.Alloc) {
	c := cluster.New()
	typ, err := c.AddType(cluster.GPUType{Name: "gpu"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.AddNode(cluster.NodeSpec{GPUs: []cluster.GPUs{{Type: typ, Count: 4}}}); err != nil {
		t.Fatal(err)
	}
	a := &cluster.Alloc{Pieces: []cluster.Piece{{Tasks: int32(gpus), Shares: int32(gpus)}}}
	for i := range gpus {
		a.Shares = append(a.Shares, cluster.Share{Device: cluster.DeviceID(i), Milli: 1000})
	}
	return c, a
}

// TestNoiseOfTheMoment is the example of the specification, with four GPUs and a batch of 200.
// The goodput is 952.381 at a noise of 100, as much as an example is worth there. At a noise
// of 300 it is 1428.571 x (300 + 100) / (300 + 200).
func TestNoiseOfTheMoment(t *testing.T) {
	g := example(1)
	for noise, want := range map[float64]float64{0: 952.3810, 100: 952.3810, 300: 1142.8571} {
		now := g.At(noise)
		if got := now.Fixed(4, false, 200); !nearly(got, want, 1e-6) {
			t.Errorf("with a noise of %v the goodput is %v, want %v", noise, got, want)
		}
	}
	if got, want := g.Fixed(40, false, 200), g.Fixed(20, false, 200); got != want {
		t.Errorf("with less than ten examples each, GPUs stay idle: %v, want %v", got, want)
	}
	if got := g.Fixed(0, false, 200); got != 0 {
		t.Errorf("without GPUs the goodput is %v", got)
	}
}

// TestAdaptiveCourse: a job runs all its training as its user asked at speed 1 on average,
// slower while its gradients are quiet. Told a smaller batch for these, it is faster.
func TestAdaptiveCourse(t *testing.T) {
	g := example(1)
	g.Stages = []Stage{{0, 20}, {0.25, 2000}}
	m := NewAdaptive(map[string]Goodput{"mine": g})
	c, a := four(t, 4)
	d := job.GPUs(4)
	j := &job.Job{Model: "mine", Demand: &d, Batch: 400}
	speed := func(noise float64, batch int32) float64 {
		return With(m, j, c, a, job.Config{Reported: job.Reported{Noise: noise}, Chosen: job.Chosen{Batch: batch}})
	}
	quiet, loud := speed(20, 0), speed(2000, 0)
	if time := 0.25/quiet + 0.75/loud; math.Abs(time-1) > 1e-9 || quiet >= loud {
		t.Errorf("its speeds are %v and %v: the training takes %v times as long as told", quiet, loud, time)
	}
	if got := speed(20, 100); got != quiet {
		t.Errorf("told its own batch it has speed %v, want %v", got, quiet)
	}
	if small, large := speed(20, 30), speed(2000, 128); small <= quiet || large <= loud {
		t.Errorf("with smaller and larger batches it has speeds %v and %v, with its own %v and %v", small, large, quiet, loud)
	}
	if got := m.On(j, c, 0, 4, false); got != 1 {
		t.Errorf("it is believed to have speed %v as it is asked for", got)
	}
	if x := (&job.Job{Model: "other", Demand: &d}); With(m, x, c, a, job.Config{Reported: job.Reported{Pace: 2}}) != 2 {
		t.Error("a job that is not known does not run at its pace")
	}
}
