package lyra_test

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/label"
	"github.com/norn-scheduler/norn/eventlog"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/policy/lyra"
	"github.com/norn-scheduler/norn/sched"
	"github.com/norn-scheduler/norn/sim"
	"github.com/norn-scheduler/norn/sim/simtest"
	"github.com/norn-scheduler/norn/trace"
)

func make1s() (sched.Policy, error) {
	c := lyra.NewConfig()
	c.Interval = time.Second
	return c.Policy()
}

// nodes is a cluster of our own nodes and of those of the lender "inference", of so many GPUs.
func nodes(t *testing.T, own, lent, gpus int) *cluster.Cluster {
	t.Helper()
	c := cluster.New()
	typ, err := c.AddType(cluster.GPUType{Name: "gpu"})
	if err != nil {
		t.Fatal(err)
	}
	for i := range own + lent {
		spec := cluster.NodeSpec{Name: fmt.Sprint("n", i), GPUs: []cluster.GPUs{{Type: typ, Count: gpus}}}
		if i >= own {
			spec.Labels = []label.Label{{Key: cluster.LenderLabel, Value: "inference"}}
		}
		if _, err := c.AddNode(spec); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

// elastic is a job of least to most workers of a GPU that runs for so long with most.
func elastic(key string, at float64, least, most int, run float64) simtest.Job {
	d := job.GPUs(most)
	d.Roles[0].Min, d.Roles[0].Max = int32(least), int32(most)
	return simtest.Job{Key: key, At: at, Run: run, Demand: &d}
}

var linear = perf.Analytic{Scaling: 1, Spread: 1}

// TestElasticJobs: A (2 to 6 workers, 50 s) and B (2 to 6, 20 s) on 8 GPUs have five and three, as
// the knapsack says (110), until GPUs are divided again. Divided every second the mean is better.
func TestElasticJobs(t *testing.T) {
	hourly := func() (sched.Policy, error) {
		c := lyra.NewConfig()
		c.Interval = time.Hour
		return c.Policy()
	}
	run := simtest.Go(t, simtest.Config{Cluster: nodes(t, 1, 0, 8), Make: hourly, Model: linear, Speeds: linear}, elastic("A", 0, 2, 6, 50), elastic("B", 0, 2, 6, 20))
	if a, b := run.End("A"), run.End("B"); a != 60 || b != 40 {
		t.Errorf("A ends at %v, B at %v", a, b)
	}
	run = simtest.Go(t, simtest.Config{Cluster: nodes(t, 1, 0, 8), Make: make1s, Model: linear, Speeds: linear}, elastic("A", 0, 2, 6, 50), elastic("B", 0, 2, 6, 20))
	if a, b := run.End("A"), run.End("B"); math.Abs(a+b-100) > 1e-6 {
		t.Errorf("every second: A ends at %v, B at %v", a, b)
	}
}

// TestPhases: an inelastic job that fits never waits because of flexible workers, which leave in
// place; shorter jobs go first, and later ones go ahead of one that does not fit.
func TestPhases(t *testing.T) {
	run := simtest.Go(t, simtest.Config{Cluster: nodes(t, 2, 0, 4), Make: make1s, Model: linear, Speeds: linear},
		elastic("e", 0, 2, 8, 100),
		simtest.Job{Key: "six", At: 10, GPUs: 6, Run: 10},
		simtest.Job{Key: "long", At: 11, GPUs: 2, Run: 30}, simtest.Job{Key: "large", At: 11, GPUs: 7, Run: 1}, simtest.Job{Key: "short", At: 12, GPUs: 2, Run: 20},
	)
	if s := run.Start("six"); s != 10 {
		t.Errorf("the job of six waits until %v for flexible workers", s)
	}
	// large never fits beside the two base workers of e, and the others do not wait for it.
	if s := run.Start("short"); s != 20 || run.Start("long") != 20 || run.Start("large") < run.End("e") {
		t.Errorf("short starts at %v, long at %v, large at %v", s, run.Start("long"), run.Start("large"))
	}
	if r := run.Record("e"); r.Preemptions != 0 || r.Resizes < 2 {
		t.Errorf("the elastic job was stopped %d times and resized %d times", r.Preemptions, r.Resizes)
	}
}

// lend is a world with these numbers of lent nodes at these moments.
func lend(at map[int]int) func(*sim.Config) {
	return func(c *sim.Config) {
		for s := range 1000 {
			if n, ok := at[s]; ok {
				c.Loans = append(c.Loans, trace.Loan{At: time.Duration(s) * time.Second, Lender: "inference", Nodes: n})
			}
		}
	}
}

// restarts has a job begin anew when it is preempted, and own keeps it off borrowed nodes.
func restarts(j *job.Job) { j.Stop = job.Restart }

// TestLoaning: an elastic job prefers borrowed nodes, an inelastic one ours; one that may not use
// them never does.
func TestLoaning(t *testing.T) {
	own := job.GPUs(4)
	own.Where = "!lender"
	run := simtest.Go(t, simtest.Config{Cluster: nodes(t, 1, 1, 4), Make: make1s, Model: linear, Speeds: linear, World: lend(map[int]int{0: 1})},
		elastic("e", 0, 2, 4, 100), simtest.Job{Key: "own", At: 1, Run: 10, Demand: &own}, simtest.Job{Key: "own2", At: 2, Run: 10, Demand: &own})
	if run.Start("own") != 1 || run.Start("own2") != 11 {
		t.Errorf("own starts at %v and %v", run.Start("own"), run.Start("own2"))
	}
	for _, line := range run.Log {
		if strings.Contains(line, "start e") && !strings.Contains(line, "n1") {
			t.Errorf("the elastic job: %s", line)
		}
	}
}

// TestFlexibleGroup: a node with flexible workers alone goes back without a preemption.
func TestFlexibleGroup(t *testing.T) {
	run := simtest.Go(t, simtest.Config{Cluster: nodes(t, 0, 2, 4), Make: make1s, Model: linear, Speeds: linear, World: lend(map[int]int{0: 2, 20: 1})},
		elastic("e", 0, 4, 8, 100))
	r := run.Record("e")
	if r.Preemptions != 0 || run.End("e") != 20+80*2 {
		t.Errorf("stopped %d times, ends at %v", r.Preemptions, run.End("e"))
	}
}

// TestReclaim: of three borrowed nodes the ones are vacated that cost the fewest preemptions: those
// of the gang on two of them, which begins anew.
func TestReclaim(t *testing.T) {
	jobs := []simtest.Job{{Key: "a", GPUs: 8, Run: 100, Spec: restarts}, {Key: "b", GPUs: 3, Run: 100, Spec: restarts}, {Key: "c", GPUs: 1, Run: 100, Spec: restarts}}
	for rule, stopped := range map[lyra.Rule]string{lyra.Cost: "a", lyra.Fewest: "a"} {
		run := simtest.Go(t, simtest.Config{
			Cluster: nodes(t, 0, 3, 4), Model: linear, Speeds: linear, World: lend(map[int]int{0: 3, 20: 1, 200: 3}),
			Make: func() (sched.Policy, error) {
				c := lyra.NewConfig()
				c.Reclaim = rule
				return c.Policy()
			},
		}, jobs...)
		for _, j := range jobs {
			if n := run.Record(j.Key).Preemptions; (n > 0) != (j.Key == stopped) {
				t.Errorf("rule %v: job %s was stopped %d times", rule, j.Key, n)
			}
		}
		if run.End("a") != 300 {
			t.Errorf("a begins anew at 200 and ends at %v", run.End("a"))
		}
	}
}

// BenchmarkDecide is a decision of 500 elastic jobs on 500 nodes of 8 GPUs.
func BenchmarkDecide(b *testing.B) {
	for range b.N {
		var jobs []simtest.Job
		for i := range 500 {
			jobs = append(jobs, elastic(fmt.Sprint("j", i), 0, 1+i%4, 4+i%9, float64(1000+i*37%5000)))
		}
		run, err := simtest.Try(simtest.Config{Cluster: simtest.Nodes(500, 8), Make: make1s, Model: linear, Speeds: linear, Unchecked: true,
			World: func(c *sim.Config) {
				for i := range 500 {
					c.Script = append(c.Script, eventlog.Event{Time: 500 * time.Millisecond, Kind: eventlog.Cancel, Job: job.ID(i)})
				}
			}}, jobs...)
		if err != nil || run.State.Jobs() != 500 {
			b.Fatal(err)
		}
	}
}

// TestNoLoans: without loaning no job runs on borrowed nodes, also where they are idle.
func TestNoLoans(t *testing.T) {
	cfg := lyra.NewConfig()
	cfg.Loaning = false
	run := simtest.Go(t, simtest.Config{Cluster: nodes(t, 1, 1, 4), Make: func() (sched.Policy, error) { return cfg.Policy() }, Model: linear, Speeds: linear, World: lend(map[int]int{0: 1})},
		elastic("e", 0, 2, 4, 100), simtest.Job{Key: "g", At: 1, GPUs: 4, Run: 10})
	for _, line := range run.Log {
		if strings.Contains(line, "start ") && strings.Contains(line, "n1") {
			t.Errorf("on a borrowed node: %s", line)
		}
	}
}
