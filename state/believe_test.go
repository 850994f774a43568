package state_test

import (
	"testing"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/state"
	"github.com/norn-scheduler/norn/tenant"
)

// TestBelieve: a job cannot have a type on which it is believed to stand still, whether
// that is said before the job is submitted or after. Jobs of one demand that are believed
// to run on the same types are of one class.
func TestBelieve(t *testing.T) {
	c := cluster.New()
	for _, name := range []string{"A", "B"} {
		typ, err := c.AddType(cluster.GPUType{Name: name})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.AddNode(cluster.NodeSpec{GPUs: []cluster.GPUs{{Type: typ, Count: 1}}}); err != nil {
			t.Fatal(err)
		}
	}
	s := state.New(c, tenant.NewTree(0))
	demand := job.GPUs(1)
	onA := job.GPUs(1)
	onA.Types = "A"
	jobs := []job.Job{
		{Key: "any", Demand: &demand}, {Key: "picky", Model: "picky", Demand: &demand}, {Key: "picky too", Model: "picky", Demand: &demand},
		{Key: "nowhere", Model: "picky", Demand: &onA}, {Key: "later", Model: "picky", Demand: &demand},
	}
	for i := range jobs {
		jobs[i].ID = job.ID(i)
		if i == len(jobs)-1 {
			s.Believe(perf.Declared{{Model: "picky", Type: "A"}: 0})
		}
		if err := s.Submit(&jobs[i], -1); err != nil {
			t.Fatal(err)
		}
	}
	for i, want := range []struct {
		mask  cluster.TypeMask
		still bool
	}{{0, false}, {2, false}, {2, false}, {0, true}, {2, false}} {
		r := s.Record(job.ID(i))
		class := s.Class(r.Class)
		if r.Mask != want.mask || class.Mask != want.mask || class.Still != want.still || class.NoType != want.still {
			t.Errorf("job %s: mask %b, class %+v, want mask %b, still %v", r.Job.Key, r.Mask, class, want.mask, want.still)
		}
	}
	if a, b := s.Record(1), s.Record(4); a.Class != b.Class || a.Class == s.Record(0).Class {
		t.Errorf("classes are %d, %d and %d of one that runs anywhere", a.Class, b.Class, s.Record(0).Class)
	}
}
