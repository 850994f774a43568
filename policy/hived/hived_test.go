package hived_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/eventlog"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/policy/hived"
	"github.com/norn-scheduler/norn/sched"
	"github.com/norn-scheduler/norn/sim"
	"github.com/norn-scheduler/norn/sim/simtest"
	"github.com/norn-scheduler/norn/tenant"
)

func with(change ...func(*hived.Config)) func() (sched.Policy, error) {
	return func() (sched.Policy, error) {
		c := hived.NewConfig()
		for _, f := range change {
			f(c)
		}
		return c.Policy()
	}
}

// promised is tenants with cells, as name and cells in turn.
func promised(t interface{ Fatal(...any) }, all ...string) *tenant.Tree {
	tree := tenant.NewTree(0)
	for i := 0; i < len(all); i += 2 {
		read, err := tenant.ParseCells(all[i+1])
		if err != nil {
			t.Fatal(err)
		}
		tree.SetCells(tree.Get(all[i]), read)
	}
	return tree
}

func urgent(n int32) func(*job.Job) { return func(j *job.Job) { j.Priority = n } }

// gang is a demand of so many tasks of so many GPUs.
func gang(tasks int32, gpus int) *job.Demand {
	d := job.GPUs(1)
	d.Roles[0].Tasks, d.Roles[0].GPU = tasks, unit.Milli(gpus)*unit.One
	return &d
}

// The sharing anomaly, as small as can be: both tenants have a node's worth of GPUs. The jobs of b come one by
// one and outlive those of a, so that under quotas b's are scattered over both nodes, and a's gang of a whole node waits.
func TestAnomaly(t *testing.T) {
	jobs := []simtest.Job{
		{Key: "a1", Tenant: "a", GPUs: 3, Run: 10, Demand: gang(1, 3)},
		{Key: "b1", Tenant: "b", At: 1, GPUs: 1, Run: 500},
		{Key: "b2", Tenant: "b", At: 2, GPUs: 1, Run: 500},
		{Key: "a2", Tenant: "a", At: 20, GPUs: 4, Run: 10, Demand: gang(1, 4)},
	}
	for guarantee, want := range map[hived.Guarantee]float64{hived.Cells: 20, hived.Quota: 501} {
		run := simtest.Go(t, simtest.Config{Cluster: simtest.Nodes(2, 4), Tenants: promised(t, "a", "node=1", "b", "node=1"), Make: with(func(c *hived.Config) { c.Guarantee = guarantee })}, jobs...)
		if got := run.Start("a2"); got != want {
			t.Errorf("guarantee %d: the gang of a starts at %v, want %v\n%v", guarantee, got, want, run.Log)
		}
	}
}

// Acceptance F of the specification. A more urgent job of the same tenant takes the cells of another: that
// one goes on as a guest on the node of a tenant who has no use for it, until its owner comes. If preemption is not
// lazy, it is stopped at once.
func TestLazyPreemption(t *testing.T) {
	jobs := []simtest.Job{
		{Key: "g0", Tenant: "VC1", GPUs: 4, Run: 100},
		{Key: "g1", Tenant: "VC1", At: 10, GPUs: 4, Run: 100, Spec: urgent(100)},
		{Key: "owner", Tenant: "VC2", At: 30, GPUs: 4, Run: 100},
	}
	for lazy, want := range map[bool][]string{
		true:  {"10 start g1 on n1[0-3]", "30 preempt g0 kept=30: another tenant takes back what it is guaranteed", "30 start owner on n0[0-3]"},
		false: {"10 preempt g0 kept=10: makes room for job g1, which goes first", "10 start g1 on n0[0-3]", "30 start owner on n1[0-3]"},
	} {
		run := simtest.Go(t, simtest.Config{Cluster: simtest.Nodes(2, 4), Tenants: promised(t, "VC1", "node=1", "VC2", "node=1"), Make: with(func(c *hived.Config) { c.Lazy = lazy })}, jobs...)
		log := strings.Join(run.Log, "\n")
		for _, line := range want {
			if !strings.Contains(log, line) {
				t.Errorf("lazy=%v: no %q in\n%s", lazy, line, log)
			}
		}
		if run.Preemptions() != 1 {
			t.Errorf("lazy=%v: %d preemptions\n%s", lazy, run.Preemptions(), log)
		}
	}
}

// Acceptance E: a gang that its tenant's cells cannot hold waits as a whole, and a later one goes ahead.
func TestGangsWaitAlone(t *testing.T) {
	run := simtest.Go(t, simtest.Config{Cluster: simtest.Nodes(2, 4), Tenants: promised(t, "a", "node=1", "b", "node=1"), Make: with()},
		simtest.Job{Key: "first", Tenant: "a", GPUs: 1, Run: 50},
		simtest.Job{Key: "six", Tenant: "a", At: 1, GPUs: 6, Run: 10},
		simtest.Job{Key: "three", Tenant: "a", At: 2, GPUs: 3, Run: 10},
	)
	if run.Start("three") != 2 || run.Start("six") != 50 {
		t.Errorf("three starts at %v and six at %v, want 2 and 50, as a guest when nobody is left\n%v", run.Start("three"), run.Start("six"), run.Log)
	}
	run = simtest.Go(t, simtest.Config{Cluster: simtest.Nodes(2, 4), Tenants: promised(t, "a", "node=1", "b", "node=1"), Make: with(func(c *hived.Config) { c.Beyond = false })},
		simtest.Job{Key: "six", Tenant: "a", GPUs: 6, Run: 10})
	if last := run.Log[len(run.Log)-1]; last != "0 wait six: its tenant holds 0 of the 4 GPUs that it may hold" {
		t.Errorf("a gang beyond the cells of its tenant runs, or waits for another reason:\n%v", run.Log)
	}
}

