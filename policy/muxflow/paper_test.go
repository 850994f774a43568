package muxflow

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/eventlog"
	"github.com/norn-scheduler/norn/internal/longtest"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/sched"
	"github.com/norn-scheduler/norn/sim"
	"github.com/norn-scheduler/norn/sim/simtest"
	"github.com/norn-scheduler/norn/state"
)

// Acceptance 1: the matching of the spec, and that job by job it is worse. The spec
// says 1.90 of the latter: it takes the largest weight first. Job by job, as here, the
// first takes .90, the second .55, the third .45, which is 1.90 as well.
func TestMatching(t *testing.T) {
	worth := []float64{.90, .80, .50, .85, .40, .45, .60, .55, .50}
	sum := func(of []int) (s float64) {
		for r, c := range of {
			s += worth[r*3+c]
		}
		return s
	}
	best, err := Pairs(Exact, 3, 3, worth, 0.2)
	if err != nil || !slices.Equal(best, []int{1, 0, 2}) || math.Abs(sum(best)-2.15) > 1e-9 {
		t.Errorf("%v worth %v: %v", best, sum(best), err)
	}
	if greedy, err := Pairs(Greedy, 3, 3, worth, 0.2); err != nil || math.Abs(sum(greedy)-1.90) > 1e-9 {
		t.Errorf("%v worth %v: %v", greedy, sum(greedy), err)
	}
}

// Pairs against all ways to pair: the sum is the largest, and none is worth less than
// the least.
func TestPairs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rows, cols := rapid.IntRange(1, 5).Draw(t, "slots"), rapid.IntRange(1, 5).Draw(t, "jobs")
		worth := rapid.SliceOfN(rapid.Float64Range(0, 1), rows*cols, rows*cols).Draw(t, "worth")
		least := rapid.SampledFrom([]float64{0, 0.2, 0.7}).Draw(t, "least")
		of, err := Pairs(Exact, rows, cols, worth, least)
		if err != nil {
			t.Fatal(err)
		}
		got, taken := 0.0, map[int]bool{}
		for r, c := range of {
			if c < 0 {
				continue
			}
			if taken[c] || worth[r*cols+c] < least {
				t.Fatalf("%v", of)
			}
			taken[c] = true
			got += worth[r*cols+c]
		}
		var best func(r int, used uint) float64
		best = func(r int, used uint) float64 {
			if r == rows {
				return 0
			}
			top := best(r+1, used)
			for c := range cols {
				if w := worth[r*cols+c]; used>>c&1 == 0 && w >= least {
					top = max(top, w+best(r+1, used|1<<c))
				}
			}
			return top
		}
		if want := best(0, 0); math.Abs(got-want) > 1e-9 {
			t.Fatalf("pairs worth %v, %v are possible", got, want)
		}
	})
}

// Acceptance 2: the share by the peak of the service.
func TestShare(t *testing.T) {
	s := NewConfig().Shares
	for peak, want := range map[float64]int{0.30: 600, 0.85: 100, 0.02: 900} {
		if got := s.Of(peak); got != want {
			t.Errorf("peak %v: %d, want %d", peak, got, want)
		}
	}
	// Ours: a job that could use all of that is kept from making its own GPU too busy.
	if light, heavy := s.For(0.30, 0.4, 0.8), s.For(0.30, 0.9, 0.8); light != 600 || heavy != 500 {
		t.Errorf("beside a peak of 0.3 a light job has %d, a heavy one %d", light, heavy)
	}
}

// box is a node of GPUs of 32 GiB.
func box(t interface{ Fatal(...any) }, gpus int) *cluster.Cluster {
	c := cluster.New()
	typ, err := c.AddType(cluster.GPUType{Name: "gpu", Memory: 32 * unit.GiB})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.AddNode(cluster.NodeSpec{GPUs: []cluster.GPUs{{Type: typ, Count: gpus}}}); err != nil {
		t.Fatal(err)
	}
	return c
}

func serves(use float64, gib unit.Bytes) func(*job.Job) {
	return func(j *job.Job) {
		j.Kind, j.Stop, j.Hints = job.Inference, job.Pinned, &job.Hints{GPUUse: use, GPUMemory: gib * unit.GiB}
	}
}

func trains(use float64, gib unit.Bytes) func(*job.Job) {
	return func(j *job.Job) { j.Hints = &job.Hints{GPUUse: use, GPUMemory: gib * unit.GiB} }
}

