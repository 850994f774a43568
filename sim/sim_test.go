package sim_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
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
	"github.com/norn-scheduler/norn/place"
	"github.com/norn-scheduler/norn/policy/fifo"
	"github.com/norn-scheduler/norn/policy/shortest"
	"github.com/norn-scheduler/norn/sched"
	"github.com/norn-scheduler/norn/sim"
	"github.com/norn-scheduler/norn/sim/simtest"
	"github.com/norn-scheduler/norn/solve"
	"github.com/norn-scheduler/norn/state"
	"github.com/norn-scheduler/norn/trace"
)

func newFIFO() (sched.Policy, error) { return fifo.NewConfig().Policy() }

func newSRTF() (sched.Policy, error) { return shortest.NewSRTF().Policy() }

func newSJF() (sched.Policy, error) { return shortest.NewSJF().Policy() }

// TestSpeedsAgainstTicks changes the speed of a job at random moments and
// compares its end with progress counted in ticks of a millisecond.
func TestSpeedsAgainstTicks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		work := rapid.IntRange(1, 5000).Draw(t, "work") // ms
		delay := rapid.IntRange(0, 500).Draw(t, "delay")
		n := rapid.IntRange(0, 6).Draw(t, "changes")
		var script []eventlog.Event
		speeds := map[int]float64{}
		at := 0
		for range n {
			at += rapid.IntRange(1, 1000).Draw(t, "gap")
			speeds[at] = float64(rapid.IntRange(1, 8).Draw(t, "speed")) / 4
			script = append(script, eventlog.Event{Time: time.Duration(at) * time.Millisecond, Kind: eventlog.Speed, Job: 0, Speed: speeds[at]})
		}
		run, err := simtest.Try(simtest.Config{
			Cluster: simtest.Nodes(1, 1), Make: newFIFO, Costs: perf.Costs{Base: perf.Cost{Start: time.Duration(delay) * time.Millisecond}},
			World: func(c *sim.Config) { c.Script = script },
		}, simtest.Job{Key: "a", GPUs: 1, Run: float64(work) / 1000})
		if err != nil {
			t.Fatal(err)
		}
		done, speed, tick := 0.0, 1.0, 0
		for ; done < float64(work); tick++ {
			if s, ok := speeds[tick]; ok {
				speed = s
			}
			if tick >= delay {
				done += speed
			}
		}
		exact := float64(tick) - (done-float64(work))/speed // the last tick in part
		if got := run.End("a") * 1000; math.Abs(got-exact) > 1e-5 {
			t.Fatalf("ends at %v ms, the ticks say %v", got, exact)
		}
	})
}

// TestServiceIsConserved: whatever transitions, failures and preemptions there
// are, what a job held is what it worked and what was lost.
func TestServiceIsConserved(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		shape := simtest.Shape{Costs: true, Failures: true}
		w := simtest.Draw(t, shape)
		w.Make = rapid.SampledFrom([]func() (sched.Policy, error){newFIFO, newSRTF}).Draw(t, "policy")
		w.Fresh(t, shape, []int{4, 4, 8})
		run, err := simtest.Try(w.Config, w.Jobs...)
		if err != nil {
			t.Fatal(err)
		}
		for i := range w.Jobs {
			r := run.Record(w.Jobs[i].Key)
			if r == nil || !r.Phase.Over() {
				continue
			}
			worked := r.Progress.Seconds() * float64(r.Job.Demand.GPUs())
			if r.Phase == job.Done && math.Abs(r.Progress.Seconds()-w.Jobs[i].Run) > 1e-6 {
				t.Fatalf("job %s ended with %v of %v s done", w.Jobs[i].Key, r.Progress, w.Jobs[i].Run)
			}
			if math.Abs(r.Service-r.Lost-worked) > 1e-6*(1+r.Service) {
				t.Fatalf("job %s held %v GPU-seconds, worked %v and lost %v", w.Jobs[i].Key, r.Service, worked, r.Lost)
			}
			if total := r.End - r.Job.Submit; r.AllocatedTime+r.WaitAt(r.End) != total {
				t.Fatalf("job %s held for %v and waited for %v of %v", w.Jobs[i].Key, r.AllocatedTime, r.WaitAt(r.End), total)
			}
		}
	})
}

