package gas

import (
	"math"
	"testing"
	"time"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/sched"
	"github.com/norn-scheduler/norn/sim/simtest"
)

// curve is the example of the specification (section 5.1): a job takes 1000, 560, 340 and 250 s on 1,
// 2, 4 and 8 GPUs; in between it is as on the fewer.
type curve struct{}

func (curve) of(tasks int) float64 {
	times := []float64{1000, 560, 340, 250}
	return 250 / times[min(3, int(math.Log2(float64(tasks))))]
}

func (m curve) Speed(_ *job.Job, _ *cluster.Cluster, a *cluster.Alloc) float64 {
	return m.of(a.Tasks(0))
}

func (m curve) On(_ *job.Job, _ *cluster.Cluster, _ cluster.TypeID, tasks int, _ bool) float64 {
	return m.of(tasks)
}

// elastic is a job of the example, which asks for 8 GPUs.
func elastic(key string, at float64) simtest.Job {
	d := job.GPUs(8)
	d.Roles[0].Min, d.Roles[0].Max = 1, 8
	return simtest.Job{Key: key, At: at, Run: 250, Demand: &d}
}

// run runs jobs on nodes of eight GPUs.
func run(t *testing.T, nodes int, set func(*Config), jobs ...simtest.Job) *simtest.Run {
	t.Helper()
	return simtest.Go(t, simtest.Config{Cluster: simtest.Nodes(nodes, 8), Model: curve{}, Speeds: curve{}, Make: func() (sched.Policy, error) {
		c := NewConfig()
		c.Stretch = 1e6
		if set != nil {
			set(c)
		}
		return c.Policy()
	}}, jobs...)
}

// sized is the sizes that are right at a load.
type sized struct {
	inner sched.Policy
	load  float64
	got   []int
}

func (s *sized) Decide(v *sched.View, p *sched.Plan) {
	for j := range v.Waiting() {
		for _, z := range s.inner.(*policy).sizes(v, j, s.load) {
			s.got = append(s.got, z.tasks)
		}
	}
	s.inner.Decide(v, p)
}

// TestSizes is section 5.1: at a load of 1 the efficiency must be 0.9, which one GPU alone has; at 0.5
// it must be 0.7, which four have; without load 0.5, which eight have. At 0.5 four GPUs take 12 %
// more energy than one, so that only two are right if that counts.
func TestSizes(t *testing.T) {
	for _, c := range []struct {
		load, slack float64
		want        int
	}{{1, 1.05, 1}, {7, 1000, 1}, {0.5, 1000, 4}, {0.5, 1.05, 2}, {0, 1.05, 8}, {0.2, 1.05, 4}} {
		cfg := NewConfig()
		cfg.Slack, cfg.Stretch = c.slack, 1e6
		p, err := cfg.Policy()
		if err != nil {
			t.Fatal(err)
		}
		s := &sized{inner: p, load: c.load}
		simtest.Go(t, simtest.Config{Cluster: simtest.Nodes(1, 8), Model: curve{}, Speeds: curve{}, Make: func() (sched.Policy, error) { return s, nil }}, elastic("a", 0))
		if len(s.got) == 0 || s.got[0] != c.want {
			t.Errorf("load %v, slack %v: %v, want %d first", c.load, c.slack, s.got, c.want)
		}
	}
}

// TestQueue is section 5.2 and 5.3: eight jobs that ask for all eight GPUs start at once on one GPU each,
// and take 1000 s on average where FIFO takes 1125 s. A job alone has all.
func TestQueue(t *testing.T) {
	var jobs []simtest.Job
	for _, key := range []string{"a", "b", "c", "d", "e", "f", "g", "h"} {
		jobs = append(jobs, elastic(key, 0))
	}
	if r := run(t, 1, nil, jobs...); r.MeanJCT() != 1000 {
		t.Errorf("a mean completion time of %v s", r.MeanJCT())
	}
	if r := run(t, 1, nil, elastic("alone", 0)); r.JCT("alone") != 250 {
		t.Errorf("a job alone takes %v s", r.JCT("alone"))
	}
}

// TestStretch: no job takes longer than stretch allows, however many wait.
func TestStretch(t *testing.T) {
	r := run(t, 1, func(c *Config) { c.Stretch = 1.5 }, elastic("a", 0), elastic("b", 0), elastic("c", 0))
	for _, key := range []string{"a", "b"} {
		if r.Start(key) != 0 || r.End(key) != 340 {
			t.Errorf("%s runs from %v to %v s, want four GPUs from 0 to 340 s", key, r.Start(key), r.End(key))
		}
	}
}

// TestLate: a gang of all GPUs waits while shorter jobs go ahead. When it was submitted an hour ago it
// has a reservation, and only what ends in time goes ahead.
func TestLate(t *testing.T) {
	var jobs []simtest.Job
	for i := range 200 {
		if i == 1 {
			jobs = append(jobs, simtest.Job{Key: "gang", At: 1, GPUs: 8, Run: 3000})
		}
		jobs = append(jobs, simtest.Job{Key: "s" + string(rune('a'+i%26)) + string(rune('a'+i/26)), At: float64(i) * 50, GPUs: 1, Run: 350})
	}
	r := run(t, 1, nil, jobs...)
	if start := r.Start("gang"); start < 3601 || start > 3601+1400 { // a short job takes 1400 s on one GPU
		t.Errorf("the gang starts at %v s, want soon after it is late at 3601 s", start)
	}
	never := run(t, 1, func(c *Config) { c.Starve = time.Duration(math.MaxInt64) }, jobs...)
	if start := never.Start("gang"); start < 9000 {
		t.Errorf("the gang starts at %v s although nobody is ever late", start)
	}
}

// TestEnergy: of a V100 with its part of a node 122.5 W are drawn at all times, 240 W more while it
// computes.
func TestEnergy(t *testing.T) {
	d := perf.DrawOf("V100")
	if e := Energy(d, 0.5); math.Abs(e-(122.5+120)/362.5/0.5) > 1e-12 {
		t.Errorf("%v", e)
	}
	if Energy(d, 1) != 1 || !math.IsInf(Energy(d, 0), 1) || Energy(d, 2) > 0.51 {
		t.Errorf("%v %v %v", Energy(d, 1), Energy(d, 0), Energy(d, 2))
	}
}
