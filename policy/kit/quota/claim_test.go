package quota_test

import (
	"testing"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/policy/kit/quota"
	"github.com/norn-scheduler/norn/policy/maxmin"
	"github.com/norn-scheduler/norn/sched"
	"github.com/norn-scheduler/norn/sim/simtest"
	"github.com/norn-scheduler/norn/tenant"
)

// dividing is maxmin with shares that are divided among all tenants.
func dividing() (sched.Policy, error) {
	c := maxmin.NewConfig()
	if err := c.Params().Set("divide", "all"); err != nil {
		return nil, err
	}
	return c.Policy()
}

// grow adds a tenant of weight 1.
func grow(t *testing.T, tree *tenant.Tree, name, above string, guarantee, limit unit.Milli) {
	t.Helper()
	parent := tenant.Root
	if above != "" {
		parent, _ = tree.Lookup(above)
	}
	if _, err := tree.Add(name, parent, guarantee*unit.One, limit*unit.One, 1); err != nil {
		t.Fatal(err)
	}
}

// TestMovedGivesAsWell: a job that was moved for one claim still gives its GPUs
// for the next. Of eight GPUs, a is owed seven. Its first job takes six, for
// which the borrowing job small is moved. Its second job needs one of the two
// GPUs that small has then.
func TestMovedGivesAsWell(t *testing.T) {
	tree := tenant.NewTree(0)
	grow(t, tree, "a", "", 7, 0)
	grow(t, tree, "b", "", 0, 0)
	run := simtest.Go(t, simtest.Config{Cluster: simtest.Nodes(2, 4), Tenants: tree, Make: dividing},
		simtest.Job{Key: "large", Tenant: "b", GPUs: 4, Run: 100}, simtest.Job{Key: "small", Tenant: "b", GPUs: 2, At: 1, Run: 100},
		simtest.Job{Key: "six", Tenant: "a", GPUs: 6, At: 10, Run: 100}, simtest.Job{Key: "one", Tenant: "a", GPUs: 1, At: 10, Run: 100})
	if run.Start("six") != 10 || run.Start("one") != 10 {
		t.Errorf("six starts at %v and one at %v, want 10 and 10\n%v", run.Start("six"), run.Start("one"), run.Log)
	}
}

// TestRoomUnderALimit: a job that leaves for a share makes room under the limit
// above it, and a tenant with a guarantee gets that room at once. Tenant y may
// hold three GPUs, and d holds them all until c takes its share.
func TestRoomUnderALimit(t *testing.T) {
	tree := tenant.NewTree(0)
	grow(t, tree, "a", "", 0, 0)
	grow(t, tree, "y", "", 2, 3)
	grow(t, tree, "d", "y", 1, 0)
	grow(t, tree, "e", "y", 1, 0)
	grow(t, tree, "c", "", 0, 0)
	jobs := []simtest.Job{{Key: "d1", Tenant: "d", GPUs: 1, Run: 100}, {Key: "d2", Tenant: "d", GPUs: 2, Run: 100}}
	for _, key := range []string{"a1", "a2", "a3", "a4"} {
		jobs = append(jobs, simtest.Job{Key: key, Tenant: "a", GPUs: 1, Run: 100})
	}
	jobs = append(jobs, simtest.Job{Key: "c", Tenant: "c", GPUs: 1, At: 10, Run: 100}, simtest.Job{Key: "e", Tenant: "e", GPUs: 1, At: 10, Run: 100})
	run := simtest.Go(t, simtest.Config{Cluster: simtest.Nodes(1, 5), Tenants: tree, Make: dividing}, jobs...)
	if run.Start("c") != 10 || run.Start("e") != 10 {
		t.Errorf("c starts at %v and e at %v, want 10 and 10\n%v", run.Start("c"), run.Start("e"), run.Log)
	}
}

// TestVacantCountsWhole: a job of which two tasks share a GPU does not fit back onto it where only one of them does.
func TestVacantCountsWhole(t *testing.T) {
	c := simtest.Nodes(1, 1)
	on := func(milli ...int32) *cluster.Alloc {
		a := &cluster.Alloc{Pieces: []cluster.Piece{{Tasks: int32(len(milli)), Shares: int32(len(milli))}}}
		for _, m := range milli {
			a.Shares = append(a.Shares, cluster.Share{Milli: m})
		}
		return a
	}
	was, other := on(300, 300), on(500)
	if !quota.Vacant(c, was, other) {
		t.Error("it fits on a free GPU")
	}
	if err := c.Allocate(other); err != nil {
		t.Fatal(err)
	}
	if quota.Vacant(c, was, other) || !quota.Vacant(c, on(300), other) {
		t.Error("0.6 of a GPU do not fit beside 0.5, and 0.3 do")
	}
}