// TestDeterminism: equal inputs and seed give equal histories, another seed other
// failures.
func TestDeterminism(t *testing.T) {
	play := func(seed uint64) string {
		var jobs []simtest.Job
		r := rand.New(rand.NewPCG(7, 7))
		for i := range 60 {
			jobs = append(jobs, simtest.Job{Key: fmt.Sprint("j", i), At: float64(i * 3), GPUs: 1 << r.IntN(4), Run: float64(10 + r.IntN(300))})
		}
		run := simtest.Go(t, simtest.Config{
			Cluster: simtest.Nodes(4, 8), Make: newSRTF, Seed: seed,
			World: func(c *sim.Config) {
				c.NodeMTBF, c.NodeRepair, c.JobMTBF, c.Snapshot = 500*time.Second, 30*time.Second, 400*time.Second, time.Minute
			},
		}, jobs...)
		return strings.Join(run.Log, "\n")
	}
	one := play(1)
	if play(1) != one {
		t.Error("equal inputs and seeds, different histories")
	}
	if play(2) == one {
		t.Error("the seed changes nothing")
	}
	if !strings.Contains(one, " evict ") || !strings.Contains(one, " fail ") || !strings.Contains(one, "node-set") {
		t.Error("nothing failed")
	}
}

// TestRetries: a job that fails at random is started again as often as it says,
// and then fails for good.
func TestRetries(t *testing.T) {
	for _, retries := range []int32{0, 1, 3} {
		run := simtest.Go(t, simtest.Config{
			Cluster: simtest.Nodes(1, 1), Make: newFIFO, Seed: 5,
			World: func(c *sim.Config) { c.JobMTBF = time.Second },
		}, simtest.Job{Key: "a", GPUs: 1, Run: 1e6, Spec: func(j *job.Job) { j.Retries = retries }})
		if a := run.Record("a"); a.Phase != job.FailedPhase || a.Starts != retries+1 || a.Failures != retries+1 {
			t.Errorf("%d retries: %s after %d starts and %d failures", retries, a.Phase, a.Starts, a.Failures)
		}
	}
}

// TestMeanTimeBetweenFailures: over a long time nodes are down for the share of
// time that MTBF and repair say.
func TestMeanTimeBetweenFailures(t *testing.T) {
	down := &downtime{since: map[cluster.NodeID]time.Duration{}}
	simtest.Go(t, simtest.Config{
		Cluster: simtest.Nodes(20, 1), Make: newFIFO, Seed: 3, Unchecked: true, Sinks: []engine.Sink{down},
		World: func(c *sim.Config) { c.NodeMTBF, c.NodeRepair = 100*time.Second, 25*time.Second },
	}, simtest.Job{Key: "a", At: 50_000, GPUs: 1, Run: 1})
	// 20 nodes for 50,000 s in cycles of 125 s: 8,000 failures; the mean of so
	// many exponential times lies within 5% of 25 s but for one run in 10^5.
	if mean := down.total.Seconds() / float64(down.n); down.n < 7000 || down.n > 9000 || math.Abs(mean-25) > 1.25 {
		t.Errorf("%d failures of %v s in the mean", down.n, mean)
	}
}

type downtime struct {
	since map[cluster.NodeID]time.Duration
	total time.Duration
	n     int
}

func (d *downtime) Event(ev *eventlog.Event, _ *state.State) {
	switch {
	case ev.Kind != eventlog.NodeSet:
	case ev.Health == cluster.Down:
		d.since[ev.Node] = ev.Time
	default:
		d.total += ev.Time - d.since[ev.Node]
		d.n++
	}
}

// TestScriptErrors: a script is checked when its moment comes.
func TestScriptErrors(t *testing.T) {
	for _, c := range []struct {
		ev   eventlog.Event
		want string
	}{
		{eventlog.Event{Kind: eventlog.NodeSet, Node: 4}, "the script tells of node number 4, which is not there at 5s"},
		{eventlog.Event{Kind: eventlog.Cancel, Job: 9}, "the script tells of job number 9, which is not there at 5s"},
		{eventlog.Event{Kind: eventlog.Start}, "the script has an event of kind start"},
	} {
		c.ev.Time = 5 * time.Second
		_, err := simtest.Try(simtest.Config{
			Cluster: simtest.Nodes(1, 1), Make: newFIFO, World: func(sc *sim.Config) { sc.Script = []eventlog.Event{c.ev} },
		}, simtest.Job{Key: "a", GPUs: 1, Run: 10})
		if err == nil || err.Error() != c.want {
			t.Errorf("%v: %v, want %s", c.ev.Kind, err, c.want)
		}
	}
}