func built(set map[string]string) func() (sched.Policy, error) {
	return func() (sched.Policy, error) {
		c := NewConfig()
		for k, v := range set {
			if err := c.Params().Set(k, v); err != nil {
				return nil, err
			}
		}
		return c.Policy()
	}
}

func world(c *cluster.Cluster, load sim.Load) simtest.Config {
	return simtest.Config{
		Cluster: c, Make: built(nil), Shared: true, Sharing: perf.Served{},
		World: func(c *sim.Config) { c.Sharing, c.Measure, c.Load = perf.Served{}, true, load },
	}
}

// peaks is a load with spikes of a second: one at each of some moments.
type peaks struct {
	at    []time.Duration
	times float64
}

// At implements sim.Load.
func (p peaks) At(j *job.Job, now time.Duration) (float64, time.Duration) {
	if j.Kind != job.Inference {
		return 1, unit.Never
	}
	for _, at := range p.at {
		switch {
		case now < at:
			return 1, at
		case now < at+time.Second:
			return p.times, at + time.Second
		}
	}
	return 1, unit.Never
}

// spells are the times at which a job is beside a service, from and to, in seconds.
func spells(run *simtest.Run, key string) (out []float64) {
	for _, line := range run.Log {
		f := strings.Fields(line)
		if len(f) > 2 && strings.TrimSuffix(f[2], ":") == key && (f[1] == "start" || f[1] == "preempt" || f[1] == "evict" || f[1] == "end") {
			at, _ := time.ParseDuration(f[0] + "s")
			out = append(out, at.Seconds())
		}
	}
	return out
}

// Acceptance 3: a second in which 85 % of the multiprocessors are in use drives the job
// away at once, for five minutes; the next one for ten.
func TestStateMachine(t *testing.T) {
	load := peaks{[]time.Duration{200 * time.Second, 1000 * time.Second}, 3.75}
	cfg := world(box(t, 1), load)
	run := simtest.Go(t, cfg,
		simtest.Job{Key: "service", GPUs: 1, Run: 5000, Spec: serves(0.2, 4)},
		simtest.Job{Key: "job", At: 1, GPUs: 1, Run: 1000, Spec: trains(0.1, 4)})
	got := spells(run, "job")
	want := []float64{60, 200, 501, 1000, 1601}
	if len(got) != 6 || !slices.Equal(got[:5], want) {
		t.Errorf("%v, want %v\n%s", got, want, strings.Join(run.Log, "\n"))
	}
	g := NewConfig().Guard
	for times, cool := range []time.Duration{1: 5 * time.Minute, 2: 10 * time.Minute, 3: 20 * time.Minute, 4: 40 * time.Minute, 5: time.Hour, 60: time.Hour} {
		if times > 0 && cool > 0 && g.CoolFor(times) != cool {
			t.Errorf("after %d times it must be calm for %v", times, g.CoolFor(times))
		}
	}
}

// A service that is slow for ten seconds, although its GPU is not too busy, has the job
// make room as well.
func TestLatency(t *testing.T) {
	cfg := world(box(t, 1), nil)
	cfg.World = func(c *sim.Config) {
		c.Sharing, c.Measure = perf.Served{}, true
		c.Script = []eventlog.Event{
			{Time: 100 * time.Second, Kind: eventlog.Speed, Job: 0, Speed: 0.8}, {Time: 105 * time.Second, Kind: eventlog.Speed, Job: 0, Speed: 1},
			{Time: 120 * time.Second, Kind: eventlog.Speed, Job: 0, Speed: 0.8},
		}
	}
	run := simtest.Go(t, cfg,
		simtest.Job{Key: "service", GPUs: 1, Run: 1000, Spec: serves(0.2, 4)},
		simtest.Job{Key: "job", At: 1, GPUs: 1, Run: 900, Spec: trains(0.1, 4)})
	if got := spells(run, "job"); len(got) < 2 || got[1] != 130 {
		t.Errorf("%v\n%s", got, strings.Join(run.Log, "\n"))
	}
}

