package bytegnn

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/engine"
	"github.com/norn-scheduler/norn/eventlog"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/sched"
	"github.com/norn-scheduler/norn/sim/simtest"
	"github.com/norn-scheduler/norn/state"
)

func cores(n float64) unit.Milli { return unit.Milli(n * 1000) }

func needs(n float64, gpus int) Claim {
	return Claim{GPUs: gpus, Grid: perf.Needing(cores(n)), Memory: unit.GiB}
}

// Example 5 of the specification: two GPUs that need four cores each do three quarters of their work
// with six cores, all with eight, and no more with twelve.
func TestPipelineRate(t *testing.T) {
	c := needs(4, 2)
	for _, k := range []struct{ cores, want float64 }{{6, 0.75}, {8, 1}, {12, 1}} {
		if got := c.Rate(cores(k.cores)); math.Abs(got-k.want) > 1e-9 {
			t.Errorf("%v cores: %v of the speed, want %v", k.cores, got, k.want)
		}
	}
}

// Section 2.5 of the specification. Needs of 4, 8 and 12 cores of 12: evenly each has half of its
// need; by gain the least hungry are served first, and with a floor nobody has less than that.
func TestDivide(t *testing.T) {
	claims := []Claim{needs(12, 1), needs(4, 1), needs(8, 1)}
	check := func(what string, got []unit.Milli, want ...float64) {
		for i := range want {
			if got[i] != cores(want[i]) {
				t.Errorf("%s: job %d has %v cores, want %v", what, i, got[i], want[i])
			}
		}
	}
	check("evenly", Evenly(cores(12), claims), 6, 2, 4)
	check("evenly with head room", Evenly(cores(48), claims), 24, 8, 16)
	check("by gain", ByGain(cores(12), claims, cores(4), 0), 0.001, 4, 7.999)
	check("by gain with a floor", ByGain(cores(12), claims, cores(4), 0.5), 2, 4, 6)
	check("by gain with enough", ByGain(cores(48), claims, cores(4), 0.5), 12, 4, 8)
}

// By gain no exchange of cores between two jobs keeps more GPUs busy, whatever their grids, and no
// core is left where somebody would gain by it.
func TestGainIsBest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var claims []Claim
		for range rapid.IntRange(1, 4).Draw(t, "jobs") {
			g := &perf.Grid{Memory: []unit.Bytes{1}}
			at, rate, slope := 0.0, 0.0, 8.0
			for range rapid.IntRange(1, 3).Draw(t, "points") {
				step := float64(rapid.IntRange(1, 4).Draw(t, "step"))
				slope *= rapid.Float64Range(0.3, 0.9).Draw(t, "slope")
				at, rate = at+step, rate+slope*step
				g.CPUs, g.Rates = append(g.CPUs, cores(at)), append(g.Rates, []float64{rate})
			}
			claims = append(claims, Claim{GPUs: rapid.IntRange(1, 2).Draw(t, "gpus"), Grid: g, Memory: 1})
		}
		all := rapid.IntRange(1, 24).Draw(t, "cores")
		got := ByGain(cores(float64(all)), claims, cores(1), 0)
		sum, used := 0.0, unit.Milli(0)
		for i := range claims {
			sum, used = sum+float64(claims[i].GPUs)*claims[i].Rate(got[i]), used+got[i]
		}
		if used > cores(float64(all)) {
			t.Fatalf("%v of %d cores are given", used, all)
		}
		if best := bestOf(claims, all); sum < best-0.01 {
			t.Fatalf("%v GPUs are busy with %v, %v could be", sum, got, best)
		}
	})
}

// bestOf is the most GPUs that any division into whole cores keeps busy.
func bestOf(claims []Claim, left int) float64 {
	if len(claims) == 0 {
		return 0
	}
	best := 0.0
	for n := range left + 1 {
		best = max(best, float64(claims[0].GPUs)*claims[0].Rate(cores(float64(n)))+bestOf(claims[1:], left-n))
	}
	return best
}

