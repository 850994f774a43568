package policy_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/policy"
	"github.com/norn-scheduler/norn/sim"
	"github.com/norn-scheduler/norn/sim/simtest"
)

// TestStandsStill: a gang of two runs on V100s and stands still on K80s, as ResNet-50 of batch
// 128 does in Gavel's measurements. No policy puts it on K80s, which come first; where there
// are only these, every policy says that it can never run, and others run.
func TestStandsStill(t *testing.T) {
	table := &perf.Table{Reference: "v100"}
	for m, rate := range map[perf.Measured]float64{
		{Job: "large", GPUs: 1, Type: "k80"}: 0.35, {Job: "large", GPUs: 2, Type: "k80"}: 0, {Job: "large", GPUs: 1, Type: "k80", Spread: true}: 0.35,
		{Job: "large", GPUs: 1, Type: "v100"}: 2.5, {Job: "large", GPUs: 2, Type: "v100"}: 4.2,
	} {
		table.Add(m, rate)
	}
	for _, e := range policy.Table() {
		for _, types := range [][]string{{"K80", "V100"}, {"K80"}} {
			c := cluster.New()
			for _, name := range types {
				typ, err := c.AddType(cluster.GPUType{Name: name})
				if err != nil {
					t.Fatal(err)
				}
				if _, err := c.AddNode(cluster.NodeSpec{GPUs: []cluster.GPUs{{Type: typ, Count: 4}}}); err != nil {
					t.Fatal(err)
				}
			}
			run, err := simtest.Try(simtest.Config{
				Cluster: c, Make: e.New().Policy, Shared: e.Acts.Has(policy.Shares), Model: table, Speeds: table,
				World: func(c *sim.Config) { c.Sharing = perf.Demands{} },
			}, simtest.Job{Key: "large", GPUs: 2, Run: 100}, simtest.Job{Key: "small", GPUs: 1, Run: 50})
			if err != nil {
				t.Errorf("%s on %v: %v", e.Name, types, err)
				continue
			}
			large, small := run.Record("large"), run.Record("small")
			if small.Phase != job.Done {
				t.Errorf("%s on %v: the small job is %v\n%s", e.Name, types, small.Phase, strings.Join(run.Log, "\n"))
			}
			if len(types) > 1 && large.Phase != job.Done {
				t.Errorf("%s on %v: the large job is %v\n%s", e.Name, types, large.Phase, strings.Join(run.Log, "\n"))
			}
			if why := large.Reason.Sentence(func(id job.ID) string { return fmt.Sprint(id) }); len(types) == 1 && (!large.Reason.Never() || !strings.Contains(why, "speed 0")) {
				t.Errorf("%s on %v: the large job is %v: %s", e.Name, types, large.Phase, why)
			}
		}
	}
}