// TestScriptIsLate: what a script tells of a job that has ended at that instant,
// or before, does not happen.
func TestScriptIsLate(t *testing.T) {
	run := simtest.Go(t, simtest.Config{
		Cluster: simtest.Nodes(1, 1), Make: newFIFO,
		World: func(c *sim.Config) {
			c.Script = []eventlog.Event{
				{Time: 10 * time.Second, Kind: eventlog.Speed, Job: 0, Speed: 2},
				{Time: 10 * time.Second, Kind: eventlog.Cancel, Job: 0},
				{Time: 10 * time.Second, Kind: eventlog.NodeSet, Node: 0, Health: cluster.Down},
				{Time: 11 * time.Second, Kind: eventlog.Cancel, Job: 0},
				{Time: 11 * time.Second, Kind: eventlog.Hold, Job: 0},
				{Time: 11 * time.Second, Kind: eventlog.Free, Job: 0},
			}
		},
	}, simtest.Job{Key: "a", GPUs: 1, Run: 10})
	want := []string{"0 submit a", "0 start a on n0[0]", "10 end a done", "10 node-set n0 down awake"}
	if !slices.Equal(run.Log, want) {
		t.Errorf("have\n%s", strings.Join(run.Log, "\n"))
	}
}

// TestDisturb: what a disturbance takes from a job delays its end, at any speed,
// and spares jobs that have not begun or stand still.
func TestDisturb(t *testing.T) {
	run := simtest.Go(t, simtest.Config{
		Cluster: simtest.Nodes(2, 1), Make: newFIFO, Model: perf.Analytic{Scaling: 1, Spread: 1},
		World: func(c *sim.Config) {
			c.Disturb = func(j *job.Job, gap time.Duration) time.Duration { return time.Second }
			c.Script = []eventlog.Event{{Time: 10 * time.Second, Kind: eventlog.Speed, Job: 0, Speed: 0.5}}
		},
	}, simtest.Job{Key: "a", GPUs: 1, Run: 20}, simtest.Job{Key: "b", At: 14, GPUs: 1, Run: 5})
	// a: 10 s at speed 1 less 1, 4 s at half speed less 1 (10 done at 14), b ends
	// at 19 and takes 1 more: 11.5 done, 8.5 left, which take 17 s.
	if math.Abs(run.End("b")-19) > 1e-6 || math.Abs(run.End("a")-36) > 1e-6 {
		t.Errorf("b ends at %v, a at %v; want 19 and 36\n%s", run.End("b"), run.End("a"), strings.Join(run.Log, "\n"))
	}
}

