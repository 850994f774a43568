package drf_test

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/policy/drf"
	"github.com/norn-scheduler/norn/sched"
	"github.com/norn-scheduler/norn/sim/simtest"
	"github.com/norn-scheduler/norn/tenant"
)

// bundle is GPUs, cores and GiB.
type bundle struct{ gpu, cpu, mem int }

// one is a cluster of a single node.
func one(t rapid.TB, b bundle) *cluster.Cluster {
	t.Helper()
	c := cluster.New()
	typ, err := c.AddType(cluster.GPUType{Name: "gpu"})
	if err != nil {
		t.Fatal(err)
	}
	spec := cluster.NodeSpec{CPU: unit.Milli(b.cpu) * unit.One, Memory: unit.Bytes(b.mem) * unit.GiB}
	if b.gpu > 0 {
		spec.GPUs, spec.Pooled = []cluster.GPUs{{Type: typ, Count: b.gpu}}, true
	}
	if _, err := c.AddNode(spec); err != nil {
		t.Fatal(err)
	}
	return c
}

func (b bundle) demand() *job.Demand {
	var d job.Demand
	d.Roles[0] = job.Role{Tasks: 1, GPU: unit.Milli(b.gpu) * unit.One, CPU: unit.Milli(b.cpu) * unit.One, Memory: unit.Bytes(b.mem) * unit.GiB}
	return &d
}

func (b bundle) fits(n int, in bundle) bool {
	return n*b.gpu <= in.gpu && n*b.cpu <= in.cpu && n*b.mem <= in.mem
}

// allocate lets tenants A, B, ... ask for many tasks of one kind at once and
// counts how many of each are started, with the weights given (1 where not).
func allocate(t rapid.TB, in bundle, asks []bundle, many int, weights ...float64) []int {
	t.Helper()
	tree := tenant.NewTree(0)
	var jobs []simtest.Job
	for i, ask := range asks {
		name := string(rune('A' + i))
		if i < len(weights) {
			if _, err := tree.Add(name, tenant.Root, 0, 0, weights[i]); err != nil {
				t.Fatal(err)
			}
		}
		for k := range many {
			jobs = append(jobs, simtest.Job{Key: fmt.Sprint(name, k), Run: 100, Tenant: name, Demand: ask.demand()})
		}
	}
	run, err := simtest.Try(simtest.Config{Cluster: one(t, in), Tenants: tree, Make: drf.NewConfig().Policy, Unchecked: true}, jobs...)
	if err != nil {
		t.Fatal(err)
	}
	counts := make([]int, len(asks))
	for i := range asks {
		for k := range many {
			if run.Start(fmt.Sprint(string(rune('A'+i)), k)) == 0 {
				counts[i]++
			}
		}
	}
	return counts
}

// Ghodsi et al., section 4.1: 9 CPUs and 18 GB; tasks of A need <1 CPU, 4 GB>,
// those of B <3 CPU, 1 GB>. A gets 3 tasks and B 2: both have a dominant share
// of 2/3, A of memory and B of CPU.
func TestSection41(t *testing.T) {
	if got := allocate(t, bundle{0, 9, 18}, []bundle{{0, 1, 4}, {0, 3, 1}}, 9); got[0] != 3 || got[1] != 2 {
		t.Errorf("A and B get %v tasks, want 3 and 2", got)
	}
	// The same with GPUs in the place of memory.
	if got := allocate(t, bundle{18, 9, 0}, []bundle{{4, 1, 0}, {1, 3, 0}}, 9); got[0] != 3 || got[1] != 2 {
		t.Errorf("with GPUs A and B get %v tasks, want 3 and 2", got)
	}
}

// Section 4.1, table 1: the order in which progressive filling starts tasks is
// B, A, A, B, A when B is served first.
func TestTable1(t *testing.T) {
	asks := map[string]bundle{"A": {0, 1, 4}, "B": {0, 3, 1}}
	var jobs []simtest.Job
	for _, who := range []string{"B", "B", "B", "A", "A", "A", "A"} {
		jobs = append(jobs, simtest.Job{Key: fmt.Sprint(who, len(jobs)), Run: 100, Tenant: who, Demand: asks[who].demand()})
	}
	run := simtest.Go(t, simtest.Config{Cluster: one(t, bundle{0, 9, 18}), Make: drf.NewConfig().Policy}, jobs...)
	order := ""
	for _, line := range run.Log {
		var at float64
		var what, key string
		if n, _ := fmt.Sscan(line, &at, &what, &key); n == 3 && what == "start" && at == 0 {
			order += key[:1]
		}
	}
	if order != "BAABA" {
		t.Errorf("tasks are started in the order %s, want BAABA", order)
	}
}

