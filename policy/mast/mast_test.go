package mast_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/label"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/eventlog"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/policy/mast"
	"github.com/norn-scheduler/norn/sched"
	"github.com/norn-scheduler/norn/sim"
	"github.com/norn-scheduler/norn/sim/simtest"
	"github.com/norn-scheduler/norn/tenant"
)

// area is nodes of eight GPUs in a place of the topology, outermost first, with a data set.
type area struct {
	path  string // r1/z1
	nodes int
	data  string
}

// world is a cluster of areas; the levels of their paths are region, zone and rack.
func world(t *testing.T, areas ...area) *cluster.Cluster {
	t.Helper()
	c := cluster.New()
	typ, _ := c.AddType(cluster.GPUType{Name: "gpu"}) // cannot fail: the first type
	known := map[string]cluster.DomainID{}
	for _, a := range areas {
		at, path := cluster.DomainID(0), ""
		for i, name := range strings.Split(a.path, "/") {
			path += "/" + name
			if _, ok := known[path]; !ok {
				d, err := c.AddDomain([]string{"region", "zone", "rack"}[i], name, at)
				if err != nil {
					t.Fatal(err)
				}
				known[path] = d
			}
			at = known[path]
		}
		for range a.nodes {
			spec := cluster.NodeSpec{GPUs: []cluster.GPUs{{Type: typ, Count: 8}}, Domain: at}
			if a.data != "" {
				spec.Labels = []label.Label{{Key: "data/" + a.data}}
			}
			if _, err := c.AddNode(spec); err != nil {
				t.Fatal(err)
			}
		}
	}
	return c
}

func with(set ...string) func() (sched.Policy, error) {
	return func() (sched.Policy, error) {
		c := mast.NewConfig()
		for i := 0; i < len(set); i += 2 {
			if err := c.Params().Set(set[i], set[i+1]); err != nil {
				return nil, err
			}
		}
		return c.Policy()
	}
}

// hosts is a demand for whole nodes, of those that have a data set where one is named.
func hosts(n int, data string) *job.Demand {
	d := job.GPUs(8 * n)
	if data != "" {
		d.Where = "data/" + data
	}
	return &d
}

func band(b int32) func(*job.Job) { return func(j *job.Job) { j.Priority = b } }

// TestAuction: acceptance 1. Data is in R1 and R2. Where R2 has room it wins, for nobody is stopped there; where it has
// not, R1 does, and stops exactly the job of the lower band; R3, which has not the data, is never asked.
func TestAuction(t *testing.T) {
	fill := func(key string, n int, region string, b int32) simtest.Job {
		d := hosts(n, "")
		d.Where = "in=" + region
		return simtest.Job{Key: key, Demand: d, Run: 1000, Spec: band(b)}
	}
	for _, c := range []struct {
		name    string
		r2      int // free hosts there
		low     bool
		where   string
		stopped int
	}{
		{"room in R2", 4, true, "R2", 0},
		{"none in R2", 3, true, "R1", 1},
		{"nobody to stop", 3, false, "", 0},
	} {
		cl := world(t, area{"R1", 4, "d"}, area{"R2", 4, "d"}, area{"R3", 10, ""})
		for id := range cluster.NodeID(cl.Nodes()) {
			n := cl.Node(id)
			_, name, _ := cl.Domain(n.Domain)
			if err := cl.SetLabels(id, append([]label.Label{{Key: "in", Value: name}}, n.Labels...), nil); err != nil {
				t.Fatal(err)
			}
		}
		jobs := []simtest.Job{fill("two", 2, "R1", 5)}
		if c.low {
			jobs[0].Spec = band(1)
		}
		if c.r2 < 4 {
			jobs = append(jobs, fill("one", 4-c.r2, "R2", 5))
		}
		jobs = append(jobs, simtest.Job{Key: "wide", At: 10, Demand: hosts(4, "d"), Run: 50, Spec: band(5)})
		run := simtest.Go(t, simtest.Config{Cluster: cl, Make: with()}, jobs...)
		log := strings.Join(run.Log, "\n")
		if c.where == "" {
			if run.Start("wide") != 1000 || !strings.Contains(log, "10 wait wide") {
				t.Errorf("%s: it starts at %v:\n%s", c.name, run.Start("wide"), log)
			}
			continue
		}
		first := map[string]string{"R1": "start wide on n0", "R2": "start wide on n4"}[c.where]
		if run.Start("wide") != 10 || !strings.Contains(log, first) || run.Preemptions() != c.stopped || int(run.Record("two").Preemptions) != c.stopped {
			t.Errorf("%s:\n%s", c.name, log)
		}
	}
}