// TestTruthIsOutOfReach: nothing that a policy is given leads to the truth of
// the simulator. By types, View and Plan lead to no type of packages sim or
// trace, where the truth lives.
func TestTruthIsOutOfReach(t *testing.T) {
	seen := map[reflect.Type]bool{}
	given := []reflect.Type{ // by package place, by the standard library, by whoever says what the scheduler believes, or by the world, which has workers
		reflect.TypeFor[any](), reflect.TypeFor[error](), reflect.TypeFor[place.Strategy](), reflect.TypeFor[rand.Source](),
		reflect.TypeFor[perf.Typed](), reflect.TypeFor[perf.Sharing](), reflect.TypeFor[perf.Transfer](), reflect.TypeFor[solve.Each](),
	}
	var walk func(t2 reflect.Type, path string)
	walk = func(typ reflect.Type, path string) {
		if seen[typ] {
			return
		}
		seen[typ] = true
		if pkg := typ.PkgPath(); strings.HasSuffix(pkg, "/sim") || strings.HasSuffix(pkg, "/trace") || strings.HasSuffix(pkg, "/engine") {
			t.Errorf("%s leads to %v", path, typ)
			return
		}
		switch typ.Kind() {
		case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map, reflect.Chan:
			if typ.Kind() == reflect.Map {
				walk(typ.Key(), path+" key")
			}
			walk(typ.Elem(), path+" of")
		case reflect.Struct:
			for i := range typ.NumField() {
				walk(typ.Field(i).Type, path+"."+typ.Field(i).Name)
			}
		case reflect.Interface:
			if !slices.Contains(given, typ) {
				t.Errorf("%s is the interface %v, behind which anything might be", path, typ)
			}
		}
		for _, m := range []reflect.Type{typ, reflect.PointerTo(typ)} {
			for i := range m.NumMethod() {
				f := m.Method(i).Type
				for o := range f.NumOut() {
					walk(f.Out(o), path+"."+m.Method(i).Name+"()")
				}
			}
		}
	}
	walk(reflect.TypeFor[sched.View](), "View")
	walk(reflect.TypeFor[sched.Plan](), "Plan")
	if !seen[reflect.TypeFor[job.Record]()] || !seen[reflect.TypeFor[cluster.Cluster]()] {
		t.Error("the walk did not come far")
	}
	if seen[reflect.TypeFor[trace.Truth]()] {
		t.Error("the truth was reached")
	}
}

// small is jobs on one machine that each need all of it.
type small struct{ at, run []int }

func drawSmall(t *rapid.T) small {
	s := small{}
	at := 0
	for range rapid.IntRange(1, 6).Draw(t, "jobs") {
		at += rapid.IntRange(0, 4).Draw(t, "gap")
		s.at = append(s.at, at)
		s.run = append(s.run, rapid.IntRange(1, 6).Draw(t, "run"))
	}
	return s
}

func (s small) play(t *rapid.T, build func() (sched.Policy, error)) *simtest.Run {
	var jobs []simtest.Job
	for i := range s.at {
		jobs = append(jobs, simtest.Job{Key: fmt.Sprint("j", i), At: float64(s.at[i]), GPUs: 4, Run: float64(s.run[i])})
	}
	run, err := simtest.Try(simtest.Config{Cluster: simtest.Nodes(1, 4), Make: build}, jobs...)
	if err != nil {
		t.Fatal(err)
	}
	return run
}

// total is the sum of completion times less submissions.
func (s small) total(run *simtest.Run) int {
	sum := 0.0
	for i := range s.at {
		sum += run.JCT(fmt.Sprint("j", i))
	}
	return int(math.Round(sum))
}

// bestPreemptive is the least sum of completion times over all schedules that
// decide anew every second, by trying them all.
func (s small) bestPreemptive() int {
	memo := map[string]int{}
	var best func(now int, left []int) int
	best = func(now int, left []int) int {
		key := fmt.Sprint(now, left)
		if v, ok := memo[key]; ok {
			return v
		}
		waits, least := 0, math.MaxInt
		ready := false
		for i, l := range left {
			if l > 0 && s.at[i] <= now {
				waits++
				ready = true
			}
		}
		if !ready {
			if !slices.ContainsFunc(left, func(l int) bool { return l > 0 }) {
				return 0
			}
			return best(now+1, left)
		}
		for i, l := range left {
			if l > 0 && s.at[i] <= now {
				next := slices.Clone(left)
				next[i]--
				least = min(least, best(now+1, next))
			}
		}
		memo[key] = least + waits
		return least + waits
	}
	return best(0, s.run)
}

// TestSRTFIsOptimal: on one machine that each job needs in full, shortest
// remaining time first has the least mean JCT of all schedules, preemptive ones
// included (Schrage 1968).
func TestSRTFIsOptimal(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawSmall(t)
		if got, want := s.total(s.play(t, newSRTF)), s.bestPreemptive(); got != want {
			t.Fatalf("%+v: the JCTs of SRTF sum to %d, the best of all schedules to %d", s, got, want)
		}
	})
}

// permutations calls f with every order of n things.
func permutations(n int, f func([]int)) {
	order := make([]int, 0, n)
	var next func(used int)
	next = func(used int) {
		if len(order) == n {
			f(order)
			return
		}
		for i := range n {
			if used&(1<<i) == 0 {
				order = append(order, i)
				next(used | 1<<i)
				order = order[:len(order)-1]
			}
		}
	}
	next(0)
}

