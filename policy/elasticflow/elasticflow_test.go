package elasticflow

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
	"github.com/norn-scheduler/norn/eventlog"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/perf/predict"
	"github.com/norn-scheduler/norn/sched"
	"github.com/norn-scheduler/norn/sim"
	"github.com/norn-scheduler/norn/sim/simtest"
)

const s = time.Second

// concave are sizes of 1, 2 and 4 GPUs with throughputs 1, 1.5 and 2.
var concave = []Size{{1, 1, 1}, {2, 2, 1.5}, {4, 4, 2}}

// due is a job of 1 GPU that trains model m, and is elastic up to most GPUs.
func due(key string, at, run, deadline float64, most int, m string) simtest.Job {
	d := job.GPUs(1)
	if most > 1 {
		d.Roles[0].Min, d.Roles[0].Max = 1, int32(most)
	}
	return simtest.Job{Key: key, At: at, Run: run, Demand: &d, Model: m, Spec: func(j *job.Job) {
		if deadline > 0 {
			j.Deadline = time.Duration(deadline * float64(s))
		}
	}}
}

var curves = perf.Curves{{Model: "concave"}: {1, 1.5, 2, 2.2}, {Model: "flat"}: {1, 1.01, 1.01}}

func world(nodes, gpus int, cfg *Config) simtest.Config {
	return simtest.Config{Cluster: simtest.Nodes(nodes, gpus), Model: curves, Speeds: curves, Seed: 1, Make: func() (sched.Policy, error) { return cfg.Policy() }}
}

// inTime are the jobs that end by their deadlines, and those that were refused.
func inTime(run *simtest.Run) (met, refused []string) {
	for i := range run.State.Jobs() {
		r := run.State.Record(job.ID(i))
		if r.Phase == job.Done && r.End <= r.Job.Deadline {
			met = append(met, r.Job.Key)
		}
		if r.Reason.Code == job.Refused {
			refused = append(refused, r.Job.Key)
		}
	}
	return met, refused
}

// TestEDFIsNotEnough has two jobs of 3 units on two GPUs, due after 3 and 3.5. On both GPUs one
// after the other they end after 2 and 4, and on a GPU each after 3 (the motivating example
// of the paper).
func TestEDFIsNotEnough(t *testing.T) {
	jobs := []simtest.Job{due("a", 0, 3, 3.01, 2, "concave"), due("b", 0, 3, 3.5, 2, "concave")}
	run := simtest.Go(t, world(1, 2, NewEDF()), jobs...)
	if met, _ := inTime(run); !slices.Equal(met, []string{"a"}) || run.End("a") != 2 || run.End("b") != 4 {
		t.Errorf("edf: %v in time, ends %v and %v", met, run.End("a"), run.End("b"))
	}
	run = simtest.Go(t, world(1, 2, NewConfig()), jobs...)
	if met, _ := inTime(run); len(met) != 2 || run.End("a") != 3 || run.End("b") != 3 {
		t.Errorf("elasticflow: %v in time, ends %v and %v", met, run.End("a"), run.End("b"))
	}
}

// TestMinimumShare fills level by level: with a GPU free in the first slot and three in the
// second, a job has one and then two; on four it would have none in time.
func TestMinimumShare(t *testing.T) {
	p := NewProfile(0, 4)
	p.Take(0, 10*s, 3)
	p.Take(10*s, 20*s, 1)
	for _, c := range []struct {
		left, due float64
		want      string
	}{
		{10, 20, "[{0s 1}] 10s"},
		{20, 25, "[{0s 1}] 20s"},
		{24, 20, "[{0s 1} {10s 2}] 19.333333333s"},
		{26, 20, "[] 0s"},
		{34, 25, "[{0s 1} {10s 2} {20s 4}] 24.5s"},
	} {
		w := Work{Left: c.left, Sizes: concave}
		plan, end, ok := Fill(p, &w, 0, time.Duration(c.due*float64(s))+1)
		if got := fmt.Sprint([]Segment(plan), " ", end); got != c.want || ok != (len(plan) > 0) {
			t.Errorf("%v due %v: %s, want %s", c.left, c.due, got, c.want)
		}
	}
}

