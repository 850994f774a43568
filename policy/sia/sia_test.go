package sia

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/engine"
	"github.com/norn-scheduler/norn/eventlog"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/policy/kit/resize"
	"github.com/norn-scheduler/norn/sched"
	"github.com/norn-scheduler/norn/sim"
	"github.com/norn-scheduler/norn/sim/simtest"
	"github.com/norn-scheduler/norn/state"
	"github.com/norn-scheduler/norn/trace"
)

// elastic is a job that runs with least to most tasks and asks for some.
func elastic(key string, at float64, least, asked, most int, run float64) simtest.Job {
	d := job.GPUs(asked)
	d.Roles[0].Min, d.Roles[0].Max = int32(least), int32(most)
	return simtest.Job{Key: key, At: at, Demand: &d, Run: run, Model: key[:1]}
}

// scaling is the goodput of a job whose passes take so many times as long as on the
// slowest type.
func scaling(noise, slow float64) perf.Goodput {
	return perf.Goodput{
		Time:    perf.StepTime{Grad: 0.05 * slow, GradEach: 0.001 * slow, Local: 1e-3, LocalEach: 1e-5, Node: 0.1, NodeEach: 1e-3, Overlap: 1},
		Noise:   perf.Noise{Sqr: 1, Var: noise},
		Batches: perf.Batches{First: 64, Most: 4096, LocalMin: 8, LocalMost: 128, Accumulate: true},
	}
}

// speeds are those of jobs whose names begin with n, with noisy gradients, which gain
// from larger batches, and with q. On type fast n is four times as fast as on slow, and q
// hardly faster.
func speeds() *perf.Adaptive {
	m := perf.NewAdaptive(map[string]perf.Goodput{"n": scaling(1000, 1), "q": scaling(0.5, 1)})
	m.Measured("fast", map[string]perf.Goodput{"n": scaling(1000, 0.25), "q": scaling(0.5, 0.9)})
	return m
}

// group is so many nodes of a type.
type group struct {
	typ         string
	nodes, gpus int
}

func machines(groups ...group) *cluster.Cluster {
	c := cluster.New()
	for _, g := range groups {
		t, err := c.AddType(cluster.GPUType{Name: g.typ})
		if err != nil {
			panic(err)
		}
		for range g.nodes {
			if _, err := c.AddNode(cluster.NodeSpec{GPUs: []cluster.GPUs{{Type: t, Count: g.gpus}}}); err != nil {
				panic(err)
			}
		}
	}
	return c
}

func config(c *cluster.Cluster, change func(*Config)) simtest.Config {
	m := speeds()
	return simtest.Config{Cluster: c, Model: m, Speeds: m, Seed: 3, Make: func() (sched.Policy, error) {
		c := NewConfig()
		if change != nil {
			change(c)
		}
		return c.Policy()
	}}
}

// held notes what a job has from when on: tasks and type.
type held struct {
	of   map[string][]string
	each func(ev *eventlog.Event, s *state.State)
}

func (n *held) Event(ev *eventlog.Event, s *state.State) {
	if n.of == nil {
		n.of = map[string][]string{}
	}
	if ev.Alloc != nil {
		key := s.Record(ev.Job).Job.Key
		on := s.Cluster.Type(s.Cluster.TypeOf(ev.Alloc.Shares[0].Device)).Name
		n.of[key] = append(n.of[key], fmt.Sprintf("%v:%d %s", ev.Time, ev.Alloc.Tasks(0), on))
	}
	if n.each != nil {
		n.each(ev, s)
	}
}

func holding(t *testing.T, cfg simtest.Config, jobs ...simtest.Job) map[string][]string {
	t.Helper()
	var n held
	cfg.Sinks = append(cfg.Sinks, &n)
	simtest.Go(t, cfg, jobs...)
	return n.of
}

func begins(t *testing.T, got []string, want ...string) {
	t.Helper()
	if len(got) < len(want) || !slices.Equal(got[:len(want)], want) {
		t.Errorf("it has %q, want %q at first", got, want)
	}
}