// Section 4.3, weights: with a weight of 3 A is served until its dominant share
// is three times that of B: 4 tasks (16/18 of the memory) beside 1 (3/9 of CPU).
func TestWeights(t *testing.T) {
	if got := allocate(t, bundle{0, 9, 18}, []bundle{{0, 1, 4}, {0, 3, 1}}, 9, 3, 1); got[0] != 4 || got[1] != 1 {
		t.Errorf("A and B get %v tasks, want 4 and 1", got)
	}
}

// A resource of which the cluster tells nothing does not count.
func TestUntoldResources(t *testing.T) {
	got := allocate(t, bundle{8, 0, 0}, []bundle{{1, 100, 1}, {1, 1, 100}}, 8)
	if got[0] != 4 || got[1] != 4 {
		t.Errorf("A and B get %v tasks, want 4 each", got)
	}
}

const drawn = 120 // resources of the random clusters, of each kind

func drawAsks(t *rapid.T) []bundle {
	asks := make([]bundle, rapid.IntRange(2, 4).Draw(t, "tenants"))
	for i := range asks {
		asks[i] = drawBundle(t)
	}
	return asks
}

func drawBundle(t *rapid.T) bundle {
	n := func(name string, least int) int { return rapid.IntRange(least, 5).Draw(t, name) }
	return bundle{n("gpu", 1), n("cpu", 0), n("mem", 0)}
}

// alone is how many tasks fit into a part of the cluster.
func alone(ask, in bundle) int {
	n := 0
	for ask.fits(n+1, in) {
		n++
	}
	return n
}

// literal is algorithm 1 with tasks that cannot be divided: the tenant with the
// smallest dominant share is next, as long as any task fits; ties go to the
// first. It is the oracle.
func literal(in bundle, asks []bundle) []int {
	counts := make([]int, len(asks))
	left := in
	for {
		best, least := -1, 0.0
		for i, a := range asks {
			if !a.fits(1, left) {
				continue
			}
			s := max(float64(counts[i]*a.gpu)/float64(in.gpu), float64(counts[i]*a.cpu)/float64(in.cpu), float64(counts[i]*a.mem)/float64(in.mem))
			if best < 0 || s < least {
				best, least = i, s
			}
		}
		if best < 0 {
			return counts
		}
		counts[best]++
		left = bundle{left.gpu - asks[best].gpu, left.cpu - asks[best].cpu, left.mem - asks[best].mem}
	}
}

// TestAgainstAlgorithm1 holds the policy against the literal algorithm.
func TestAgainstAlgorithm1(t *testing.T) {
	in := bundle{drawn, drawn, drawn}
	rapid.Check(t, func(t *rapid.T) {
		asks := drawAsks(t)
		got, want := allocate(t, in, asks, drawn), literal(in, asks)
		for i := range want {
			if got[i] != want[i] {
				t.Fatalf("asks %v get %v, algorithm 1 gives %v", asks, got, want)
			}
		}
	})
}

// dominant is the dominant share of one task.
func (b bundle) dominant(in bundle) float64 {
	return max(float64(b.gpu)/float64(in.gpu), float64(b.cpu)/float64(in.cpu), float64(b.mem)/float64(in.mem))
}