// TestFill compares schedules with a simulation second by second, and tries all lower levels.
func TestFill(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := NewProfile(0, 8)
		for range rapid.IntRange(0, 5).Draw(t, "taken") {
			from := rapid.IntRange(0, 30).Draw(t, "from")
			to := from + rapid.IntRange(1, 20).Draw(t, "for")
			p.Take(time.Duration(from)*s, time.Duration(to)*s, rapid.IntRange(0, p.Least(time.Duration(from)*s, time.Duration(to)*s)).Draw(t, "gpus"))
		}
		w := Work{Left: float64(rapid.IntRange(1, 60).Draw(t, "left")), Sizes: concave}
		deadline := rapid.IntRange(1, 50).Draw(t, "due")
		does := func(level int) (work float64) { // in whole seconds up to the deadline
			for at := range deadline {
				work += w.largest(min(level, p.Free(time.Duration(at)*s))).Speed
			}
			return work
		}
		plan, end, ok := Fill(p, &w, 0, time.Duration(deadline)*s)
		least := slices.IndexFunc(concave, func(x Size) bool { return does(x.GPUs) > w.Left+1e-9 })
		tie := slices.ContainsFunc(concave, func(x Size) bool { return math.Abs(does(x.GPUs)-w.Left) < 1e-6 })
		if ok != (least >= 0) && !tie {
			t.Fatalf("a schedule: %v, least level %d", ok, least)
		}
		if !ok || tie {
			return
		}
		most := 0
		for _, x := range plan {
			most = max(most, x.Tasks)
		}
		if end > time.Duration(deadline)*s || plan.End(&w, 0) != end || !plan.Fits(p, &w, 0, end) || most > concave[least].Tasks {
			t.Fatalf("%v ends %v or %v", plan, end, plan.End(&w, 0))
		}
		plan.Take(p, &w, 0, end)
		if p.Least(0, unit.Never) < 0 {
			t.Fatal("more than there is")
		}
	})
}

// TestDivide gives spare GPUs to those who have none, and then where they cost least of GPU time.
func TestDivide(t *testing.T) {
	linear := []Size{{1, 1, 1}, {2, 2, 2}, {4, 4, 4}}
	for _, c := range []struct {
		free int
		want []int // place of the size
	}{{0, []int{0, 0, -1}}, {1, []int{0, 0, 0}}, {2, []int{0, 1, 0}}, {4, []int{0, 2, 0}}, {5, []int{1, 2, 0}}, {9, []int{2, 2, 1}}} {
		all := []*Share{{Work: Work{Left: 10, Sizes: concave}}, {Work: Work{Left: 10, Sizes: linear}}, {Work: Work{Left: 90, Sizes: concave}, Size: -1}}
		Divide(c.free, all)
		var got []int
		for _, x := range all {
			got = append(got, x.Size)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%d free: %v, want %v", c.free, got, c.want)
		}
	}
}

// TestRefused tells who is refused, by name and reason, and runs soft ones and, if asked to, all.
func TestRefused(t *testing.T) {
	soft := due("soft", 0, 100, 20, 1, "")
	strict := soft.Spec
	soft.Spec = func(j *job.Job) { strict(j); j.Soft = true }
	jobs := []simtest.Job{due("kept", 0, 100, 150, 1, ""), due("alone", 0, 100, 50, 1, ""), due("beside", 0, 100, 120, 1, ""), soft, due("free", 0, 30, 0, 1, "")}
	run := simtest.Go(t, world(1, 1, NewConfig()), jobs...)
	met, refused := inTime(run)
	if !slices.Equal(met, []string{"kept"}) || !slices.Equal(refused, []string{"alone", "beside"}) || run.End("soft") < 0 || run.End("free") < 0 {
		t.Errorf("%v in time, %v refused", met, refused)
	}
	log := strings.Join(run.Log, "\n")
	for _, want := range []string{
		"wait alone: was refused: it needs 1m40s even on 1 GPU, and its deadline is in 50s",
		"wait beside: was refused: its deadline is in 2m, and beside other jobs with deadlines it would end in 3m20s at the earliest",
	} {
		if !strings.Contains(log, want) {
			t.Errorf("no %q in\n%s", want, log)
		}
	}
	cfg := NewConfig()
	cfg.Refused = Run
	run = simtest.Go(t, world(1, 1, cfg), jobs...)
	if met, refused := inTime(run); !slices.Equal(met, []string{"kept"}) || refused != nil || run.End("alone") < 0 || run.End("beside") < 0 {
		t.Errorf("%v in time, %v refused", met, refused)
	}
}

