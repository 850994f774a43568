package ymir

import (
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/norn-scheduler/norn/engine"
	"github.com/norn-scheduler/norn/eventlog"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/sched"
	"github.com/norn-scheduler/norn/sim"
	"github.com/norn-scheduler/norn/sim/simtest"
	"github.com/norn-scheduler/norn/state"
	"github.com/norn-scheduler/norn/tenant"
)

// tune is a fine-tuning job of 1 to most GPUs, that asks for 1.
func tune(key string, at, run float64, backbone, data string, most int) simtest.Job {
	d := job.GPUs(1)
	d.Roles[0].Min, d.Roles[0].Max = 1, int32(most)
	return simtest.Job{Key: key, At: at, Run: run, Demand: &d, Spec: func(j *job.Job) {
		j.Kind, j.Backbone, j.Dataset, j.Batch, j.Units, j.Unit = job.FineTuning, backbone, data, 32, 4, "epochs"
	}}
}

// with makes a policy with settings.
func with(t testing.TB, set ...string) func() (sched.Policy, error) {
	t.Helper()
	return func() (sched.Policy, error) {
		c := NewConfig()
		for _, s := range set {
			k, v, _ := strings.Cut(s, "=")
			if err := c.Params().Set(k, v); err != nil {
				return nil, err
			}
		}
		return c.Policy()
	}
}

// linear are speeds in proportion to the number of GPUs.
var linear = perf.Analytic{Scaling: 1, Spread: 1}

// learn is what data sets give each other.
func learn(gains ...perf.Gain) func(*sim.Config) {
	return func(c *sim.Config) { c.Transfer = perf.NewGains(nil, gains) }
}

func gain(from, to string, after, together float64) perf.Gain {
	return perf.Gain{From: perf.Task{Backbone: "vit", Dataset: from}, To: perf.Task{Backbone: "vit", Dataset: to}, After: after, Together: together}
}

func line(t *testing.T, run *simtest.Run, part string) {
	t.Helper()
	for _, l := range run.Log {
		if strings.Contains(l, part) {
			return
		}
	}
	t.Errorf("%q is not in\n%s", part, strings.Join(run.Log, "\n"))
}

