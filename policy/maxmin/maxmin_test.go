package maxmin_test

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/eventlog"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/place"
	"github.com/norn-scheduler/norn/policy/kit/quota"
	"github.com/norn-scheduler/norn/policy/maxmin"
	"github.com/norn-scheduler/norn/sched"
	"github.com/norn-scheduler/norn/sim"
	"github.com/norn-scheduler/norn/sim/simtest"
	"github.com/norn-scheduler/norn/tenant"
)

func config(change func(*maxmin.Config)) func() (sched.Policy, error) {
	return func() (sched.Policy, error) {
		c := maxmin.NewConfig()
		if change != nil {
			change(c)
		}
		return c.Policy()
	}
}

// entitlement is one tenant below the root.
type entitlement struct {
	name             string
	guarantee, limit int
	weight           float64
}

func tenants(t rapid.TB, all ...entitlement) *tenant.Tree {
	t.Helper()
	tree := tenant.NewTree(0)
	for _, q := range all {
		if _, err := tree.Add(q.name, tenant.Root, unit.Milli(q.guarantee)*unit.One, unit.Milli(q.limit)*unit.One, q.weight); err != nil {
			t.Fatal(err)
		}
	}
	return tree
}

// many is n jobs of one GPU that run for long.
func many(tenant string, n int, at float64) []simtest.Job {
	var jobs []simtest.Job
	for k := range n {
		jobs = append(jobs, simtest.Job{Key: fmt.Sprint(tenant, k), At: at, GPUs: 1, Run: 1000, Tenant: tenant})
	}
	return jobs
}

// holding is how many GPUs each tenant holds at a moment, from a readable log
// of jobs with one GPU each.
func holding(run *simtest.Run, until float64) map[string]int {
	held := map[string]int{}
	for _, line := range run.Log {
		var at float64
		var what, key string
		if n, _ := fmt.Sscan(line, &at, &what, &key); n < 3 || at > until {
			continue
		}
		switch what {
		case "start":
			held[key[:1]]++
		case "preempt", "end":
			held[key[:1]]--
		}
	}
	return held
}

// TestAgainstWater: with jobs of one GPU all GPUs are given out, or everybody has
// all that is asked for or allowed. When all come at once nobody who could use
// more is worse served than another would be with a GPU less: whole GPUs cannot
// be nearer to the water. When they come one after another, GPUs have changed
// hands until nobody whose share has room for one more is worse served than
// another, above its share, would be with one less.
func TestAgainstWater(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		gpus := rapid.IntRange(1, 16).Draw(t, "gpus")
		basis := rapid.SampledFrom([]quota.Basis{quota.Borrowed, quota.All}).Draw(t, "basis")
		late := rapid.Bool().Draw(t, "late")
		var all []entitlement
		var parts []quota.Part
		var jobs []simtest.Job
		left := gpus
		for _, name := range []string{"a", "b", "c", "d"}[:rapid.IntRange(1, 4).Draw(t, "tenants")] {
			q := entitlement{name: name, guarantee: rapid.IntRange(0, left).Draw(t, "guarantee"), weight: float64(rapid.IntRange(1, 3).Draw(t, "weight"))}
			left -= q.guarantee
			most := rapid.IntRange(0, 20).Draw(t, "jobs")
			at := 0.0
			if late {
				at = float64(10 * len(all))
			}
			jobs = append(jobs, many(name, most, at)...)
			if rapid.Bool().Draw(t, "limited") {
				q.limit = max(1, q.guarantee, rapid.IntRange(1, gpus).Draw(t, "limit"))
				most = min(most, q.limit)
			}
			all = append(all, q)
			parts = append(parts, quota.Part{Promise: float64(min(q.guarantee, most)), Cap: float64(most), Weight: q.weight})
		}
		quota.Divide(parts, float64(gpus), basis)
		run, err := simtest.Try(simtest.Config{
			Cluster: simtest.Nodes(1, gpus), Tenants: tenants(t, all...),
			Make: config(func(c *maxmin.Config) {
				if c.Divide = basis; !late {
					c.Reclaim = quota.Nothing
				}
			}),
		}, jobs...)
		if err != nil {
			t.Fatal(err)
		}
		held := holding(run, 500)
		sum, wanted := 0.0, 0.0
		for i, q := range all {
			sum += float64(held[q.name])
			wanted += parts[i].Cap
		}
		if sum != min(wanted, float64(gpus)) {
			t.Fatalf("%v GPUs of %d are held, %v are wanted", sum, gpus, wanted)
		}
		for i, poor := range all {
			for k, rich := range all {
				has, other := float64(held[poor.name]), float64(held[rich.name])
				more := has < parts[i].Cap && other > parts[k].Promise
				if late {
					more = more && has+1 <= parts[i].Share+1e-9 && other > parts[k].Share+1e-9
				}
				if i != k && more && level(rich, basis, other-1) > level(poor, basis, has)+1e-9 {
					t.Fatalf("of %+v on %d GPUs, %s holds %v and %s %v, the shares are %+v", all, gpus, poor.name, has, rich.name, other, parts)
				}
			}
		}
	})
}

