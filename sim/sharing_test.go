package sim_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/eventlog"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/sched"
	"github.com/norn-scheduler/norn/sim"
	"github.com/norn-scheduler/norn/sim/simtest"
	"github.com/norn-scheduler/norn/state"
	"github.com/norn-scheduler/norn/tenant"
	"github.com/norn-scheduler/norn/trace"
)

// scripted decides by hand: what it does at a moment is a function of the plan.
type scripted struct {
	at   map[float64]func(v *sched.View, p *sched.Plan)
	each func(v *sched.View, p *sched.Plan) // at every decision, before that
	done map[float64]bool
}

func (s *scripted) Decide(v *sched.View, p *sched.Plan) {
	if s.each != nil {
		s.each(v, p)
	}
	now := v.Now.Seconds()
	if f := s.at[now]; f != nil && !s.done[now] {
		s.done[now] = true
		f(v, p)
	}
}

func (s *scripted) NextWake(v *sched.View) time.Duration {
	next := time.Duration(math.MaxInt64)
	for at := range s.at {
		if t := time.Duration(at * 1e9); t > v.Now {
			next = min(next, t)
		}
	}
	return next
}

func byHand(each func(v *sched.View, p *sched.Plan), at map[float64]func(v *sched.View, p *sched.Plan)) func() (sched.Policy, error) {
	return func() (sched.Policy, error) { return &scripted{at: at, each: each, done: map[float64]bool{}}, nil }
}

// part is a part of one device of the only node.
func part(device cluster.DeviceID, milli int32) *cluster.Alloc {
	return &cluster.Alloc{Pieces: []cluster.Piece{{Tasks: 1, Shares: 1}}, Shares: []cluster.Share{{Device: device, Milli: milli}}}
}

// shareOut starts whoever waits on a part of device 0, as long as there is one.
func shareOut(milli int32) func(v *sched.View, p *sched.Plan) {
	return func(v *sched.View, p *sched.Plan) {
		for j := range v.Waiting() {
			if v.Cluster().DeviceFree(0) >= unit.Milli(milli) {
				p.StartOn(j.ID, part(0, milli))
			} else {
				p.Wait(j.ID, job.Reason{Code: job.NeedPart, Need: milli, Job: job.None})
			}
		}
	}
}

// each slows a job down to the share of the jobs on its device, but for those
// called light, which nobody notices.
type each struct{}

func (each) Beside(j *job.Job, others []*job.Job, _ cluster.GPUType) float64 {
	n := 1
	for _, o := range others {
		if o.Name != "light" {
			n++
		}
	}
	return 1 / float64(n)
}

func ends(t *testing.T, run *simtest.Run, want map[string]float64) {
	t.Helper()
	for key, at := range want {
		if got := run.End(key); math.Abs(got-at) > 1e-6 {
			t.Errorf("%s ends at %v, not %v", key, got, at)
		}
	}
	if t.Failed() {
		t.Log("\n" + strings.Join(run.Log, "\n"))
	}
}

// TestShare: who shares a device slows the others down from when it comes until it
// leaves, each as the model says, and the scheduler is told.
func TestShare(t *testing.T) {
	var seen []string
	watch := func(v *sched.View, p *sched.Plan) {
		for _, ch := range v.Changes() {
			if ch.Kind == sched.Altered {
				seen = append(seen, fmt.Sprintf("%v %s %.3f", v.Now.Seconds(), v.Job(ch.Job).Spec().Key, v.Job(ch.Job).Speed()))
			}
		}
		shareOut(250)(v, p)
	}
	run := simtest.Go(t, simtest.Config{
		Cluster: simtest.Nodes(1, 1), Make: byHand(watch, nil), Shared: true, World: func(c *sim.Config) { c.Sharing = each{} },
	}, simtest.Job{Key: "a", GPUs: 1, Run: 10}, simtest.Job{Key: "b", At: 4, GPUs: 1, Run: 2}, simtest.Job{Key: "light", At: 5, GPUs: 1, Run: 1})
	// a alone until 4; a and b at half speed; light, which b and a do not notice, at a
	// third from 5 on. b has 1.5 left at 5 and ends at 8; light has done 1 by then.
	ends(t, run, map[string]float64{"b": 8, "light": 8, "a": 12})
	if want := []string{"4 a 0.500", "8 a 1.000"}; !slices.Equal(seen, want) {
		t.Errorf("the scheduler saw %v, want %v", seen, want)
	}
}