// TestProperties checks section 3 of the paper. The theorems are about tasks
// that can be divided. Here they cannot, so a tenant is served before another
// although it has up to one of its tasks more. Let d be the dominant share of a
// task, s that of a tenant, and n the number of tenants. Then what remains of
// the theorems is
//
//   - Pareto efficiency: as it stands;
//   - sharing incentive: s > 1/n - (mean of all d);
//   - no envy: with what k has, i could run at most d(k)/d(i) + 1 tasks more;
//   - strategy-proofness: a lie wins i at most the sum of all d, and that of
//     the lie.
func TestProperties(t *testing.T) {
	in := bundle{drawn, drawn, drawn}
	rapid.Check(t, func(t *rapid.T) {
		asks := drawAsks(t)
		got := allocate(t, in, asks, drawn)
		left, sum, n := in, 0.0, len(asks)
		for i, a := range asks {
			left = bundle{left.gpu - got[i]*a.gpu, left.cpu - got[i]*a.cpu, left.mem - got[i]*a.mem}
			sum += a.dominant(in)
		}
		for i, a := range asks {
			d := a.dominant(in)
			if a.fits(1, left) {
				t.Fatalf("not Pareto efficient: asks %v get %v, and another task of %d fits", asks, got, i)
			}
			if s := float64(got[i]) * d; s <= 1/float64(n)-sum/float64(n) {
				t.Fatalf("no sharing incentive: asks %v get %v; %d has %v", asks, got, i, s)
			}
			for k, b := range asks {
				with := alone(a, bundle{got[k] * b.gpu, got[k] * b.cpu, got[k] * b.mem})
				if float64(with) > float64(got[i])+b.dominant(in)/d+1 {
					t.Fatalf("envy: asks %v get %v; %d would have %d with what %d has", asks, got, i, with, k)
				}
			}
		}
		liar, lie := rapid.IntRange(0, n-1).Draw(t, "liar"), drawBundle(t)
		honest := asks[liar]
		asks[liar] = lie
		with := allocate(t, in, asks, drawn)[liar]
		useful := alone(honest, bundle{with * lie.gpu, with * lie.cpu, with * lie.mem})
		if d := honest.dominant(in); float64(useful-got[liar])*d > sum+lie.dominant(in) {
			t.Fatalf("a lie pays: who asks for %v instead of %v, beside %v, gets room for %d tasks, not %d", lie, honest, asks, useful, got[liar])
		}
	})
}

// TestHierarchy: the children of one tenant share what that tenant gets.
func TestHierarchy(t *testing.T) {
	tree := tenant.NewTree(0)
	top, err := tree.Add("top", tenant.Root, 0, 0, 1)
	if err != nil {
		t.Fatal(err)
	}
	for name, weight := range map[string]float64{"left": 1, "right": 3} {
		if _, err := tree.Add(name, top, 0, 0, weight); err != nil {
			t.Fatal(err)
		}
	}
	var jobs []simtest.Job
	for _, who := range []string{"left", "right", "other"} {
		for k := range 16 {
			jobs = append(jobs, simtest.Job{Key: fmt.Sprint(who, k), GPUs: 1, Run: 100, Tenant: who})
		}
	}
	run := simtest.Go(t, simtest.Config{Cluster: simtest.Nodes(2, 8), Tenants: tree, Make: drf.NewConfig().Policy}, jobs...)
	for who, want := range map[string]int{"left": 2, "right": 6, "other": 8} {
		got := 0
		for k := range 16 {
			if run.Start(fmt.Sprint(who, k)) == 0 {
				got++
			}
		}
		if got != want {
			t.Errorf("%s gets %d GPUs, want %d", who, got, want)
		}
	}
}

// TestGuarantee: who has less than the guarantee gets it back from who borrows,
// after the grace time; limits hold although GPUs are idle.
func TestGuarantee(t *testing.T) {
	for _, grace := range []time.Duration{0, 30 * time.Second} {
		tree := tenant.NewTree(0)
		for name, q := range map[string][2]unit.Milli{"a": {4000, 0}, "b": {2000, 6000}} {
			if _, err := tree.Add(name, tenant.Root, q[0], q[1], 1); err != nil {
				t.Fatal(err)
			}
		}
		make := func() (sched.Policy, error) {
			c := drf.NewConfig()
			c.Grace = grace
			return c.Policy()
		}
		run := simtest.Go(t, simtest.Config{Cluster: simtest.Nodes(1, 8), Tenants: tree, Make: make},
			simtest.Job{Key: "b1", GPUs: 2, Run: 100, Tenant: "b"}, simtest.Job{Key: "b2", GPUs: 4, Run: 100, Tenant: "b"},
			simtest.Job{Key: "b3", GPUs: 1, Run: 100, Tenant: "b"}, simtest.Job{Key: "a1", At: 10, GPUs: 4, Run: 20, Tenant: "a"})
		if got, want := run.Start("a1"), 10+grace.Seconds(); got != want {
			t.Errorf("grace %v: a1 starts at %v, want %v", grace, got, want)
		}
		if n := run.Record("b2").Preemptions; n != 1 || run.Preemptions() != 1 {
			t.Errorf("grace %v: b2 was stopped %d times, all %d; want 1 and 1", grace, n, run.Preemptions())
		}
		if got := run.Start("b3"); grace == 0 && got != 10 {
			t.Errorf("b3 starts at %v, want 10, when the limit of b allows it", got)
		}
	}
}
