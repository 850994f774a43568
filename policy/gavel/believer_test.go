package gavel

import (
	"hash/fnv"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/sched"
	"github.com/norn-scheduler/norn/sim"
	"github.com/norn-scheduler/norn/sim/simtest"
)

// known is what references, r1 to r3, do beside each other: each suffers beside another one.
func known() perf.Pairs {
	p := perf.Pairs{Speed: map[perf.Pair]float64{}}
	rows := map[string][3]float64{"r1": {0.9, 0.8, 0.2}, "r2": {0.9, 0.2, 0.8}, "r3": {0.2, 0.7, 0.9}}
	for a, row := range rows {
		for i, b := range []string{"r1", "r2", "r3"} {
			p.Speed[perf.Pair{Job: a, Beside: b}] = row[i]
		}
	}
	return p
}

func packed() *Config {
	c := NewConfig()
	c.Packed = true
	return c
}

// stay is a reading of a stay beside some references.
func stay(at, own, theirs []float64) *perf.Reading {
	m := &perf.Reading{When: perf.InProfile, Setup: perf.Setup{Tasks: 1, Type: "V100"}}
	m.Add(Reference, at...)
	m.Add(Own, own...)
	m.Add(Theirs, theirs...)
	return m
}

// besides is a reading of a job beside another one.
func besides(factor float64, other *job.Job) *perf.Reading {
	m := &perf.Reading{When: perf.InRun, Setup: perf.Setup{Tasks: 1, Type: "V100", Beside: []string{other.Model}}}
	m.Add(perf.Factor, factor)
	m.Add(perf.Neighbours, float64(perf.SerialOf(other)))
	return m
}

// TestBelieves: a new sort gains nothing by sharing. One that was measured beside one reference,
// and did as r3 does, is taken to do beside the others as r3 does. Measurements of a pair that
// runs go before that.
func TestBelieves(t *testing.T) {
	b := packed().Believer(perf.Prior{Sharing: known()}).(*believer)
	v100 := cluster.GPUType{Name: "V100"}
	x, r1, r2, r3 := &job.Job{ID: 1, Model: "x"}, &job.Job{ID: 2, Model: "r1"}, &job.Job{ID: 3, Model: "r2"}, &job.Job{ID: 4, Model: "r3"}
	beside := func(j, o *job.Job) float64 { return b.Beside(j, []*job.Job{o}, v100) }
	if beside(x, r1) != 0.5 || !b.unmeasured(x) || b.unmeasured(r1) || beside(r1, r2) != 0.8 {
		t.Errorf("of a new sort %v is believed, of references %v", beside(x, r1), beside(r1, r2))
	}
	if got := b.Grounds(x); len(got) != 1 || got[0] != "nothing was measured of it beside others, so that it is taken to gain nothing by sharing" {
		t.Errorf("%q", got)
	}
	b.Observe(x, stay([]float64{0, 1}, []float64{0.25, 0.7}, []float64{0.6, 0.5}))
	if beside(x, r1) != 0.25 || math.Abs(beside(x, r3)-0.9) > 1e-9 || math.Abs(beside(x, x)-0.9) > 1e-9 || beside(r1, x) != 0.6 || b.unmeasured(x) {
		t.Errorf("beside references %v, %v; beside its like %v; a reference beside it %v", beside(x, r1), beside(x, r3), beside(x, x), beside(r1, x))
	}
	b.Observe(r3, &perf.Reading{When: perf.InRun})
	b.Observe(x, besides(0.9, r3))
	b.Observe(x, besides(0.7, r3))
	if math.Abs(beside(x, r3)-0.8) > 1e-9 {
		t.Errorf("a pair that was seen at 0.9 and 0.7 is believed to run at %v", beside(x, r3))
	}
	if got := b.Grounds(x); got[0] != "jobs of its sort were measured beside 2 references in a stay, and beside 1 sort as both ran; the rest is estimated" {
		t.Errorf("%q", got)
	}
	for _, bad := range []*perf.Reading{stay([]float64{7, -1}, []float64{1, 1}, []float64{1, 1}), stay([]float64{1}, nil, []float64{1}), besides(0, r1), besides(1, &job.Job{ID: 99})} {
		if len(bad.Series(Own)) == 0 {
			bad.Add(Own, 1, 1)
		}
		b.Observe(x, bad)
	}
	if beside(x, r1) != 0.25 {
		t.Error("what makes no sense teaches something")
	}
	if NewConfig().Believer(perf.Prior{}) != nil {
		t.Error("a policy under which nobody shares learns of pairs")
	}
	live := packed().Believer(perf.Prior{Sharing: perf.Alone{}}).(*believer)
	if live.Beside(x, []*job.Job{r1}, v100) != 1 || live.unmeasured(x) || live.Grounds(x) != nil {
		t.Error("without references the prior does not count")
	}
}