// Jobs of priority below 0, and of tenants without cells, have what is idle, and all of a gang leaves when an
// owner takes a part of it back. They go to nodes of other guests, and stay away from guaranteed jobs.
func TestGuests(t *testing.T) {
	run := simtest.Go(t, simtest.Config{Cluster: simtest.Nodes(3, 4), Tenants: promised(t, "a", "node=2", "b", "node=1"), Make: with(func(c *hived.Config) { c.Together = false })},
		simtest.Job{Key: "own", Tenant: "a", GPUs: 2, Run: 1000},
		simtest.Job{Key: "low", Tenant: "a", At: 1, GPUs: 1, Run: 1000, Spec: urgent(-1)},
		simtest.Job{Key: "nobody", Tenant: "other", At: 2, GPUs: 5, Run: 100},
		simtest.Job{Key: "back", Tenant: "b", At: 50, GPUs: 4, Run: 200},
		simtest.Job{Key: "none", Tenant: "b", At: 60, GPUs: 4, Run: 1},
	)
	log := strings.Join(run.Log, "\n")
	for _, line := range []string{
		"0 start own on n0[0-1]", "1 start low on n1[0]", "2 start nobody on n1[1-3]+n2[0-1]",
		"50 preempt nobody kept=48: another tenant takes back what it is guaranteed", "50 start back on n2[0-3]", "60 start nobody on n0[2-3]+n1[1-3]",
	} {
		if !strings.Contains(log, line) {
			t.Errorf("no %q in\n%s", line, log)
		}
	}
}

// Guarantees in GPUs become cells, jobs of a tenant below have those of the one above, and where nobody is
// promised anything all have everything.
func TestWhoHasWhat(t *testing.T) {
	tree := tenant.NewTree(0)
	above, err := tree.Add("team", tenant.Root, 6*unit.One, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tree.Add("team/x", above, 4*unit.One, 0, 0); err != nil {
		t.Fatal(err)
	}
	strict := with(func(c *hived.Config) { c.Beyond = false })
	run := simtest.Go(t, simtest.Config{Cluster: simtest.Nodes(2, 4), Tenants: tree, Make: strict},
		simtest.Job{Key: "four", Tenant: "team/x", GPUs: 4, Run: 100, Demand: gang(1, 4)},
		simtest.Job{Key: "two", Tenant: "team", At: 1, GPUs: 2, Run: 100, Demand: gang(1, 2)},
		simtest.Job{Key: "more", Tenant: "team", At: 2, GPUs: 1, Run: 100},
	)
	if run.Start("four") != 0 || run.Start("two") != 1 || run.Start("more") != 100 {
		t.Errorf("starts at %v, %v and %v\n%v", run.Start("four"), run.Start("two"), run.Start("more"), run.Log)
	}
	run = simtest.Go(t, simtest.Config{Cluster: simtest.Nodes(2, 4), Make: strict},
		simtest.Job{Key: "a", Tenant: "a", GPUs: 5, Run: 100}, simtest.Job{Key: "b", Tenant: "b", GPUs: 3, Run: 100})
	if run.Start("a") != 0 || run.Start("b") != 0 {
		t.Errorf("nobody is promised anything, and not all run at once\n%v", run.Log)
	}
}

// A job of as many tasks of one GPU as a node has GPUs wants a whole node, rather than what others have left. If no cell of
// its tenant is so large, it is spread.
func TestTogether(t *testing.T) {
	for together, want := range map[bool]string{true: "1 start two on n1[0-3]", false: "1 start two on n0[2-3]+n1[0-1]"} {
		run := simtest.Go(t, simtest.Config{Cluster: simtest.Nodes(2, 4), Tenants: promised(t, "a", "node=2"), Make: with(func(c *hived.Config) { c.Together = together })},
			simtest.Job{Key: "one", Tenant: "a", GPUs: 2, Run: 100}, simtest.Job{Key: "two", Tenant: "a", At: 1, GPUs: 4, Run: 100})
		if !strings.Contains(strings.Join(run.Log, "\n"), want) {
			t.Errorf("together=%v: no %q in\n%v", together, want, run.Log)
		}
	}
	run := simtest.Go(t, simtest.Config{Cluster: simtest.Nodes(2, 4), Tenants: promised(t, "a", "2=2"), Make: with(func(c *hived.Config) { c.Beyond = false })},
		simtest.Job{Key: "four", Tenant: "a", GPUs: 4, Run: 100})
	if run.End("four") != 100 {
		t.Errorf("four GPUs in two cells of two: %v", run.Log)
	}
}

// A job that must never be stopped keeps its cells, whoever is more urgent.
func TestPinnedJobs(t *testing.T) {
	run := simtest.Go(t, simtest.Config{Cluster: simtest.Nodes(1, 4), Tenants: promised(t, "a", "node=1"), Make: with(func(c *hived.Config) { c.Lazy = false })},
		simtest.Job{Key: "stays", Tenant: "a", GPUs: 4, Run: 100, Spec: func(j *job.Job) { j.Stop = job.Pinned }},
		simtest.Job{Key: "urgent", Tenant: "a", At: 1, GPUs: 4, Run: 10, Spec: urgent(9)},
	)
	if run.Preemptions() != 0 || run.Start("urgent") != 100 {
		t.Errorf("%d preemptions, the urgent job starts at %v\n%v", run.Preemptions(), run.Start("urgent"), run.Log)
	}
}

// A policy that is replaced by a new one at random moments decides the same: where jobs lie follows from
// their notes. Tenants have cells of several levels, jobs are urgent or guests, nodes fail, and stopping takes time.
func TestRestarts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var jobs []simtest.Job
		at := 0.0
		for i := range rapid.IntRange(1, 14).Draw(t, "jobs") {
			at += float64(rapid.IntRange(0, 10).Draw(t, "gap"))
			jobs = append(jobs, simtest.Job{
				Key: fmt.Sprint("j", i), At: at, Tenant: rapid.SampledFrom([]string{"a", "b", "c", "other"}).Draw(t, "tenant"),
				Demand: gang(int32(rapid.IntRange(1, 3).Draw(t, "tasks")), rapid.SampledFrom([]int{1, 1, 2, 4, 8}).Draw(t, "gpus")),
				Run:    float64(rapid.IntRange(1, 60).Draw(t, "run")), Spec: urgent(int32(rapid.IntRange(-1, 2).Draw(t, "priority"))),
			})
		}
		lazy := rapid.Bool().Draw(t, "lazy")
		costs := perf.Costs{Base: perf.Cost{Checkpoint: 3e9 * 1, Restore: 2e9}}
		logs := [2][]string{}
		for i, restart := range []bool{false, true} {
			run, err := simtest.Try(simtest.Config{
				Cluster: simtest.Nodes(4, 8), Tenants: promised(t, "a", "node=1, 4=1", "b", "2=2, node=1", "c", "@n3"), Costs: costs, Restart: restart,
				Make: with(func(c *hived.Config) { c.Lazy = lazy }),
			}, jobs...)
			if err != nil {
				t.Fatal(err)
			}
			logs[i] = run.Log
		}
		simtest.SameDecisions(t, "a policy that was replaced", logs[0], logs[1])
	})
}