// TestSJFIsOptimal: of all orders without preemption, shortest first has the
// least mean JCT when all jobs are there from the start (Smith 1956).
func TestSJFIsOptimal(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawSmall(t)
		clear(s.at)
		best := math.MaxInt
		permutations(len(s.run), func(order []int) {
			now, sum := 0, 0
			for _, i := range order {
				now += s.run[i]
				sum += now
			}
			best = min(best, sum)
		})
		if got := s.total(s.play(t, newSJF)); got != best {
			t.Fatalf("%+v: the JCTs of SJF sum to %d, the best of all orders to %d", s, got, best)
		}
	})
}

// TestFIFORecurrence: strict first in, first out by a direct recurrence: a job
// starts as soon as the job ahead has started and enough GPUs are free.
func TestFIFORecurrence(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 30).Draw(t, "jobs")
		var jobs []simtest.Job
		var start, end []int
		at, last := 0, 0
		for i := range n {
			at += rapid.IntRange(0, 5).Draw(t, "gap")
			gpus, run := rapid.IntRange(1, 8).Draw(t, "gpus"), rapid.IntRange(1, 20).Draw(t, "run")
			jobs = append(jobs, simtest.Job{Key: fmt.Sprint("j", i), At: float64(at), GPUs: gpus, Run: float64(run)})
			s := max(at, last)
			for ; ; s++ {
				free := 8
				for k := range i {
					if start[k] <= s && end[k] > s {
						free -= jobs[k].GPUs
					}
				}
				if free >= gpus {
					break
				}
			}
			start, end, last = append(start, s), append(end, s+run), s
		}
		got, err := simtest.Try(simtest.Config{Cluster: simtest.Nodes(1, 8), Make: newFIFO}, jobs...)
		if err != nil {
			t.Fatal(err)
		}
		for i := range jobs {
			if got.Start(jobs[i].Key) != float64(start[i]) || got.End(jobs[i].Key) != float64(end[i]) {
				t.Fatalf("job %d runs from %v to %v, want %d to %d", i, got.Start(jobs[i].Key), got.End(jobs[i].Key), start[i], end[i])
			}
		}
	})
}

// TestBestOrder: no order of starting jobs without preemption on one node does
// better than the best list schedule. FIFO and SJF are list schedules: their
// mean JCT is that of one of all orders, tried exhaustively.
func TestBestOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 5).Draw(t, "jobs")
		var jobs []simtest.Job
		for i := range n {
			jobs = append(jobs, simtest.Job{Key: fmt.Sprint("j", i), GPUs: rapid.IntRange(1, 4).Draw(t, "gpus"), Run: float64(rapid.IntRange(1, 9).Draw(t, "run"))})
		}
		sums := map[int]bool{}
		permutations(n, func(order []int) { sums[listSchedule(jobs, order)] = true })
		for name, build := range map[string]func() (sched.Policy, error){"fifo": newFIFO, "sjf": newSJF} {
			run, err := simtest.Try(simtest.Config{Cluster: simtest.Nodes(1, 4), Make: build}, jobs...)
			if err != nil {
				t.Fatal(err)
			}
			if sum := int(math.Round(run.MeanJCT() * float64(n))); !sums[sum] {
				t.Fatalf("%s has JCTs of %d in all, which no order gives: %v", name, sum, sums)
			}
		}
	})
}

// listSchedule starts jobs in an order, each as soon as it fits, and not before
// the one ahead of it, on 4 GPUs; the sum of completion times.
func listSchedule(jobs []simtest.Job, order []int) int {
	var start, end []float64
	sum, last := 0.0, 0.0
	for k, i := range order {
		s := last
		for ; ; s++ {
			free := 4
			for m := range k {
				if start[m] <= s && end[m] > s {
					free -= jobs[order[m]].GPUs
				}
			}
			if free >= jobs[i].GPUs {
				break
			}
		}
		start, end, last = append(start, s), append(end, s+jobs[i].Run), s
		sum += s + jobs[i].Run
	}
	return int(sum)
}
