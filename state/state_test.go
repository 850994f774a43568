package state_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/place"
	"github.com/norn-scheduler/norn/state"
	"github.com/norn-scheduler/norn/tenant"
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

// TestAnyWayThroughLife takes many jobs through random transitions, allowed and
// not. The ledger, the tenants and the lists always agree with the records. A
// refused transition changes nothing. The ended jobs are in the order in which
// they left.
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
				if !slices.Equal(s.Ended(), ended) || len(s.Ended()) != len(ended) {
					t.Fatalf("ended are %v, want %v", s.Ended(), ended)
				}
			},
		})
	})
}

// arrow tries one random transition, whichever phase the job is in.
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
		return s.Release(id)
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

// TestAmountOfElasticCPUJob: a tenant is charged with the cores that its job
// runs on, also where these are more than it asked for and it has no GPU.
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

// TestOn checks the order of jobs on a device. It covers jobs that come one
// after the other or at the same moment, and a job that is assigned the device
// and begins later. It also covers jobs that get another part of the device,
// are moved, or keep it when they are resized.
func TestOn(t *testing.T) {
	c := cluster.New()
	typ, _ := c.AddType(cluster.GPUType{Name: "V100"})
	if _, err := c.AddNode(cluster.NodeSpec{GPUs: []cluster.GPUs{{Type: typ, Count: 2}}}); err != nil {
		t.Fatal(err)
	}
	s := state.New(c, tenant.NewTree(0))
	for i := range 4 {
		d := job.GPUs(1)
		d.Roles[0].Min, d.Roles[0].Max = 1, 2
		if err := s.Submit(&job.Job{ID: job.ID(i), Key: fmt.Sprint(i), Demand: &d}, -1); err != nil {
			t.Fatal(err)
		}
	}
	part := func(milli int32, devices ...cluster.DeviceID) *cluster.Alloc {
		n := int32(len(devices))
		a := &cluster.Alloc{Pieces: []cluster.Piece{{Tasks: n, Shares: n}}}
		for _, d := range devices {
			a.Shares = append(a.Shares, cluster.Share{Device: d, Milli: milli})
		}
		return a
	}
	why := job.Reason{Code: job.MakesRoom, Job: job.None}
	for i, step := range []struct {
		act   func() error
		first []job.ID // on the first device
		other []job.ID
	}{
		{func() error { return s.Begin(2, part(200, 0), 0) }, []job.ID{2}, nil},
		{func() error { return s.Assign(1, part(200, 0)) }, []job.ID{1, 2}, nil},
		{func() error { s.Now++; return s.Begin(0, part(200, 0, 1), 0) }, []job.ID{1, 2, 0}, []job.ID{0}},
		{func() error { s.Now++; return s.Begin(1, nil, 0) }, []job.ID{2, 0, 1}, []job.ID{0}},
		{func() error { s.Now++; return s.Reshape(2, part(100, 0), 0, true) }, []job.ID{2, 0, 1}, []job.ID{0}},
		{func() error { return s.Begin(3, part(200, 1, 1), 0) }, []job.ID{2, 0, 1}, []job.ID{0, 3}},
		{func() error { s.Now++; return s.Reshape(0, part(200, 0), 0, false) }, []job.ID{2, 1, 0}, []job.ID{3}},
		{func() error { return s.Reshape(2, part(100, 1), 0, true) }, []job.ID{1, 0}, []job.ID{3, 2}},
		{func() error { return s.Preempt(3, 0, false, why) }, []job.ID{1, 0}, []job.ID{2}},
		{func() error { return s.Finish(1, job.Done) }, []job.ID{0}, []job.ID{2}},
	} {
		if err := step.act(); err != nil {
			t.Fatal(err)
		}
		if got, other := s.On(0), s.On(1); !slices.Equal(got, step.first) || !slices.Equal(other, step.other) {
			t.Errorf("step %d: %v are on the first device and %v on the other, want %v and %v", i, got, other, step.first, step.other)
		}
		if err := s.Check(); err != nil {
			t.Error(err)
		}
	}
	if on := s.On(7); on != nil {
		t.Errorf("%v are on a device that is not there", on)
	}
}
