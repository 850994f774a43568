package philly_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/engine"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/policy/philly"
	"github.com/norn-scheduler/norn/report"
	"github.com/norn-scheduler/norn/sched"
	"github.com/norn-scheduler/norn/sim/simtest"
	"github.com/norn-scheduler/norn/tenant"
	"github.com/norn-scheduler/norn/trace/clusterspec"
)

func config(change func(*philly.Config)) func() (sched.Policy, error) {
	return func() (sched.Policy, error) {
		c := philly.NewConfig()
		if change != nil {
			change(c)
		}
		return c.Policy()
	}
}

// racks is a cluster of servers of eight GPUs, each in a rack of its own.
func racks(t *testing.T, servers int) *cluster.Cluster {
	t.Helper()
	c := cluster.New()
	typ, err := c.AddType(cluster.GPUType{Name: "gpu"})
	if err != nil {
		t.Fatal(err)
	}
	for range servers {
		rack, err := c.AddDomain("rack", "", 0)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.AddNode(cluster.NodeSpec{Domain: rack, GPUs: []cluster.GPUs{{Type: typ, Count: 8}}}); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

// vcs are virtual clusters with the given quotas.
func vcs(t *testing.T, quota map[string]int) *tenant.Tree {
	t.Helper()
	tree := tenant.NewTree(0)
	names := make([]string, 0, len(quota))
	for name := range quota {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		if _, err := tree.Add(name, tenant.Root, unit.Milli(quota[name])*unit.One, 0, 0); err != nil {
			t.Fatal(err)
		}
	}
	return tree
}

// halves leaves four GPUs free on each of two servers of eight from second 10 on.
func halves(more ...simtest.Job) []simtest.Job {
	return append([]simtest.Job{
		{Key: "a", GPUs: 4, Run: 10}, {Key: "b", GPUs: 4, Run: 9000},
		{Key: "c", GPUs: 4, Run: 10}, {Key: "d", GPUs: 4, Run: 9000},
	}, more...)
}

// Spec philly-analysis, section 5, statement 1 (Jeon et al., section 2.3): a gang
// of eight waits for one server through three attempts of 2.5 minutes with 2
// minutes between them; then one rack will do, and after three more anything. Its
// delay is fragmentation delay.
func TestLocalityRelaxes(t *testing.T) {
	for _, c := range []struct {
		name    string
		cluster *cluster.Cluster
		start   float64
		last    string // reason
	}{
		{"one rack", simtest.Nodes(2, 8), 20 + 3*270, "needs 8 GPUs of one node; the best node has 4 free"},
		{"two racks", racks(t, 2), 20 + 6*270, "needs 8 GPUs of one rack; the best rack has 4 free"},
	} {
		delays := report.NewCollector(report.Options{})
		run := simtest.Go(t, simtest.Config{Cluster: c.cluster, Make: config(nil), Sinks: []engine.Sink{delays}},
			halves(simtest.Job{Key: "J", At: 20, GPUs: 8, Run: 100})...)
		if got := run.Start("J"); got != c.start {
			t.Errorf("%s: starts at %v, want %v", c.name, got, c.start)
		}
		if w := delays.Result(run.State).Summary.Waiting; w.Fragmentation != (c.start-20)/3600 || w.Total() != w.Fragmentation {
			t.Errorf("%s: delays %+v, want %v hours of fragmentation alone", c.name, w, (c.start-20)/3600)
		}
		last := ""
		for _, line := range run.Log {
			if _, why, ok := strings.Cut(line, " wait J: "); ok {
				last = why
			}
		}
		if last != c.last {
			t.Errorf("%s: waits because it %q, want %q", c.name, last, c.last)
		}
	}
}

// Section 2 of the spec: a job asks again only at the end of its back-off, even
// if GPUs come free before, and at once when they come free while its attempt is
// open.
func TestBackoff(t *testing.T) {
	for free, want := range map[float64]float64{100: 100, 200: 290} { // the attempt is open until 20 + 150
		jobs := halves(simtest.Job{Key: "J", At: 20, GPUs: 8, Run: 100})
		jobs[1].Run = free
		run := simtest.Go(t, simtest.Config{Cluster: simtest.Nodes(2, 8), Make: config(nil)}, jobs...)
		if got := run.Start("J"); got != want {
			t.Errorf("with a server free at %v it starts at %v, want %v", free, got, want)
		}
	}
}

// Section 5, statement 2: a VC with a quota of 4 that holds 4 and asks for 2 more
// waits, with fairness delay, while all others are at or below their quotas. A VC
// below its quota gets its GPUs back from one above: its newest job is preempted.
func TestQuota(t *testing.T) {
	delays := report.NewCollector(report.Options{})
	run := simtest.Go(t, simtest.Config{Cluster: simtest.Nodes(1, 8), Tenants: vcs(t, map[string]int{"A": 4, "B": 4}), Make: config(nil), Sinks: []engine.Sink{delays}},
		simtest.Job{Key: "a1", GPUs: 4, Run: 3600, Tenant: "A"}, simtest.Job{Key: "b1", GPUs: 4, Run: 3600, Tenant: "B"},
		simtest.Job{Key: "a2", GPUs: 2, Run: 10, Tenant: "A"})
	if run.Start("a2") != 3600 || run.Preemptions() != 0 {
		t.Errorf("a2 starts at %v after %d preemptions, want 3600 and none", run.Start("a2"), run.Preemptions())
	}
	if w := delays.Result(run.State).Summary.Waiting; w.Fairness != 1 || w.Total() != 1 {
		t.Errorf("delays %+v, want one hour of fairness", w)
	}
	run = simtest.Go(t, simtest.Config{Cluster: simtest.Nodes(1, 8), Tenants: vcs(t, map[string]int{"A": 4, "B": 4}), Make: config(nil)},
		simtest.Job{Key: "a1", GPUs: 2, Run: 3600, Tenant: "A"}, simtest.Job{Key: "b1", GPUs: 4, Run: 3600, Tenant: "B"},
		simtest.Job{Key: "b2", At: 1, GPUs: 1, Run: 3600, Tenant: "B"}, simtest.Job{Key: "b3", At: 2, GPUs: 1, Run: 3600, Tenant: "B"},
		simtest.Job{Key: "a2", At: 10, GPUs: 1, Run: 50, Tenant: "A"})
	if run.Start("a2") != 10 || run.Record("b3").Preemptions != 1 || run.Preemptions() != 1 {
		t.Errorf("a2 starts at %v after %d preemptions, want 10 after one of b3", run.Start("a2"), run.Preemptions())
	}
	if b3 := run.Record("b3"); b3.End != 3652*1e9 { // ran 2 to 10, waited for the 50 seconds of a2
		t.Errorf("b3 ends at %v, want 3652 s: it borrows again as soon as it can", b3.End)
	}
}

// Section 2: jobs are preempted only when at least 90 % of the GPUs are in use.
func TestReclaimAt(t *testing.T) {
	for at, want := range map[float64]float64{0.75: 10, 0.76: 100} {
		run := simtest.Go(t, simtest.Config{
			Cluster: simtest.Nodes(1, 8), Tenants: vcs(t, map[string]int{"A": 4, "B": 4}),
			Make: config(func(c *philly.Config) { c.ReclaimAt = at }),
		},
			simtest.Job{Key: "b1", GPUs: 4, Run: 100, Tenant: "B"}, simtest.Job{Key: "b2", At: 1, GPUs: 2, Run: 99, Tenant: "B"},
			simtest.Job{Key: "a1", At: 10, GPUs: 4, Run: 50, Tenant: "A"})
		if got := run.Start("a1"); got != want {
			t.Errorf("reclaim-at %v: with 6 of 8 GPUs in use a1 starts at %v, want %v", at, got, want)
		}
	}
}

// Section 5, statement 3: a job of one GPU that comes while one of eight waits
// starts at once.
func TestOutOfOrder(t *testing.T) {
	run := simtest.Go(t, simtest.Config{Cluster: simtest.Nodes(2, 8), Make: config(nil)},
		halves(simtest.Job{Key: "J", At: 20, GPUs: 8, Run: 100}, simtest.Job{Key: "small", At: 30, GPUs: 1, Run: 10})...)
	if got := run.Start("small"); got != 30 {
		t.Errorf("the small job starts at %v, want 30", got)
	}
}

// Section 2: quotas are shares by weight where none are guaranteed, and what one
// VC leaves idle another may use, unless lending is off.
func TestLending(t *testing.T) {
	for lend, want := range map[bool]float64{true: 0, false: 100} {
		tree := tenant.NewTree(0)
		for name, weight := range map[string]float64{"A": 1, "B": 3} {
			if _, err := tree.Add(name, tenant.Root, 0, 0, weight); err != nil {
				t.Fatal(err)
			}
		}
		run := simtest.Go(t, simtest.Config{
			Cluster: simtest.Nodes(1, 8), Tenants: tree, Make: config(func(c *philly.Config) { c.Lend = lend }),
		}, simtest.Job{Key: "a1", GPUs: 2, Run: 100, Tenant: "A"}, simtest.Job{Key: "a2", GPUs: 1, Run: 100, Tenant: "A"})
		if got := run.Start("a2"); got != want {
			t.Errorf("lend=%v: a VC with a quota of 2 GPUs has a third at %v, want %v", lend, got, want)
		}
	}
}

// Section 2: a gang that no server can hold gets the fewest servers of one rack,
// and packing prefers the fullest server that fits.
func TestFewestServers(t *testing.T) {
	c := cluster.New()
	typ, err := c.AddType(cluster.GPUType{Name: "gpu"})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		rack, err := c.AddDomain("rack", "", 0)
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if _, err := c.AddNode(cluster.NodeSpec{Domain: rack, GPUs: []cluster.GPUs{{Type: typ, Count: 4}}}); err != nil {
				t.Fatal(err)
			}
		}
	}
	run := simtest.Go(t, simtest.Config{Cluster: c, Make: config(nil)},
		simtest.Job{Key: "one", GPUs: 1, Run: 1000}, simtest.Job{Key: "two", GPUs: 2, Run: 1000}, simtest.Job{Key: "eight", GPUs: 8, Run: 10})
	for _, want := range []string{"0 start one on n0[0]", "0 start two on n0[1-2]", "0 start eight on n2[0-3]+n3[0-3]"} {
		if !slices.Contains(run.Log, want) {
			t.Errorf("no %q in the log:\n%s", want, strings.Join(run.Log, "\n"))
		}
	}
}

