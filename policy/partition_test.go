package policy_test

import (
	"testing"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/policy"
	"github.com/norn-scheduler/norn/sched"
	"github.com/norn-scheduler/norn/sim/simtest"
	"github.com/norn-scheduler/norn/tenant"
)

// TestLimitAboveTwoPools: where two tenants with pools of their own share the
// limit of their parent, a job that ends in one pool lets a job of the other start
// which waited for nothing else.
func TestLimitAboveTwoPools(t *testing.T) {
	for _, e := range policy.Table() {
		switch e.Name {
		case "philly", "drf", "maxmin", "fairshare":
		default:
			continue // knows no limits
		}
		c := cluster.New()
		typ, _ := c.AddType(cluster.GPUType{Name: "gpu"})
		tree := tenant.NewTree(0)
		parent, err := tree.Add("dept", tenant.Root, 0, 4*unit.One, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"a", "b"} {
			if _, err := tree.Add(name, parent, 0, 0, 0); err != nil {
				t.Fatal(err)
			}
			if _, err := c.AddNode(cluster.NodeSpec{Pool: c.AddPool(name), GPUs: []cluster.GPUs{{Type: typ, Count: 4}}}); err != nil {
				t.Fatal(err)
			}
		}
		build := func() (sched.Policy, error) { return e.New().Policy() }
		run := simtest.Go(t, simtest.Config{
			Cluster: c, Tenants: tree, Make: func() (sched.Policy, error) { return policy.Partitioned(build), nil },
		},
			simtest.Job{Key: "x", Tenant: "a", GPUs: 4, Run: 100},
			simtest.Job{Key: "y", Tenant: "b", GPUs: 4, At: 10, Run: 100},
		)
		if run.Start("y") != 100 {
			t.Errorf("%s: y starts at %v\n%v", e.Name, run.Start("y"), run.Log)
		}
	}
}
