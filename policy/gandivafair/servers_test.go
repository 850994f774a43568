package gandivafair_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/engine"
	"github.com/norn-scheduler/norn/eventlog"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/policy/gandivafair"
	"github.com/norn-scheduler/norn/sched"
	"github.com/norn-scheduler/norn/sim/simtest"
	"github.com/norn-scheduler/norn/state"
)

// ran notes who runs on each node in the middle of each quantum of ten seconds.
type ran struct {
	now  time.Duration
	runs map[string]string // by job: its node
	by   []map[string]string
}

func (r *ran) Event(ev *eventlog.Event, s *state.State) {
	for ; r.now+5*time.Second < ev.Time; r.now += 10 * time.Second {
		was := map[string]string{}
		for k, v := range r.runs {
			was[k] = v
		}
		r.by = append(r.by, was)
	}
	r.runs = map[string]string{}
	for i := range s.Jobs() {
		if rec := s.Record(job.ID(i)); rec.Phase.HasDevices() {
			var nodes []string
			for _, p := range s.Alloc(job.ID(i)).Pieces {
				nodes = append(nodes, fmt.Sprint(p.Node))
			}
			r.runs[rec.Job.Key] = strings.Join(nodes, "+")
		}
	}
}

// Acceptance 1 on the policy itself: five gangs of five users on a server of four GPUs.
func TestServerTurns(t *testing.T) {
	var jobs []simtest.Job
	for i, gpus := range []int{1, 1, 2, 2, 4} {
		name := string(rune('A' + i))
		jobs = append(jobs, simtest.Job{Key: name, Tenant: name, GPUs: gpus, Run: 1000})
	}
	watch := &ran{runs: map[string]string{}}
	simtest.Go(t, simtest.Config{Cluster: simtest.Nodes(1, 4), Make: with(func(*gandivafair.Config) {}), Unchecked: true, Sinks: []engine.Sink{watch}}, jobs...)
	for q, want := range []string{"E", "CD", "ABC", "ABD", "ABC", "ABD", "E", "ABC", "ABD", "ABC"} {
		got := ""
		for _, name := range []string{"A", "B", "C", "D", "E"} {
			if _, ok := watch.by[q][name]; ok {
				got += name
			}
		}
		if got != want {
			t.Errorf("quantum %d: %s, want %s", q+1, got, want)
		}
	}
}

// Section 3.3: a new job lives on the server with the least tickets for each of its GPUs,
// of equal ones that with more GPUs free, and takes its turns there.
func TestLoad(t *testing.T) {
	watch := &ran{runs: map[string]string{}}
	simtest.Go(t, simtest.Config{Cluster: simtest.Nodes(2, 4), Make: with(func(*gandivafair.Config) {}), Unchecked: true, Sinks: []engine.Sink{watch}},
		simtest.Job{Key: "a", Tenant: "x", GPUs: 2, Run: 100}, simtest.Job{Key: "b", Tenant: "x", GPUs: 4, Run: 100},
		simtest.Job{Key: "c", Tenant: "x", At: 11, GPUs: 1, Run: 100}, simtest.Job{Key: "d", Tenant: "x", At: 12, GPUs: 1, Run: 100})
	for key, want := range map[string]string{"a": "0", "b": "1", "c": "0", "d": "0"} {
		if got := watch.by[2][key]; got != want {
			t.Errorf("%s runs on %q, want %q", key, got, want)
		}
	}
}

// Of six gangs on two servers the two that end first lived on one: a gang of the other moves
// there, so that all go on at one rate, and stays. Where only one is left on a server, no GPU
// is idle beside one that waits on the other.
func TestMigrates(t *testing.T) {
	var jobs []simtest.Job
	for i, run := range []float64{600, 50, 600, 50, 600, 600} {
		jobs = append(jobs, simtest.Job{Key: fmt.Sprint(i), Tenant: "x", GPUs: 4, Run: run})
	}
	run := simtest.Go(t, simtest.Config{Cluster: simtest.Nodes(2, 4), Make: with(func(*gandivafair.Config) {}), Unchecked: true}, jobs...)
	first, last := math.Inf(1), 0.0
	for _, key := range []string{"0", "2", "4", "5"} {
		first, last = min(first, run.End(key)), max(last, run.End(key))
	}
	if last > 1300 || last-first > 150 {
		t.Errorf("the four end from %v to %v\n%s", first, last, strings.Join(run.Log, "\n"))
	}
}

