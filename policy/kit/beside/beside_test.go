package beside_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/policy/kit/beside"
	"github.com/norn-scheduler/norn/sched"
	"github.com/norn-scheduler/norn/state"
	"github.com/norn-scheduler/norn/tenant"
)

// table is a state and a plan for it.
type table struct {
	t    *testing.T
	s    *state.State
	view sched.View
	plan sched.Plan
}

// newTable is a node of two GPUs of one type and one of another, a node whose three GPUs
// are counted, and a node that takes nothing new.
func newTable(t *testing.T) *table {
	t.Helper()
	c := cluster.New()
	a, _ := c.AddType(cluster.GPUType{Name: "A"})
	b, _ := c.AddType(cluster.GPUType{Name: "B"})
	for _, spec := range []cluster.NodeSpec{
		{GPUs: []cluster.GPUs{{Type: a, Count: 2}, {Type: b, Count: 1}}},
		{GPUs: []cluster.GPUs{{Type: a, Count: 3}}, Pooled: true},
		{GPUs: []cluster.GPUs{{Type: a, Count: 1}}},
	} {
		if _, err := c.AddNode(spec); err != nil {
			t.Fatal(err)
		}
	}
	c.SetHealth(2, cluster.Cordoned)
	return &table{t: t, s: state.New(c, tenant.NewTree(0))}
}

func (b *table) submit(d job.Demand) job.ID {
	b.t.Helper()
	id := job.ID(b.s.Jobs())
	if err := b.s.Submit(&job.Job{ID: id, Key: fmt.Sprint(id), Demand: &d}, -1); err != nil {
		b.t.Fatal(err)
	}
	return id
}

// run starts a job that holds so much of each of some devices of a node.
func (b *table) run(node cluster.NodeID, milli int32, devices ...cluster.DeviceID) job.ID {
	b.t.Helper()
	a := &cluster.Alloc{}
	for _, d := range devices {
		beside.AddTask(a, node, &job.Role{}, cluster.Share{Device: d, Milli: milli})
	}
	if milli > beside.Whole {
		a.Pieces[0].Tasks = milli / beside.Whole
	}
	id := b.submit(job.GPUs(a.Tasks(0)))
	if err := b.s.Begin(id, a, 0); err != nil {
		b.t.Fatal(err)
	}
	return id
}

func (b *table) open() (*sched.View, *sched.Plan) {
	b.view = sched.NewView(b.s, nil, false)
	b.view.Rand, b.view.Costs = rand.New(rand.NewPCG(1, 1)), &perf.Costs{}
	b.plan.Open(&b.view)
	return &b.view, &b.plan
}

// parts are the parts that a job holds.
func parts(p *sched.Plan, id job.ID) (out []int32) {
	for _, s := range p.Alloc(id).Shares {
		out = append(out, s.Milli)
	}
	return out
}

func TestPlain(t *testing.T) {
	b := newTable(t)
	v, _ := b.open()
	for _, c := range []struct {
		change func(*job.Demand)
		want   bool
	}{
		{func(*job.Demand) {}, true},
		{func(d *job.Demand) { d.Roles[0].GPU = 500 }, false},
		{func(d *job.Demand) { d.Roles[0].GPU = 2000 }, false},
		{func(d *job.Demand) { d.Roles[1].Tasks = 1 }, false},
		{func(d *job.Demand) { d.Roles[0].Min, d.Roles[0].Max = 1, 4 }, false},
	} {
		d := job.GPUs(2)
		c.change(&d)
		if got := beside.Plain(v.Job(b.submit(d))); got != c.want {
			t.Errorf("%v: %v", &d, got)
		}
	}
}

func TestDevices(t *testing.T) {
	b := newTable(t)
	any, of := job.GPUs(1), job.GPUs(1)
	of.Types = "B"
	b.submit(any)
	b.submit(of)
	b.s.Cluster.SetBroken(0, true)
	v, _ := b.open()
	for _, c := range []struct {
		id   job.ID
		node cluster.NodeID
		want []cluster.DeviceID
	}{{0, 0, []cluster.DeviceID{1, 2}}, {1, 0, []cluster.DeviceID{2}}, {0, 1, nil}, {0, 2, nil}} {
		if got := slices.Collect(beside.Devices(v, c.node, v.Job(c.id))); !slices.Equal(got, c.want) {
			t.Errorf("job %d on node %d: %v, want %v", c.id, c.node, got, c.want)
		}
	}
}