// TestPromises admits nobody who then misses his deadline, and refuses nobody who could be alone.
// Jobs come and scale at random, run times are known, and changes cost nothing. A policy that
// starts anew decides the same.
func TestPromises(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		nodes, gpus := rapid.IntRange(1, 3).Draw(t, "nodes"), rapid.SampledFrom([]int{1, 2, 4}).Draw(t, "gpus")
		costs := perf.Cost{}
		if rapid.Bool().Draw(t, "costs") {
			nodes = 1 // nobody has to move
			costs = perf.Cost{Start: duration(t, "start"), Restore: duration(t, "restore"), Resize: duration(t, "resize")}
		}
		at, jobs := 0.0, []simtest.Job(nil)
		for i := range rapid.IntRange(1, 14).Draw(t, "jobs") {
			at += float64(rapid.IntRange(0, 40).Draw(t, "gap"))
			run, deadline := float64(rapid.IntRange(1, 200).Draw(t, "run")), 0.0
			if rapid.IntRange(0, 4).Draw(t, "best effort") > 0 {
				deadline = at + run*float64(rapid.IntRange(40, 300).Draw(t, "slack"))/100
			}
			most := rapid.SampledFrom([]int{1, 2, 4, 8}).Draw(t, "most")
			jobs = append(jobs, due(fmt.Sprint("j", i), at, run, deadline, most, rapid.SampledFrom([]string{"concave", "flat", "linear"}).Draw(t, "model")))
		}
		cfg := world(nodes, gpus, NewConfig())
		cfg.Costs.Base = costs
		run, err := simtest.Try(cfg, jobs...)
		if err != nil {
			t.Fatal(err)
		}
		for i := range run.State.Jobs() {
			r := run.State.Record(job.ID(i))
			ended := r.Phase == job.Done && (r.Job.Deadline == 0 || r.End <= r.Job.Deadline)
			if !ended && r.Reason.Code != job.Refused {
				t.Fatalf("job %s is %s at %v, due %v\n%s", r.Job.Key, r.Phase, r.End, r.Job.Deadline, strings.Join(run.Log, "\n"))
			}
		}
		cfg = world(nodes, gpus, NewConfig())
		cfg.Costs.Base, cfg.Restart = costs, true
		again, err := simtest.Try(cfg, jobs...)
		if err != nil {
			t.Fatal(err)
		}
		simtest.SameDecisions(t, "a policy that starts anew", run.Log, again.Log)
	})
}

func duration(t *rapid.T, what string) time.Duration {
	return time.Duration(rapid.IntRange(0, 8).Draw(t, what)) * s
}

// TestNoteFields keeps a note as it is.
func TestNoteFields(t *testing.T) {
	n := note{state: promised, on: "A100", plan: Schedule{{0, 0}, {5 * s, 4}, {7*s + 1, 2}}}
	got := recall(simtest.Noted(t, &n))
	if got.state != n.state || got.on != n.on || !slices.Equal(got.plan, n.plan) {
		t.Errorf("%+v", got)
	}
}

// TestLostNode makes promises anew when a node is lost, as far as they can be kept, and ends all.
func TestLostNode(t *testing.T) {
	c := NewConfig()
	cfg := world(2, 2, c)
	jobs := []simtest.Job{due("a", 0, 100, 400, 2, "concave"), due("b", 0, 100, 400, 2, "concave"), due("tight", 0, 150, 101, 2, "concave")}
	run := simtest.Go(t, cfg, jobs...)
	if met, _ := inTime(run); len(met) != 3 {
		t.Fatalf("%v in time with all nodes", met)
	}
	cfg = world(2, 2, c)
	cfg.World = func(c *sim.Config) {
		c.Script = []eventlog.Event{{Time: 10 * s, Kind: eventlog.NodeSet, Node: 1, Health: cluster.Down}}
	}
	run = simtest.Go(t, cfg, jobs...)
	if met, refused := inTime(run); slices.Contains(met, "tight") || len(met) != 2 || refused != nil || run.End("tight") < 0 {
		t.Errorf("%v in time, %v refused, the late one ends at %v", met, refused, run.End("tight"))
	}
}

// ten takes every job to run for ten seconds.
type ten struct{ predict.None }

func (ten) Estimate(*job.Job) (time.Duration, bool) { return 10 * s, true }

// TestOverrun: a job that has run for as long as was believed, with a promise or without, and
// has not ended, does not have the policy decide again and again.
func TestOverrun(t *testing.T) {
	for _, gpus := range []int{1, 2} {
		w := world(1, gpus, NewConfig())
		w.Estimator = ten{}
		run := simtest.Go(t, w, due("first", 0, 2000, 100, 1, ""), due("second", 1, 5, 60, 1, ""), due("third", 2, 500, 9000, 1, ""), due("fourth", 3, 500, 9000, 1, ""))
		if len(run.Log) > 300 {
			t.Errorf("on %d GPUs: %d events", gpus, len(run.Log))
		}
	}
}
