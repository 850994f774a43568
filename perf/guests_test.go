package perf_test

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
)

// holding is a job with demands that holds so many thousandths of a device.
func holding(d perf.Demand, milli, throttle int32) perf.Sharer {
	return perf.Sharer{Job: demanding(d), Share: cluster.Share{Milli: milli, Throttle: throttle}}
}

// TestPaced: the formulas of owners and guests, by hand.
func TestPaced(t *testing.T) {
	m, gpu := perf.Paced{}, cluster.GPUType{Name: "V100"}
	for _, c := range []struct {
		name   string
		s      perf.Sharer
		others []perf.Sharer
		want   float64
	}{
		{"an owner alone", holding(perf.Demand{1}, 1000, 0), nil, 1},
		{"a guest alone", holding(perf.Demand{1}, 0, 0), nil, 1},
		{"an owner beside a guest", holding(perf.Demand{0.6}, 1000, 0), []perf.Sharer{holding(perf.Demand{0.8}, 0, 0)}, 1 / 1.4},
		{"the guest", holding(perf.Demand{0.8}, 0, 0), []perf.Sharer{holding(perf.Demand{0.6}, 1000, 0)}, 0.5},
		{"the guest at half pace", holding(perf.Demand{0.8}, 0, 500), []perf.Sharer{holding(perf.Demand{0.6}, 1000, 0)}, 0.25},
		{"beside an owner that leaves nothing", holding(perf.Demand{0.8}, 0, 0), []perf.Sharer{holding(perf.Demand{1}, 1000, 0)}, 0},
		{"two guests share the gap", holding(perf.Demand{0.4}, 0, 0), []perf.Sharer{holding(perf.Demand{0.6}, 1000, 0), holding(perf.Demand{0.6}, 0, 0)}, 0.4},
		{"two owners", holding(perf.Demand{0.8}, 500, 0), []perf.Sharer{holding(perf.Demand{0.7}, 500, 0)}, 1 / 1.5},
	} {
		if got := perf.Among(m, c.s, c.others, gpu); math.Abs(got-c.want) > 1e-12 {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
	guest := holding(perf.Demand{0.1}, 0, 0)
	guest.Job.Hints.GPUMemory, guest.Share.Memory = 16*unit.GiB, 23*unit.GiB/2
	if got := perf.Among(m, guest, nil, gpu); math.Abs(got-(1-0.5*4.5/16)) > 1e-12 {
		t.Errorf("with spilled memory: %v", got)
	}
}

// TestServed: the formulas of services and others, by hand; by day a service uses more.
func TestServed(t *testing.T) {
	m, gpu := perf.Served{}, cluster.GPUType{Name: "T4"}
	service := holding(perf.Demand{0.3, 0.2}, 500, 0)
	service.Job.Kind = job.Inference
	other := holding(perf.Demand{0.8, 0.5}, 600, 0)
	if got, want := perf.Among(m, service, []perf.Sharer{other}, gpu), 1/(1+0.1*0.2*0.5); math.Abs(got-want) > 1e-12 {
		t.Errorf("the service: %v, want %v", got, want)
	}
	if got, want := perf.Among(m, other, []perf.Sharer{service}, gpu), 0.6/0.8/(1+0.2*0.5); math.Abs(got-want) > 1e-12 {
		t.Errorf("the other: %v, want %v", got, want)
	}
	if got, want := m.Busy(other, []perf.Sharer{service}, gpu), 0.6/(1+0.2*0.5); math.Abs(got-want) > 1e-12 {
		t.Errorf("the other keeps %v busy, want %v", got, want)
	}
	service.Load = 2
	if got, want := perf.Among(m, service, []perf.Sharer{other}, gpu), 1/(1+0.2+0.1*0.4*0.5); math.Abs(got-want) > 1e-12 {
		t.Errorf("the service by day: %v, want %v", got, want)
	}
	if got := perf.Among(m, other, nil, gpu); got != 1 {
		t.Errorf("alone: %v", got)
	}
}

// TestGuestsBounded: every factor is from 0 to 1, nobody gains by company, and what all
// keep busy together is no more than the device.
func TestGuestsBounded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var all []perf.Sharer
		for range rapid.IntRange(1, 4).Draw(t, "jobs") {
			part := func(name string) float64 { return rapid.Float64Range(0, 1).Draw(t, name) }
			s := holding(perf.Demand{part("use"), part("bandwidth")}, rapid.SampledFrom([]int32{0, 300, 1000}).Draw(t, "milli"), rapid.Int32Range(0, 1000).Draw(t, "throttle"))
			s.Job.Kind = rapid.SampledFrom([]job.Kind{job.Training, job.Inference}).Draw(t, "kind")
			s.Load = rapid.SampledFrom([]float64{0, 0.5, 2}).Draw(t, "load")
			all = append(all, s)
		}
		for _, m := range []perf.Gauged{perf.Paced{}, perf.Served{}} {
			for i, s := range all {
				others := append(append([]perf.Sharer{}, all[:i]...), all[i+1:]...)
				got, alone := perf.Among(m, s, others, cluster.GPUType{}), perf.Among(m, s, nil, cluster.GPUType{})
				busy := m.Busy(s, others, cluster.GPUType{})
				if got < 0 || got > 1 || got > alone+1e-12 || busy < 0 || busy > 1 {
					t.Fatalf("%T: %v beside others, %v alone, keeps %v busy", m, got, alone, busy)
				}
			}
		}
	})
}