// Of a node that is lost another one is bound in its place, as long as there is one, and the guarantee of
// others comes first.
func TestLostNodes(t *testing.T) {
	c := simtest.Nodes(3, 4)
	c.SetHealth(0, cluster.Down)
	run := simtest.Go(t, simtest.Config{Cluster: c, Tenants: promised(t, "a", "node=1", "b", "node=1"), Make: with()},
		simtest.Job{Key: "a", Tenant: "a", GPUs: 4, Run: 10}, simtest.Job{Key: "b", Tenant: "b", GPUs: 4, Run: 10})
	if run.Start("a") != 0 || run.Start("b") != 0 {
		t.Errorf("two tenants with a node each wait, although two nodes work\n%v", run.Log)
	}
}

// A task without GPUs goes to no node that is cordoned, also where the job's other tasks would
// be closest to it there.
func TestTaskWithoutGPUsAndCordonedNodes(t *testing.T) {
	server := job.GPUs(1)
	server.Roles[1] = job.Role{Name: "ps", Tasks: 1, CPU: 2000}
	for cordoned, want := range map[cluster.NodeID]float64{0: 5, 1: 100} { // where the first node is full until 100 s
		c := cluster.New()
		typ, err := c.AddType(cluster.GPUType{Name: "gpu"})
		for range 2 {
			if _, e := c.AddNode(cluster.NodeSpec{GPUs: []cluster.GPUs{{Type: typ, Count: 2}}, CPU: 8000}); err != nil || e != nil {
				t.Fatal(err, e)
			}
		}
		run := simtest.Go(t, simtest.Config{
			Cluster: c, Tenants: promised(t, "a", "node=2"), Make: with(),
			World: func(c *sim.Config) {
				c.Script = []eventlog.Event{{Time: 2 * time.Second, Kind: eventlog.NodeSet, Node: cordoned, Health: cluster.Cordoned}}
			},
		},
			simtest.Job{Key: "a", Tenant: "a", GPUs: 1, Run: 100},
			simtest.Job{Key: "b", Tenant: "a", At: 1, GPUs: 1, Run: 100},
			simtest.Job{Key: "server", Tenant: "a", At: 5, Run: 10, Demand: &server})
		if got := run.Start("server"); got != want {
			t.Errorf("node %d cordoned: it starts at %v, want %v\n%v", cordoned, got, want, run.Log)
		}
	}
}