// TestOutOfMemory: when the memory of a device runs out, who came last is thrown
// off and told why; who asked for too little may come back when there is room.
func TestOutOfMemory(t *testing.T) {
	c := cluster.New()
	typ, _ := c.AddType(cluster.GPUType{Name: "gpu", Memory: 10 * unit.GiB})
	if _, err := c.AddNode(cluster.NodeSpec{GPUs: []cluster.GPUs{{Type: typ, Count: 1}}}); err != nil {
		t.Fatal(err)
	}
	demand := job.GPUs(1)
	demand.Roles[0].GPUMemory = 4 * unit.GiB
	greedy := func(j *job.Job) {
		if j.Key == "greedy" {
			j.Hints = &job.Hints{GPUMemory: 7 * unit.GiB} // which a demand of its own outdoes
		}
	}
	small := job.GPUs(1)
	again := func(v *sched.View, p *sched.Plan) {
		for j := range v.Waiting() {
			if v.Cluster().DeviceFree(0) >= 500 && j.Reason().Code != job.OutOfMemory {
				p.StartOn(j.ID, part(0, 500))
			} else if v.Cluster().DeviceFree(0) == 1000 {
				p.StartOn(j.ID, part(0, 500))
			}
		}
	}
	run := simtest.Go(t, simtest.Config{
		Cluster: c, Make: byHand(again, nil), Shared: true, Unchecked: true, World: func(c *sim.Config) { c.Measure = true },
	}, simtest.Job{Key: "modest", Demand: &demand, Run: 10}, simtest.Job{Key: "greedy", Demand: &small, At: 2, Run: 5, Spec: greedy})
	ends(t, run, map[string]float64{"modest": 10, "greedy": 15})
	log := strings.Join(run.Log, "\n")
	for _, want := range []string{
		"2 evict greedy: the memory of its GPU did not suffice for all that ran there",
		fmt.Sprintf("0 used 0 use=0 memory=%d", 4*unit.GiB), fmt.Sprintf("10 used 0 use=0 memory=%d", 0),
	} {
		if !strings.Contains(log, want) {
			t.Errorf("%q is not in\n%s", want, log)
		}
	}
	if used := run.State.Used(0); !used.Known {
		t.Errorf("%+v", used)
	}
}

// teach is a transfer by which all is done twice as fast after another job, and
// with another job half as fast again as in turns.
type teach struct{}

func (teach) After(_, _ *job.Job) float64 { return 2 }

func (teach) Together(_, _ *job.Job, left [2]time.Duration) (fa, fb float64) {
	fa, fb = perf.Strangers{}.Together(nil, nil, left)
	return 1.5 * fa, 1.5 * fb
}

func tuned(j *job.Job) { j.Backbone = "bert" }

// TestTogether: two jobs that are trained as one end together, at the time of the
// pair, and go on by themselves with what they have when they are split.
func TestTogether(t *testing.T) {
	pair := func(v *sched.View, p *sched.Plan) {
		p.Merge(0, 1, job.Together)
		p.StartOn(0, part(0, 500))
		p.StartOn(1, part(0, 500))
	}
	cfg := simtest.Config{
		Cluster: simtest.Nodes(1, 2), Shared: true, World: func(c *sim.Config) { c.Transfer = teach{} },
		Make: byHand(nil, map[float64]func(v *sched.View, p *sched.Plan){0: pair}),
	}
	jobs := []simtest.Job{{Key: "a", GPUs: 1, Run: 6, Spec: tuned}, {Key: "b", GPUs: 1, Run: 3, Spec: tuned}}
	run := simtest.Go(t, cfg, jobs...)
	ends(t, run, map[string]float64{"a": 6, "b": 6}) // 9 of work at 1.5
	if with := run.Record("b"); with.Merged != job.Together || with.With != 0 || with.Milli != 500 {
		t.Errorf("%+v", with)
	}

	cfg.Cluster = simtest.Nodes(1, 2)
	cfg.Make = byHand(nil, map[float64]func(v *sched.View, p *sched.Plan){0: pair, 2: func(v *sched.View, p *sched.Plan) {
		p.Split(1)
		p.Stop(1, job.Reason{Code: job.Moved, Job: job.None})
		p.StartOn(1, part(1, 500))
	}})
	// At 2, a has done 2 of 6 and b 1 of 3, and each goes on alone.
	ends(t, simtest.Go(t, cfg, jobs...), map[string]float64{"a": 6, "b": 4})
}

