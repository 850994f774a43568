package optimus

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/sched"
	"github.com/norn-scheduler/norn/sim/simtest"
)

// table are speeds by size, on whatever.
type table map[string][]float64

// Speed implements perf.Model.
func (m table) Speed(j *job.Job, c *cluster.Cluster, a *cluster.Alloc) float64 {
	return m.On(j, c, 0, a.Tasks(0), false)
}

// On implements perf.Typed.
func (m table) On(j *job.Job, _ *cluster.Cluster, _ cluster.TypeID, tasks int, _ bool) float64 {
	return m[j.Key][tasks-1]
}

func elastic(key string, at, run float64, most int) simtest.Job {
	d := job.GPUs(1)
	d.Roles[0].Min, d.Roles[0].Max = 1, int32(most)
	return simtest.Job{Key: key, At: at, Run: run, Demand: &d}
}

func policyOf(interval string) func() (sched.Policy, error) {
	return func() (sched.Policy, error) {
		c := NewConfig()
		if err := c.Params().Set("interval", interval); err != nil {
			return nil, err
		}
		return c.Policy()
	}
}

func has(t *testing.T, run *simtest.Run, lines ...string) {
	t.Helper()
	log := strings.Join(run.Log, "\n")
	for _, l := range lines {
		if !strings.Contains(log, l) {
			t.Errorf("%q is not in\n%s", l, log)
		}
	}
}

// TestMarginalGain: GPUs go where they shorten the remaining time most. a has 1000 s
// left at speeds 1, 1.5, 1.8: gains 333 and 111; b 300 s at 1, 2, 3: 150 and 50.
// Of 5 GPUs both get one, then a, b and a.
func TestMarginalGain(t *testing.T) {
	m := table{"a": {1, 1.5, 1.8, 1.8}, "b": {1, 2, 3, 3}}
	run := simtest.Go(t, simtest.Config{Cluster: simtest.Nodes(1, 5), Model: m, Speeds: m, Make: policyOf("60s")}, elastic("a", 0, 1000, 4), elastic("b", 0, 300, 4))
	has(t, run, "0 start a on n0[2-4]", "0 start b on n0[0-1]") // the smallest is placed first
	run = simtest.Go(t, simtest.Config{Cluster: simtest.Nodes(1, 4), Model: m, Speeds: m, Make: policyOf("60s")}, elastic("a", 0, 1000, 4), elastic("b", 0, 300, 4))
	has(t, run, "0 start a on n0[0-1]", "0 start b on n0[2-3]")
}

// TestNoGain: a job that more GPUs do not help gets no more, be they free.
func TestNoGain(t *testing.T) {
	m := table{"a": {1, 1, 2, 2}}
	run := simtest.Go(t, simtest.Config{Cluster: simtest.Nodes(1, 4), Model: m, Speeds: m, Make: policyOf("60s")}, elastic("a", 0, 1000, 4))
	has(t, run, "0 start a on n0[0]\n")
	if run.End("a") != 1000 {
		t.Errorf("it ends at %v", run.End("a"))
	}
}

// TestIntervals: nothing is decided between two intervals; in order of submission
// everybody gets one GPU first.
func TestIntervals(t *testing.T) {
	m := perf.Analytic{Scaling: 1, Spread: 1}
	run := simtest.Go(t, simtest.Config{Cluster: simtest.Nodes(1, 2), Model: m, Speeds: m, Make: policyOf("100s")},
		elastic("a", 0, 300, 2), elastic("b", 10, 1000, 2), elastic("c", 20, 1000, 2))
	has(t, run, "0 start a on n0[0-1]", "100 resize a on n0[", "100 start b on n0[")
	if s := run.Start("c"); s != 200 { // a has 100 left at 100, for which it needs until 200 on one GPU
		t.Errorf("c starts at %v\n%s", s, strings.Join(run.Log, "\n"))
	}
}

// TestEqualJobs is invariant E of the specification: equal jobs end with sizes that
// differ by at most one, every admitted job has a GPU, and capacity is kept.
func TestEqualJobs(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 40 {
		n, gpus := 1+r.IntN(6), 1+r.IntN(12)
		m := perf.Analytic{Scaling: 0.7, Spread: 1}
		var jobs []simtest.Job
		for i := range n {
			jobs = append(jobs, elastic(fmt.Sprint("j", i), 0, 500, 12))
		}
		run := simtest.Go(t, simtest.Config{Cluster: simtest.Nodes(gpus, 1), Model: m, Speeds: m, Make: policyOf("1000s")}, jobs...)
		least, most := math.MaxInt, 0
		for i := range min(n, gpus) {
			size := int(run.Record(fmt.Sprint("j", i)).Tasks)
			least, most = min(least, size), max(most, size)
		}
		if n <= gpus && (least < 1 || most-least > 1) {
			t.Errorf("%d equal jobs on %d GPUs get %d to %d", n, gpus, least, most)
		}
	}
}
