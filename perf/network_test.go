package perf_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
)

// racks is a cluster of racks of nodes with GPUs and adapters of 10 GB/s.
func racks(t testing.TB, n, nodes, gpus int, up float64, nics int) *cluster.Cluster {
	t.Helper()
	c := cluster.New()
	typ, _ := c.AddType(cluster.GPUType{Name: "gpu"}) // cannot fail: the first type
	for r := range n {
		d, err := c.AddDomain("rack", fmt.Sprint(r), 0)
		if err != nil {
			t.Fatal(err)
		}
		cluster.SetUplink(c, d, cluster.Uplink{GBps: up, Latency: time.Millisecond})
		for range nodes {
			if _, err := c.AddNode(cluster.NodeSpec{GPUs: []cluster.GPUs{{Type: typ, Count: gpus}}, Domain: d, NICs: cluster.NICs{Count: nics, GBps: 10, Latency: time.Millisecond}}); err != nil {
				t.Fatal(err)
			}
		}
	}
	return c
}

func talker(id job.ID, pattern string) *job.Job {
	return &job.Job{ID: id, Hints: &job.Hints{Sensitive: true, Pattern: pattern}}
}

// TestNetwork: flows in GB/s, by hand. Four racks of two nodes with two GPUs and two adapters of 10 GB/s; a rack
// has 15 GB/s up.
func TestNetwork(t *testing.T) {
	type runs struct {
		pattern string
		devices []cluster.DeviceID
		want    float64
	}
	for name, jobs := range map[string][]runs{
		"both adapters":      {{"ring", []cluster.DeviceID{0, 1, 2, 3}, 20}},
		"one adapter":        {{"ring", []cluster.DeviceID{0, 2}, 10}},
		"one and two":        {{"ring", []cluster.DeviceID{0, 2, 3}, 10}},
		"an uplink":          {{"ring", []cluster.DeviceID{0, 1, 4, 5}, 15}},
		"a tree":             {{"tree", []cluster.DeviceID{0, 1, 4, 5}, 20}},
		"a clique in rack":   {{"clique", []cluster.DeviceID{0, 1, 2, 3}, 20}},
		"a clique of four":   {{"clique", []cluster.DeviceID{0, 1, 2, 3, 4, 5, 6, 7}, 15 / (4. / 3)}}, // 2 x 2 / 3 flows cross
		"a star":             {{"star", []cluster.DeviceID{0, 1, 2, 3, 4, 5, 6, 7}, 20. / 3}},         // the hub has three flows
		"two share an edge":  {{"ring", []cluster.DeviceID{0, 4}, 7.5}, {"ring", []cluster.DeviceID{1, 6}, 7.5}},
		"adapters of others": {{"ring", []cluster.DeviceID{0, 2}, 10}, {"ring", []cluster.DeviceID{1, 3}, 10}},
		"the rest for one":   {{"tree", []cluster.DeviceID{0, 4}, 10}, {"ring", []cluster.DeviceID{2, 3, 6, 7}, 10}}, // 15 - 5 are left
		"on one node":        {{"ring", []cluster.DeviceID{0, 1}, math.NaN()}},
	} {
		c := racks(t, 4, 2, 2, 15, 2)
		n := perf.NewNetwork()
		for i, j := range jobs {
			n.Enter(talker(job.ID(i), j.pattern), c, on(c, j.devices...))
		}
		for i, j := range jobs {
			got, ok := n.Rate(job.ID(i))
			if ok == math.IsNaN(j.want) || ok && math.Abs(got-j.want) > 1e-9 {
				t.Errorf("%s: job %d has %v GB/s (%v), want %v", name, i, got, ok, j.want)
			}
		}
	}
}

// TestNetworkShares: GPUs of two jobs that have one adapter between them share it, and who is
// alone again is told to be faster.
func TestNetworkShares(t *testing.T) {
	c := racks(t, 1, 2, 4, 0, 1)
	n := perf.NewNetwork()
	n.Enter(talker(0, ""), c, on(c, 0, 4))
	n.Enter(talker(1, ""), c, on(c, 1, 2, 5, 6))
	if got := n.Changed(nil); len(got) != 2 {
		t.Errorf("%v have changed", got)
	}
	if a, _ := n.Rate(0); a != 5 {
		t.Errorf("%v GB/s", a)
	}
	n.Leave(1)
	if a, _ := n.Rate(0); a != 10 || !n.Stale() || len(n.Changed(nil)) != 1 || n.Stale() {
		t.Errorf("%v GB/s", a)
	}
}