// A job by itself begins with its least size on the GPUs on which it is fastest, and gets
// at most twice as many at a round.
func TestExplores(t *testing.T) {
	c := func() *cluster.Cluster { return machines(group{"slow", 4, 4}, group{"fast", 1, 4}) }
	got := holding(t, config(c(), nil), elastic("n", 1, 1, 4, 16, 8000))
	begins(t, got["n"], "1m0s:1 fast", "2m0s:2 fast", "3m0s:4 fast")
	got = holding(t, config(c(), func(c *Config) { c.Explore = 0 }), elastic("n", 1, 1, 4, 4, 3000))
	begins(t, got["n"], "1m0s:4 fast")
}

// The one who gains from fast GPUs gets them, whoever came first.
func TestTypes(t *testing.T) {
	got := holding(t, config(machines(group{"slow", 1, 1}, group{"fast", 1, 1}), nil), elastic("q", 0, 1, 1, 1, 600), elastic("n", 1, 1, 1, 1, 4000))
	begins(t, got["n"], "1m0s:1 fast")
	begins(t, got["q"], "0s:1 fast", "1m0s:1 slow")
}

// A rigid job has its size on every type, and of that the type is chosen. It is told no
// batch.
func TestRigid(t *testing.T) {
	n := held{each: func(ev *eventlog.Event, s *state.State) {
		if ev.Alloc != nil && s.Record(ev.Job).Config.Chosen.Batch != 0 {
			t.Errorf("it is told a batch of %d", s.Record(ev.Job).Config.Chosen.Batch)
		}
	}}
	cfg := config(machines(group{"slow", 2, 4}, group{"fast", 2, 4}), nil)
	cfg.Sinks = []engine.Sink{&n}
	d := job.GPUs(6)
	simtest.Go(t, cfg, simtest.Job{Key: "n", Demand: &d, Run: 500, Model: "n"})
	begins(t, n.of["n"], "0s:6 fast")
}

// TestHybrid is the second half of acceptance 6: a job whose replicas have two GPUs each
// runs on even numbers of them alone.
func TestHybrid(t *testing.T) {
	d := job.GPUs(1)
	d.Roles[0].GPU, d.Roles[0].Min, d.Roles[0].Max = 2000, 1, 8
	model := perf.Analytic{Scaling: 0.9, Spread: 1}
	cfg := config(machines(group{"slow", 2, 4}), nil)
	cfg.Model, cfg.Speeds = model, model
	got := holding(t, cfg, simtest.Job{Key: "p", Demand: &d, Run: 4000})
	begins(t, got["p"], "0s:1 slow", "1m0s:2 slow", "2m0s:4 slow")
}

// TestBootstrap is acceptance 4: 10 examples in a second on A and 25 on B; without
// exchange 20 on two of A; when four of A were seen to have 32, four of B are taken to
// have 80.
func TestBootstrap(t *testing.T) {
	on := func(pass, exchange float64) resize.Goodput {
		return resize.Goodput{Goodput: perf.Goodput{
			Time:    perf.StepTime{Grad: pass, Local: exchange, Overlap: 1},
			Noise:   perf.Noise{Var: 1}, // whatever the batch, each example is worth as much
			Batches: perf.Batches{First: 10, Most: 1000, LocalMin: 10, LocalMost: 10, Accumulate: true},
		}}
	}
	m := model{types: []typed{{goodput: on(1, 1e-8), ok: true}, {goodput: on(0.4, 1e-8), ok: true}, {}}}
	if got := m.value(0, 2, false, 20); math.Abs(got-20) > 1e-6 {
		t.Errorf("two of A have %v", got)
	}
	m.types[0] = typed{goodput: on(1, 0.25), ok: true, several: true, node: 4}
	for gpus, want := range map[int]float64{1: 25, 4: 80} {
		if got := m.value(1, gpus, false, 10*gpus); math.Abs(got-want) > 1e-6 {
			t.Errorf("%d of B have %v, want %v", gpus, got, want)
		}
	}
	if got := m.value(2, 1, false, 10); got != Unknown {
		t.Errorf("on a type of which nothing is known it has %v", got)
	}
	m.types[1].several = true // its own runs count from then on
	if got := m.value(1, 4, false, 40); math.Abs(got-100) > 1e-3 {
		t.Errorf("four of B, seen, have %v", got)
	}
}

