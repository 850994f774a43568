package cassini_test

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/policy/cassini"
	"github.com/norn-scheduler/norn/policy/fifo"
	"github.com/norn-scheduler/norn/sched"
	"github.com/norn-scheduler/norn/sim/simtest"
)

// racks is a cluster of racks with 50 Gbit/s up. Node i has one GPU, an adapter of 50 Gbit/s, and is in rack of[i].
func racks(t *testing.T, of ...int) *cluster.Cluster {
	t.Helper()
	c := cluster.New()
	typ, _ := c.AddType(cluster.GPUType{Name: "gpu"}) // cannot fail: the first type
	for _, r := range of {
		for c.Domains() <= r+1 {
			d, err := c.AddDomain("rack", fmt.Sprint(c.Domains()), 0)
			if err != nil {
				t.Fatal(err)
			}
			cluster.SetUplink(c, d, cluster.Uplink{GBps: 50 * gbit})
		}
		if _, err := c.AddNode(cluster.NodeSpec{GPUs: []cluster.GPUs{{Type: typ, Count: 1}}, Domain: cluster.DomainID(r + 1), NICs: cluster.NICs{Count: 1, GBps: 50 * gbit}}); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

// bursty is a job that sends so many Gbit/s from when to when in each iteration.
func bursty(iteration, from, to time.Duration, gbps float64) func(*job.Job) {
	return func(j *job.Job) {
		j.Hints = &job.Hints{Iteration: iteration, Bursts: job.Bursts{{From: from, To: to, GBps: gbps * gbit}}}
	}
}

func under(set map[string]string) func() (sched.Policy, error) {
	return func() (sched.Policy, error) {
		c := cassini.NewConfig()
		for k, v := range set {
			if err := c.Params().Set(k, v); err != nil {
				return nil, err
			}
		}
		return c.Policy()
	}
}

// TestTurns: acceptance G. Two jobs cross the same uplinks for half of their iterations each. Told when to begin
// these, they take as long as alone. Else they do as their numbers have it: here 1.19 times as long.
func TestTurns(t *testing.T) {
	jobs := []simtest.Job{
		{Key: "a", GPUs: 2, Run: 100, Spec: bursty(100*ms, 0, 50*ms, 40)},
		{Key: "b", GPUs: 2, Run: 100, Spec: bursty(100*ms, 0, 50*ms, 40)},
	}
	for shift, want := range map[string]float64{"true": 100, "false": 119.11} {
		r := simtest.Go(t, simtest.Config{Cluster: racks(t, 0, 1, 0, 1), Make: under(map[string]string{"host": "fifo", "candidates": "1", "shift": shift})}, jobs...)
		for _, key := range []string{"a", "b"} {
			if got := r.End(key); math.Abs(got-want) > 0.1 {
				t.Errorf("shift %s: %s ends at %v s, want %v\n%s", shift, key, got, want, strings.Join(r.Log, "\n"))
			}
		}
	}
}

// TestPlaces: acceptance F. A job of two GPUs that sends for 80 % of its time comes to a cluster of which the first free nodes share
// uplinks with a job like it; others are in racks of their own. The host, fifo, takes the first; cassini does not, and keeps size and number of nodes.
func TestPlaces(t *testing.T) {
	jobs := []simtest.Job{
		{Key: "a", GPUs: 2, Run: 100, Spec: bursty(100*ms, 0, 80*ms, 50)},
		{Key: "b", GPUs: 2, Run: 100, Spec: bursty(100*ms, 0, 80*ms, 50)},
	}
	for candidates, want := range map[string]bool{"1": false, "10": true} {
		r := simtest.Go(t, simtest.Config{Cluster: racks(t, 0, 1, 0, 1, 2, 3, 4, 5), Make: under(map[string]string{"host": "fifo", "candidates": candidates})}, jobs...)
		if alone := math.Abs(r.End("b")-100) < 1e-6; alone != want {
			t.Errorf("%s candidates: b ends at %v s\n%s", candidates, r.End("b"), strings.Join(r.Log, "\n"))
		}
	}
}

// TestNothingShared: acceptance H. Without a shared link no shift is told, and the host's first choice is kept, the
// log is that of the host.
func TestNothingShared(t *testing.T) {
	jobs := []simtest.Job{
		{Key: "a", GPUs: 2, Run: 100, Spec: bursty(100*ms, 0, 80*ms, 50)},
		{Key: "b", GPUs: 2, At: 5, Run: 100, Spec: bursty(100*ms, 0, 80*ms, 50)},
		{Key: "c", GPUs: 3, At: 7, Run: 10}, {Key: "d", GPUs: 1, At: 9, Run: 10, Spec: bursty(100*ms, 0, 80*ms, 50)},
	}
	host := simtest.Go(t, simtest.Config{Cluster: racks(t, 0, 0, 1, 1, 2, 2), Make: func() (sched.Policy, error) { return fifo.NewConfig().Policy() }}, jobs...)
	r := simtest.Go(t, simtest.Config{Cluster: racks(t, 0, 0, 1, 1, 2, 2), Make: under(map[string]string{"host": "fifo"})}, jobs...)
	if strings.Join(host.Log, "\n") != strings.Join(r.Log, "\n") {
		t.Errorf("fifo\n%s\ncassini\n%s", strings.Join(host.Log, "\n"), strings.Join(r.Log, "\n"))
	}
}
