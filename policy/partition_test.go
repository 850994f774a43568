package policy_test

import (
	"cmp"
	"slices"
	"strconv"
	"testing"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/policy"
	"github.com/norn-scheduler/norn/policy/maxmin"
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

// TestLimitAcrossPools: where the jobs of a tenant name the pools in which they run, its limit
// covers them all, and what one pool gives back lets a job of another start.
func TestLimitAcrossPools(t *testing.T) {
	for _, e := range policy.Table() {
		name := e.Name
		if !slices.Contains([]string{"philly", "drf", "maxmin", "fairshare"}, name) {
			continue
		}
		tree := tenant.NewTree(0)
		if _, err := tree.Add("team", tenant.Root, 0, 2*unit.One, 0); err != nil {
			t.Fatal(err)
		}
		build := func() (sched.Policy, error) { return e.New().Policy() }
		run, err := simtest.Try(simtest.Config{
			Cluster: apart(t, "a", "b"), Tenants: tree,
			Make: func() (sched.Policy, error) { return policy.Partitioned(build), nil },
		}, simtest.Job{Key: "a1", Tenant: "team", Partition: "a", GPUs: 2, Run: 50}, simtest.Job{Key: "b1", Tenant: "team", Partition: "b", GPUs: 1, At: 10, Run: 30},
			simtest.Job{Key: "b2", Tenant: "other", Partition: "b", GPUs: 1, At: 20, Run: 30})
		if err != nil {
			t.Fatal(err)
		}
		if a, b, other := run.Start("a1"), run.Start("b1"), run.Start("b2"); a != 0 || b != 50 || other != 20 {
			t.Errorf("%s: starts at %v, %v and %v, want 0, 50 and 20", name, a, b, other)
		}
	}
}

// TestPoolsApart: what becomes of the jobs of one pool does not depend on the jobs of another,
// whose policy decides at other moments.
func TestPoolsApart(t *testing.T) {
	var own, others []simtest.Job
	for i := range 8 {
		user := simtest.Job{Key: "b" + strconv.Itoa(i), Tenant: "b", GPUs: 1, At: float64(7 * i), Run: float64(30 + 11*i%40), Spec: plainly}
		own = append(own, user)
		user.Key, user.Tenant, user.At, user.Run = "a"+strconv.Itoa(i), "a", user.At+3, user.Run+5
		others = append(others, user)
	}
	all := slices.SortedStableFunc(slices.Values(append(slices.Clone(own), others...)), func(a, b simtest.Job) int { return cmp.Compare(a.At, b.At) })
	for _, e := range policy.Table() {
		if e.Name == "themis" {
			continue // draws lots by how many jobs were submitted, to all pools
		}
		build := func() (sched.Policy, error) {
			c := e.New()
			if e.Name == "cassini" { // whose host is themis otherwise
				if err := c.Params().Set("host", "srsf"); err != nil {
					return nil, err
				}
			}
			return c.Policy()
		}
		ends := func(jobs []simtest.Job) (out []float64) {
			run, err := simtest.Try(simtest.Config{
				Cluster: apart(t, "a", "b"), Tenants: tenants(t, "a", "b"), Shared: true,
				Make: func() (sched.Policy, error) { return policy.Partitioned(build), nil },
			}, jobs...)
			if err != nil {
				t.Fatalf("%s: %v", e.Name, err)
			}
			for _, j := range own {
				out = append(out, run.Start(j.Key), run.End(j.Key), float64(run.Record(j.Key).Preemptions))
			}
			return out
		}
		if alone, beside := ends(own), ends(all); !slices.Equal(alone, beside) {
			t.Errorf("%s: starts, ends and preemptions in pool b are\n%v, and with jobs in pool a\n%v", e.Name, alone, beside)
		}
	}
}

func plainly(j *job.Job) { j.Model, j.Stop = "resnet50", job.Checkpoint }

// apart is a cluster of one node of two GPUs in each pool.
func apart(t *testing.T, pools ...string) *cluster.Cluster {
	t.Helper()
	c := cluster.New()
	typ, _ := c.AddType(cluster.GPUType{Name: "gpu"})
	for _, name := range pools {
		if _, err := c.AddNode(cluster.NodeSpec{Pool: c.AddPool(name), GPUs: []cluster.GPUs{{Type: typ, Count: 2}}}); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

// tenants is a tree of tenants without limits.
func tenants(t *testing.T, names ...string) *tenant.Tree {
	t.Helper()
	tree := tenant.NewTree(0)
	for _, name := range names {
		if _, err := tree.Add(name, tenant.Root, 0, 0, 0); err != nil {
			t.Fatal(err)
		}
	}
	return tree
}

// TestReclaimAcrossPools: what a tenant takes in its own pool makes it borrow what it has in another, where
// the owner gets back what it is guaranteed as soon as anything happens.
func TestReclaimAcrossPools(t *testing.T) {
	tree := tenant.NewTree(0)
	for name, guarantee := range map[string]unit.Milli{"a": 1, "b": 2} {
		if _, err := tree.Add(name, tenant.Root, guarantee*unit.One, 0, 0); err != nil {
			t.Fatal(err)
		}
	}
	run, err := simtest.Try(simtest.Config{
		Cluster: apart(t, "a", "b"), Tenants: tree,
		Make: func() (sched.Policy, error) { return policy.Partitioned(maxmin.NewConfig().Policy), nil },
	}, simtest.Job{Key: "b1", Tenant: "b", Partition: "a", GPUs: 2, Run: 500, Spec: plainly}, simtest.Job{Key: "a1", Tenant: "a", Partition: "a", GPUs: 1, At: 30, Run: 30},
		simtest.Job{Key: "b2", Tenant: "b", Partition: "b", GPUs: 2, At: 30, Run: 300}, simtest.Job{Key: "b3", Tenant: "b", Partition: "b", GPUs: 2, At: 40, Run: 30})
	if err != nil {
		t.Fatal(err)
	}
	if got := run.Start("a1"); got != 40 {
		t.Errorf("a's job starts at %v, want 40\n%v", got, run.Log)
	}
}