func near(t *testing.T, what string, got, want float64) {
	t.Helper()
	if math.Abs(got-want) > 0.01 {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

// TestChoosesTheBestMode is acceptance 3 of the specification in a run: TA = 600,
// TB = 400, after A B takes 240, after B A takes 300, together both take 500: they
// are trained together. Without the spatial mode B goes first; without any they run
// one after the other on the one GPU, the shorter first.
func TestChoosesTheBestMode(t *testing.T) {
	// Together takes the passes of the longer one over both sets: 600/g x 2 for equal
	// sets, so that 500 is a gain of 2.4 for A; B needs no more of them.
	world := learn(gain("a", "b", 400./240, 2.4), gain("b", "a", 2, 2.4))
	jobs := []simtest.Job{tune("a", 0, 600, "vit", "a", 1), tune("b", 0, 400, "vit", "b", 1)}
	go_ := func(set ...string) *simtest.Run {
		return simtest.Go(t, simtest.Config{Cluster: simtest.Nodes(1, 1), Shared: true, Model: linear, Speeds: linear, World: world, Make: with(t, append(set, "profile=0s")...)}, jobs...)
	}
	run := go_()
	near(t, "a, together", run.End("a"), 500)
	near(t, "b, together", run.End("b"), 500)
	run = go_("merge=temporal")
	near(t, "b, first", run.End("b"), 400)
	near(t, "a, after b", run.End("a"), 400+300)
	if r := run.Record("a"); r.Merged != job.After || r.With != 1 {
		t.Errorf("a is trained %v with %d", r.Merged, r.With)
	}
	run = go_("merge=none")
	near(t, "b, alone", run.End("b"), 400)
	if end := run.End("a"); end < 1000 || end > 1000+30 {
		t.Errorf("a, alone, ends at %v; it is started at the next division after 400", end)
	}
}

// TestMeasuredFirst: a job is measured for a minute on one GPU, evaluated for ten
// seconds, and started at the next multiple of the gap.
func TestMeasuredFirst(t *testing.T) {
	run := simtest.Go(t, simtest.Config{Cluster: simtest.Nodes(1, 4), Model: linear, Speeds: linear, Make: with(t)}, tune("a", 5, 400, "vit", "a", 4))
	line(t, run, "start a on n0[0]")
	near(t, "start", run.Start("a"), 90)
	near(t, "end", run.End("a"), 190) // on 4 GPUs
	line(t, run, "65 preempt a")
	if run.Record("a").Preemptions != 0 {
		t.Error("a measurement counts as a run")
	}
}

// unprofiled is a world in which nothing can be measured apart from running.
type unprofiled struct{ engine.World }

// TestNowhereMeasured: where nothing can be measured, as on a live machine, jobs are
// taken as they are told: they start at the next division, on all GPUs, and are merged.
func TestNowhereMeasured(t *testing.T) {
	jobs := []simtest.Job{tune("a", 5, 600, "vit", "a", 1), tune("b", 5, 400, "vit", "b", 1)}
	p, err := with(t, "merge=temporal")()
	if err != nil {
		t.Fatal(err)
	}
	cfg := sim.Config{Source: simtest.Source(jobs), Model: linear}
	learn(gain("a", "b", 400./240, 2.4), gain("b", "a", 2, 2.4))(&cfg)
	w := sim.New(cfg)
	e := engine.New(engine.Config{Cluster: simtest.Nodes(1, 1), Policy: p, PolicyName: "ymir", Estimator: w.Oracle(), Speeds: linear, Transfer: cfg.Transfer}, unprofiled{w})
	if err := w.Attach(e.State()); err != nil {
		t.Fatal(err)
	}
	if err := e.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	b, a := e.State().Record(1), e.State().Record(0)
	if b.FirstStart != 30*time.Second || a.Merged != job.After || a.End != (30+400+300)*time.Second {
		t.Errorf("b starts at %v; a is trained %v and ends at %v", b.FirstStart, a.Merged, a.End)
	}
}

// TestOnlyEveryInterval: without onevent, the first division after it is that of
// the interval.
func TestOnlyEveryInterval(t *testing.T) {
	run := simtest.Go(t, simtest.Config{Cluster: simtest.Nodes(1, 4), Model: linear, Speeds: linear, Make: with(t, "onevent=false")}, tune("a", 5, 400, "vit", "a", 4))
	near(t, "start", run.Start("a"), 120)
}

// TestWarm is acceptance 6: back-to-back jobs of one backbone on one GPU pay what a
// warm runtime costs from the second start on, another backbone pays the cold one.
func TestWarm(t *testing.T) {
	costs := perf.Costs{Switch: map[string]perf.Switch{"vit": {Cold: 46 * time.Second, Warm: 3 * time.Second}, "bert": {Cold: 52 * time.Second, Warm: 4 * time.Second}}}
	run := simtest.Go(t, simtest.Config{Cluster: simtest.Nodes(1, 1), Model: linear, Speeds: linear, Costs: costs, Make: with(t, "profile=0s", "gap=1s", "interval=1s", "merge=none")},
		tune("a", 0.5, 10, "vit", "a", 1), tune("b", 10, 10, "vit", "b", 1), tune("c", 100, 10, "bert", "c", 1))
	near(t, "a", run.End("a"), 1+46+10)
	near(t, "b", run.End("b"), 57+3+10)
	near(t, "c", run.End("c"), 100+52+10)
}

// TestGuard: a pair that was believed to gain and does not is split after two
// epochs, not merged again, and its jobs end.
func TestGuard(t *testing.T) {
	lie := perf.NewGains(nil, []perf.Gain{gain("a", "b", 3, 1), gain("b", "a", 1, 1)})
	cfg := simtest.Config{
		Cluster: simtest.Nodes(1, 1), Shared: true, Model: linear, Speeds: linear, Make: with(t, "profile=0s", "merge=temporal"),
		World: func(c *sim.Config) { c.Transfer = wrong{lie, 0.5} },
	}
	jobs := []simtest.Job{tune("a", 0, 100, "vit", "a", 1), tune("b", 0, 400, "vit", "b", 1)}
	run := simtest.Go(t, cfg, jobs...)
	// b starts at 100, at half its speed. 2 of its 4 epochs, without the gain, are
	// 100 seconds of its work less: it has gone through them after 200 s.
	line(t, run, "merge b")
	if r := run.Record("b"); r.Merged != job.Apart {
		t.Errorf("b is still trained %v", r.Merged)
	}
	if end := run.End("b"); end < 100+200+400-1 || end > 100+200+400+60 {
		t.Errorf("b ends at %v", end)
	}
	cfg.Make = with(t, "profile=0s", "merge=temporal", "guard=inf")
	cfg.Cluster = simtest.Nodes(1, 1)
	near(t, "without a guard", simtest.Go(t, cfg, jobs...).End("b"), 100+800)
}

// TestBans: two jobs that were believed to gain from being trained together and do not are
// split after two epochs, and not merged again.
func TestBans(t *testing.T) {
	lie := perf.NewGains(nil, []perf.Gain{gain("a", "b", 1, 3), gain("b", "a", 1, 3)})
	run := simtest.Go(t, simtest.Config{
		Cluster: simtest.Nodes(1, 1), Shared: true, Model: linear, Speeds: linear, Make: with(t, "profile=0s", "merge=spatial"),
		World: func(c *sim.Config) { c.Transfer = wrongTogether{lie, 0.4} },
	}, tune("a", 0, 400, "vit", "a", 1), tune("b", 0, 400, "vit", "b", 1))
	log := strings.Join(run.Log, "\n")
	if m, n := strings.Count(log, "merge a together b"), strings.Count(log, "merge a apart"); m != 1 || n != 1 {
		t.Errorf("merged %d times and split %d times, want once each\n%s", m, n, log)
	}
	if !strings.Contains(log, `"bans":[{"job":1}]`) || !strings.Contains(log, `"bans":[{"job":0}]`) {
		t.Errorf("it is not remembered of both that they must not go together\n%s", log)
	}
}

// wrongTogether is a Transfer that is true for the policy's belief, and wrong in the world
// for jobs that are trained together.
type wrongTogether struct {
	*perf.Gains
	really float64
}

// Together is what really happens; the policy looks tasks up in the table.
func (w wrongTogether) Together(*job.Job, *job.Job, [2]time.Duration) (fa, fb float64) {
	return w.really, w.really
}

// TestNote: what is noted on a job is read again as it was.
func TestNote(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		moment := func(name string) time.Duration { return time.Duration(rapid.Int64Range(-1, 1<<60).Draw(t, name)) }
		n := note{ready: moment("ready"), divided: moment("divided"), factor: rapid.Float64Range(0, 10).Draw(t, "factor")}
		for range rapid.IntRange(0, 3).Draw(t, "bans") {
			n.bans = append(n.bans, job.ID(rapid.Int32Min(-1).Draw(t, "job")))
		}
		if got, _ := sched.Recall[note](simtest.Noted(t, &n)); !reflect.DeepEqual(got, n) {
			t.Fatalf("%+v is read as %+v", n, got)
		}
	})
}

