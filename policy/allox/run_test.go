package allox

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/place"
	"github.com/norn-scheduler/norn/policy/shortest"
	"github.com/norn-scheduler/norn/sched"
	"github.com/norn-scheduler/norn/sim/simtest"
)

// hybrid is a node with GPUs and CPU nodes.
func hybrid(t testing.TB, gpus, hosts int) *cluster.Cluster {
	t.Helper()
	c := cluster.New()
	gpu, err := c.AddType(cluster.GPUType{Name: "gpu"})
	if err != nil {
		t.Fatal(err)
	}
	cpu, err := c.AddType(cluster.GPUType{Name: "cpu", Host: true})
	if err != nil {
		t.Fatal(err)
	}
	spec := cluster.NodeSpec{GPUs: []cluster.GPUs{{Type: gpu, Count: gpus}}}
	if hosts > 0 {
		spec.GPUs = append(spec.GPUs, cluster.GPUs{Type: cpu, Count: hosts})
	}
	if _, err := c.AddNode(spec); err != nil {
		t.Fatal(err)
	}
	return c
}

// both is a job with its times on a GPU and on a CPU node; 0: it needs a GPU.
func both(key, user string, at, gpu, cpu float64) simtest.Job {
	took := time.Duration(cpu * float64(time.Second))
	return simtest.Job{Key: key, Tenant: user, At: at, GPUs: 1, Run: gpu, Spec: func(j *job.Job) { j.Hints = &job.Hints{CPUTime: took, CPUEstimate: took} }}
}

func alpha(a float64) func() (sched.Policy, error) {
	return func() (sched.Policy, error) {
		c := NewConfig()
		c.Alpha = a
		return c.Policy()
	}
}

func ends(t *testing.T, run *simtest.Run, want map[string]float64) {
	t.Helper()
	for key, end := range want {
		if got := run.End(key); math.Abs(got-end) > 1e-6 {
			t.Errorf("%s ends at %v, want %v", key, got, end)
		}
	}
	if t.Failed() {
		t.Log("\n" + strings.Join(run.Log, "\n"))
	}
}

// Acceptance 1, through engine and simulator: J1 and then J2 on the GPU, J3 without.
func TestHybrid(t *testing.T) {
	run := simtest.Go(t, simtest.Config{Cluster: hybrid(t, 1, 1), Make: alpha(1)},
		both("J1", "u", 0, 2, 3), both("J2", "u", 0, 4, 10), both("J3", "u", 0, 6, 7))
	ends(t, run, map[string]float64{"J1": 2, "J2": 6, "J3": 7})
}

// Acceptance 2: the GPU is busy until 3.
func TestBusyMachine(t *testing.T) {
	run := simtest.Go(t, simtest.Config{Cluster: hybrid(t, 1, 1), Make: alpha(1)}, both("J0", "u", 0, 4, 0),
		both("J1", "u", 1, 2, 3), both("J2", "u", 1, 4, 10), both("J3", "u", 1, 6, 7))
	ends(t, run, map[string]float64{"J0": 4, "J1": 4, "J2": 8, "J3": 11})
}

// Acceptance 3: what a job counts on a GPU and on a CPU node.
func TestEquivalentShare(t *testing.T) {
	b := &pool{hosts: []bool{false, true}, count: []int{4, 2}}
	if got := b.value([]float64{2, 3}, 0); got != 0.25 {
		t.Errorf("on a GPU %v, want 1/4", got)
	}
	if got := b.value([]float64{2, 3}, 1); math.Abs(got-1.0/6) > 1e-15 {
		t.Errorf("on a CPU node %v, want 1/6", got)
	}
	if got := b.value([]float64{3, 3}, 1); got != 0.25 { // a GPU is preferred when both are as fast
		t.Errorf("as fast on both, on a CPU node: %v, want 1/4", got)
	}
}