// TestAfter: a job that goes on from what another has learnt needs less, and loses
// what it has when it gives that up.
func TestAfter(t *testing.T) {
	follow := func(v *sched.View, p *sched.Plan) {
		for j := range v.Waiting() {
			if j.ID == 0 {
				p.StartOn(0, part(0, 1000))
			} else if _, how := j.Merged(); how == job.Apart && v.Now == 0 {
				p.Merge(1, 0, job.After)
				p.Wait(1, job.Reason{Code: job.Behind, Job: 0})
			} else if v.Job(0).Phase().Over() {
				p.StartOn(1, part(0, 1000))
			}
		}
	}
	cfg := simtest.Config{
		Cluster: simtest.Nodes(1, 1), World: func(c *sim.Config) { c.Transfer = teach{} }, Make: byHand(follow, nil),
	}
	jobs := []simtest.Job{{Key: "a", GPUs: 1, Run: 4, Spec: tuned}, {Key: "b", GPUs: 1, Run: 6, Spec: tuned}}
	ends(t, simtest.Go(t, cfg, jobs...), map[string]float64{"a": 4, "b": 7})

	cfg.Cluster = simtest.Nodes(1, 1)
	cfg.Make = byHand(follow, map[float64]func(v *sched.View, p *sched.Plan){5: func(v *sched.View, p *sched.Plan) { p.Split(1) }})
	run := simtest.Go(t, cfg, jobs...)
	ends(t, run, map[string]float64{"b": 11}) // from 5 on, from the backbone, at speed 1
	if lost := run.Record("b").Lost; math.Abs(lost-1) > 1e-6 {
		t.Errorf("%v GPU-seconds are lost, not 1", lost)
	}
}

// TestWarm: a job begins faster on devices that hold the runtime of its backbone.
func TestWarm(t *testing.T) {
	costs := perf.Costs{
		Base:   perf.Cost{Start: 7 * time.Second},
		Switch: map[string]perf.Switch{"bert": {Cold: 10 * time.Second, Warm: time.Second}, "vit": {Cold: 20 * time.Second, Warm: 2 * time.Second}},
	}
	run := simtest.Go(t, simtest.Config{Cluster: simtest.Nodes(1, 1), Make: newFIFO, Costs: costs, World: func(c *sim.Config) { c.Transfer = teach{} }},
		simtest.Job{Key: "cold", GPUs: 1, Run: 5, Spec: tuned}, simtest.Job{Key: "warm", GPUs: 1, Run: 5, Spec: tuned},
		simtest.Job{Key: "other", GPUs: 1, Run: 5, Spec: func(j *job.Job) { j.Backbone = "vit" }}, simtest.Job{Key: "plain", GPUs: 1, Run: 5},
		simtest.Job{Key: "cold again", GPUs: 1, Run: 5, Spec: tuned})
	ends(t, run, map[string]float64{"cold": 15, "warm": 21, "other": 46, "plain": 58, "cold again": 73})
}

// TestProfile: a job that is measured holds its devices, does nothing, and has not
// started by that.
func TestProfile(t *testing.T) {
	run := simtest.Go(t, simtest.Config{
		Cluster: simtest.Nodes(1, 1), Make: byHand(nil, map[float64]func(v *sched.View, p *sched.Plan){
			0: func(v *sched.View, p *sched.Plan) { p.Profile(0, part(0, 1000)) },
			60: func(v *sched.View, p *sched.Plan) {
				if !v.Job(0).Profiling() || v.Job(0).Progress() != 0 {
					t.Errorf("it is profiled: %v, and has done %v", v.Job(0).Profiling(), v.Job(0).Progress())
				}
				p.Stop(0, job.Reason{Code: job.Profiled, Job: job.None})
			},
			70: func(v *sched.View, p *sched.Plan) { p.StartOn(0, part(0, 1000)) },
		}), World: func(c *sim.Config) { c.Measure = true }, Unchecked: true,
	}, simtest.Job{Key: "a", GPUs: 1, Run: 5})
	ends(t, run, map[string]float64{"a": 75})
	if r := run.Record("a"); r.Starts != 1 || r.Preemptions != 0 || r.FirstStart != 70*time.Second || r.AllocatedTime != 65*time.Second {
		t.Errorf("%+v", r)
	}
}