// TestFreedElsewhere: acceptance 1. A job without a bid is looked at again when something is freed in a region that has
// its data.
func TestFreedElsewhere(t *testing.T) {
	cl := world(t, area{"R1", 1, ""}, area{"R2", 1, "d"})
	run := simtest.Go(t, simtest.Config{Cluster: cl, Make: with()},
		simtest.Job{Key: "a", Demand: hosts(1, "d"), Run: 100}, simtest.Job{Key: "b", Demand: hosts(1, ""), Run: 10},
		simtest.Job{Key: "c", At: 1, Demand: hosts(1, "d"), Run: 10}, simtest.Job{Key: "e", At: 2, Demand: hosts(1, ""), Run: 10})
	if run.Start("c") != 100 || run.Start("e") != 10 {
		t.Error(strings.Join(run.Log, "\n"))
	}
}

// TestOrder: acceptance 2. High before low, then credit, then submission; a job without a place blocks nobody, and a low
// one cannot take the place of a high one.
func TestOrder(t *testing.T) {
	tree := tenant.NewTree(0)
	for name, quota := range map[string]unit.Milli{"A": 10, "B": 1, "C": 3} {
		if _, err := tree.Add(name, tenant.Root, quota*unit.One, 0, 1); err != nil {
			t.Fatal(err)
		}
	}
	jobs := []simtest.Job{
		{Key: "busy", GPUs: 8, Run: 100, Spec: band(9)},
		{Key: "A", At: 1, Tenant: "A", GPUs: 8, Run: 10, Spec: band(0)},
		{Key: "B", At: 5, Tenant: "B", GPUs: 8, Run: 10, Spec: band(1)},
		{Key: "C", At: 9, Tenant: "C", GPUs: 8, Run: 10, Spec: band(1)},
	}
	run := simtest.Go(t, simtest.Config{Cluster: world(t, area{"R", 1, ""}), Tenants: tree, Make: with()}, jobs...)
	if run.Start("C") != 100 || run.Start("B") != 110 || run.Start("A") != 120 {
		t.Error(strings.Join(run.Log, "\n"))
	}
	jobs[3].Demand = hosts(1, "nowhere")
	run = simtest.Go(t, simtest.Config{Cluster: world(t, area{"R", 1, ""}), Tenants: tree, Make: with()}, jobs...)
	if run.Start("C") != -1 || run.Start("B") != 100 || run.Start("A") != 110 || run.Preemptions() > 0 {
		t.Error(strings.Join(run.Log, "\n"))
	}
}

// TestPacks: acceptance 4. Of clusters with 5, 3 and 8 free hosts a job of 3 hosts goes to that with 3, one of 4 to that
// with 5, and one of 8 still fits.
func TestPacks(t *testing.T) {
	cl := world(t, area{"R/a", 5, ""}, area{"R/b", 3, ""}, area{"R/c", 8, ""})
	run := simtest.Go(t, simtest.Config{Cluster: cl, Make: with()},
		simtest.Job{Key: "three", Demand: hosts(3, ""), Run: 10}, simtest.Job{Key: "four", Demand: hosts(4, ""), Run: 10}, simtest.Job{Key: "eight", Demand: hosts(8, ""), Run: 10})
	log := strings.Join(run.Log, "\n")
	for _, line := range []string{"0 start three on n5[", "0 start four on n0[", "0 start eight on n8["} {
		if !strings.Contains(log, line) {
			t.Errorf("%q is missing:\n%s", line, log)
		}
	}
}

// TestOneCluster: no gang is on two dynamic clusters, and one for which no cluster is large enough is told so.
func TestOneCluster(t *testing.T) {
	cl := world(t, area{"R/a", 2, ""}, area{"R/b", 2, ""})
	run := simtest.Go(t, simtest.Config{Cluster: cl, Make: with()},
		simtest.Job{Key: "a", Demand: hosts(1, ""), Run: 10}, simtest.Job{Key: "b", Demand: hosts(2, ""), Run: 20},
		simtest.Job{Key: "c", Demand: hosts(2, ""), Run: 10}, simtest.Job{Key: "never", Demand: hosts(3, ""), Run: 10})
	log := strings.Join(run.Log, "\n")
	if run.Start("c") != 10 || run.Start("never") != -1 || !strings.Contains(log, "wait c: needs 16 GPUs") {
		t.Error(log)
	}
}

