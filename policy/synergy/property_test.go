package synergy

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/engine"
	"github.com/norn-scheduler/norn/eventlog"
	"github.com/norn-scheduler/norn/internal/longtest"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/sched"
	"github.com/norn-scheduler/norn/sim"
	"github.com/norn-scheduler/norn/sim/simtest"
	"github.com/norn-scheduler/norn/state"
)

var models = []string{"alexnet", "shufflenet", "resnet18", "mobilenet", "resnet50", "m5", "deepspeech", "gnmt", "transformer", "lstm", "vgg16", ""}

// world is a random world with models that are sensitive, on unlike nodes that may be
// cordoned or taken down, with jobs of parts of GPUs and of one type among the others.
func world(t *rapid.T) (simtest.World, func() *cluster.Cluster) {
	w := simtest.Draw(t, simtest.Shape{Costs: rapid.Bool().Draw(t, "with costs")})
	for i := range w.Jobs {
		j := &w.Jobs[i]
		j.Model = rapid.SampledFrom(models).Draw(t, "model")
		j.Run *= 20
		switch d := job.GPUs(j.GPUs); rapid.IntRange(0, 7).Draw(t, "asks") {
		case 0, 1:
			d.Roles[0].CPU, d.Roles[0].Memory = unit.Milli(rapid.IntRange(0, 8).Draw(t, "asked cores"))*500, gib(float64(rapid.IntRange(0, 40).Draw(t, "asked memory")))
			j.Demand = &d
		case 2: // it is not slower with less than its share
			d.Roles[0].GPU, d.Roles[0].CPU = rapid.SampledFrom([]unit.Milli{0, 250, 500, 700, 2000}).Draw(t, "part"), unit.Milli(rapid.IntRange(1, 4).Draw(t, "part's cores"))*500
			j.Demand, j.Model = &d, ""
		case 3:
			d.Types = rapid.SampledFrom([]string{"V100", "A100"}).Draw(t, "type")
			j.Demand = &d
		}
	}
	type shape struct{ gpus, cores, memory int }
	var shapes []shape
	var gpus []int
	for range rapid.IntRange(1, 4).Draw(t, "nodes") {
		g := rapid.SampledFrom([]int{1, 2, 4, 8}).Draw(t, "gpus")
		shapes, gpus = append(shapes, shape{g, g * rapid.IntRange(1, 6).Draw(t, "cores"), g * rapid.SampledFrom([]int{20, 62, 63, 125}).Draw(t, "memory")}), append(gpus, g)
	}
	if rapid.Bool().Draw(t, "operated") {
		w.Operate(t, gpus)
	}
	return w, func() *cluster.Cluster {
		c := cluster.New()
		for i, s := range shapes {
			typ, _ := c.AddType(cluster.GPUType{Name: []string{"V100", "A100"}[i%3%2]})
			if _, err := c.AddNode(cluster.NodeSpec{GPUs: []cluster.GPUs{{Type: typ, Count: s.gpus}}, CPU: unit.Milli(s.cores * 1000), Memory: gib(float64(s.memory))}); err != nil {
				t.Fatal(err)
			}
		}
		return c
	}
}

func config(t *rapid.T) *Config {
	c := with(rapid.SampledFrom([]Order{LAS, FIFO, SRTF, FTF, LeastFTF, DRF, Tetris}).Draw(t, "order"), rapid.SampledFrom([]Share{Tune, Tune, Proportional, Greedy, Opt}).Draw(t, "share"))
	c.Round = time.Duration(rapid.SampledFrom([]int{20, 60, 300}).Draw(t, "round")) * time.Second
	c.Fill, c.Surplus = rapid.Bool().Draw(t, "fill"), rapid.Bool().Draw(t, "surplus")
	c.Starves = time.Duration(rapid.SampledFrom([]int{100, 1e6}).Draw(t, "starves")) * time.Second
	return c
}

// guarantee watches that no job is slower than it would be with the proportional share of
// the GPUs it has.
type guarantee struct {
	m   *perf.Grids
	err error
}