// Acceptance 4: a job that takes more than 40 % of the memory fails by itself; the
// service does not notice, and the job goes where no service is.
func TestMemory(t *testing.T) {
	cfg := world(box(t, 2), nil)
	run := simtest.Go(t, cfg,
		simtest.Job{Key: "service", GPUs: 1, Run: 1000, Spec: serves(0.2, 18)},
		simtest.Job{Key: "other", GPUs: 1, Run: 200, Spec: serves(0.9, 31)},
		simtest.Job{Key: "liar", At: 70, GPUs: 1, Run: 100, Spec: trains(0.1, 12), GPUMemory: 13 * unit.GiB},
		simtest.Job{Key: "large", At: 70, GPUs: 1, Run: 100, Spec: trains(0.1, 13)})
	evicted := 0
	for _, line := range run.Log {
		if strings.Contains(line, " evict ") {
			evicted++
			if !strings.Contains(line, "70 evict liar") {
				t.Error(line)
			}
		}
	}
	if evicted != 1 || run.End("service") != 1000 || run.Start("large") < 200 || run.End("liar") < 300 {
		t.Errorf("\n%s", strings.Join(run.Log, "\n"))
	}
}

// Acceptance 5: a job that crashes leaves the service up, or, where its context goes
// down with it, the service stands still for as long as is configured.
func TestCrash(t *testing.T) {
	for crash, want := range map[float64]float64{0: 1000, 1: 1020} {
		cfg := world(box(t, 1), nil)
		cfg.World = func(c *sim.Config) {
			c.Sharing, c.Measure, c.Crash, c.Reset = perf.Served{}, true, crash, 20*time.Second
		}
		run := simtest.Go(t, cfg,
			simtest.Job{Key: "service", GPUs: 1, Run: 1000, Spec: serves(0.2, 4)},
			simtest.Job{Key: "job", At: 1, GPUs: 1, Run: 100, Fails: []float64{50}, Spec: trains(0.1, 4)})
		if got := run.End("service"); got != want || run.Record("service").Starts != 1 || run.Record("job").Phase != job.Done {
			t.Errorf("with %v: the service ends at %v, want %v\n%s", crash, got, want, strings.Join(run.Log, "\n"))
		}
	}
}

// A job moves at a round when that lets it run faster by 0.15 at least; otherwise it
// stays.
func TestMoves(t *testing.T) {
	for peak, moves := range map[float64]bool{0.3: true, 0.6: false} {
		cfg := world(box(t, 2), nil)
		run := simtest.Go(t, cfg,
			simtest.Job{Key: "busy", GPUs: 1, Run: 3000, Spec: serves(0.6, 4)},
			simtest.Job{Key: "late", At: 100, GPUs: 1, Run: 2900, Spec: serves(peak, 4)},
			simtest.Job{Key: "job", At: 101, GPUs: 1, Run: 900, Spec: trains(0.5, 4)})
		if got := run.Record("job").Migrations > 0; got != moves {
			t.Errorf("peak %v: moved %v\n%s", peak, got, strings.Join(run.Log, "\n"))
		}
	}
}

// A gang is started where it runs fastest on all its GPUs together; a service takes its
// GPU back from an offline job.
func TestGangAndService(t *testing.T) {
	cfg := world(box(t, 3), nil)
	run := simtest.Go(t, cfg,
		simtest.Job{Key: "a", GPUs: 1, Run: 2000, Spec: serves(0.2, 4)},
		simtest.Job{Key: "b", GPUs: 1, Run: 2000, Spec: serves(0.1, 4)},
		simtest.Job{Key: "alone", GPUs: 1, Run: 500, Spec: trains(0.9, 20)},
		simtest.Job{Key: "gang", At: 70, GPUs: 2, Run: 300, Spec: trains(0.5, 4)},
		simtest.Job{Key: "c", At: 100, GPUs: 1, Run: 100, Spec: serves(0.2, 4)})
	if run.Start("gang") != 70 || run.Start("c") != 100 || run.Record("alone").Preemptions != 1 || run.Start("alone") != 0 {
		t.Errorf("\n%s", strings.Join(run.Log, "\n"))
	}
}

// meter notes what services go through.
type meter struct {
	t    *rapid.T
	slow float64 // seconds that services took more than 1.2 times as long
	last time.Duration
	now  map[job.ID]bool
}

// Event implements engine.Sink.
func (m *meter) Event(ev *eventlog.Event, s *state.State) {
	for range m.now {
		m.slow += (s.Now - m.last).Seconds()
	}
	m.last = s.Now
	if ev.Job >= 0 && ev.Kind == eventlog.Evict && s.Record(ev.Job).Job.Kind == job.Inference {
		m.t.Fatalf("service %s was thrown off: %v", s.Record(ev.Job).Job.Key, ev.Reason)
	}
	m.now = map[job.ID]bool{}
	for i := range s.Running(0).All() {
		if r := s.Record(job.ID(i)); r.Job.Kind == job.Inference && r.Phase == job.Running && r.Speed < 1/1.2 {
			m.now[job.ID(i)] = true
		}
	}
}