// level is how well a tenant is served: GPUs (above the guarantee) for each unit
// of weight.
func level(q entitlement, basis quota.Basis, held float64) float64 {
	if basis == quota.Borrowed {
		held -= float64(q.guarantee)
	}
	return held / q.weight
}

// TestBorrowAndReclaim: what others leave idle is borrowed, and given back when
// they ask, the last started first.
func TestBorrowAndReclaim(t *testing.T) {
	jobs := append(many("b", 8, 0), many("a", 6, 50)...)
	for _, c := range []struct {
		what    string
		reclaim quota.Reclaim
		want    map[string]int
	}{
		{"nothing is given back", quota.Nothing, map[string]int{"a": 0, "b": 8}},
		{"up to the guarantee", quota.Guarantee, map[string]int{"a": 3, "b": 5}},
		{"up to the share", quota.Share, map[string]int{"a": 5, "b": 3}},
	} {
		run := simtest.Go(t, simtest.Config{
			Cluster: simtest.Nodes(1, 8), Tenants: tenants(t, entitlement{"a", 3, 0, 1}, entitlement{"b", 1, 0, 1}),
			Make: config(func(cfg *maxmin.Config) { cfg.Reclaim = c.reclaim }),
		}, jobs...)
		for who, want := range c.want {
			if got := holding(run, 60)[who]; got != want {
				t.Errorf("%s: %s holds %d GPUs, want %d", c.what, who, got, want)
			}
		}
		for k := range 8 {
			if stopped := run.Record(fmt.Sprint("b", k)).Preemptions > 0; stopped != (k >= c.want["b"]) {
				t.Errorf("%s: job b%d was stopped: %v; the last started go first", c.what, k, stopped)
			}
		}
	}
}

// TestVictims: who gives borrowed GPUs back, for each order.
func TestVictims(t *testing.T) {
	borrowers := []simtest.Job{
		{Key: "old", GPUs: 2, Run: 500, Tenant: "b", Spec: func(j *job.Job) { j.Priority = 1 }},
		{Key: "urgent", At: 20, GPUs: 2, Run: 500, Tenant: "b", Spec: func(j *job.Job) { j.Priority = 2 }},
		{Key: "loses", At: 30, GPUs: 2, Run: 500, Tenant: "b", Spec: func(j *job.Job) { j.Stop = job.Restart }},
		{Key: "pinned", At: 40, GPUs: 2, Run: 500, Tenant: "b", Spec: func(j *job.Job) { j.Stop = job.Pinned }},
		{Key: "claim", At: 100, GPUs: 2, Run: 10, Tenant: "a"},
	}
	for order, want := range map[quota.Victims]string{quota.LowestPriority: "old", quota.Newest: "urgent", quota.LeastService: "urgent"} {
		run := simtest.Go(t, simtest.Config{
			Cluster: simtest.Nodes(1, 8), Tenants: tenants(t, entitlement{"a", 8, 0, 1}),
			Make: config(func(c *maxmin.Config) { c.Victims = order }),
		}, borrowers...)
		if run.Record(want).Preemptions != 1 || run.Preemptions() != 1 || run.Start("claim") != 100 {
			t.Errorf("order %d: %s was stopped %d times of %d, and the claim starts at %v", order, want, run.Record(want).Preemptions, run.Preemptions(), run.Start("claim"))
		}
	}
	// A gang that asks for all GPUs could only get those that are not pinned, so it
	// gets none.
	borrowers[4].GPUs = 8
	run := simtest.Go(t, simtest.Config{Cluster: simtest.Nodes(1, 8), Tenants: tenants(t, entitlement{"a", 8, 0, 1}), Make: config(nil)}, borrowers...)
	if run.Record("pinned").Preemptions != 0 || run.Start("claim") < 540 {
		t.Errorf("the claim starts at %v although a pinned job runs until 540", run.Start("claim"))
	}
	if run.Preemptions() != 0 {
		t.Errorf("%d jobs were stopped for a claim that cannot be met", run.Preemptions())
	}
}

// TestLeastLoss: jobs that are in nobody's way stay, and one that fits elsewhere
// moves instead of waiting.
func TestLeastLoss(t *testing.T) {
	// Two nodes of 4: x and y share the first with one GPU to spare, z and w the
	// second. The claim needs a whole node.
	jobs := []simtest.Job{
		{Key: "x", GPUs: 3, Run: 500, Tenant: "b"}, {Key: "z", At: 1, GPUs: 2, Run: 500, Tenant: "b"},
		{Key: "w", At: 2, GPUs: 1, Run: 500, Tenant: "b"}, {Key: "claim", At: 100, GPUs: 4, Run: 10, Tenant: "a"},
	}
	run := simtest.Go(t, simtest.Config{
		Cluster: simtest.Nodes(2, 4), Tenants: tenants(t, entitlement{"a", 4, 0, 1}),
		Make: config(func(c *maxmin.Config) { c.Place = place.Consolidated }),
	}, jobs...)
	if run.Start("claim") != 100 || run.Record("x").Preemptions != 0 {
		t.Errorf("the claim starts at %v, x was stopped %d times\n%v", run.Start("claim"), run.Record("x").Preemptions, run.Log)
	}
	if z, w := run.Record("z"), run.Record("w"); z.Preemptions != 1 || w.Preemptions != 0 {
		t.Errorf("z was stopped %d times, w %d times and moved %d times; want 1, 0", z.Preemptions, w.Preemptions, w.Migrations)
	}
}

