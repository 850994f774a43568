package gen_test

import (
	"testing"

	"github.com/norn-scheduler/norn/trace"
	"github.com/norn-scheduler/norn/trace/clusterspec"
	"github.com/norn-scheduler/norn/trace/gen"
)

// TestSampleCluster: the cluster of the sample is one, and has room for every
// job.
func TestSampleCluster(t *testing.T) {
	s, err := clusterspec.Parse(gen.SampleCluster)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := s.GPUs(), gen.SampleOptions().GPUs; got != want {
		t.Errorf("%s has %d GPUs, the sample is meant for %d", gen.SampleCluster, got, want)
	}
	g, err := gen.Sample()
	if err != nil {
		t.Fatal(err)
	}
	var e trace.Entry
	for g.Next(&e) == nil {
		if e.Job.Demand.GPUs() > s.GPUs() {
			t.Errorf("job %s asks for %v", e.Job.Key, e.Job.Demand)
		}
	}
}

// TestVenusRunsInItsPartitions: tenants like those of Venus have a partition of
// their own in the preset, in which each of their jobs has room.
func TestVenusRunsInItsPartitions(t *testing.T) {
	s, err := clusterspec.Parse("helios-venus-lucid")
	if err != nil {
		t.Fatal(err)
	}
	room := map[string]int{}
	for _, g := range s.Nodes {
		room[g.Partition] += g.Count * 8
	}
	g, err := gen.New(gen.Options{Like: gen.Venus, Jobs: 20_000, Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	var e trace.Entry
	for g.Next(&e) == nil {
		if e.Job.Demand.GPUs() > room[e.Job.Tenant] {
			t.Fatalf("job %s asks for %v, its tenant %q has %d GPUs", e.Job.Key, e.Job.Demand, e.Job.Tenant, room[e.Job.Tenant])
		}
	}
}