// A gang that no server can hold takes whole servers when it is due, and has its share.
func TestCentral(t *testing.T) {
	jobs := []simtest.Job{{Key: "large", Tenant: "x", GPUs: 8, Run: 500}}
	for i := range 8 {
		jobs = append(jobs, simtest.Job{Key: fmt.Sprint(i), Tenant: "y", GPUs: 1, Run: 1000})
	}
	run := simtest.Go(t, simtest.Config{Cluster: simtest.Nodes(2, 4), Make: with(func(*gandivafair.Config) {}), Unchecked: true}, jobs...)
	if end := run.End("large"); math.Abs(end-1000) > 30 {
		t.Errorf("the large gang ends at %v, want about 1000", end)
	}
}

// Users whose jobs are believed to gain all the same from fast GPUs trade as soon as
// jobs have run on both generations. With beliefs alone nobody would.
func TestProfiles(t *testing.T) {
	speeds := generations{"a": 1.2, "b": 5, "c": 4}
	var jobs []simtest.Job
	for i := range 36 {
		model := string(rune('a' + i%3))
		jobs = append(jobs, simtest.Job{Key: fmt.Sprint(i), Tenant: model, Model: model, GPUs: 1, Run: 4000})
	}
	for profile, want := range map[bool]float64{false: 26.4, true: 30.5} {
		c := cluster.New()
		for _, typ := range []cluster.GPUType{{Name: "slow", Speed: 1}, {Name: "fast", Speed: 4}} {
			id, err := c.AddType(typ)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := c.AddNode(cluster.NodeSpec{GPUs: []cluster.GPUs{{Type: id, Count: 6}}}); err != nil {
				t.Fatal(err)
			}
		}
		done := work{at: 1800 * time.Second, by: map[string]float64{}}
		simtest.Go(t, simtest.Config{
			Cluster: c, Make: with(func(c *gandivafair.Config) { c.Profile = profile }), Model: speeds, Unchecked: true, Sinks: []engine.Sink{done},
		}, jobs...)
		if got := (done.by["a"] + done.by["b"] + done.by["c"]) / 1800; math.Abs(got/want-1) > 0.04 {
			t.Errorf("profile %v: %v seconds of work a second, want %v: %v", profile, got, want, done.by)
		}
	}
}

// onePerPiece starts the first job as a policy does that places task by task, and is
// gandiva_fair from then on.
type onePerPiece struct {
	sched.Policy
	on cluster.Alloc
}

func (o *onePerPiece) Decide(v *sched.View, p *sched.Plan) {
	if v.Now == 0 {
		p.StartOn(0, &o.on)
		return
	}
	o.Policy.Decide(v, p)
}

func (o *onePerPiece) NextWake(v *sched.View) time.Duration {
	return o.Policy.(sched.Waker).NextWake(v)
}

// A gang that another policy has put on a node task by task, and on GPUs of two types, moves
// to GPUs of one type at the next round: the node counts once among those that hold it.
func TestCentralTaskByTask(t *testing.T) {
	c := cluster.New()
	for i, gpus := range []int{1, 1, 4} {
		typ, err := c.AddType(cluster.GPUType{Name: []string{"a", "b", "a"}[i], Speed: 1})
		if _, e := c.AddNode(cluster.NodeSpec{GPUs: []cluster.GPUs{{Type: typ, Count: gpus}}}); err != nil || e != nil {
			t.Fatal(err, e)
		}
	}
	on := cluster.Alloc{Pieces: []cluster.Piece{{Node: 1, Tasks: 1, Shares: 1}}, Shares: []cluster.Share{{Device: 1, Milli: 1000}}}
	for d := cluster.DeviceID(2); d < 6; d++ {
		on.Pieces = append(on.Pieces, cluster.Piece{Node: 2, Tasks: 1, Shares: 1})
		on.Shares = append(on.Shares, cluster.Share{Device: d, Milli: 1000})
	}
	run := simtest.Go(t, simtest.Config{Cluster: c, Make: func() (sched.Policy, error) {
		p, err := gandivafair.NewConfig().Policy()
		return &onePerPiece{p, on}, err
	}, Unchecked: true}, simtest.Job{Key: "large", GPUs: 5, Run: 200})
	moved := slices.ContainsFunc(run.Log, func(line string) bool { return strings.Contains(line, "60 move large on n0[0]+n2[0-3]") })
	if !moved || run.End("large") != 200 {
		t.Errorf("%s", strings.Join(run.Log, "\n"))
	}
}