// TestDataComes: a job runs only where its data is, under whatever else is free, and starts when the data comes there.
func TestDataComes(t *testing.T) {
	cl := world(t, area{"R1", 1, "d"}, area{"R2", 4, ""})
	arrives := func(s *sim.Config) {
		for n := range cluster.NodeID(4) {
			s.Script = append(s.Script, eventlog.Event{Time: 50e9, Kind: eventlog.NodeLabels, Node: n + 1, NodeSpec: &cluster.NodeSpec{Labels: []label.Label{{Key: "data/d"}}}})
		}
	}
	run := simtest.Go(t, simtest.Config{Cluster: cl, Make: with(), World: arrives},
		simtest.Job{Key: "a", Demand: hosts(1, "d"), Run: 100}, simtest.Job{Key: "b", At: 1, Demand: hosts(1, "d"), Run: 100}, simtest.Job{Key: "wide", At: 2, Demand: hosts(3, "d"), Run: 100})
	if run.Start("a") != 0 || run.Start("b") != 50 || run.Start("wide") != 50 {
		t.Error(strings.Join(run.Log, "\n"))
	}
}

// TestBestOfAll: acceptance 5. On random clusters without preemption, the cluster chosen is the best of all: that with
// the fewest free hosts that suffice, in the region with the most to spare, of the lowest number.
func TestBestOfAll(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 200 {
		var areas []area
		var free, of []int
		spare := map[int]int{}
		for i := range 2 + r.IntN(3) {
			for k := range 1 + r.IntN(3) {
				n := 1 + r.IntN(6)
				areas = append(areas, area{fmt.Sprintf("r%d/z%d", i, k), n, ""})
				free, of = append(free, n), append(of, i)
				spare[i] += n
			}
		}
		need, best := 1+r.IntN(6), -1
		for i := range free {
			better := best >= 0 && (free[i] < free[best] || free[i] == free[best] && spare[of[i]] > spare[of[best]])
			if free[i] >= need && (best < 0 || better) {
				best = i
			}
		}
		if best < 0 {
			continue
		}
		first := 0
		for _, n := range free[:best] {
			first += n
		}
		run := simtest.Go(t, simtest.Config{Cluster: world(t, areas...), Make: with()}, simtest.Job{Key: "j", Demand: hosts(need, ""), Run: 10})
		on := -1
		if _, err := fmt.Sscanf(strings.Join(run.Log[1:], "\n"), "0 start j on n%d[", &on); err != nil || on < first || on >= first+free[best] {
			t.Fatalf("%v: %d hosts are to be in the place of number %d:\n%s", areas, need, best, strings.Join(run.Log, "\n"))
		}
	}
}

// BenchmarkScan is one decision over 10,000 jobs that wait, of 60 shapes and three bands, on 1,250 nodes in five regions
// which are full.
func BenchmarkScan(b *testing.B) {
	c := cluster.New()
	typ, _ := c.AddType(cluster.GPUType{Name: "gpu"}) // cannot fail: the first type
	for r := range 5 {
		region, _ := c.AddDomain("region", fmt.Sprint("r", r), 0)
		for z := range 5 {
			zone, _ := c.AddDomain("zone", fmt.Sprint("z", z), region)
			for range 50 {
				if _, err := c.AddNode(cluster.NodeSpec{GPUs: []cluster.GPUs{{Type: typ, Count: 8}}, Domain: zone, Labels: []label.Label{{Key: fmt.Sprint("data/d", r)}, {Key: fmt.Sprint("data/d", (r+1)%5)}}}); err != nil {
					b.Fatal(err)
				}
			}
		}
	}
	jobs := make([]simtest.Job, 0, 11250)
	for i := range 1250 {
		jobs = append(jobs, simtest.Job{Key: fmt.Sprint("run", i), GPUs: 8, Run: 1e5, Spec: band(2)})
	}
	for i := range 10000 {
		jobs = append(jobs, simtest.Job{Key: fmt.Sprint("wait", i), At: 1, Demand: hosts(1+i%12, fmt.Sprint("d", i%5)), Run: 10, Spec: band(int32(i % 3))})
	}
	clock := &timed{}
	for b.Loop() {
		clock.longest = 0
		if _, err := simtest.Try(simtest.Config{Cluster: c.Empty(), Make: clock.policy, Unchecked: true}, jobs...); err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(clock.longest.Seconds()*1e3, "ms/longest")
	}
}

// timed is the policy, with the time that its longest decision took.
type timed struct {
	sched.Policy
	longest time.Duration
}

func (d *timed) policy() (sched.Policy, error) {
	p, err := with()()
	d.Policy = p
	return d, err
}

// Decide implements sched.Policy.
func (d *timed) Decide(v *sched.View, p *sched.Plan) {
	began := time.Now()
	d.Policy.Decide(v, p)
	d.longest = max(d.longest, time.Since(began))
}
