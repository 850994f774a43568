package antman_test

import (
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/engine"
	"github.com/norn-scheduler/norn/eventlog"
	"github.com/norn-scheduler/norn/internal/longtest"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/place"
	"github.com/norn-scheduler/norn/policy/antman"
	"github.com/norn-scheduler/norn/policy/fifo"
	"github.com/norn-scheduler/norn/sched"
	"github.com/norn-scheduler/norn/sim"
	"github.com/norn-scheduler/norn/state"
	"github.com/norn-scheduler/norn/trace"
	"github.com/norn-scheduler/norn/trace/gen"
)

// meter integrates what is in use of all devices until a moment, and counts what becomes
// of jobs.
type meter struct {
	until        time.Duration
	use, memory  []float64 // of each device now
	last         time.Duration
	sum, memSum  float64 // device-seconds
	jct          float64
	ended, moved int
}

// Event implements engine.Sink.
func (m *meter) Event(ev *eventlog.Event, s *state.State) {
	for len(m.use) < s.Cluster.Devices() {
		m.use, m.memory = append(m.use, 0), append(m.memory, 0)
	}
	now := min(s.Now, m.until)
	for d := range m.use {
		m.sum += m.use[d] * (now - m.last).Seconds()
		m.memSum += m.memory[d] * (now - m.last).Seconds()
	}
	m.last = now
	switch ev.Kind {
	case eventlog.Used:
		m.use[ev.Device] = ev.Use
		m.memory[ev.Device] = float64(ev.Memory) / float64(s.Cluster.Type(0).Memory)
	case eventlog.End:
		r := s.Record(ev.Job)
		m.jct += (r.End - r.Job.Submit).Seconds()
		m.ended++
	case eventlog.Preempt, eventlog.Evict:
		m.moved++
	}
}

// play runs a trace under a policy on 64 GPUs, and returns what came of it: mean JCT in
// hours, mean use of the multiprocessors and of the memory until the last submission.
func play(t testing.TB, src trace.Source, until time.Duration, make func() (sched.Policy, error)) (jct, use, memory float64) {
	t.Helper()
	c := cluster.New()
	typ, err := c.AddType(cluster.GPUType{Name: "V100", Memory: 32 * unit.GiB})
	if err != nil {
		t.Fatal(err)
	}
	for range 8 {
		if _, err := c.AddNode(cluster.NodeSpec{GPUs: []cluster.GPUs{{Type: typ, Count: 8}}}); err != nil {
			t.Fatal(err)
		}
	}
	p, err := make()
	if err != nil {
		t.Fatal(err)
	}
	watch := &meter{until: until}
	world := sim.New(sim.Config{Source: trace.ByKey(src), Sharing: perf.Paced{}, Measure: true, Seed: 1})
	e := engine.New(engine.Config{Cluster: c, Policy: p, PolicyName: "test", Sharing: perf.Paced{}, Seed: 1, Sinks: []engine.Sink{watch}}, world)
	if err := world.Attach(e.State()); err != nil {
		t.Fatal(err)
	}
	if err := e.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if watch.ended != e.State().Jobs() || watch.moved > 0 {
		t.Fatalf("%d of %d jobs ended, %d stopped", watch.ended, e.State().Jobs(), watch.moved)
	}
	gpus := 64 * until.Seconds()
	return watch.jct / float64(watch.ended) / 3600, watch.sum / gpus, watch.memSum / gpus
}

// philly is jobs like Philly's for 64 GPUs, of a day at most, that come within a day and
// use their GPUs as measured jobs do.
func philly(t testing.TB, load float64, seed uint64) trace.Source {
	t.Helper()
	g, err := gen.New(gen.Options{Like: gen.Philly, GPUs: 64, MaxGPUs: 16, MaxRun: span, Span: span, Load: load, Seed: seed})
	if err != nil {
		t.Fatal(err)
	}
	return &gen.AssumedUse{Source: g, Seed: seed}
}

const span = 24 * time.Hour

// asked is the part of the multiprocessors of 64 GPUs that would be in use within a time
// if every job ran at full speed as soon as it comes: no policy uses more.
func asked(t testing.TB, src trace.Source, until time.Duration) (use float64) {
	t.Helper()
	for {
		var e trace.Entry
		if err := src.Next(&e); err == io.EOF {
			return min(1, use)
		} else if err != nil {
			t.Fatal(err)
		}
		use += float64(e.Job.Demand.GPUs()) * e.Job.Hints.GPUUse * min(e.Truth.Total(), until-e.Job.Submit).Seconds() / (64 * until.Seconds())
	}
}

// Acceptance 6: on a trace like Philly's for 64 GPUs that always asks for more, jobs
// take 1.5 times less time than first in, first out, and a fifth more of the GPUs is in
// use while jobs come. (A trace that leaves GPUs idle asks for no more use than that.)
func TestRelative(t *testing.T) {
	longtest.Skip(t)
	baseline := fifo.NewConfig()
	baseline.Place = place.Consolidated // as antman places those who own GPUs
	var jct, use, memory [2]float64
	for seed := range uint64(2) {
		for i, make := range []func() (sched.Policy, error){baseline.Policy, antman.NewConfig().Policy} {
			a, b, c := play(t, philly(t, 2, seed), span, make)
			jct[i], use[i], memory[i] = jct[i]+a/2, use[i]+b/2, memory[i]+c/2
		}
	}
	t.Logf("fifo %.2f h, %.1f %% in use, %.1f %% of the memory; antman %.2f h, %.1f %%, %.1f %%", jct[0], 100*use[0], 100*memory[0], jct[1], 100*use[1], 100*memory[1])
	if jct[0] < 1.5*jct[1] || use[1] < 1.2*use[0] {
		t.Errorf("%.2f times shorter, %.2f times the use", jct[0]/jct[1], use[1]/use[0])
	}
}

// BenchmarkLoads are the figures of the page: mean JCT in hours, the part of the
// multiprocessors in use, and the most that any policy could use, by the load.
func BenchmarkLoads(b *testing.B) {
	baseline, packed := fifo.NewConfig(), antman.NewConfig()
	baseline.Place, packed.Place = place.Consolidated, place.Pack
	for _, load := range []float64{1, 2, 4} {
		for _, x := range []struct {
			name string
			make func() (sched.Policy, error)
		}{{"fifo,consolidated", baseline.Policy}, {"fifo", fifo.NewConfig().Policy}, {"antman", antman.NewConfig().Policy}, {"antman,pack", packed.Policy}} {
			b.Run(fmt.Sprintf("load %v %s", load, x.name), func(b *testing.B) {
				for b.Loop() {
					var jct, use, most float64
					for seed := range uint64(2) {
						h, u, _ := play(b, philly(b, load, seed), span, x.make)
						jct, use, most = jct+h/2, use+u/2, most+asked(b, philly(b, load, seed), span)/2
					}
					b.ReportMetric(jct, "hours")
					b.ReportMetric(use, "use")
					b.ReportMetric(most, "asked")
				}
			})
		}
	}
}