// TestMaxMin: on random trees and jobs no link carries more than it can, and each job crosses a full link of which nobody
// has more of its flows than it has.
func TestMaxMin(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		c := racks(t, 3, 3, 2, float64(rapid.IntRange(5, 60).Draw(r, "up")), rapid.IntRange(1, 2).Draw(r, "adapters"))
		n := perf.NewNetwork()
		count := rapid.IntRange(1, 6).Draw(r, "jobs")
		for i := range count {
			var devices []cluster.DeviceID
			for d := range cluster.DeviceID(18) {
				if rapid.IntRange(0, 4).Draw(r, "there") == 0 {
					devices = append(devices, d)
				}
			}
			if len(devices) > 0 {
				n.Enter(talker(job.ID(i), rapid.SampledFrom([]string{"ring", "tree", "star", "clique"}).Draw(r, "pattern")), c, on(c, devices...))
			}
			if rapid.IntRange(0, 3).Draw(r, "asked") == 0 {
				n.Rate(job.ID(i))
			}
		}
		loads := map[int32]float64{}
		most := map[int32]float64{}
		perf.EachUse(n, func(id job.ID, link int32, gbps, flows, rate float64) {
			loads[link] += flows * rate / gbps
			most[link] = max(most[link], rate)
		})
		bound := map[job.ID]bool{}
		perf.EachUse(n, func(id job.ID, link int32, gbps, flows, rate float64) {
			if loads[link] > 1+1e-9 {
				r.Fatalf("link %d carries %v of what it can", link, loads[link])
			}
			bound[id] = bound[id] || loads[link] > 1-1e-6 && rate >= most[link]*(1-1e-6)
		})
		for id, is := range bound {
			if !is {
				r.Fatalf("job %d could have more", id)
			}
		}
	})
}

// TestSpread: a job on two racks that communicates for 40 % of its time, and needs a second for an iteration.
func TestSpread(t *testing.T) {
	c := racks(t, 2, 2, 2, 5, 2)
	l := perf.NewLinked(0.4, nil)
	minds := talker(0, "")
	a := on(c, 0, 1, 4, 5)
	l.Enter(minds, c, a)
	if got, want := l.Factor(minds, c, a), 1/(0.6+0.4*4); math.Abs(got-want) > 1e-12 { // 5 of 20 GB/s
		t.Errorf("%v, want %v", got, want)
	}
	minds.Hints.Iteration = time.Second // two messages, over 2 ms of adapters and 2 ms of uplinks each
	if got, want := l.Factor(minds, c, a), 1/(0.6+0.4*4+2*0.004); math.Abs(got-want) > 1e-12 {
		t.Errorf("with latency %v, want %v", got, want)
	}
	other := talker(1, "")
	b := on(c, 2, 6)
	l.Enter(other, c, b)
	if got := l.Changed(nil); len(got) != 2 {
		t.Errorf("%v have changed", got)
	}
	minds.Hints.Iteration = 0
	if got, want := l.Factor(minds, c, a), 1/(0.6+0.4*8); math.Abs(got-want) > 1e-12 {
		t.Errorf("beside another %v, want %v", got, want)
	}
	if l.Factor(&job.Job{ID: 2}, c, a) != 1 {
		t.Error("a job that does not mind is slower")
	}
}

// BenchmarkNetwork: one of 2,000 jobs of 16 GPUs, on two nodes each anywhere in a three-tier network of 5,000 nodes, leaves
// and comes back.
func BenchmarkNetwork(b *testing.B) {
	c := racks(b, 250, 20, 8, 400, 8)
	n := perf.NewNetwork()
	var all []*cluster.Alloc
	for i := range 2000 {
		var devices []cluster.DeviceID
		for k := range 2 {
			for d := range 8 {
				devices = append(devices, cluster.DeviceID((i*8+k*2000*8+d)%40000))
			}
		}
		all = append(all, on(c, devices...))
		n.Enter(talker(job.ID(i), "ring"), c, all[i])
	}
	n.Rate(0)
	i := 0
	for b.Loop() {
		id := job.ID(i % 2000)
		n.Leave(id)
		n.Rate(0)
		n.Enter(talker(id, "ring"), c, all[id])
		n.Rate(0)
		i++
	}
}