// Acceptance 4: with alpha 1/2 the user who holds nothing goes first however long
// her job; with alpha 1 the short job does. A job that cannot use the only machine
// that is free does not keep it from others.
func TestAlpha(t *testing.T) {
	for a, first := range map[float64]string{0.5: "b", 1: "a"} {
		run := simtest.Go(t, simtest.Config{Cluster: hybrid(t, 4, 0), Make: alpha(a)},
			both("long", "A", 0, 1000, 0), both("x", "C", 0, 1000, 0), both("y", "C", 0, 1000, 0), both("z", "C", 0, 5, 0),
			both("a", "A", 1, 1, 0), both("b", "B", 1, 100, 0))
		if run.Start(first) != 5 {
			t.Errorf("alpha %v: %s starts at %v, want 5\n%s", a, first, run.Start(first), strings.Join(run.Log, "\n"))
		}
	}
	blocked := func(grow bool) float64 {
		run := simtest.Go(t, simtest.Config{Cluster: hybrid(t, 2, 1), Make: func() (sched.Policy, error) {
			c := NewConfig()
			c.Alpha, c.Grow = 0.5, grow
			return c.Policy()
		}}, both("x", "A", 0, 50, 0), both("y", "C", 0, 60, 0), both("a", "A", 1, 10, 3), both("b", "B", 1, 100, 0))
		return run.Start("a")
	}
	if got := blocked(true); got != 1 {
		t.Errorf("a starts at %v, want 1", got)
	}
	if got := blocked(false); got != 50 {
		t.Errorf("without growing: a starts at %v, want 50", got)
	}
}

// Acceptance 5: with all jobs there at 0 and exact times the run realises the
// optimum of the first matching, and it is never worse than shortest first on the
// GPUs alone.
func TestRealisesMatching(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		gpus, hosts := rapid.IntRange(1, 3).Draw(r, "gpus"), rapid.IntRange(0, 3).Draw(r, "hosts")
		var jobs []simtest.Job
		p := Problem{Free: make([]float64, gpus+hosts), Kind: make([]int, gpus+hosts)}
		for i := range hosts {
			p.Kind[gpus+i] = 1
		}
		for i := range rapid.IntRange(1, 9).Draw(r, "jobs") {
			gpu, cpu := float64(rapid.IntRange(1, 30).Draw(r, "gpu")), float64(rapid.IntRange(0, 60).Draw(r, "cpu"))
			jobs = append(jobs, both(fmt.Sprint(i), fmt.Sprint("u", i%3), 0, gpu, cpu))
			if cpu == 0 {
				cpu = math.Inf(1)
			}
			p.Time = append(p.Time, []float64{gpu, cpu})
		}
		_, want := p.Solve()
		run := simtest.Go(t, simtest.Config{Cluster: hybrid(t, gpus, hosts), Make: alpha(1), Restart: true}, jobs...)
		if got := run.MeanJCT() * float64(len(jobs)); math.Abs(got-want) > 1e-5 {
			r.Fatalf("sum %v, the matching says %v\n%s", got, want, strings.Join(run.Log, "\n"))
		}
		sjf := simtest.Go(t, simtest.Config{Cluster: hybrid(t, gpus, hosts), Make: func() (sched.Policy, error) { return shortest.NewSJF().Policy() }}, jobs...)
		if run.MeanJCT() > sjf.MeanJCT()+1e-6 {
			r.Fatalf("mean JCT %v, shortest first has %v", run.MeanJCT(), sjf.MeanJCT())
		}
	})
}

// Acceptance 5: with alpha at most one over the number of users, and one kind of
// machine, no user who waits is passed over for one with a higher score.
func TestNobodyPassedOver(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		gpus := rapid.IntRange(1, 4).Draw(r, "gpus")
		var jobs []simtest.Job
		at := 0.0
		for i := range rapid.IntRange(2, 14).Draw(r, "jobs") {
			at += float64(rapid.IntRange(0, 4).Draw(r, "gap"))
			jobs = append(jobs, both(fmt.Sprint(i), rapid.SampledFrom([]string{"a", "b", "c"}).Draw(r, "user"), at, float64(rapid.IntRange(1, 30).Draw(r, "run")), 0))
		}
		run := simtest.Go(t, simtest.Config{Cluster: hybrid(t, gpus, 0), Make: alpha(0.1)}, jobs...)
		held := func(user string, now float64) (n int) { // not counting who starts now
			for i := range jobs {
				if jobs[i].Tenant == user && run.Start(jobs[i].Key) < now && run.End(jobs[i].Key) > now {
					n++
				}
			}
			return n
		}
		for _, first := range jobs {
			now := run.Start(first.Key)
			began := 0
			for _, other := range jobs {
				if other.Tenant == first.Tenant && run.Start(other.Key) == now {
					began++
				}
			}
			for _, left := range jobs {
				if left.At <= now && run.Start(left.Key) > now && held(left.Tenant, now) < held(first.Tenant, now)+began-1 {
					alsoBegan := 0
					for _, other := range jobs {
						if other.Tenant == left.Tenant && run.Start(other.Key) == now {
							alsoBegan++
						}
					}
					if held(left.Tenant, now)+alsoBegan < held(first.Tenant, now)+began-1 {
						r.Fatalf("%s of %s starts at %v, %s of %s waits and its user has less\n%s", first.Key, first.Tenant, now, left.Key, left.Tenant, strings.Join(run.Log, "\n"))
					}
				}
			}
		}
	})
}