// TestHost: a device of a host type is no GPU. It counts as none, a demand that
// names no type does not match it, and who runs there holds no GPU time.
func TestHost(t *testing.T) {
	c := cluster.New()
	gpu, _ := c.AddType(cluster.GPUType{Name: "gpu"})
	cpu, _ := c.AddType(cluster.GPUType{Name: "cpu", Host: true})
	if _, err := c.AddNode(cluster.NodeSpec{GPUs: []cluster.GPUs{{Type: cpu, Count: 1}, {Type: gpu, Count: 1}}}); err != nil {
		t.Fatal(err)
	}
	if c.FreeGPUs(0, 0) != 1 || c.TotalGPUs(0, 0) != 1 || c.FreeMilli(0, 0) != 1000 || c.NodeGPUs(0) != 1 || c.TotalGPUs(0, 1<<cpu) != 1 {
		t.Errorf("%d free, %d in all, %v", c.FreeGPUs(0, 0), c.TotalGPUs(0, 0), c.FreeMilli(0, 0))
	}
	named := job.GPUs(1)
	named.Types = "cpu"
	run := simtest.Go(t, simtest.Config{Cluster: c, Make: newFIFO},
		simtest.Job{Key: "a", GPUs: 1, Run: 10}, simtest.Job{Key: "b", Demand: &named, Run: 3}, simtest.Job{Key: "c", GPUs: 1, Run: 1})
	ends(t, run, map[string]float64{"a": 10, "b": 3, "c": 11})
	if r := run.Record("b"); r.Service != 0 || run.Record("a").Service != 10 {
		t.Errorf("b has %v GPU-seconds, a %v", r.Service, run.Record("a").Service)
	}
}

// TestThrottle: a job that is kept from its device for a part of the time goes
// on without a pause. It is slower by that part, and its neighbour faster. A
// job that is paused makes no progress until it may go on.
func TestThrottle(t *testing.T) {
	throttle := func(id job.ID, to int32) func(v *sched.View, p *sched.Plan) {
		return func(v *sched.View, p *sched.Plan) {
			if !p.Adjust(id, func(a *cluster.Alloc) { a.Shares[0].Throttle = to }) {
				t.Errorf("job %d cannot be throttled at %v", id, v.Now)
			}
		}
	}
	// Both run at half speed. From 4 on b is there for half of the time: a, which has
	// done 2, runs at 3/4, and b at a quarter. From 6 on b stands still: it has done 2.5,
	// and a 3.5. From 10 on, when a has done 7.5, it is as in the beginning, until b ends
	// at 17; a has done 11 by then.
	run := simtest.Go(t, simtest.Config{
		Cluster: simtest.Nodes(1, 1), Shared: true, World: func(c *sim.Config) { c.Sharing = each{} },
		Make: byHand(shareOut(250), map[float64]func(v *sched.View, p *sched.Plan){4: throttle(1, 500), 6: throttle(1, 1000), 10: throttle(1, 0)}),
	}, simtest.Job{Key: "a", GPUs: 1, Run: 20}, simtest.Job{Key: "b", GPUs: 1, Run: 6})
	ends(t, run, map[string]float64{"b": 17, "a": 26})
	for _, key := range []string{"a", "b"} {
		if r := run.Record(key); r.Starts != 1 || r.Migrations != 0 || r.Resizes != 0 || r.Lost != 0 {
			t.Errorf("%s: %+v", key, r)
		}
	}
}

// TestOutOfMemoryResumed: in a world that goes on from a state, too, who came last is
// thrown off, whatever its number.
func TestOutOfMemoryResumed(t *testing.T) {
	c := cluster.New()
	typ, _ := c.AddType(cluster.GPUType{Name: "small", Memory: 16 * unit.GiB})
	if _, err := c.AddNode(cluster.NodeSpec{GPUs: []cluster.GPUs{{Type: typ, Count: 1}}}); err != nil {
		t.Fatal(err)
	}
	s := state.New(c, tenant.NewTree(0))
	for id := range job.ID(2) {
		d := job.GPUs(1)
		d.Roles[0].GPUMemory = 10 * unit.GiB
		if err := s.Submit(&job.Job{ID: id, Key: fmt.Sprint(id), Demand: &d}, -1); err != nil {
			t.Fatal(err)
		}
	}
	for _, id := range []job.ID{1, 0} {
		s.Now += time.Second
		if err := s.Begin(id, part(0, 500), 0); err != nil {
			t.Fatal(err)
		}
	}
	w := sim.New(sim.Config{Source: trace.FromMemory(nil), Sharing: perf.Alone{}})
	if err := w.Attach(s); err != nil {
		t.Fatal(err)
	}
	w.Resume(func(*job.Record) time.Duration { return time.Hour })
	_, events, err := w.Next(unit.Never, nil)
	if err != nil || len(events) != 1 || events[0].Kind != eventlog.Evict || events[0].Job != 0 {
		t.Fatalf("%v: %+v, want that job 0 is thrown off", err, events)
	}
}
