package gen_test

import (
	"math"
	"slices"
	"testing"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/trace/gen"
)

// TestCommunicationMix: the findings that the draws are to have, each within a tenth. Weights and gradients take 62 % of
// GPU time. Of the jobs with parameter servers 60 % are faster with all-reduce in a node, where eight load their input
// together. Four times the network makes jobs with parameter servers 1.7 times as fast.
func TestCommunicationMix(t *testing.T) {
	m := &gen.Communication{Seed: 1}
	h := perf.PAIHardware()
	fast := h
	fast.Network *= 4
	var synced, all, local, faster, served float64
	sizes := slices.Concat(slices.Repeat([]int{1}, 70), slices.Repeat([]int{2}, 8), slices.Repeat([]int{4, 8}, 9), []int{16, 16, 16, 32}) // much like Philly's
	for i := range 20000 {
		d := job.GPUs(sizes[i%len(sizes)])
		s, ok := m.Step(&job.Job{ID: job.ID(i), Serial: int64(i + 1), Demand: &d})
		if !ok {
			t.Fatal("no step")
		}
		each := 1
		if s.Sync == perf.AllReduceLocal {
			each = d.GPUs()
		}
		at := s.On(h, each)
		synced += float64(d.GPUs()) * (at.Host + at.Link + at.Network)
		all += float64(d.GPUs()) * at.Total()
		if s.Sync != perf.ParameterServer {
			continue
		}
		served++
		faster += at.Total() / s.On(fast, 1).Total()
		ported := s
		ported.Sync = perf.AllReduceLocal
		if ported.On(h, 8).Total() < at.Total() {
			local++
		}
	}
	for _, c := range []struct {
		name      string
		got, want float64
	}{{"time of synchronisation", synced / all, 0.62}, {"jobs that gain from all-reduce", local / served, 0.6}, {"gain of four times the network", faster / served, 1.7}} {
		if t.Logf("%s: %.3f", c.name, c.got); math.Abs(c.got-c.want) > c.want/10 {
			t.Errorf("%s: %v, want %v", c.name, c.got, c.want)
		}
	}
}

// TestCommunicationPlaces: a job on one node that reduces gradients over its links is slower on two, by what its step
// takes longer. One with parameter servers is no slower where fewer GPUs load their input together. A job of parts of
// GPUs, and one of one GPU, are as fast as ever.
func TestCommunicationPlaces(t *testing.T) {
	m := &gen.Communication{Seed: 1, Of: perf.Reference{}}
	c := cluster.New()
	typ, _ := c.AddType(cluster.GPUType{Name: "gpu"}) // cannot fail: the first type
	for range 2 {
		if _, err := c.AddNode(cluster.NodeSpec{GPUs: []cluster.GPUs{{Type: typ, Count: 8}}}); err != nil {
			t.Fatal(err)
		}
	}
	on := func(gpus ...int) *cluster.Alloc {
		a := &cluster.Alloc{}
		for n, k := range gpus {
			a.Pieces = append(a.Pieces, cluster.Piece{Node: cluster.NodeID(n), Tasks: int32(k), Shares: int32(k)})
			for i := range k {
				a.Shares = append(a.Shares, cluster.Share{Device: cluster.DeviceID(8*n + i), Milli: 1000})
			}
		}
		return a
	}
	h := perf.PAIHardware()
	ways := map[perf.Sync]int{}
	for i := range 200 {
		d := job.GPUs(4)
		j := &job.Job{ID: job.ID(i), Serial: int64(i + 1), Demand: &d}
		s, _ := m.Step(j)
		ways[s.Sync]++
		apart := s
		if s.Sync == perf.AllReduceLocal {
			apart.Sync = perf.AllReduce
		}
		want := s.On(h, 4).Total() / apart.On(h, 2).Total()
		if got := m.Speed(j, c, on(2, 2)); math.Abs(got-want) > 1e-12 || math.Abs(m.On(j, c, 0, 4, true)-want) > 1e-12 || s.Sync == perf.ParameterServer && got < 1 {
			t.Errorf("job %d, %+v: speed %v on two nodes, want %v", i, s, got, want)
		}
		if got := m.Speed(j, c, on(4)); got != 1 || m.On(j, c, 0, 4, false) != 1 {
			t.Errorf("job %d: speed %v on one node", i, got)
		}
	}
	if ways[perf.AllReduceLocal] < 20 || ways[perf.ParameterServer] < 100 || len(ways) != 2 {
		t.Errorf("%v", ways)
	}
	one, part := job.GPUs(1), job.GPUs(2)
	part.Roles[0].GPU = 500
	for _, d := range []*job.Demand{&one, &part} {
		if got := m.Speed(&job.Job{Serial: 7, Demand: d}, c, on(1)); got != 1 {
			t.Errorf("%v: speed %v", d, got)
		}
	}
}
