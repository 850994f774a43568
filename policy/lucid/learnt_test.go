package lucid

import (
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/internal/longtest"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/sched"
	"github.com/norn-scheduler/norn/sim"
	"github.com/norn-scheduler/norn/sim/simtest"
)

// counters is a meter that goes by the keys of jobs alone, whatever is true.
type counters struct{}

// Measure implements sim.Meter.
func (counters) Measure(l *sim.Look, to *perf.Reading) {
	draw := func(key string) float64 {
		h := fnv.New64a()
		h.Write([]byte(key))
		return rand.New(rand.NewPCG(h.Sum64(), 1)).Float64()
	}
	if len(l.Beside) == 0 {
		to.Add(perf.GPUUse, draw(l.Job.Key))
		to.Add(perf.MemoryUse, draw(l.Job.Key+"b"))
		to.Add(perf.GPUMemory, float64(unit.GiB)*(1+8*draw(l.Job.Key+"m")))
		return
	}
	to.Add(perf.Factor, 0.4+0.6*draw(l.Job.Key+l.Beside[0].Job.Key))
	var others []float64
	for _, o := range l.Beside {
		others = append(others, float64(perf.SerialOf(o.Job)))
	}
	to.Add(perf.Neighbours, others...)
}

// Learnt beliefs over random worlds: every job ends, a policy that starts anew decides the same,
// and so does a scheduler that starts again; and nothing of what jobs truly use is seen.
func TestLearntProperties(t *testing.T) {
	longtest.Skip(t)
	l := simtest.Learning{
		Meter: counters{}, Believe: func(p perf.Prior) perf.Believer {
			b := NewConfig().Believer(p).(*believer)
			b.next = 4 // pairs
			return b
		},
		Build: func() (sched.Policy, error) {
			c := NewConfig()
			c.Trees.Leaf, c.Trees.Trees = 1, 5
			for k, v := range map[string]string{"packing": "on", "profile": "0.3", "profile-time": "20s", "refresh": "20s", "check": "10s", "ratio": "100"} {
				if err := c.Params().Set(k, v); err != nil {
					return nil, err
				}
			}
			return c.Policy()
		},
		Other: simtest.OtherUse,
	}
	for name, s := range map[string]simtest.Shape{"packed": {Packed: true}, "costs": {Packed: true, Costs: true, Operated: true}, "failures": {Failures: true, Operated: true}} {
		s.Shared = true
		t.Run(name, func(t *testing.T) { l.Properties(t, s) })
	}
}

// meter measures exactly what jobs tell, and how fast they are.
type meter struct{}

// Measure implements sim.Meter.
func (meter) Measure(l *sim.Look, to *perf.Reading) {
	if len(l.Beside) > 0 {
		to.Add(perf.Factor, l.Factor)
		to.Add(perf.Neighbours, float64(perf.SerialOf(l.Beside[0].Job)))
		return
	}
	to.Add(perf.GPUUse, l.Job.Hints.GPUUse)
	to.Add(perf.GPUMemory, float64(l.Job.Hints.GPUMemory))
}

// TestMeasuredFirst is acceptance 1 of the specification where nothing is told: a job can be a
// partner only once it was measured, and so can the one that comes. The second job of a model
// needs no measurement of its own.
func TestMeasuredFirst(t *testing.T) {
	speeds := map[perf.Pair]float64{{Job: "J1", Beside: "J3"}: 0.9, {Job: "J3", Beside: "J1"}: 0.8}
	cfg := packing(Always, speeds)
	world := cfg.World
	cfg.World = func(c *sim.Config) { world(c); c.Meter = meter{} }
	cfg.Believe = func(p perf.Prior) perf.Believer { p.Told = false; return NewConfig().Believer(p) }
	model := func(name string) func(*job.Job) {
		return func(j *job.Job) { j.Model = name; uses(0.5, 3)(j) }
	}
	cfg.Cluster = simtest.Nodes(2, 8)
	run := simtest.Go(t, cfg,
		simtest.Job{Key: "J1", GPUs: 8, Run: 1000, Spec: model("a")}, simtest.Job{Key: "J2", GPUs: 8, Run: 130, Spec: model("b")},
		simtest.Job{Key: "J0", At: 10, GPUs: 8, Run: 500, Spec: model("c")}, simtest.Job{Key: "J3", At: 125, GPUs: 8, Run: 500, Spec: model("b")})
	// J0 waits for a node: nothing is known of it. J3 is like J2, which was measured, and joins J1.
	if run.Start("J0") != 130 || run.Start("J3") != 125 {
		t.Errorf("J0 starts at %v, J3 at %v: want 130 and 125%s", run.Start("J0"), run.Start("J3"), text(run))
	}
	log := strings.Join(run.Log, "\n")
	for _, want := range []string{"185 measured J3 run beside=[0] factor=[0.8]", "185 measured J1 run beside=[3] factor=[0.9]"} {
		if !strings.Contains(log, want) {
			t.Errorf("no %q in%s", want, text(run))
		}
	}
	b := NewConfig().Believer(perf.Prior{}).(*believer)
	for _, m := range run.State.Readings.All() {
		b.Observe(run.State.Record(m.Job).Job, m.Reading)
	}
	want := []string{
		"it keeps a GPU busy for 50 % of the time, and the way to its memory for 0 %; it takes 3.0 GiB of that, as 3 measurements of jobs alike tell",
		"its score is 1 (medium) by the rule of the settings, since only 2 pairs were seen",
	}
	if got := b.Grounds(run.Record("J3").Job); !slices.Equal(got[:1], want[:1]) || !strings.HasPrefix(got[1], "its score is 1 (medium) by the rule of the settings, since only ") {
		t.Errorf("%q", got)
	}
}
