package perf_test

import (
	"math"
	"testing"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
)

// The worked example of the specification (acceptance 1 to 4): one job within a node, as
// parameter server over 25 and 100 Gb/s, and with eight GPUs that load by one way.
func TestIteration(t *testing.T) {
	it := perf.Iteration{Flops: 3.85e12, Memory: 70e9, Input: 50e6, Weights: 175e6, Sync: perf.AllReduceLocal}
	h := perf.PAIHardware()
	ms := func(what string, got, want float64) {
		t.Helper()
		if math.Abs(1000*got-want) > 1e-6 {
			t.Errorf("%s: %v ms, want %v", what, 1000*got, want)
		}
	}
	local := it.On(h, 1)
	ms("input", local.Input, 5)
	ms("operations", local.Flops, 500)
	ms("memory", local.Memory, 100)
	ms("links", local.Link, 5)
	ms("within a node", local.Total(), 610)
	it.Sync = perf.ParameterServer
	apart := it.On(h, 1)
	ms("network", apart.Network, 80)
	ms("way to the host", apart.Host, 25)
	ms("as parameter server", apart.Total(), 710)
	if penalty := apart.Total() / local.Total(); math.Abs(penalty-1.164) > 0.0005 {
		t.Errorf("locality penalty %v, want 1.164", penalty)
	}
	h.Network = 100e9 / 8
	ms("over 100 Gb/s", it.On(h, 1).Total(), 650)
	ms("input of eight", it.On(h, 8).Input, 40)
	it.Sync = perf.AllReduce
	ms("all-reduce over 100 Gb/s", it.On(h, 1).Total(), 625)
}

// An iteration keeps each resource busy for its part of the step. Jobs that
// need different resources share a GPU without loss.
func TestIterationDemand(t *testing.T) {
	h := perf.PAIHardware()
	compute := perf.Iteration{Flops: 7.7e12 * 0.06, Memory: 0.7e12 * 0.04}.Demand(h)
	memory := perf.Iteration{Flops: 7.7e12 * 0.04, Memory: 0.7e12 * 0.05, Input: 10e9 * 0.01}.Demand(h)
	for _, c := range []struct{ got, want perf.Demand }{{compute, perf.Demand{0.6, 0.4}}, {memory, perf.Demand{0.4, 0.5, 0.1}}, {perf.Iteration{}.Demand(h), perf.Demand{}}} {
		for r := range c.want {
			if math.Abs(c.got[r]-c.want[r]) > 1e-9 {
				t.Errorf("demands %v, want %v", c.got, c.want)
			}
		}
	}
	if f := (perf.Demands{}).Beside(demanding(compute), []*job.Job{demanding(memory)}, cluster.GPUType{}); math.Abs(f-1) > 1e-9 {
		t.Errorf("they slow each other down to %v", f)
	}
}