// Where nodes have host devices, and everything else that can happen.
func TestProperties(t *testing.T) {
	for name, shape := range map[string]simtest.Shape{
		"hosts": {Packed: true}, "hosts and costs": {Packed: true, Costs: true, Tenants: true}, "types": {Types: true, Operated: true},
	} {
		t.Run(name, func(t *testing.T) { simtest.Properties(t, shape, alpha(0.3)) })
	}
}

func TestConfig(t *testing.T) {
	for _, change := range []func(*Config){
		func(c *Config) { c.Alpha = 0 }, func(c *Config) { c.Alpha = 1.1 }, func(c *Config) { c.Limit = -1 }, func(c *Config) { c.Unknown = 0 },
	} {
		c := NewConfig()
		if change(c); true {
			if _, err := c.Policy(); err == nil {
				t.Errorf("%+v: no error", *c)
			}
		}
	}
}

// relieves is a policy that is replaced at 20: until then x takes the GPU of the
// frozen job f.
type relieves struct{ sched.Policy }

func (r relieves) Decide(v *sched.View, p *sched.Plan) {
	if v.Now >= 20*time.Second {
		r.Policy.Decide(v, p)
		return
	}
	for j := range v.Waiting() {
		if j.Spec().Key == "x" {
			p.Stop(0, job.Reason{Code: job.MakesRoom, Job: j.ID})
		}
		if j.ID == 0 && v.Now > 0 {
			continue
		}
		p.Start(j.ID, place.Pack)
	}
}

// A job that another policy has frozen waits for the GPU that has its memory,
// whatever else is free, and keeps nobody from the others.
func TestFrozenElsewhere(t *testing.T) {
	frozen := func(j *job.Job) { j.Stop = job.Freeze }
	run := simtest.Go(t, simtest.Config{Cluster: simtest.Nodes(2, 1), Make: func() (sched.Policy, error) {
		p, err := NewConfig().Policy()
		return relieves{p}, err
	}},
		simtest.Job{Key: "f", GPUs: 1, Run: 50, Spec: frozen}, simtest.Job{Key: "w", GPUs: 1, Run: 20}, simtest.Job{Key: "x", At: 10, GPUs: 1, Run: 100},
		simtest.Job{Key: "y", At: 30, GPUs: 1, Run: 100})
	for key, want := range map[string]float64{"w": 20, "x": 110, "y": 130, "f": 150} {
		if run.End(key) != want {
			t.Errorf("%s ends at %v, want %v\n%v", key, run.End(key), want, run.Log)
		}
	}
}

// TestWholeGangOnFastest: a gang, which is not matched, takes the type on which it is fastest of
// those that have room.
func TestWholeGangOnFastest(t *testing.T) {
	c := cluster.New()
	for _, name := range []string{"slow", "fast"} {
		typ, err := c.AddType(cluster.GPUType{Name: name, Speed: map[string]float64{"slow": 0.25, "fast": 1}[name]})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.AddNode(cluster.NodeSpec{GPUs: []cluster.GPUs{{Type: typ, Count: 2}}}); err != nil {
			t.Fatal(err)
		}
	}
	run := simtest.Go(t, simtest.Config{Cluster: c, Make: NewConfig().Policy, Model: perf.Analytic{Scaling: 1, Spread: 1}},
		simtest.Job{Key: "a", GPUs: 2, Run: 100}, simtest.Job{Key: "b", GPUs: 2, Run: 100})
	if run.End("a") != 100 || run.End("b") != 400 {
		t.Errorf("a ends at %v and b at %v, want 100 and 400", run.End("a"), run.End("b"))
	}
}
