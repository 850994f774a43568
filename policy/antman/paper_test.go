package antman

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/eventlog"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/sim"
	"github.com/norn-scheduler/norn/sim/simtest"
	"github.com/norn-scheduler/norn/state"
	"github.com/norn-scheduler/norn/tenant"
)

// gpus is a cluster of nodes of so many GPUs with memory, and of nodes with memory.
func gpus(t interface{ Fatal(...any) }, nodes, each int, gib, host unit.Bytes) *cluster.Cluster {
	c := cluster.New()
	typ, err := c.AddType(cluster.GPUType{Name: "gpu", Memory: gib * unit.GiB})
	if err != nil {
		t.Fatal(err)
	}
	for range nodes {
		if _, err := c.AddNode(cluster.NodeSpec{GPUs: []cluster.GPUs{{Type: typ, Count: each}}, Memory: host * unit.GiB}); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

func quotas(t *testing.T, gpus map[string]int) *tenant.Tree {
	t.Helper()
	tree := tenant.NewTree(0)
	for name, n := range gpus {
		if _, err := tree.Add(name, tenant.Root, unit.Milli(n)*unit.One, 0, 0); err != nil {
			t.Fatal(err)
		}
	}
	return tree
}

// uses is a job that keeps a part of its GPUs busy and takes so many GiB of each.
func uses(use float64, gib unit.Bytes, class string) func(*job.Job) {
	return func(j *job.Job) { j.Hints = &job.Hints{GPUUse: use, GPUMemory: gib * unit.GiB, QoS: class} }
}

func world(c *cluster.Cluster, tree *tenant.Tree) simtest.Config {
	return simtest.Config{
		Cluster: c, Tenants: tree, Make: built(nil), Shared: true, Sharing: perf.Paced{},
		World: func(c *sim.Config) { c.Sharing, c.Measure = perf.Paced{}, true },
	}
}

// Acceptance 1: which GPUs take guests; the least used of them goes first, which is what
// the published score of a node, 100 less the use of that GPU, comes to.
func TestCandidates(t *testing.T) {
	c := NewConfig()
	use := []float64{0.85, 0.30, 0.50}
	for _, k := range []struct {
		gib   [3]unit.Bytes
		score float64
	}{{[3]unit.Bytes{2, 18, 10}, 50}, {[3]unit.Bytes{2, 12, 10}, 70}, {[3]unit.Bytes{2, 18, 16}, 0}} {
		score := 0.0
		for i := range use {
			if c.Takes(use[i], k.gib[i]*unit.GiB) {
				score = max(score, 100-100*use[i])
			}
		}
		if math.Abs(score-k.score) > 1e-9 {
			t.Errorf("%v GiB: the score is %v, want %v", k.gib, score, k.score)
		}
	}
}

// Acceptance 1, through the policy: of what was measured in the last 30 s the mean of
// the use counts, and the most of the memory; the least used GPU is taken.
func TestWindow(t *testing.T) {
	used := func(at float64, d cluster.DeviceID, use float64, gib unit.Bytes) eventlog.Event {
		return eventlog.Event{Time: time.Duration(at * float64(time.Second)), Kind: eventlog.Used, Device: d, Use: use, Memory: gib * unit.GiB, Job: job.None}
	}
	for name, c := range map[string]struct {
		gib  unit.Bytes // of the second GPU
		want cluster.DeviceID
	}{"too much memory": {18, 2}, "less": {12, 1}} {
		cfg := world(gpus(t, 1, 3, 32, 64), nil)
		cfg.World = func(s *sim.Config) {
			s.Script = []eventlog.Event{used(0, 0, 0.6, 2), used(0, 1, 0.3, c.gib), used(0, 2, 0.6, 2), used(20, 1, 0.3, 1), used(29, 2, 1, 2), used(29.5, 0, 1, 2), used(30, 2, 0.6, 2)}
		}
		run := simtest.Go(t, cfg, simtest.Job{Key: "guest", At: 31, GPUs: 1, Run: 10, Spec: uses(0.5, 1, "opportunistic")})
		if !strings.Contains(strings.Join(run.Log, "\n"), "31 start guest on n0["+string(rune('0'+c.want))+"]") {
			t.Errorf("%s:\n%s", name, strings.Join(run.Log, "\n"))
		}
	}
	s := state.New(gpus(t, 1, 1, 32, 0), tenant.NewTree(0))
	for i, use := range []float64{0.6, 1, 0.6} { // a second of 1 among 30 samples of a second
		s.Now = []time.Duration{0, 10 * time.Second, 11 * time.Second}[i]
		if err := s.SetUsed(0, use, 0); err != nil {
			t.Fatal(err)
		}
	}
	s.Now = 30 * time.Second
	if w := s.UsedOver(0, 30*time.Second); math.Abs(w.Use-0.6133) > 1e-4 || !NewConfig().Takes(w.Use, w.Memory) {
		t.Errorf("%+v", w)
	}
}

// Acceptance 2: what a pace comes to as speed, and so as idle time behind a step of
// 100 ms of kernels.
func TestActuator(t *testing.T) {
	guest := perf.Sharer{Job: &job.Job{Demand: &job.Demand{}, Hints: &job.Hints{GPUUse: 0.5}}}
	for pace, want := range map[int]struct{ speed, idle float64 }{400: {0.4, 150}, 1000: {1, 0}, 0: {0, math.Inf(1)}} {
		guest.Share.Throttle = int32(Full - pace)
		speed := (perf.Paced{}).Among(guest, nil, cluster.GPUType{})
		if idle := 100/speed - 100; math.Abs(speed-want.speed) > 1e-9 || math.Abs(idle-want.idle) > 1e-9 {
			t.Errorf("pace %d: speed %v, %v ms idle, want %+v", pace, speed, idle, want)
		}
	}
}

// Acceptance 3: the model of two jobs, and the steps of the coordinator from full pace.
func TestSharingExample(t *testing.T) {
	r := perf.Sharer{Job: &job.Job{Demand: &job.Demand{}, Hints: &job.Hints{GPUUse: 0.6}}, Share: cluster.Share{Milli: 1000}}
	o := perf.Sharer{Job: &job.Job{Demand: &job.Demand{}, Hints: &job.Hints{GPUUse: 0.8}}}
	speeds := func(pace int) (owner, guest float64) {
		o.Share.Throttle = int32(Full - pace)
		m := perf.Paced{}
		return m.Among(r, []perf.Sharer{o}, cluster.GPUType{}), m.Among(o, []perf.Sharer{r}, cluster.GPUType{})
	}
	if a, b := speeds(500); a != 1 || math.Abs(b-0.25) > 1e-9 {
		t.Errorf("at half pace: %v and %v", a, b)
	}
	if a, _ := speeds(1000); math.Abs(a-0.714) > 1e-3 {
		t.Errorf("at full pace: %v", a)
	}
	loop, pace := NewConfig().Loop, 1000
	for _, want := range []struct {
		pace    int
		overlap float64
	}{{800, 0.24}, {600, 0.08}, {400, 0}} {
		a, _ := speeds(pace)
		pace = loop.Next(pace, 0, 1/a)
		if a, _ = speeds(pace); pace != want.pace || math.Abs(1/a-1-want.overlap) > 1e-9 {
			t.Errorf("pace %d with overlap %v, want %+v", pace, 1/a-1, want)
		}
	}
	for range 100 { // it goes up by steps of 5 % and stays where the owner does not feel it
		a, _ := speeds(pace)
		pace = loop.Next(pace, 550, 1/a)
	}
	if pace != 500 {
		t.Errorf("settles at %d", pace)
	}
}

// Acceptance 3, through engine and simulator: a guest beside that owner settles
// between 40 and 52 %, after which the coordinator sleeps.
func TestSettles(t *testing.T) {
	cfg := world(gpus(t, 1, 1, 32, 64), quotas(t, map[string]int{"a": 1}))
	wakes := &decisions{}
	cfg.Sinks = append(cfg.Sinks, wakes)
	run := simtest.Go(t, cfg,
		simtest.Job{Key: "owner", Tenant: "a", GPUs: 1, Run: 1000, Spec: uses(0.6, 4, "guaranteed")},
		simtest.Job{Key: "guest", Tenant: "a", GPUs: 1, Run: 1000, Spec: uses(0.8, 4, "opportunistic")})
	if wakes.pace < 400 || wakes.pace > 520 {
		t.Errorf("settles at %d\n%s", wakes.pace, strings.Join(run.Log, "\n"))
	}
	if wakes.last > 30*time.Second {
		t.Errorf("the last step is at %v", wakes.last)
	}
	if end := run.End("owner"); end > 1000.1 {
		t.Errorf("the owner ends at %v", end)
	}
}

// A guest that settles where the owner loses more than half of the slack, but not all of
// it, keeps no guest on another GPU of that gang from being let go, whoever comes first.
func TestSettlesForOthers(t *testing.T) {
	for _, at := range []float64{0, 100} {
		cfg := world(gpus(t, 1, 2, 32, 64), quotas(t, map[string]int{"a": 2}))
		run := simtest.Go(t, cfg,
			simtest.Job{Key: "gang", Tenant: "a", GPUs: 2, Run: 1000, Spec: uses(0.6, 4, "guaranteed")},
			simtest.Job{Key: "large", Tenant: "a", GPUs: 1, Run: 1000, Spec: uses(0.83, 4, "opportunistic")}, // half of its time: 0.6 + 0.415 - 1 = 0.015
			simtest.Job{Key: "small", Tenant: "a", At: at, GPUs: 1, Run: 200, Spec: uses(0.3, 4, "opportunistic")})
		if end := run.End("small"); end > at+300 || run.End("gang") > 1005 {
			t.Errorf("small ends at %v, the gang at %v\n%s", end, run.End("gang"), strings.Join(run.Log, "\n"))
		}
	}
}

// decisions notes the pace of a guest beside an owner, and when it changed last.
type decisions struct {
	pace int
	last time.Duration
}

// Event implements engine.Sink.
func (d *decisions) Event(ev *eventlog.Event, s *state.State) {
	if ev.Kind == eventlog.Move && s.Record(0).Phase == job.Running && IsGuest(ev.Alloc) {
		d.pace, d.last = Full-int(ev.Alloc.Shares[0].Throttle), ev.Time
	}
}

// Acceptance 4: beyond the quota a job runs as a guest at once; when the quota is free
// it becomes an owner where it is, and counts.
func TestUpgrade(t *testing.T) {
	tree := quotas(t, map[string]int{"a": 4})
	cfg := world(gpus(t, 1, 4, 32, 64), tree)
	seen := map[string]unit.Milli{}
	cfg.Sinks = append(cfg.Sinks, sink(func(ev *eventlog.Event, s *state.State) {
		id, _ := s.Tenants.Lookup("a")
		seen[ev.Time.String()] = s.Tenants.At(id).Used.GPU
	}))
	run := simtest.Go(t, cfg,
		simtest.Job{Key: "first", Tenant: "a", GPUs: 4, Run: 100, Spec: uses(0.3, 4, "")},
		simtest.Job{Key: "second", Tenant: "a", At: 10, GPUs: 2, Run: 300, Spec: uses(0.3, 4, "")})
	if run.Start("second") != 10 || run.Record("second").Preemptions+run.Record("second").Migrations > 0 || run.End("first") > 100.1 {
		t.Errorf("second starts at %v, first ends at %v\n%s", run.Start("second"), run.End("first"), strings.Join(run.Log, "\n"))
	}
	if seen["10s"] != 4*unit.One || seen["1m40s"] != 2*unit.One {
		t.Errorf("the tenant owns %v while it is a guest, %v afterwards\n%s", seen["10s"], seen["1m40s"], strings.Join(run.Log, "\n"))
	}
}

type sink func(ev *eventlog.Event, s *state.State)

// Event implements engine.Sink.
func (f sink) Event(ev *eventlog.Event, s *state.State) { f(ev, s) }

// The memory example of the spec, section 3b: what is left to a guest, what that costs
// it, and that it stands still where main memory has no room for the rest.
func TestSpills(t *testing.T) {
	for _, c := range []struct {
		owner, host unit.Bytes
		cap         float64 // GiB
		speed       float64
	}{{20, 64, 11.5, 1 - 0.5*4.5/16}, {24, 64, 7.5, 1 - 0.5*8.5/16}, {24, 8, 7.5, 0}} {
		cfg := world(gpus(t, 1, 1, 32, c.host), quotas(t, map[string]int{"a": 1}))
		cfg.Make = built(map[string]string{"memory": "30"})
		held, speed := 0.0, -1.0
		cfg.Sinks = append(cfg.Sinks, sink(func(ev *eventlog.Event, s *state.State) {
			if s.Now > 90*time.Second && s.Now < 100*time.Second {
				held, speed = float64(s.Alloc(1).Shares[0].Memory)/float64(unit.GiB), s.Record(1).Speed
			}
		}))
		run := simtest.Go(t, cfg,
			simtest.Job{Key: "owner", Tenant: "a", GPUs: 1, Run: 100, Spec: uses(0.2, c.owner, "guaranteed")},
			simtest.Job{Key: "guest", Tenant: "a", GPUs: 1, Run: 100, Spec: uses(0.2, 16, "opportunistic")},
			simtest.Job{Key: "tick", Tenant: "b", At: 95, GPUs: 1, Run: 1, Spec: uses(0.2, 1, "opportunistic")})
		if math.Abs(held-c.cap) > 0.05 || math.Abs(speed-c.speed) > 0.005 {
			t.Errorf("%+v: %v GiB, speed %v\n%s", c, held, speed, strings.Join(run.Log, "\n"))
		}
	}
}

// A gang that waits within its quota keeps its GPUs from other owners; guests use them
// meanwhile, and give them back by standing still.
func TestReserves(t *testing.T) {
	cfg := world(gpus(t, 1, 4, 32, 64), quotas(t, map[string]int{"a": 4, "b": 2}))
	run := simtest.Go(t, cfg,
		simtest.Job{Key: "b1", Tenant: "b", GPUs: 2, Run: 100, Spec: uses(0.9, 4, "guaranteed")},
		simtest.Job{Key: "gang", Tenant: "a", At: 1, GPUs: 4, Run: 100, Spec: uses(0.9, 4, "guaranteed")},
		simtest.Job{Key: "small", Tenant: "a", At: 2, GPUs: 1, Run: 10, Spec: uses(0.9, 4, "guaranteed")},
		simtest.Job{Key: "guest", Tenant: "a", At: 3, GPUs: 2, Run: 200, Spec: uses(0.9, 4, "opportunistic")})
	if run.Start("gang") != 100 || run.Start("small") < 200 || run.Start("guest") != 3 || run.End("gang") > 200.5 {
		t.Errorf("\n%s", strings.Join(run.Log, "\n"))
	}
	if run.Preemptions() > 0 {
		t.Errorf("%d preemptions", run.Preemptions())
	}
}

// A gang keeps no more GPUs than it needs, of the node where most are free: an owner of
// another tenant starts on the others, but not on those, also as soon as more are free.
func TestKeeps(t *testing.T) {
	for _, c := range []struct {
		reserve           string
		small, late, gang float64
	}{{"true", 20, 100, 50}, {"false", 2, 20, 60}} {
		cfg := world(gpus(t, 2, 4, 32, 64), nil)
		cfg.Make = built(map[string]string{"reserve": c.reserve, "wait": "10h"})
		tree := tenant.NewTree(0)
		for _, name := range []string{"a", "b"} {
			if _, err := tree.Add(name, tenant.Root, 0, 0, 0); err != nil {
				t.Fatal(err)
			}
		}
		cfg.Tenants = tree
		run := simtest.Go(t, cfg,
			simtest.Job{Key: "short", Tenant: "b", GPUs: 2, Run: 50, Spec: uses(0.9, 4, "guaranteed")},
			simtest.Job{Key: "first", Tenant: "b", GPUs: 2, Run: 20, Spec: uses(0.9, 4, "guaranteed")},
			simtest.Job{Key: "long", Tenant: "b", GPUs: 3, Run: 1000, Spec: uses(0.9, 4, "guaranteed")},
			simtest.Job{Key: "gang", Tenant: "a", At: 1, GPUs: 4, Run: 50, Spec: uses(0.9, 4, "guaranteed")},
			simtest.Job{Key: "small", Tenant: "b", At: 2, GPUs: 1, Run: 1000, Spec: uses(0.9, 4, "guaranteed")},
			simtest.Job{Key: "late", Tenant: "b", At: 3, GPUs: 1, Run: 40, Spec: uses(0.9, 4, "guaranteed")})
		if run.Start("small") != c.small || run.Start("late") != c.late || run.Start("gang") != c.gang {
			t.Errorf("reserve %s: small starts at %v, late at %v, the gang at %v\n%s", c.reserve, run.Start("small"), run.Start("late"), run.Start("gang"), strings.Join(run.Log, "\n"))
		}
	}
}

// Where nothing spills, a job is a guest also on GPUs of which it is not known how much
// memory they have: nothing says that it does not fit.
func TestMemoryUnknown(t *testing.T) {
	cfg := simtest.Config{
		Cluster: gpus(t, 1, 2, 0, 64), Make: built(nil), Shared: true, Sharing: perf.Demands{},
		World: func(c *sim.Config) { c.Sharing, c.Measure = perf.Demands{}, true },
	}
	run := simtest.Go(t, cfg,
		simtest.Job{Key: "a", GPUs: 2, Run: 1000, Spec: uses(0.3, 4, "")},
		simtest.Job{Key: "b", At: 10, GPUs: 2, Run: 100, Spec: uses(0.3, 4, "")})
	if run.Start("b") != 310 {
		t.Errorf("\n%s", strings.Join(run.Log, "\n"))
	}
}

// A job within its quota that finds no GPUs begins as a guest after five minutes.
func TestWaits(t *testing.T) {
	cfg := world(gpus(t, 1, 2, 32, 64), nil)
	run := simtest.Go(t, cfg,
		simtest.Job{Key: "a", GPUs: 2, Run: 1000, Spec: uses(0.3, 4, "")},
		simtest.Job{Key: "b", At: 10, GPUs: 2, Run: 100, Spec: uses(0.3, 4, "")})
	if run.Start("b") != 310 {
		t.Errorf("\n%s", strings.Join(run.Log, "\n"))
	}
}

// TestClassOf reads the words that traces and Kubernetes have.
func TestClassOf(t *testing.T) {
	for word, want := range map[string]Class{"": Auto, "Guaranteed": Guaranteed, "LS": Guaranteed, "BE": Opportunistic, "best-effort": Opportunistic, "BestEffort": Opportunistic, "Burstable": Auto} {
		if got := ClassOf(&job.Job{Hints: &job.Hints{QoS: word}}); got != want {
			t.Errorf("%q is %d", word, got)
		}
	}
}
