package sched_test

import (
	"testing"
	"time"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/place"
	"github.com/norn-scheduler/norn/sched"
	"github.com/norn-scheduler/norn/state"
	"github.com/norn-scheduler/norn/tenant"
)

// frozen is a state with two GPUs of 16 GiB. Job a, which needs the given
// memory, is frozen on the first.
func frozen(t *testing.T, memory unit.Bytes) *state.State {
	t.Helper()
	c := cluster.New()
	typ, err := c.AddType(cluster.GPUType{Name: "T", Memory: 16 << 30})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.AddNode(cluster.NodeSpec{Name: "n", GPUs: []cluster.GPUs{{Type: typ, Count: 2}}}); err != nil {
		t.Fatal(err)
	}
	s := state.New(c, tenant.NewTree(0))
	d := job.GPUs(1)
	d.Roles[0].GPUMemory = memory
	must(t, s.Submit(&job.Job{ID: 0, Key: "a", Demand: &d, Stop: job.Freeze}, -1))
	must(t, s.Begin(0, on(c, 0), 0))
	s.Now = time.Second
	must(t, s.Preempt(0, time.Second, true, job.Reason{Code: job.MakesRoom, Job: job.None}))
	return s
}

func on(c *cluster.Cluster, d cluster.DeviceID) *cluster.Alloc {
	return &cluster.Alloc{Pieces: []cluster.Piece{{Tasks: 1, Shares: 1}}, Shares: []cluster.Share{{Device: d, Milli: 1000}}}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestFrozenJobGoesOnInItsPinnedPlace: a frozen job starts on the GPU where its memory is, and
// nowhere else.
func TestFrozenJobGoesOnInItsPinnedPlace(t *testing.T) {
	for _, c := range []struct {
		name   string
		taken  cluster.DeviceID
		change func(*cluster.Cluster)
		want   bool
	}{
		{"the other is taken", 1, nil, true},
		{"its own is taken", 0, nil, false},
		{"its own is broken", 1, func(c *cluster.Cluster) { c.SetBroken(0, true) }, false},
		{"the machine is drained", 1, func(c *cluster.Cluster) { c.SetHealth(0, cluster.Cordoned) }, false},
	} {
		s := frozen(t, 0)
		d := job.GPUs(1)
		must(t, s.Submit(&job.Job{ID: 1, Key: "b", Demand: &d}, -1))
		must(t, s.Begin(1, on(s.Cluster, c.taken), 0))
		if c.change != nil {
			c.change(s.Cluster)
		}
		v := sched.NewView(s, nil, false)
		var p sched.Plan
		p.Open(&v)
		if got := p.Start(0, place.Pack); got != c.want {
			t.Errorf("%s: started %v", c.name, got)
		} else if got && p.Alloc(0).Shares[0].Device != 0 {
			t.Errorf("%s: it starts on device %d", c.name, p.Alloc(0).Shares[0].Device)
		} else if !got && p.Why().Code != job.Occupied {
			t.Errorf("%s: the reason is %v", c.name, p.Why())
		}
		p.Discard()
		must(t, s.Check())
	}
}

// TestFrozenMemory: a job does not start where frozen jobs keep the memory that
// it needs. This holds as far as all of them have declared their memory.
func TestFrozenMemory(t *testing.T) {
	for _, c := range []struct {
		frozen, needs unit.Bytes
		want          bool
	}{{10 << 30, 7 << 30, false}, {10 << 30, 6 << 30, true}, {0, 16 << 30, true}, {16 << 30, 0, true}} {
		s := frozen(t, c.frozen)
		d := job.GPUs(2) // both GPUs, the one of the frozen job among them
		d.Roles[0].GPUMemory = c.needs
		must(t, s.Submit(&job.Job{ID: 1, Key: "b", Demand: &d}, -1))
		v := sched.NewView(s, nil, false)
		var p sched.Plan
		p.Open(&v)
		if got := p.Start(1, place.Pack); got != c.want {
			t.Errorf("%d frozen, %d needed: started %v", c.frozen>>30, c.needs>>30, got)
		}
		p.Discard()
	}
}

// TestFrozenJobIsSentToItsPinnedPlace: a frozen job starts at its pinned place, or nowhere,
// whatever devices a policy names. A job that the policy then starts on those
// devices is refused, which is no mistake of the policy.
func TestFrozenJobIsSentToItsPinnedPlace(t *testing.T) {
	s := frozen(t, 0)
	d := job.GPUs(1)
	must(t, s.Submit(&job.Job{ID: 1, Key: "b", Demand: &d}, -1))
	v := sched.NewView(s, nil, false)
	var p sched.Plan
	p.Open(&v)
	if !p.StartOn(0, on(s.Cluster, 1)) || p.Alloc(0).Shares[0].Device != 0 {
		t.Errorf("it starts on %v", p.Alloc(0))
	}
	if p.StartOn(1, on(s.Cluster, 0)) || p.Why().Code != job.Occupied {
		t.Errorf("the other one starts: %v", p.Why())
	}
	if err := p.Err(); err != nil {
		t.Error(err)
	}
	p.Discard()

	p.Open(&v)
	if !p.StartOn(1, on(s.Cluster, 0)) || p.StartOn(0, on(s.Cluster, 1)) || p.Why().Code != job.Occupied {
		t.Errorf("it starts although its pinned place is allocated to another job: %v", p.Why())
	}
	must(t, p.Err())
	p.Discard()
	must(t, s.Check())
}

// TestPinnedPlaceTakenBack: a start at the pinned place that was taken back excuses
// no later mistake. A job that is started where there is no room makes the plan
// invalid.
func TestPinnedPlaceTakenBack(t *testing.T) {
	s := frozen(t, 0)
	for id := job.ID(1); id <= 2; id++ {
		d := job.GPUs(1)
		must(t, s.Submit(&job.Job{ID: id, Key: string('a' + rune(id)), Demand: &d}, -1))
	}
	v := sched.NewView(s, nil, false)
	var p sched.Plan
	p.Open(&v)
	p.Try(func() bool { p.StartOn(0, on(s.Cluster, 1)); return false })
	if !p.StartOn(1, on(s.Cluster, 0)) {
		t.Fatal(p.Why())
	}
	if p.StartOn(2, on(s.Cluster, 0)) || p.Err() == nil {
		t.Errorf("two jobs on one GPU: %v", p.Err())
	}
	p.Discard()
}

// TestFrozenByThePlan: a job that a plan freezes keeps its memory, also from
// jobs that the same plan starts.
func TestFrozenByThePlan(t *testing.T) {
	for _, c := range []struct {
		needs unit.Bytes
		want  bool
	}{{7 << 30, false}, {6 << 30, true}} {
		s := frozen(t, 10<<30)
		v := sched.NewView(s, nil, false)
		var p sched.Plan
		p.Open(&v)
		if !p.Start(0, place.Pack) {
			t.Fatal(p.Why())
		}
		must(t, p.Commit())
		s.Booked(true)
		must(t, s.Begin(0, p.Ops()[0].Now, 0))
		s.Booked(false)
		d := job.GPUs(2)
		d.Roles[0].GPUMemory = c.needs
		must(t, s.Submit(&job.Job{ID: 1, Key: "b", Demand: &d}, -1))
		v = sched.NewView(s, nil, false)
		p.Open(&v)
		p.Stop(0, job.Reason{Code: job.MakesRoom, Job: 1})
		if got := p.Start(1, place.Pack); got != c.want {
			t.Errorf("%d GiB needed: started %v", c.needs>>30, got)
		}
		p.Discard()
	}
}