// Knowledge of a job before it has run: with no profiles one type is as good as another,
// with all of them everything is known.
func TestProfiles(t *testing.T) {
	c := func() *cluster.Cluster { return machines(group{"slow", 1, 4}, group{"fast", 1, 4}) }
	got := holding(t, config(c(), func(c *Config) { c.Profiles = Nothing }), elastic("n", 0, 1, 4, 4, 2000))
	begins(t, got["n"], "0s:1 slow", "1m0s:2 slow")
	got = holding(t, config(c(), func(c *Config) { c.Profiles, c.Explore = Oracle, 0 }), elastic("n", 0, 1, 4, 8, 2000))
	begins(t, got["n"], "0s:4 fast")
}

// The note keeps what is remembered.
func TestNote(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := note{restarts: rapid.IntRange(0, 1<<30).Draw(t, "restarts")}
		largest := 0
		for range rapid.IntRange(0, 6).Draw(t, "sizes") {
			tasks := rapid.IntRange(1, 64).Draw(t, "tasks")
			spread := tasks > 32 || rapid.Bool().Draw(t, "spread")
			m = m.with(rapid.SampledFrom([]string{"a", "b c"}).Draw(t, "on"), tasks, spread)
			largest = max(largest, tasks)
		}
		written, err := sched.Written(&m)
		if err != nil {
			t.Fatal(err)
		}
		if got, _ := sched.NoteOf[note](written); got.restarts != m.restarts || !slices.Equal(got.ran, m.ran) || got.largest() != largest {
			t.Fatalf("%+v became %+v; the largest was %d", m, got, largest)
		}
	})
}

// A job is told the batch that is best with the noise that it has reported, and another
// one when that has changed, without a restart; a job whose batch is fixed is told none.
func TestBatches(t *testing.T) {
	var told []int32
	n := held{each: func(ev *eventlog.Event, s *state.State) {
		if ev.Alloc != nil {
			told = append(told, s.Record(ev.Job).Config.Chosen.Batch)
		}
	}}
	run := func(adapts string) *job.Record {
		told = nil
		cfg := config(machines(group{"slow", 1, 1}), nil)
		cfg.Sinks = []engine.Sink{&n}
		j := elastic("n", 0, 1, 1, 2, 3000)
		j.Course = []trace.Turn{{Reported: job.Reported{Noise: 1000}}, {From: 1500 * time.Second, Reported: job.Reported{Noise: 100000}}}
		j.Spec = func(j *job.Job) { j.Batch, j.Hints = 256, &job.Hints{Adapts: adapts} }
		return simtest.Go(t, cfg, j).Record("n")
	}
	best := func(noise float64) int32 {
		g := scaling(1, 1).At(noise)
		b, _ := g.Best(1, false)
		return int32(b.Local * (b.Accum + 1))
	}
	r := run("")
	if want := []int32{64, best(1000), best(100000)}; !slices.Equal(told, want) || want[2] <= want[1] {
		t.Errorf("it is told batches of %v, want %v", told, want)
	}
	if r.Starts != 1 || r.Migrations+r.Resizes > 0 {
		t.Errorf("it starts %d times, moves %d times and is resized %d times for that", r.Starts, r.Migrations, r.Resizes)
	}
	if run(static); !slices.Equal(told, []int32{0}) {
		t.Errorf("a job with a fixed batch is told %v", told)
	}
}

// Equal jobs share the GPUs, and from then on nothing changes until one ends.
func TestSettles(t *testing.T) {
	run := simtest.Go(t, config(machines(group{"slow", 2, 2}), nil), elastic("q1", 0, 1, 2, 4, 4000), elastic("q2", 0, 1, 2, 4, 4000))
	for _, key := range []string{"q1", "q2"} {
		r := run.Record(key)
		if n := r.Resizes + r.Migrations + r.Preemptions; n > 3 {
			t.Errorf("%s was restarted %d times", key, n)
		}
	}
}

// A restart is paid back: with dear restarts the same jobs are restarted less often.
func TestDelayCounts(t *testing.T) {
	restarts := func(delay time.Duration) (n int32) {
		var jobs []simtest.Job
		for i := range 8 {
			jobs = append(jobs, elastic(fmt.Sprint([]string{"n", "q"}[i%2], i), float64(100*i), 1, 2, 8, 1500))
		}
		run := simtest.Go(t, config(machines(group{"slow", 1, 4}, group{"fast", 1, 4}), func(c *Config) { c.Delay = delay }), jobs...)
		for i := range jobs {
			r := run.Record(jobs[i].Key)
			n += r.Resizes + r.Migrations + r.Preemptions
		}
		return n
	}
	if dear, cheap := restarts(5*time.Minute), restarts(0); dear >= cheap {
		t.Errorf("%d restarts at 5 min each, %d at none", dear, cheap)
	}
}