// TestParts: who is joined gives a part away and gets it back when he is alone again;
// what is only counted is not divided, and nobody loses any of it.
func TestParts(t *testing.T) {
	b := newTable(t)
	host, counted := b.run(0, 1000, 0, 1), b.run(1, 3000, 3)
	b.s.Now = time.Second
	late, guest := b.run(0, 1000, 2), b.submit(job.GPUs(1))
	v, p := b.open()
	defer p.Discard()
	for id, want := range map[job.ID]bool{host: true, counted: true, late: false} {
		if got := beside.Settled(v, p, id); got != want {
			t.Errorf("job %d is settled: %v", id, got)
		}
	}
	if !beside.Alone(p, v.Alloc(host)) {
		t.Error("the host is not alone")
	}
	a := &cluster.Alloc{}
	beside.AddTask(a, 0, &job.Role{CPU: unit.One}, cluster.Share{Device: 1, Milli: beside.Half})
	joined := beside.Join(p, guest, a)
	if got := parts(p, host); !joined || !slices.Equal(got, []int32{1000, 500}) || beside.Alone(p, p.Alloc(host)) || beside.Alone(p, p.Alloc(guest)) {
		t.Errorf("%v: the host holds %v", joined, got)
	}
	if beside.Restore(p, host); !slices.Equal(parts(p, host), []int32{1000, 500}) {
		t.Errorf("beside a guest the host holds %v", parts(p, host))
	}
	if beside.Give(p, host, 1, 501) {
		t.Error("there is more of a device than all")
	}
	beside.Change(p, host, 1, func(s *cluster.Share) { s.Throttle = 100 })
	p.Stop(guest, job.Reason{Code: job.MakesRoom, Job: host})
	if beside.Restore(p, guest); beside.Settled(v, p, guest) || p.Alloc(guest) != nil || p.Err() != nil {
		t.Errorf("who is stopped is settled or holds something, or %v", p.Err())
	}
	if beside.Restore(p, host); !slices.Equal(parts(p, host), []int32{1000, 1000}) || p.Alloc(host).Shares[1].Throttle != 0 || !beside.Alone(p, p.Alloc(host)) {
		t.Errorf("alone again the host holds %+v", p.Alloc(host))
	}
	beside.Restore(p, counted)
	if beside.GiveEach(p, counted, beside.Half); !slices.Equal(parts(p, counted), []int32{3000}) {
		t.Errorf("of what is counted the job holds %v", parts(p, counted))
	}
	if beside.GiveEach(p, host, beside.Half); !slices.Equal(parts(p, host), []int32{500, 500}) || p.Err() != nil {
		t.Errorf("the host holds %v, %v", parts(p, host), p.Err())
	}
}

func TestAddTask(t *testing.T) {
	a := &cluster.Alloc{}
	role := &job.Role{CPU: 2 * unit.One, Memory: unit.GiB}
	for _, x := range []struct {
		node   cluster.NodeID
		device cluster.DeviceID
	}{{1, 4}, {1, 5}, {3, 9}} {
		beside.AddTask(a, x.node, role, cluster.Share{Device: x.device, Milli: beside.Half})
	}
	want := &cluster.Alloc{
		Pieces: []cluster.Piece{{Node: 1, Tasks: 2, Shares: 2, CPU: 4 * unit.One, Memory: 2 * unit.GiB}, {Node: 3, Tasks: 1, Shares: 1, CPU: 2 * unit.One, Memory: unit.GiB}},
		Shares: []cluster.Share{{Device: 4, Milli: 500}, {Device: 5, Milli: 500}, {Device: 9, Milli: 500}},
	}
	if !a.Equal(want) {
		t.Errorf("%+v, want %+v", a, want)
	}
}

func TestNext(t *testing.T) {
	for _, c := range []struct{ now, every, want time.Duration }{{0, 5, 5}, {4, 5, 5}, {5, 5, 10}, {5, unit.Never - 5, unit.Never}, {5, unit.Never, unit.Never}} {
		if got := beside.Next(c.now, c.every); got != c.want {
			t.Errorf("behind %v every %v: %v, want %v", c.now, c.every, got, c.want)
		}
	}
}

// TestJoin: those who are on a device share equally what who comes leaves; when one of
// them cannot be changed, all is as before.
func TestJoin(t *testing.T) {
	b := newTable(t)
	ids := []job.ID{b.run(0, 300, 0), b.run(0, 700, 0), b.submit(job.GPUs(1)), b.submit(job.GPUs(1))}
	leaving := b.submit(job.GPUs(1))
	if err := b.s.Assign(leaving, &cluster.Alloc{Pieces: []cluster.Piece{{Tasks: 1, Shares: 1}}, Shares: []cluster.Share{{Device: 1, Milli: 1000}}}); err != nil {
		t.Fatal(err)
	}
	_, p := b.open()
	defer p.Discard()
	on := func(d cluster.DeviceID, milli int32) *cluster.Alloc {
		a := &cluster.Alloc{}
		beside.AddTask(a, 0, &job.Role{}, cluster.Share{Device: d, Milli: milli})
		return a
	}
	if !beside.Join(p, ids[2], on(0, 333)) || !slices.Equal(parts(p, ids[0]), []int32{333}) || !slices.Equal(parts(p, ids[1]), []int32{333}) {
		t.Errorf("they hold %v and %v", parts(p, ids[0]), parts(p, ids[1]))
	}
	if beside.Join(p, ids[3], on(1, 500)) || p.Alloc(ids[3]) != nil || !slices.Equal(parts(p, leaving), []int32{1000}) || p.Err() != nil {
		t.Errorf("beside one who has not begun: %v, %v", p.Alloc(ids[3]), p.Err())
	}
}