// TestForeignNote: what another policy remembered of a job does not keep it from being
// measured.
func TestForeignNote(t *testing.T) {
	tagged := func() (sched.Policy, error) {
		p, err := with(t)()
		return &tagging{Policy: p}, err
	}
	run := simtest.Go(t, simtest.Config{Cluster: simtest.Nodes(1, 4), Model: linear, Speeds: linear, Make: tagged}, tune("a", 0, 400, "vit", "a", 4))
	if s := run.Start("a"); s != 90 && s != 120 {
		t.Errorf("it starts at %v", s)
	}
}

// tagging is a policy before which another one has remembered something of each job.
type tagging struct {
	sched.Policy
	done bool
}

// Decide remembers, the first time.
func (g *tagging) Decide(v *sched.View, p *sched.Plan) {
	if !g.done {
		g.done = true
		for j := range v.Waiting() {
			p.Remember(j.ID, &foreign{})
		}
		return
	}
	g.Policy.Decide(v, p)
}

// foreign is a note of another policy with a field that one of this policy has, too.
type foreign struct{}

func (*foreign) Kind() string { return "foreign" }

func (*foreign) Fields(f *sched.Fields) {
	ready := 1000 * time.Hour
	f.Moment("ready", &ready)
}

// NextWake is soon.
func (g *tagging) NextWake(v *sched.View) time.Duration {
	return min(v.Now+time.Second, g.Policy.(sched.Waker).NextWake(v))
}