func (g *guarantee) Event(ev *eventlog.Event, s *state.State) {
	if ev.Kind != eventlog.Start && ev.Kind != eventlog.Move {
		return
	}
	j := s.Record(ev.Job).Job
	share := &cluster.Alloc{}
	share.CopyFrom(s.Alloc(ev.Job))
	for i := range share.Pieces {
		p := &share.Pieces[i]
		n := s.Cluster.Node(p.Node)
		gpus := s.Cluster.NodeGPUs(p.Node)
		p.CPU, p.Memory = n.CPU/unit.Milli(gpus)*unit.Milli(p.Tasks), n.Memory/unit.Bytes(gpus)*unit.Bytes(p.Tasks)
	}
	if least := g.m.Speed(j, s.Cluster, share); ev.Speed < least*(1-1e-9) && g.err == nil {
		g.err = fmt.Errorf("at %v job %s (%s) runs at %v, in proportion at %v: %+v", s.Now, j.Key, j.Model, ev.Speed, least, s.Alloc(ev.Job).Pieces)
	}
}

// Every job ends, the ledger holds, no job that runs is slower than with its proportional
// share (acceptance D), and a policy that starts anew at random moments decides the same.
func TestProperties(t *testing.T) { properties(t, false) }

// The same where nothing is known of models, and what is believed of them is learnt: jobs
// are measured first, the log tells what was measured, and a policy and a believer that
// start anew decide the same. Beliefs may differ from the truth.
func TestLearntProperties(t *testing.T) { properties(t, true) }

func properties(t *testing.T, learns bool) {
	rapid.Check(t, func(t *rapid.T) {
		w, fresh := world(t)
		cfg := config(t)
		c := w.Costs.Base // in rounds that are no longer than it takes to stop and to begin nothing gets done
		cfg.Round = max(cfg.Round, 4*(c.Checkpoint+max(c.Start, c.Restore)))
		w.Make = func() (sched.Policy, error) { return cfg.Policy() }
		m := &perf.Grids{Models: perf.MeasuredGrids()}
		w.Model, w.Speeds = m, m
		g := &guarantee{m: m}
		if w.Sinks = []engine.Sink{g}; learns {
			before := w.World
			w.Sinks, w.Believe = nil, cfg.Believer
			w.World = func(c *sim.Config) {
				if before != nil {
					before(c)
				}
				c.Meter = meter{m}
			}
		}
		play := func(restart bool) []string {
			w.Cluster, w.Restart = fresh(), restart
			run, err := simtest.Try(w.Config, w.Jobs...)
			if err == nil {
				err = g.err
			}
			if err != nil {
				t.Fatalf("%+v: %v\n%v", *cfg, err, run.Log)
			}
			for i := range run.State.Jobs() {
				if r := run.State.Record(job.ID(i)); !r.Phase.Over() && !r.Reason.Never() {
					t.Fatalf("%+v: job %s was left %s (%v)\n%v", *cfg, r.Job.Key, r.Phase, r.Reason, run.Log)
				}
			}
			return slices.DeleteFunc(run.Log, func(line string) bool { return strings.Contains(line, " wait ") })
		}
		a, b := play(false), play(true)
		for i := range a {
			if i >= len(b) || a[i] != b[i] {
				t.Fatalf("%+v: a policy that starts anew decides otherwise, line %d:\n%v\n---\n%v", *cfg, i, a, b)
			}
		}
	})
}

// meter measures jobs with fewer and fewer cores.
type meter struct{ of *perf.Grids }