// last keeps what jobs had last.
type last map[string]unit.Milli

// Event implements engine.Sink.
func (l last) Event(_ *eventlog.Event, s *state.State) {
	for id := range job.ID(s.Jobs()) {
		if a := s.Alloc(id); a != nil && s.Record(id).Phase == job.Running {
			sum := unit.Milli(0)
			for _, p := range a.Pieces {
				sum += p.CPU
			}
			l[s.Record(id).Job.Key] = sum
		}
	}
}

func cpus(t *testing.T, n, gpus int, each float64) *cluster.Cluster {
	c := cluster.New()
	typ, err := c.AddType(cluster.GPUType{Name: "V100"})
	if err != nil {
		t.Fatal(err)
	}
	for range n {
		if _, err := c.AddNode(cluster.NodeSpec{GPUs: []cluster.GPUs{{Type: typ, Count: gpus}}, CPU: cores(each)}); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

// Cores go to who needs them in place, and back when another comes: nobody is stopped, and work
// is done sooner than with shares in proportion.
func TestCoresMoveInPlace(t *testing.T) {
	hungry := func(n float64) func(*job.Job) {
		return func(j *job.Job) { j.Hints = &job.Hints{CPUPerGPU: cores(n)} }
	}
	m := &perf.Grids{Share: perf.Ration{CPU: cores(4)}}
	seen := last{}
	run := simtest.Go(t, simtest.Config{
		Cluster: cpus(t, 1, 4, 16), Model: m, Speeds: m, Sinks: []engine.Sink{seen},
		Make: func() (sched.Policy, error) { return NewConfig().Policy() },
	},
		simtest.Job{Key: "graph", GPUs: 1, Run: 200, Spec: hungry(12)},
		simtest.Job{Key: "light", GPUs: 2, Run: 200, Spec: hungry(1)},
		simtest.Job{Key: "late", At: 20, GPUs: 1, Run: 100, Spec: hungry(8)},
	)
	// Alone beside light it has 12 cores, three times the speed with 4: 60 s of work in 20 s. From
	// then on late has 8 of the 14 cores left, twice its speed, for 50 s; graph has 6, 1.5 times: 75 s.
	// At 70 s it is alone with 12 cores again and does the 65 s left in 21.67 s.
	if end := run.Record("late").End.Seconds(); math.Abs(end-70) > 0.01 {
		t.Errorf("late ends at %v, want 70\n%v", end, run.Log)
	}
	if end := run.Record("graph").End.Seconds(); math.Abs(end-(70+65/3.)) > 0.01 {
		t.Errorf("graph ends at %v, want %v\n%v", end, 70+65/3., run.Log)
	}
	if r := run.Record("graph"); r.Preemptions+r.Resizes+r.Migrations > 0 {
		t.Errorf("graph was disturbed: %+v", r)
	}
}

// A gang on two nodes is as fast as where it has least, and takes no more of the other node.
func TestGangOnTwoNodes(t *testing.T) {
	spec := func(n float64) func(*job.Job) {
		return func(j *job.Job) { j.Hints = &job.Hints{CPUPerGPU: cores(n)} }
	}
	m := &perf.Grids{Share: perf.Ration{CPU: cores(4)}}
	seen := last{}
	simtest.Go(t, simtest.Config{Cluster: cpus(t, 2, 2, 8), Model: m, Speeds: m, Sinks: []engine.Sink{seen}, Make: func() (sched.Policy, error) {
		c := NewConfig()
		c.Goal = Even
		return c.Policy()
	}},
		simtest.Job{Key: "first", GPUs: 1, Run: 1000, Spec: spec(4)},
		simtest.Job{Key: "gang", GPUs: 3, Run: 100, Spec: spec(4)},
	)
	if seen["gang"] != cores(12) {
		t.Errorf("the gang had %v cores, want 4 for each GPU", seen["gang"])
	}
}