// lab measures pairs by their keys alone, whatever is true.
type lab struct{}

// Measure implements sim.Meter.
func (lab) Measure(l *sim.Look, to *perf.Reading) {
	draw := func(key string) float64 {
		h := fnv.New64a()
		h.Write([]byte(key))
		return 0.1 + 0.9*rand.New(rand.NewPCG(h.Sum64(), 1)).Float64()
	}
	if to.When == perf.InProfile {
		to.Add(Reference, 0, 2)
		to.Add(Own, draw(l.Job.Model+"0"), draw(l.Job.Model+"2"))
		to.Add(Theirs, draw(l.Job.Model+"3"), draw(l.Job.Model+"4"))
		return
	}
	to.Add(perf.Samples, 1)
	if len(l.Beside) > 0 {
		to.Add(perf.Factor, draw(l.Job.Key+l.Beside[0].Job.Key))
		to.Add(perf.Neighbours, float64(perf.SerialOf(l.Beside[0].Job)))
	}
}

// Learnt beliefs over random worlds: every job ends, a policy that starts anew decides the same,
// and so does a scheduler that starts again; and nothing of what jobs truly demand is seen.
func TestLearntProperties(t *testing.T) {
	l := simtest.Learning{
		Meter: lab{},
		Believe: func(p perf.Prior) perf.Believer {
			p.Sharing = known()
			return packed().Believer(p)
		},
		Build: func() (sched.Policy, error) {
			c := packed()
			c.Round, c.Reset, c.Profile = 90*time.Second, 20*time.Second, time.Minute
			return c.Policy()
		},
		Other: simtest.OtherUse,
	}
	for name, s := range map[string]simtest.Shape{"packed": {Packed: true}, "types": {Packed: true, Types: true, Costs: true}, "operated": {Packed: true, Costs: true, Operated: true}} {
		s.Shared = true
		t.Run(name, func(t *testing.T) { l.Properties(t, s) })
	}
}

// TestMeasuredFirst: the first job of a sort is measured for its time before it starts, without
// progress, the second is not. A job of a reference starts at once.
func TestMeasuredFirst(t *testing.T) {
	c := packed()
	run := simtest.Go(t, simtest.Config{
		Cluster: simtest.Nodes(1, 2), Shared: true, Make: func() (sched.Policy, error) { return c.Policy() },
		Believe: func(p perf.Prior) perf.Believer { p.Sharing = known(); return c.Believer(p) },
		World:   func(c *sim.Config) { c.Meter = lab{} },
	}, simtest.Job{Key: "a", Model: "x", GPUs: 1, Run: 600}, simtest.Job{Key: "b", Model: "r1", GPUs: 1, Run: 600}, simtest.Job{Key: "c", Model: "x", At: 700, GPUs: 1, Run: 600})
	log := strings.Join(run.Log, "\n")
	for _, want := range []string{"0 start a on n0[0] profile", "180 measured a profile own=", "0 start b on n0[1]"} {
		if !strings.Contains(log, want) {
			t.Errorf("no %q in\n%s", want, log)
		}
	}
	if strings.Count(log, " profile ") != 1 || run.End("a") != 780 || run.End("b") != 600 || run.Start("c") != 700 {
		t.Errorf("a ends at %v, b at %v, c starts at %v\n%s", run.End("a"), run.End("b"), run.Start("c"), log)
	}
}