// Measure implements sim.Meter.
func (m meter) Measure(l *sim.Look, to *perf.Reading) {
	gpus := to.Setup.Tasks
	if to.When != perf.InProfile || gpus < 1 || to.Setup.CPU < unit.One {
		return
	}
	p := perf.GridProfile{GPUs: gpus, Cores: int(to.Setup.CPU / unit.One)}
	var cores, times []float64
	for _, at := range p.Explore(func(n int) time.Duration {
		rate := 1.0
		if g := m.of.Grid(l.Job); g != nil {
			rate = g.Rate(perf.Ration{CPU: unit.Milli(n) * unit.One / unit.Milli(gpus), Memory: to.Setup.Memory / unit.Bytes(gpus)})
		}
		return time.Duration(float64(time.Second) / rate)
	}) {
		cores, times = append(cores, float64(at.Cores)), append(times, at.Iteration.Seconds())
	}
	to.Add(Cores, cores...)
	to.Add(Iteration, times...)
	to.Add(Iterations, 100)
	to.Add(Dataset, 62.5*float64(gpus)*float64(unit.GiB))
	to.Add(Disk, 62.5*2/3*0.1/100*float64(gpus)*float64(unit.GiB)) // a tenth of the speed with a third of that in memory
}

// The sum of speeds at the start of a run with opt is no less than with tune, and neither
// exceeds the bound of the program.
func TestOptAgainstTune(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		_, fresh := world(t)
		var jobs []simtest.Job
		for i := range rapid.IntRange(1, 10).Draw(t, "number") {
			jobs = append(jobs, simtest.Job{
				Key: fmt.Sprint(i), Model: rapid.SampledFrom(models).Draw(t, "model"), GPUs: rapid.SampledFrom([]int{1, 1, 1, 2, 4}).Draw(t, "size"), Run: 10,
			})
		}
		m := &perf.Grids{Models: perf.MeasuredGrids()}
		sum := func(share Share) float64 {
			total := 0.0
			cfg := with(FIFO, share)
			cfg.Fill = false
			cl := fresh()
			run, err := simtest.Try(simtest.Config{
				Cluster: cl, Make: func() (sched.Policy, error) { return cfg.Policy() }, Model: m, Speeds: m,
				Sinks: []engine.Sink{sinkFunc(func(ev *eventlog.Event, s *state.State) {
					if ev.Kind == eventlog.Start && s.Now == 0 {
						total += relative(m, s, ev)
					}
				})},
			}, jobs...)
			if err != nil {
				t.Fatalf("%v\n%v", err, run.Log)
			}
			return total
		}
		if tune, opt := sum(Tune), sum(Opt); opt < tune-1e-9 {
			t.Fatalf("opt comes to %v, tune to %v", opt, tune)
		}
	})
}

// relative is the speed of a job over that with its proportional share where it is.
func relative(m *perf.Grids, s *state.State, ev *eventlog.Event) float64 {
	share := &cluster.Alloc{}
	share.CopyFrom(s.Alloc(ev.Job))
	worst := math.Inf(1)
	g := m.Grid(s.Record(ev.Job).Job)
	if g == nil {
		return 1
	}
	for i := range share.Pieces {
		p := &share.Pieces[i]
		n, gpus := s.Cluster.Node(p.Node), s.Cluster.NodeGPUs(p.Node)
		has := perf.Ration{CPU: p.CPU / unit.Milli(p.Tasks), Memory: p.Memory / unit.Bytes(p.Tasks)}
		worst = min(worst, g.Rate(has)/g.Rate(perf.Ration{CPU: n.CPU / unit.Milli(gpus), Memory: n.Memory / unit.Bytes(gpus)}))
	}
	return worst
}

// The same over worlds of every shape, with parts of GPUs, several roles, types and pools,
// jobs that must not be stopped, nodes that fail: also where cores and memory are nothing
// that anybody knows anything of.
func TestShapes(t *testing.T) {
	longtest.Skip(t)
	for name, shape := range map[string]simtest.Shape{
		"parts": {Parts: true}, "types": {Types: true, Costs: true}, "both": {Parts: true, Types: true, Failures: true, Operated: true}, "pools": {Parts: true, Pools: true},
	} {
		for _, share := range []Share{Tune, Proportional, Greedy, Opt} {
			t.Run(fmt.Sprintf("%s%d", name, share), func(t *testing.T) {
				cfg := with(Order(share), share)
				if cfg.Round, cfg.Fill = 20*time.Second, share%2 == 0; shape.Costs {
					cfg.Round = 100 * time.Second // see TestProperties
				}
				simtest.Properties(t, shape, func() (sched.Policy, error) { return cfg.Policy() })
			})
		}
	}
}
