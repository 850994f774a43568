package state_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/place"
	"github.com/norn-scheduler/norn/state"
	"github.com/norn-scheduler/norn/tenant"
	"github.com/norn-scheduler/norn/unit"
)

func newState(t *rapid.T) *state.State {
	c := cluster.New()
	typ, _ := c.AddType(cluster.GPUType{Name: "V100"})
	for i := range 4 {
		spec := cluster.NodeSpec{GPUs: []cluster.GPUs{{Type: typ, Count: 4}}, CPU: 16 * unit.One, Memory: 64 * unit.GiB}
		if i == 3 {
			spec.Pool = c.AddPool("own")
		}
		if _, err := c.AddNode(spec); err != nil {
			t.Fatal(err)
		}
	}
	tenants := tenant.NewTree(time.Minute)
	if _, err := tenants.Add("parent", tenant.Root, 0, 0, 0); err != nil {
		t.Fatal(err)
	}
	id, _ := tenants.Lookup("parent")
	if _, err := tenants.Add("child", id, 0, 0, 0); err != nil {
		t.Fatal(err)
	}
	return state.New(c, tenants)
}

// TestAnyWayThroughLife takes random arrows, allowed and not, with many jobs: the
// ledger, the tenants and the lists always agree with the records, an arrow that
// is refused changes nothing, and the jobs that are over are in the order in
// which they left.
func TestAnyWayThroughLife(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := newState(t)
		var ended []job.ID
		why := job.Reason{Code: job.MakesRoom, Job: job.None}
		t.Repeat(map[string]func(*rapid.T){
			"submit": func(t *rapid.T) {
				d := job.GPUs(rapid.IntRange(1, 6).Draw(t, "gpus"))
				d.Roles[0].CPU = rapid.SampledFrom([]unit.Milli{0, 1000}).Draw(t, "cpu")
				d.Roles[0].Min, d.Roles[0].Max = 1, d.Roles[0].Tasks
				j := &job.Job{ID: job.ID(s.Jobs()), Key: fmt.Sprint("j", s.Jobs()), Submit: s.Now, Demand: &d, Tenant: rapid.SampledFrom([]string{"child", "own", "new"}).Draw(t, "tenant")}
				if err := s.Submit(j, -1); err != nil {
					t.Fatal(err)
				}
			},
			"arrow": func(t *rapid.T) {
				if s.Jobs() == 0 {
					t.Skip("no jobs")
				}
				id := job.ID(rapid.IntRange(0, s.Jobs()-1).Draw(t, "job"))
				before := *s.Record(id)
				err := arrow(t, s, id, why)
				after := s.Record(id)
				if err != nil && *after != before {
					t.Fatalf("an arrow that failed (%v) changed the record", err)
				}
				if after.Phase.Over() && !before.Phase.Over() {
					ended = append(ended, id)
				}
			},
			"time": func(t *rapid.T) { s.Now += time.Duration(rapid.IntRange(0, 20).Draw(t, "seconds")) * time.Second },
			"": func(t *rapid.T) {
				if err := s.Check(); err != nil {
					t.Fatal(err)
				}
				if !slices.Equal(s.Ended(), ended) || s.Over() != len(ended) {
					t.Fatalf("ended are %v, want %v", s.Ended(), ended)
				}
			},
		})
	})
}

// arrow takes one arrow, whichever phase the job is in.
func arrow(t *rapid.T, s *state.State, id job.ID, why job.Reason) error {
	r := s.Record(id)
	kept := time.Duration(0)
	if r.Phase == job.Running {
		kept = r.ProgressAt(s.Now)
	}
	find := func(tasks int32) *cluster.Alloc {
		req := place.Request{Cluster: s.Cluster, Demand: r.Job.Demand, Tasks: tasks, Pool: r.Pool, Mask: r.Mask}
		if _, ok := place.Pack.Place(&req); !ok {
			t.Skip("does not fit")
		}
		return &req.Out
	}
	switch rapid.IntRange(0, 11).Draw(t, "arrow") {
	case 0, 1:
		return s.Begin(id, find(r.Job.Demand.Roles[0].Tasks), time.Second)
	case 2:
		return s.Assign(id, find(r.Job.Demand.Roles[0].Tasks))
	case 3:
		return s.Preempt(id, kept, rapid.Bool().Draw(t, "at once"), why)
	case 4:
		return s.Gone(id)
	case 5:
		return s.Evict(id, kept, why)
	case 6:
		return s.Fail(id, kept, why)
	case 7:
		return s.Finish(id, rapid.SampledFrom([]job.Phase{job.Done, job.FailedPhase, job.Cancelled, job.Waiting}).Draw(t, "outcome"))
	case 8:
		return s.Cancel(id)
	case 9:
		return s.Hold(id, why)
	case 10:
		return s.Free(id)
	}
	return s.Reshape(id, find(rapid.Int32Range(1, r.Job.Demand.Roles[0].Tasks).Draw(t, "tasks")), time.Second, rapid.Bool().Draw(t, "moved"))
}

// TestSubmitErrors name the job.
func TestSubmitErrors(t *testing.T) {
	s := state.New(cluster.New(), tenant.NewTree(0))
	d := job.GPUs(1)
	for _, c := range []struct {
		j    *job.Job
		want string
	}{
		{&job.Job{ID: 3, Key: "a", Demand: &d}, "job a: has number 3, the next one is 0"},
		{&job.Job{Key: "b"}, "job b: has no demand"},
	} {
		if err := s.Submit(c.j, -1); err == nil || err.Error() != c.want || s.Jobs() != 0 {
			t.Errorf("%v, want %s", err, c.want)
		}
	}
}

// TestAmountOfElasticCPUJob: a tenant is booked with the cores that its job runs
// on, also where it runs on more than it asked for and on no GPU.
func TestAmountOfElasticCPUJob(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := newState(t)
		d := &job.Demand{}
		d.Roles[0] = job.Role{Tasks: 2, Min: 1, Max: 4, CPU: unit.One}
		if err := s.Submit(&job.Job{ID: 0, Key: "a", Tenant: "child", Demand: d}, -1); err != nil {
			t.Fatal(err)
		}
		tasks := rapid.Int32Range(1, 4).Draw(t, "tasks")
		req := place.Request{Cluster: s.Cluster, Demand: d, Tasks: tasks}
		if why, ok := place.Pack.Place(&req); !ok {
			t.Fatal(why)
		}
		if err := s.Begin(0, &req.Out, 0); err != nil {
			t.Fatal(err)
		}
		if got := s.Tenants.At(s.Record(0).Tenant).Used.CPU; got != unit.Milli(tasks)*unit.One {
			t.Fatalf("%d tasks on %v cores", tasks, got)
		}
		if err := s.Check(); err != nil {
			t.Fatal(err)
		}
	})
}