// TestUnknownFirst: a job that goes on from one that is not known any more is taken to be
// as much faster as it was when they were merged.
func TestUnknownFirst(t *testing.T) {
	p, err := with(t, "profile=0s")()
	if err != nil {
		t.Fatal(err)
	}
	noted, err := sched.Written(&note{ready: -1, divided: -1, factor: 2})
	if err != nil {
		t.Fatal(err)
	}
	s := state.New(simtest.Nodes(1, 1), tenant.NewTree(time.Minute))
	var spec job.Job
	spec.Key, spec.Demand = "b", tune("b", 0, 0, "", "", 1).Demand
	tune("b", 0, 0, "vit", "b", 1).Spec(&spec)
	past := job.Record{Phase: job.Waiting, Merged: job.After, With: job.None, FirstStart: -1, Note: noted}
	if err := s.Carry(&spec, &past, nil, 400*time.Second, job.Reason{Job: job.None}); err != nil {
		t.Fatal(err)
	}
	v := sched.NewView(s, nil, false)
	v.First, v.All, v.Costs, v.Speeds, v.Transfer = true, true, &perf.Costs{}, linear, perf.NewGains(nil, nil)
	var plan sched.Plan
	plan.Open(&v)
	p.Decide(&v, &plan)
	if err := plan.Err(); err != nil || plan.Alloc(0) == nil {
		t.Errorf("it is not started: %v", err)
	}
	sv := &solve{y: p.(*policy), v: &v, sizes: []int{1}}
	if got := sv.task(v.Job(0), 1); got.rate != 2 {
		t.Errorf("it is taken to be %v times as fast, want 2", got.rate)
	}
}

// wrong is a Transfer that is true for the policy's belief and wrong in the world: a
// run has one, so the belief is that of its first calls, before anybody runs.
type wrong struct {
	*perf.Gains
	really float64
}

// After is what really happens; the policy looks tasks up in the table.
func (w wrong) After(*job.Job, *job.Job) float64 { return w.really }

// TestFollowerOfAFailedJob: who was to go on from a job that is cancelled starts from
// the backbone.
func TestFollowerOfAFailedJob(t *testing.T) {
	run := simtest.Go(t, simtest.Config{
		Cluster: simtest.Nodes(1, 1), Shared: true, Model: linear, Speeds: linear, Make: with(t, "profile=0s"),
		World: func(c *sim.Config) {
			learn(gain("a", "b", 4, 1))(c)
			c.Script = append(c.Script, eventlog.Event{Time: 150 * time.Second, Kind: eventlog.Cancel, Job: 0})
		},
	}, tune("a", 0, 200, "vit", "a", 1), tune("b", 0, 300, "vit", "b", 1))
	if r := run.Record("b"); r.Merged != job.Apart || run.End("b") < 450 || run.End("b") > 480 {
		t.Errorf("b is trained %v and ends at %v", r.Merged, run.End("b"))
	}
}

// TestQuotas: GPUs are divided among backbones in proportion to the work that is
// left.
func TestQuotas(t *testing.T) {
	run := simtest.Go(t, simtest.Config{Cluster: simtest.Nodes(4, 4), Model: linear, Speeds: linear, Make: with(t, "profile=0s", "merge=none")},
		tune("a", 0, 3000, "vit", "a", 16), tune("b", 0, 1000, "bert", "b", 16))
	line(t, run, "0 start a on n0[0-3]+n1[0-3]+n2[0-3]")
	line(t, run, "0 start b on n3[0-3]")
}

// world is a random workload on a random cluster.
func world(t *rapid.T) (cfg simtest.Config, jobs []simtest.Job) {
	sets := []string{"a", "b", "c"}
	var gains []perf.Gain
	for _, backbone := range []string{"vit", "bert"} {
		for _, a := range sets {
			for _, b := range sets {
				f := func(name string) float64 { return float64(rapid.IntRange(5, 40).Draw(t, name)) / 10 }
				gains = append(gains, perf.Gain{From: perf.Task{Backbone: backbone, Dataset: a}, To: perf.Task{Backbone: backbone, Dataset: b}, After: f("after"), Together: f("together")})
			}
		}
	}
	table := perf.NewGains(nil, gains)
	at := 0.0
	for i := range rapid.IntRange(1, 12).Draw(t, "jobs") {
		at += float64(rapid.IntRange(0, 8).Draw(t, "gap")) * 10
		jobs = append(jobs, tune(fmt.Sprint("j", i), at, float64(rapid.IntRange(1, 60).Draw(t, "run"))*10,
			rapid.SampledFrom([]string{"vit", "vit", "bert"}).Draw(t, "backbone"), rapid.SampledFrom(sets).Draw(t, "set"), rapid.SampledFrom([]int{1, 4, 8}).Draw(t, "most")))
	}
	model := perf.Analytic{Scaling: 0.8, Spread: 0.9}
	failures := rapid.Bool().Draw(t, "failures")
	lies := rapid.Bool().Draw(t, "lies")
	cfg = simtest.Config{
		Shared: true, Model: model, Speeds: model, Seed: rapid.Uint64Range(0, 1000).Draw(t, "seed"),
		Costs: perf.Costs{Switch: map[string]perf.Switch{"vit": {Cold: 20 * time.Second, Warm: 2 * time.Second}}},
		World: func(c *sim.Config) {
			c.Transfer = table
			if lies {
				c.Transfer = wrong{table, 0.7}
			}
			if failures {
				c.NodeMTBF, c.NodeRepair, c.JobMTBF, c.Snapshot = 900*time.Second, 60*time.Second, 600*time.Second, 30*time.Second
			}
		},
	}
	return cfg, jobs
}

