package freetrain_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/eventlog"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/policy/freetrain"
	"github.com/norn-scheduler/norn/sched"
	"github.com/norn-scheduler/norn/sim"
	"github.com/norn-scheduler/norn/sim/simtest"
	"github.com/norn-scheduler/norn/trace"
)

// machine is n nodes of a GPU, n0 and so on.
func machine(t *testing.T, n int) *cluster.Cluster {
	t.Helper()
	c := cluster.New()
	typ, err := c.AddType(cluster.GPUType{Name: "gpu"})
	if err != nil {
		t.Fatal(err)
	}
	for i := range n {
		if _, err := c.AddNode(cluster.NodeSpec{Name: fmt.Sprint("n", i), GPUs: []cluster.GPUs{{Type: typ, Count: 1}}}); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

// trainer is a job of least to most nodes that would run for so long on one of them.
func trainer(key string, least, most int, run float64) simtest.Job {
	d := job.GPUs(1)
	d.Roles[0].Min, d.Roles[0].Max = int32(least), int32(most)
	d.Roles[0].Tasks = int32(least)
	return simtest.Job{Key: key, Run: run, Demand: &d, Spec: func(j *job.Job) { j.Resize = job.InPlace }}
}

// amdahl is jobs of which 2 % cannot be done in parallel, as speed over that as asked.
type amdahl struct{}

func rate(n int) float64 { return 1 / (0.02 + 0.98/float64(n)) }

func (amdahl) Speed(j *job.Job, _ *cluster.Cluster, a *cluster.Alloc) float64 {
	return rate(a.Tasks(0)) / rate(int(j.Demand.Roles[0].Tasks))
}

func (amdahl) On(j *job.Job, _ *cluster.Cluster, _ cluster.TypeID, tasks int, _ bool) float64 {
	return rate(tasks) / rate(int(j.Demand.Roles[0].Tasks))
}

func makes(rule freetrain.Rule, horizon time.Duration) func() (sched.Policy, error) {
	return func() (sched.Policy, error) {
		c := freetrain.NewConfig()
		c.Rule, c.Horizon = rule, horizon
		return c.Policy()
	}
}

// TestReclaim is example 4: a trainer on six nodes, at least four, goes on without the one that it
// loses, and stops when it loses three; what it has done counts.
func TestReclaim(t *testing.T) {
	lent := func(loans ...trace.Loan) func(*sim.Config) {
		var all []trace.Loan
		for i := range 6 {
			all = append(all, trace.Loan{Node: fmt.Sprint("n", i), Lent: true})
		}
		return func(c *sim.Config) { c.Loans, c.InPlace, c.Snapshot = append(all, loans...), true, time.Second }
	}
	at := func(s int, node string) trace.Loan { return trace.Loan{At: time.Duration(s) * time.Second, Node: node} }
	costs := perf.Costs{Base: perf.Cost{InPlace: 5 * time.Second}}
	six := trainer("a", 4, 6, 1000)
	run := simtest.Go(t, simtest.Config{Cluster: machine(t, 6), Make: makes(freetrain.Best, time.Minute), Model: amdahl{}, Speeds: amdahl{}, Costs: costs, World: lent(at(100, "n3"))}, six)
	done := 100 * rate(6) / rate(4)
	if want := 105 + (1000-done)*rate(4)/rate(5); math.Abs(run.End("a")-want) > 1e-3 || run.Record("a").Preemptions != 0 {
		t.Errorf("it ends at %v, not %v", run.End("a"), want)
	}
	run = simtest.Go(t, simtest.Config{Cluster: machine(t, 6), Make: makes(freetrain.Best, time.Minute), Model: amdahl{}, Speeds: amdahl{}, Costs: costs,
		World: lent(at(100, "n3"), at(100, "n4"), at(100, "n5"), trace.Loan{At: 200 * time.Second, Node: "n3", Lent: true})}, six)
	if r := run.Record("a"); r.Preemptions != 1 || math.Abs(run.End("a")-(200+1000-math.Floor(done))) > 5.001 {
		t.Errorf("it was stopped %d times and ends at %v\n%s", r.Preemptions, run.End("a"), strings.Join(run.Log, "\n"))
	}
}

// ideal is the work that trainers of amdahl do on so many nodes, divided anew at no cost.
func ideal(trainers, nodes int) float64 {
	all := make([]freetrain.Trainer, trainers)
	for i := range all {
		all[i] = freetrain.Trainer{Least: 1, Most: 8, Rate: make([]float64, 9)}
		for n := 1; n <= 8; n++ {
			all[i].Rate[n] = rate(n)
		}
	}
	sizes, err := freetrain.Divide(all, nodes, 1)
	if err != nil {
		panic(err)
	}
	return worth(all, sizes, 1)
}

// TestEfficiency is example 6: 20 nodes come and go every 60 s on average, and a change of size takes
// a tenth of that. Five trainers do at least 85 % of what they would do if changes were free, and
// more than with equal shares.
func TestEfficiency(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 1))
	const end = 6 * 3600
	var loans []trace.Loan
	lent := make([]bool, 20)
	now, last, there, best := 0.0, 0.0, 0, 0.0
	change := func(n int) {
		best += (now - last) * ideal(5, there)
		last = now
		lent[n] = !lent[n]
		loans = append(loans, trace.Loan{At: time.Duration(now * 1e9), Node: fmt.Sprint("n", n), Lent: lent[n]})
		if there--; lent[n] {
			there += 2
		}
	}
	for n := range 14 {
		change(n)
	}
	for now = r.ExpFloat64() * 60; now < end; now += r.ExpFloat64() * 60 {
		change(r.IntN(20))
	}
	now = end
	best += (now - last) * ideal(5, there)
	did := map[freetrain.Rule]float64{}
	for _, rule := range []freetrain.Rule{freetrain.Best, freetrain.Equal} {
		var jobs []simtest.Job
		for i := range 5 {
			jobs = append(jobs, trainer(fmt.Sprint("t", i), 1, 8, 1e7))
		}
		run, err := simtest.Try(simtest.Config{
			Cluster: machine(t, 20), Make: makes(rule, time.Minute), Model: amdahl{}, Speeds: amdahl{}, Unchecked: true,
			Costs: perf.Costs{Base: perf.Cost{InPlace: 6 * time.Second, Start: 6 * time.Second, Restore: 6 * time.Second}},
			World: func(c *sim.Config) {
				c.Loans, c.InPlace, c.Snapshot = slices.Clone(loans), true, time.Second
				c.Script = cancelled(5, end)
			},
		}, jobs...)
		if err != nil {
			t.Fatal(err)
		}
		for i := range 5 {
			did[rule] += run.Record(fmt.Sprint("t", i)).Progress.Seconds()
		}
	}
	t.Logf("of the ideal: %.3f, equal shares %.3f", did[freetrain.Best]/best, did[freetrain.Equal]/best)
	if e := did[freetrain.Best] / best; e < 0.85 || e > 1 || did[freetrain.Equal] > did[freetrain.Best] {
		t.Errorf("%.3f of the ideal, equal shares %.3f", e, did[freetrain.Equal]/best)
	}
}

// cancelled ends so many jobs at a moment, in seconds.
func cancelled(jobs, at int) (out []eventlog.Event) {
	for i := range jobs {
		out = append(out, eventlog.Event{Time: time.Duration(at) * time.Second, Kind: eventlog.Cancel, Job: job.ID(i)})
	}
	return out
}

// BenchmarkDivide is 500 trainers of up to 64 nodes on 4,000 of them.
func BenchmarkDivide(b *testing.B) {
	trainers := make([]freetrain.Trainer, 500)
	for i := range trainers {
		trainers[i] = freetrain.Trainer{Least: 1 + i%4, Most: 64, Has: i % 9, Rate: make([]float64, 65), Up: 20, Down: 10}
		if trainers[i].Has < trainers[i].Least {
			trainers[i].Has = 0
		}
		for n := 1; n <= 64; n++ {
			trainers[i].Rate[n] = math.Pow(float64(n), 0.6+0.0007*float64(i))
		}
	}
	for b.Loop() {
		if _, err := freetrain.Divide(trainers, 4000, 60); err != nil {
			b.Fatal(err)
		}
	}
}