// TestShareIsNotTakenForWorse: a gang of 8 is not stopped for one GPU of somebody
// whose share it exceeds, since its tenant would then be served worse than the
// other is; a guarantee does take it.
func TestShareIsNotTakenForWorse(t *testing.T) {
	for guarantee, want := range map[int]float64{0: 500, 1: 10} {
		run := simtest.Go(t, simtest.Config{
			Cluster: simtest.Nodes(1, 8), Tenants: tenants(t, entitlement{"a", guarantee, 0, 1}), Make: config(nil),
		}, simtest.Job{Key: "gang", GPUs: 8, Run: 500, Tenant: "b"}, simtest.Job{Key: "small", At: 10, GPUs: 1, Run: 5, Tenant: "a"})
		if got := run.Start("small"); got != want {
			t.Errorf("guarantee %d: the small job starts at %v, want %v", guarantee, got, want)
		}
	}
}

// TestCordoned: a job on a cordoned node is no victim, since nobody could use what
// it leaves; once the node takes jobs again it is.
func TestCordoned(t *testing.T) {
	health := func(at time.Duration, h cluster.Health) eventlog.Event {
		return eventlog.Event{Time: at * time.Second, Kind: eventlog.NodeSet, Node: 1, Health: h}
	}
	run := simtest.Go(t, simtest.Config{
		Cluster: simtest.Nodes(2, 4), Tenants: tenants(t, entitlement{"a", 8, 0, 1}), Make: config(nil),
		World: func(c *sim.Config) {
			c.Script = []eventlog.Event{health(10, cluster.Cordoned), health(60, cluster.Up)}
		},
	}, simtest.Job{Key: "old", GPUs: 4, Run: 500, Tenant: "b"}, simtest.Job{Key: "new", At: 1, GPUs: 4, Run: 500, Tenant: "b"},
		simtest.Job{Key: "claim", At: 20, GPUs: 4, Run: 200, Tenant: "a"}, simtest.Job{Key: "more", At: 30, GPUs: 4, Run: 100, Tenant: "a"})
	if run.Start("claim") != 20 || run.Record("old").Preemptions != 1 {
		t.Errorf("the claim starts at %v, old was stopped %d times; want 20 and 1", run.Start("claim"), run.Record("old").Preemptions)
	}
	if run.Start("more") != 60 || run.Record("new").Preemptions != 1 {
		t.Errorf("more starts at %v, new was stopped %d times; want 60 and 1", run.Start("more"), run.Record("new").Preemptions)
	}
}

// TestMinRun: a job that has just started is left alone for a while.
func TestMinRun(t *testing.T) {
	run := simtest.Go(t, simtest.Config{
		Cluster: simtest.Nodes(1, 2), Tenants: tenants(t, entitlement{"a", 2, 0, 1}),
		Make: config(func(c *maxmin.Config) { c.MinRun = time.Minute }),
	}, simtest.Job{Key: "b", GPUs: 2, Run: 500, Tenant: "b"}, simtest.Job{Key: "a", At: 10, GPUs: 2, Run: 5, Tenant: "a"})
	if run.Start("a") != 60 || run.Record("b").Preemptions != 1 {
		t.Errorf("a starts at %v, b was stopped %d times; want 60 and 1", run.Start("a"), run.Record("b").Preemptions)
	}
}

// TestReasons: everybody who waits is told why.
func TestReasons(t *testing.T) {
	run := simtest.Go(t, simtest.Config{
		Cluster: simtest.Nodes(1, 8), Tenants: tenants(t, entitlement{"a", 0, 2, 1}),
		Make: config(func(c *maxmin.Config) { c.Reclaim = quota.Nothing }),
	}, simtest.Job{Key: "a1", GPUs: 2, Run: 100, Tenant: "a"}, simtest.Job{Key: "a2", GPUs: 1, Run: 100, Tenant: "a"},
		simtest.Job{Key: "a3", GPUs: 3, Run: 100, Tenant: "a"}, simtest.Job{Key: "b1", GPUs: 6, Run: 200, Tenant: "b"},
		simtest.Job{Key: "b2", At: 1, GPUs: 1, Run: 100, Tenant: "b"})
	want := map[string]string{
		"0 wait a2": "its tenant holds 2 of the 2 GPUs that it may hold",
		"0 wait a3": "needs 3 GPUs but its tenant may hold at most 2: it can never run here",
		"1 wait b2": "needs 1 GPU; 0 free",
	}
	for _, line := range run.Log {
		for start, sentence := range want {
			if line == start+": "+sentence {
				delete(want, start)
			}
		}
	}
	if len(want) > 0 {
		t.Errorf("not told: %v\n%v", want, run.Log)
	}
}