// TestInvariants is acceptance 5 and the rules of placement, on random clusters with
// elastic jobs, some of which must not be stopped. A job has GPUs of one type alone. A
// part of a node is on one node, and what is larger is on whole ones. Nobody has more than
// twice what it has run with. A job that must not be stopped keeps its devices. A policy
// that is made anew at random moments decides the same.
func TestInvariants(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var jobs []simtest.Job
		for i := range rapid.IntRange(1, 7).Draw(t, "jobs") {
			name := rapid.SampledFrom([]string{"n", "q", "u"}).Draw(t, "model")
			most := 1 << rapid.IntRange(0, 4).Draw(t, "most")
			j := elastic(fmt.Sprint(name, i), float64(rapid.IntRange(0, 200).Draw(t, "at")), 1, rapid.IntRange(1, most).Draw(t, "asked"), most, float64(rapid.IntRange(1, 2000).Draw(t, "run")))
			if i > 0 {
				j.At += jobs[i-1].At
			}
			if rapid.IntRange(0, 4).Draw(t, "pinned") == 0 {
				j.Spec = func(j *job.Job) { j.Stop = job.Pinned }
			}
			jobs = append(jobs, j)
		}
		nodes, gpus := rapid.IntRange(1, 4).Draw(t, "nodes"), 1<<rapid.IntRange(0, 3).Draw(t, "gpus")
		fast := rapid.IntRange(0, 2).Draw(t, "fast")
		learns := rapid.Bool().Draw(t, "learns")
		profiles := rapid.SampledFrom([]Profiles{Bootstrap, Nothing, Oracle}).Draw(t, "profiles")
		var logs []string
		for _, restart := range []bool{false, true} {
			cfg := config(machines(group{"slow", nodes, gpus}, group{"fast", fast, 4}), func(c *Config) { c.Profiles = profiles })
			cfg.Costs = perf.Costs{Base: perf.Cost{Checkpoint: 5 * time.Second, Restore: 25 * time.Second, Resize: 30 * time.Second, Migrate: 30 * time.Second}}
			if learns {
				learning(&cfg, profiles)
			}
			w := watcher{t: t, largest: map[job.ID]int{}, pinned: map[job.ID]*cluster.Alloc{}}
			cfg.Sinks, cfg.Restart = []engine.Sink{&w}, restart
			run, err := simtest.Try(cfg, jobs...)
			if err != nil {
				t.Fatal(err)
			}
			for i := range jobs {
				if run.Record(jobs[i].Key).Phase != job.Done {
					t.Fatalf("job %s is %s", jobs[i].Key, run.Record(jobs[i].Key).Phase)
				}
			}
			lines := slices.DeleteFunc(run.Log, func(line string) bool { return strings.Contains(line, " wait ") })
			logs = append(logs, strings.Join(lines, "\n"))
		}
		if logs[0] != logs[1] {
			t.Fatalf("a policy that starts anew decides otherwise:\n%s\n---\n%s", logs[0], logs[1])
		}
	})
}

// ruler measures the steps of jobs as they are, but for a part of them.
type ruler struct {
	truth *perf.Adaptive
	off   float64
}

// Measure implements sim.Meter.
func (m ruler) Measure(l *sim.Look, to *perf.Reading) {
	if seen, ok := m.truth.Measures(l.Job, cluster.GPUType{Name: to.Setup.Type}, to.Setup.Tasks, to.Setup.Spread, to.Setup.Batch); ok {
		to.Add(Local, float64(seen.Local))
		to.Add(Pass, seen.Pass*(1+m.off))
		to.Add(Step, seen.Step*(1+m.off))
	}
}

// learning has a run measure steps, and the policy learn from that.
func learning(cfg *simtest.Config, profiles Profiles) {
	c := NewConfig()
	c.Profiles = profiles
	if c.Believer(perf.Prior{}) == nil {
		return
	}
	cfg.Believe = c.Believer
	cfg.World = func(w *sim.Config) { w.Meter = ruler{speeds(), 0.02} }
}

