package antman

import (
	"strconv"
	"testing"
	"time"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/sched"
	"github.com/norn-scheduler/norn/sim"
	"github.com/norn-scheduler/norn/sim/simtest"
	"github.com/norn-scheduler/norn/tenant"
)

// forgetful is the policy without what it keeps from one decision to the next.
type forgetful struct{ *policy }

func (m forgetful) Decide(v *sched.View, p *sched.Plan) {
	m.stale = true
	m.policy.Decide(v, p)
}

// BenchmarkDecide is one decision with 1,000 jobs of 4 GPUs that own 4,096, among them
// gaps for guests, and 1,000 that wait, most of which become guests.
func BenchmarkDecide(b *testing.B) {
	var jobs []simtest.Job
	for i := range 1000 {
		jobs = append(jobs, simtest.Job{Key: "r" + strconv.Itoa(i), Tenant: "a", GPUs: 4, Run: 10_000, Spec: uses(float64(i%90)/100, 3, "guaranteed")})
	}
	for i := range 1000 {
		jobs = append(jobs, simtest.Job{Key: "w" + strconv.Itoa(i), Tenant: "a", At: 10, GPUs: 4, Run: 20_000, Spec: uses(0.5, 3, "")})
	}
	tree := tenant.NewTree(0)
	if _, err := tree.Add("a", tenant.Root, 4000*unit.One, 0, 0); err != nil {
		b.Fatal(err)
	}
	c := cluster.New()
	typ, err := c.AddType(cluster.GPUType{Name: "gpu", Memory: 32 * unit.GiB})
	if err != nil {
		b.Fatal(err)
	}
	for range 512 {
		if _, err := c.AddNode(cluster.NodeSpec{GPUs: []cluster.GPUs{{Type: typ, Count: 8}}}); err != nil {
			b.Fatal(err)
		}
	}
	simtest.Go(b, simtest.Config{
		Cluster: c, Tenants: tree, Shared: true, Unchecked: true, Sharing: perf.Paced{}, World: func(c *sim.Config) { c.Sharing, c.Measure = perf.Paced{}, true },
		Make: func() (sched.Policy, error) {
			p, err := NewConfig().Policy()
			made, _ := p.(*policy)
			return &simtest.Timed{Policy: forgetful{made}, B: b, At: 10 * time.Second}, err
		},
	}, jobs...)
}