// TestProperties: over random workloads what is planned can be, every job ends, and
// a policy that starts anew at random moments decides the same.
func TestProperties(t *testing.T) {
	for _, set := range [][]string{nil, {"merge=temporal", "exact=0"}, {"merge=spatial", "profile=0s"}, {"noise-gain=0.4", "noise-iterations=0.4", "noise-speed=0.4", "onevent=false"}, {"objective=literal-max"}} {
		t.Run(strings.Join(set, ","), func(t *testing.T) {
			rapid.Check(t, func(r *rapid.T) {
				cfg, jobs := world(r)
				cfg.Make = with(t, set...)
				nodes := rapid.IntRange(1, 4).Draw(r, "nodes")
				var logs [2][]string
				for i := range logs {
					cfg.Cluster, cfg.Restart = simtest.Nodes(nodes, 4), i == 1
					run, err := simtest.Try(cfg, jobs...)
					if err != nil {
						r.Fatalf("restarts %v: %v\n%s", cfg.Restart, err, strings.Join(run.Log, "\n"))
					}
					for k := range jobs {
						if p := run.Record(jobs[k].Key).Phase; !p.Over() {
							r.Fatalf("job %s is left %v\n%s", jobs[k].Key, p, strings.Join(run.Log, "\n"))
						}
					}
					if twice := inTwoPairs(run, jobs); twice != "" {
						r.Fatalf("job %s is in two pairs\n%s", twice, strings.Join(run.Log, "\n"))
					}
					for _, l := range run.Log {
						if !strings.Contains(l, " wait ") {
							logs[i] = append(logs[i], l)
						}
					}
				}
				for i := range logs[0] {
					if i >= len(logs[1]) || logs[0][i] != logs[1][i] {
						r.Fatalf("it decides otherwise after a restart, from line %d on:\n%s\n---\n%s", i, strings.Join(logs[0], "\n"), strings.Join(logs[1], "\n"))
					}
				}
			})
		})
	}
}

// inTwoPairs finds a job that is in more than one pair, as far as that is to be seen
// in the end: at most two tasks merge.
func inTwoPairs(run *simtest.Run, jobs []simtest.Job) string {
	pairs := map[job.ID]int{}
	for i := range jobs {
		r := run.Record(jobs[i].Key)
		if r.Merged == job.After {
			pairs[r.Job.ID]++
			pairs[r.With]++
		} else if r.Merged == job.Together {
			pairs[r.Job.ID]++
		}
	}
	for i := range jobs {
		if pairs[run.Record(jobs[i].Key).Job.ID] > 1 {
			return jobs[i].Key
		}
	}
	return ""
}

// TestRefuses: settings that make no sense are errors.
func TestRefuses(t *testing.T) {
	for _, set := range []string{"gap=50s", "interval=0s", "profile=-1s", "latency=never", "gap=never", "interval=never"} {
		if _, err := with(t, set)(); err == nil {
			t.Errorf("%s was accepted", set)
		}
	}
}

// TestSizes: whole nodes from the size of a node on.
func TestSizes(t *testing.T) {
	if got := fmt.Sprint(sizesOf(14, 4, nil)); got != "[1 2 3 4 8 12]" {
		t.Errorf("%s", got)
	}
	if roundUp([]int{1, 2, 3, 4, 8}, 5) != 4 || roundUp([]int{1, 2}, 9) != 1 {
		t.Error("a fair share is rounded up to a size")
	}
}
