package policy_test

import (
	"testing"

	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/policy"
	"github.com/norn-scheduler/norn/sched"
	"github.com/norn-scheduler/norn/sim/simtest"
	"github.com/norn-scheduler/norn/tenant"
)

// TestNever: every duration of every policy may be never, which is longer than
// any run and not some moment before its start. Jobs that fit still run.
func TestNever(t *testing.T) {
	for _, e := range policy.Table() {
		for _, param := range e.New().Params() {
			if param.Unit != "duration" {
				continue
			}
			build := func() (sched.Policy, error) {
				c := e.New()
				if err := c.Params().Set(param.Name, "never"); err != nil {
					return nil, err
				}
				return c.Policy()
			}
			if _, err := build(); err != nil {
				continue // it says that it must not
			}
			run, err := simtest.Try(simtest.Config{Cluster: simtest.Nodes(2, 4), Make: build, Shared: e.Acts.Has(policy.Shares)},
				simtest.Job{Key: "a", GPUs: 3, Run: 100}, simtest.Job{Key: "b", GPUs: 3, Run: 50},
				simtest.Job{Key: "c", At: 10, GPUs: 2, Run: 1000}, simtest.Job{Key: "d", At: 20, GPUs: 8, Run: 10},
			)
			if err != nil {
				t.Errorf("%s.%s=never: %v", e.Name, param.Name, err)
				continue
			}
			for _, key := range []string{"a", "b", "c", "d"} {
				if !run.Record(key).Phase.Over() {
					t.Errorf("%s.%s=never: %s is %v\n%v", e.Name, param.Name, key, run.Record(key).Phase, run.Log)
				}
			}
		}
	}
}

// TestMinRunNever: a job that never has run for long enough is never stopped to
// give GPUs back.
func TestMinRunNever(t *testing.T) {
	for _, name := range []string{"drf", "maxmin"} {
		e, err := policy.ByName(name)
		if err != nil {
			t.Fatal(err)
		}
		for value, want := range map[string]float64{"0": 10, "never": 100} {
			tree := tenant.NewTree(0)
			if _, err := tree.Add("owner", tenant.Root, 4*unit.One, 0, 0); err != nil {
				t.Fatal(err)
			}
			run := simtest.Go(t, simtest.Config{
				Cluster: simtest.Nodes(1, 4), Tenants: tree, Make: func() (sched.Policy, error) {
					c := e.New()
					if err := c.Params().Set("minrun", value); err != nil {
						return nil, err
					}
					return c.Policy()
				},
			},
				simtest.Job{Key: "a", At: 1, Tenant: "borrower", GPUs: 4, Run: 99},
				simtest.Job{Key: "b", Tenant: "owner", GPUs: 4, At: 10, Run: 10},
			)
			if run.Start("b") != want {
				t.Errorf("%s minrun=%s: b starts at %v, want %v", name, value, run.Start("b"), want)
			}
		}
	}
}
