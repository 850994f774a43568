package sched_test

import (
	"testing"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/place"
	"github.com/norn-scheduler/norn/sched"
	"github.com/norn-scheduler/norn/state"
	"github.com/norn-scheduler/norn/tenant"
)

// TestStartOnWithoutSlots: a policy that chooses devices by itself, and does not know
// of counted resources, is refused on a node that is short of them. The plan stays
// valid, and the job can be started elsewhere, with what its demand says.
func TestStartOnWithoutSlots(t *testing.T) {
	c := cluster.New()
	typ, _ := c.AddType(cluster.GPUType{Name: "V100"})
	rdma, _ := c.AddSlot("rdma")
	for _, has := range []int64{0, 3} {
		spec := cluster.NodeSpec{GPUs: []cluster.GPUs{{Type: typ, Count: 4}}}
		spec.Slots[rdma] = has
		if _, err := c.AddNode(spec); err != nil {
			t.Fatal(err)
		}
	}
	b := &table{t: t, s: state.New(c, tenant.NewTree(0))}
	d := job.GPUs(2)
	d.Roles[0].Slots = "rdma=1"
	first, second := b.submit(d, 0), b.submit(d, 0)
	b.view = sched.NewView(b.s, nil, false)
	b.plan.Open(&b.view)
	on := func(node cluster.NodeID, devices ...cluster.DeviceID) *cluster.Alloc {
		a := &cluster.Alloc{Pieces: []cluster.Piece{{Node: node, Tasks: 2, Shares: 2}}}
		for _, x := range devices {
			a.Shares = append(a.Shares, cluster.Share{Device: x, Milli: 1000})
		}
		return a
	}
	if b.plan.StartOn(first, on(0, 0, 1)) || b.plan.Why().Code != job.NeedSlots || b.plan.Why().Text != "rdma" {
		t.Errorf("started where there is no rdma, or refused because %v", b.plan.Why())
	}
	if !b.plan.StartOn(first, on(1, 4, 5)) || c.SlotsFree(1)[rdma] != 1 {
		t.Errorf("not started where there is rdma: %v; %d are left, want 1", b.plan.Why(), c.SlotsFree(1)[rdma])
	}
	if b.plan.StartOn(second, on(1, 6, 7)) || b.plan.Start(second, place.Pack) || b.plan.Why().Text != "rdma" {
		t.Errorf("started where one is left and two are needed, or refused because %v", b.plan.Why())
	}
	if err := b.plan.Commit(); err != nil {
		t.Fatal(err)
	}
}