// TestProtects: whatever services and jobs use, no service is thrown off, runs out of
// memory, moves, or is stopped, all jobs end, and no service is slow for longer than it
// takes to notice.
func TestProtects(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var jobs []simtest.Job
		for i := range rapid.IntRange(1, 4).Draw(t, "services") {
			jobs = append(jobs, simtest.Job{Key: "s" + string(rune('0'+i)), GPUs: 1, Run: 3000, Spec: serves(float64(rapid.IntRange(1, 9).Draw(t, "use"))/10, unit.Bytes(rapid.IntRange(1, 30).Draw(t, "memory")))})
		}
		for i := range rapid.IntRange(0, 8).Draw(t, "jobs") {
			gib := unit.Bytes(rapid.IntRange(1, 14).Draw(t, "memory"))
			jobs = append(jobs, simtest.Job{
				Key: "j" + string(rune('0'+i)), At: float64(50 * i), GPUs: rapid.SampledFrom([]int{1, 1, 1, 2}).Draw(t, "GPUs"), Run: float64(rapid.IntRange(10, 1000).Draw(t, "run")),
				Spec: trains(float64(rapid.IntRange(1, 10).Draw(t, "use"))/10, gib), GPUMemory: gib * 5 / 4 * unit.GiB,
			})
		}
		watch := &meter{t: t}
		set := rapid.SampledFrom([]map[string]string{nil, nil, {"round": "1m", "gain": "0.05", "change": "100"}, {"match": "greedy", "fixed": "0.3"}}).Draw(t, "settings")
		cfg := world(box(t, 4), peaks{[]time.Duration{300 * time.Second, 700 * time.Second, 1500 * time.Second}, rapid.Float64Range(1, 4).Draw(t, "spike")})
		cfg.Make = built(set)
		cfg.Sinks = append(cfg.Sinks, watch)
		run, err := simtest.Try(cfg, jobs...)
		if err != nil {
			t.Fatalf("%v\n%s", err, strings.Join(run.Log, "\n"))
		}
		for i := range run.State.Jobs() {
			r := run.State.Record(job.ID(i))
			if !r.Phase.Over() || r.Job.Kind == job.Inference && r.Preemptions+r.Migrations > 0 {
				t.Fatalf("job %s is %v, stopped %d times, moved %d times\n%s", r.Job.Key, r.Phase, r.Preemptions, r.Migrations, strings.Join(run.Log, "\n"))
			}
		}
		if watch.slow > 1 {
			t.Fatalf("services were slow for %v s\n%s", watch.slow, strings.Join(run.Log, "\n"))
		}
		cfg.Sinks = nil
		cfg.Cluster, cfg.Restart, cfg.Seed = box(t, 4), true, rapid.Uint64Range(0, 1000).Draw(t, "seed")
		again, err := simtest.Try(cfg, jobs...)
		if err != nil {
			t.Fatal(err)
		}
		if a, b := logOf(run), logOf(again); a != b {
			t.Fatalf("a policy that starts anew decides otherwise:\n%s\n---\n%s", a, b)
		}
	})
}

// logOf is the lines of a log but for the reasons given to jobs that wait.
func logOf(r *simtest.Run) string {
	return strings.Join(slices.DeleteFunc(slices.Clone(r.Log), func(line string) bool { return strings.Contains(line, " wait ") }), "\n")
}

// TestRandomWorlds runs the policy over random worlds without services (see TestProtects
// for those with).
func TestRandomWorlds(t *testing.T) {
	longtest.Skip(t)
	for name, set := range map[string]map[string]string{
		"defaults": {"init": "5s"},
		"greedy":   {"match": "greedy", "fixed": "0.5", "round": "20s", "init": "0s", "cool": "10s"},
		"moving":   {"round": "10s", "init": "5s", "least": "0", "gain": "0.01", "change": "100"},
	} {
		for shape, s := range map[string]simtest.Shape{
			"packed": {Packed: true, Tenants: true}, "types": {Packed: true, Types: true, Costs: true}, "operated": {Packed: true, Operated: true, Costs: true},
			"failures": {Failures: true, Operated: true}, "parts": {Parts: true}, "pools": {Pools: true},
		} {
			s.Shared = true
			t.Run(name+"/"+shape, func(t *testing.T) { simtest.Properties(t, s, built(set)) })
		}
	}
}