// A job that asks for more than its VC may ever hold is told so, and blocks
// nobody.
func TestOverLimit(t *testing.T) {
	tree := tenant.NewTree(0)
	if _, err := tree.Add("A", tenant.Root, 0, 2*unit.One, 0); err != nil {
		t.Fatal(err)
	}
	run := simtest.Go(t, simtest.Config{Cluster: simtest.Nodes(1, 8), Tenants: tree, Make: config(nil)},
		simtest.Job{Key: "big", GPUs: 4, Run: 10, Tenant: "A"}, simtest.Job{Key: "x", GPUs: 2, Run: 10, Tenant: "A"}, simtest.Job{Key: "y", GPUs: 1, Run: 10, Tenant: "A"})
	if why := run.Record("big").Reason; why.Code != job.OverLimit || !why.Never() {
		t.Errorf("big waits because %v, want over-limit", why)
	}
	if run.Start("x") != 0 || run.Start("y") != 10 {
		t.Errorf("x and y start at %v and %v, want 0 and 10", run.Start("x"), run.Start("y"))
	}
}

// The description of the cluster that docs/policies/philly.md uses names the
// eleven virtual clusters of the simulation of Helios.
func TestClusterFile(t *testing.T) {
	spec, err := clusterspec.Load("testdata/philly-vc.yaml")
	if err != nil {
		t.Fatal(err)
	}
	site, err := spec.Build()
	if err != nil {
		t.Fatal(err)
	}
	weights := 0.0
	for id := tenant.ID(1); int(id) < site.Tenants.Len(); id++ {
		weights += site.Tenants.At(id).Weight
	}
	if site.Cluster.TotalGPUs(0, 0) != 2490 || site.Tenants.Len() != 12 || weights != 352 {
		t.Errorf("%d GPUs, %d tenants with weights of %v, want 2490, 11 and 352", site.Cluster.TotalGPUs(0, 0), site.Tenants.Len()-1, weights)
	}
}
