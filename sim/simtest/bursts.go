package simtest

import (
	"time"

	"pgregory.net/rapid"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/job"
)

// drawBursts has most jobs send in bursts, in iterations of which some fit each other.
func drawBursts(t *rapid.T, spec func(*job.Job)) func(*job.Job) {
	iteration := time.Duration(rapid.SampledFrom([]int{0, 40, 60, 100, 100, 997}).Draw(t, "iteration")) * time.Millisecond
	var b job.Bursts
	if iteration > 0 {
		b[0] = job.Burst{From: 0, To: iteration * time.Duration(rapid.IntRange(1, 4).Draw(t, "sends")) / 8, GBps: rapid.SampledFrom([]float64{1, 3, 5, 9}).Draw(t, "GB/s")}
		if rapid.Bool().Draw(t, "again") {
			b[1] = job.Burst{From: iteration * 3 / 4, To: iteration, GBps: 2}
		}
	}
	return func(j *job.Job) {
		if spec(j); iteration > 0 {
			h := job.Hints{}
			if j.Hints != nil {
				h = *j.Hints
			}
			h.Iteration, h.Bursts = iteration, b
			j.Hints = &h
		}
	}
}

// slowRack is a rack with a slow uplink.
func slowRack(t *rapid.T, c *cluster.Cluster, i int) cluster.DomainID {
	d := rack(t, c, i)
	cluster.SetUplink(c, d, cluster.Uplink{GBps: 5})
	return d
}