// A job gets twice as many GPUs once it was measured with as many as it has, which takes a
// minute; and explanations tell from what its goodputs were learnt.
func TestLearns(t *testing.T) {
	cfg := config(machines(group{"fast", 1, 4}), nil)
	learning(&cfg, Bootstrap)
	var of *believer
	make := cfg.Believe
	cfg.Believe = func(p perf.Prior) perf.Believer { of = make(p).(*believer); return of }
	begins(t, holding(t, cfg, elastic("n", 1, 1, 4, 4, 8000))["n"], "1m0s:1 fast", "2m0s:2 fast", "3m0s:4 fast")
	j := &job.Job{Demand: &job.Demand{}}
	if got := of.Grounds(j); len(got) != 1 || !strings.Contains(got[0], "configurations of fast") {
		t.Errorf("it is told from %q", got)
	}
	if times, gpus := of.known(j); times < 3 || gpus != 4 {
		t.Errorf("it was measured %d times, on up to %d GPUs", times, gpus)
	}
	for _, m := range of.seen(j, "fast") {
		want := speeds()
		seen, _ := want.ReportOn(&job.Job{Model: "n", Demand: new(job.Demand)}, machines(group{"fast", 1, 4}), 0, 1, false, m.Local)
		if math.Abs(m.Pass/seen.Pass-1.02) > 1e-9 {
			t.Errorf("passes of %d examples take %v, want 1.02 times %v", m.Local, m.Pass, seen.Pass)
		}
	}
}

// Readings that make no sense, or are no steps, teach nothing; measurements of one
// configuration are averaged.
func TestObserves(t *testing.T) {
	d := job.GPUs(2)
	j := &job.Job{ID: 4, Demand: &d}
	of := NewConfig().Believer(perf.Prior{Speeds: speeds()}).(*believer)
	look := func(local, pass, step float64) {
		m := perf.Reading{Setup: perf.Setup{Tasks: 2, Type: "fast"}}
		m.Add(Local, local)
		m.Add(Pass, pass)
		m.Add(Step, step)
		of.Observe(j, &m)
	}
	of.Observe(j, &perf.Reading{})
	look(0, 1, 1)
	look(8, 0, 1)
	look(8, 2, 1)
	if times, _ := of.known(j); times != 0 || of.Grounds(j) != nil {
		t.Errorf("%d measurements that make no sense were taken in", times)
	}
	look(8, 1, 2)
	look(8, 2, 4)
	if got := of.seen(j, "fast"); len(got) != 1 || got[0] != (perf.Measurement{Replicas: 2, Local: 8, Pass: 1.5, Step: 3}) {
		t.Errorf("it has seen %+v", got)
	}
	if got := of.seen(j, "slow"); got != nil {
		t.Errorf("on slow it has seen %+v", got)
	}
	if _, reports := NewConfig().Believer(perf.Prior{}).(perf.Typed); reports {
		t.Error("where no job reports it believes something of speeds")
	}
}

// TestLearntProperties: over random worlds every job ends, and a scheduler that starts again
// believes the same.
func TestLearntProperties(t *testing.T) {
	truth := perf.NewAdaptive(map[string]perf.Goodput{"vgg16": scaling(1000, 1), "resnet50": scaling(0.5, 1)})
	l := simtest.Learning{
		Meter:   ruler{truth, 0.02},
		Believe: func(p perf.Prior) perf.Believer { p.Speeds = truth; return NewConfig().Believer(p) },
		Build: func() (sched.Policy, error) {
			c := NewConfig()
			c.Interval = 10 * time.Second
			return c.Policy()
		},
	}
	for name, s := range map[string]simtest.Shape{"types": {Types: true, Costs: true}, "operated": {Costs: true, Operated: true}} {
		t.Run(name, func(t *testing.T) { l.Properties(t, s) })
	}
}

// watcher holds every allocation against the invariants.
type watcher struct {
	t       *rapid.T
	largest map[job.ID]int
	pinned  map[job.ID]*cluster.Alloc
}

func (w *watcher) Event(ev *eventlog.Event, s *state.State) {
	if ev.Alloc == nil {
		return
	}
	c, key := s.Cluster, s.Record(ev.Job).Job.Key
	k := ev.Alloc.Tasks(0)
	if most := max(1, 2*w.largest[ev.Job]); k > most {
		w.t.Fatalf("job %s has %d GPUs, at most %d may be", key, k, most)
	}
	w.largest[ev.Job] = max(w.largest[ev.Job], k)
	on := c.TypeOf(ev.Alloc.Shares[0].Device)
	for _, share := range ev.Alloc.Shares {
		if c.TypeOf(share.Device) != on {
			w.t.Fatalf("job %s has GPUs of several types", key)
		}
	}
	for _, p := range ev.Alloc.Pieces {
		if size := c.NodeGPUs(p.Node); int(p.Tasks) < min(k, size) {
			w.t.Fatalf("job %s has %d of %d GPUs on a node of %d", key, p.Tasks, k, size)
		}
	}
	if s.Record(ev.Job).Job.Stop == job.Pinned {
		if was := w.pinned[ev.Job]; was != nil && !slices.Equal(was.Pieces, ev.Alloc.Pieces) {
			w.t.Fatalf("job %s, which must not be stopped, was moved", key)
		}
		w.pinned[ev.Job] = new(cluster.Alloc)
		w.pinned[ev.Job].CopyFrom(ev.Alloc)
	}
}

// dice is the policy with configurations that are drawn instead of chosen, as many as fit
// by number.
type dice struct {
	*policy
	t *rapid.T
}

// Decide implements sched.Policy. Whatever is drawn finds a place, and who keeps what it
// has moves only where it makes room.
func (d dice) Decide(v *sched.View, p *sched.Plan) {
	if v.Now%d.cfg.Interval != 0 {
		d.rounds().Wait(v, p)
		return
	}
	r := round{o: d.policy, v: v, p: p}
	r.gather()
	if err := r.choose(); err != nil {
		d.t.Fatal(err)
	}
	var left []int
	for k := range r.kinds {
		left = append(left, r.kinds[k].Nodes*r.kinds[k].GPUs)
	}
	for i := range r.claims {
		c := &r.claims[i]
		c.pick = None
		n := rapid.IntRange(0, len(c.row.Options)-1).Draw(d.t, "configuration")
		if c.row.Now != None && rapid.Bool().Draw(d.t, "stays") {
			n = c.row.Now
		}
		if o := c.row.Options[n]; o.GPUs <= left[o.Kind] {
			c.pick, left[o.Kind] = n, left[o.Kind]-o.GPUs
		}
	}
	if !r.p.Try(func() bool { return r.place(true) }) {
		d.t.Fatalf("no placement of %+v", r.claims)
	}
	moved := 0
	for i := range r.claims {
		if c := &r.claims[i]; c.pick != None && c.pick == c.row.Now && !r.p.Alloc(c.j.ID).Equal(c.was) {
			moved++
		}
	}
	if r.put = map[cluster.GroupID][]int{}; moved > 0 && r.placedWithout() {
		d.t.Fatalf("%d moved for nothing", moved)
	}
	for i := range r.claims {
		if c := &r.claims[i]; r.p.Alloc(c.j.ID) != nil {
			r.tell(c)
		} else {
			r.hold(c)
		}
	}
}

// placedWithout tells whether everybody would have found a place if nobody had made room.
func (r *round) placedWithout() (all bool) {
	r.p.Try(func() bool {
		for i := range r.claims {
			if r.p.Alloc(r.claims[i].j.ID) != nil {
				r.p.Stop(r.claims[i].j.ID, job.Reason{Code: job.MakesRoom, Job: job.None})
			}
		}
		all = r.place(false)
		return false
	})
	return all
}

// TestEverythingIsPlaced is the property of placements of acceptance 5.
func TestEverythingIsPlaced(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cfg := config(machines(group{"slow", rapid.IntRange(1, 4).Draw(t, "slow"), 4}, group{"fast", rapid.IntRange(0, 3).Draw(t, "fast"), 8}), nil)
		cfg.Make = func() (sched.Policy, error) {
			c := NewConfig()
			c.Explore, c.Delay = 0, 0
			p, err := c.Policy()
			return dice{p.(*policy), t}, err
		}
		var jobs []simtest.Job
		for i := range rapid.IntRange(1, 12).Draw(t, "jobs") {
			jobs = append(jobs, elastic(fmt.Sprint("u", i), float64(60*rapid.IntRange(0, 5).Draw(t, "at")), 1, 1, 16, float64(rapid.IntRange(60, 600).Draw(t, "run"))))
		}
		slices.SortStableFunc(jobs, func(a, b simtest.Job) int { return int(a.At - b.At) })
		cfg.Unchecked = true
		if _, err := simtest.Try(cfg, jobs...); err != nil {
			t.Fatal(err)
		}
	})
}
