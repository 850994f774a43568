package themis_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/norn-scheduler/norn/internal/longtest"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/policy/themis"
	"github.com/norn-scheduler/norn/sched"
	"github.com/norn-scheduler/norn/sim/simtest"
)

var variants = map[string]themis.Variant{"auction": themis.ByAuction, "greedy": themis.ByRho}

// of has a job be one of an app.
func of(app string, rungs string, iteration time.Duration) func(*job.Job) {
	return func(j *job.Job) {
		j.App = app
		if r, _ := job.ParseRungs(rungs); rungs != "" {
			j.Hints = &job.Hints{Rungs: r, Iteration: iteration}
		}
	}
}

// TestAppIsOneParty: a search of eight jobs and one of two share two GPUs. As apps each has one
// of them, as long as both are there: the two jobs, of 1,200 s each, end after about 2,400 s. As
// ten parties each has a fifth of a GPU, and the two jobs end later.
func TestAppIsOneParty(t *testing.T) {
	for name, variant := range variants {
		end := func(app bool) (last float64) {
			var jobs []simtest.Job
			for i := range 10 {
				j := simtest.Job{Key: fmt.Sprint(i), GPUs: 1, Run: 1200}
				if app {
					j.Spec = of(map[bool]string{true: "few", false: "many"}[i >= 8], "", 0)
				}
				jobs = append(jobs, j)
			}
			run := simtest.Go(t, simtest.Config{Cluster: simtest.Nodes(1, 2), Make: with(func(c *themis.Config) { c.Variant = variant })}, jobs...)
			return max(run.End("8"), run.End("9"))
		}
		if apps, jobs := end(true), end(false); apps > 2400*1.1 || jobs < 2400*1.5 {
			t.Errorf("%s: the two jobs end at %v as an app and at %v as two, want about 2400 and much later", name, apps, jobs)
		}
	}
}

// TestAppsOfUsers: apps of one name are one where their user is one.
func TestAppsOfUsers(t *testing.T) {
	var jobs []simtest.Job
	for i := range 10 {
		jobs = append(jobs, simtest.Job{Key: fmt.Sprint(i), User: map[bool]string{true: "few", false: "many"}[i >= 8], GPUs: 1, Run: 1200, Spec: of("search", "", 0)})
	}
	run := simtest.Go(t, simtest.Config{Cluster: simtest.Nodes(1, 2), Make: with(func(*themis.Config) {})}, jobs...)
	if last := max(run.End("8"), run.End("9")); last > 2400*1.1 {
		t.Errorf("the jobs of the other user end at %v, want about 2400", last)
	}
}

// TestLowestRungFirst: of a search by successive halving on one GPU each job comes to the end
// of its rung before one goes on to the next, whichever was first.
func TestLowestRungFirst(t *testing.T) {
	for name, variant := range variants {
		jobs := []simtest.Job{
			{Key: "winner", GPUs: 1, Run: 480, Spec: of("search", "3x120+1x360", time.Second)},
			{Key: "b", GPUs: 1, Run: 120, Spec: of("search", "3x120+1x360", time.Second)},
			{Key: "c", GPUs: 1, Run: 120, Spec: of("search", "3x120+1x360", time.Second)},
		}
		run := simtest.Go(t, simtest.Config{Cluster: simtest.Nodes(1, 1), Make: with(func(c *themis.Config) { c.Variant = variant })}, jobs...)
		if run.End("b") > 360 || run.End("c") > 360 || run.End("winner") != 720 {
			t.Errorf("%s: jobs end at %v, %v and the winner at %v, want within 360 and at 720\n%v", name, run.End("b"), run.End("c"), run.End("winner"), run.Log)
		}
	}
}

// TestHalvingCountsWhatIsToCome: an app of successive halving that has submitted two of its four
// jobs has the work of all that are to come. So its finish time suffers less, in proportion,
// from a wait than that of another job of 900 s. Without rungs it is 600 s of work, and
// suffers more.
func TestHalvingCountsWhatIsToCome(t *testing.T) {
	for rungs, want := range map[string]bool{"": true, "4x300+2x600": false} {
		jobs := []simtest.Job{{Key: "before", GPUs: 1, Run: 120}, {Key: "other", At: 20, GPUs: 1, Run: 900}}
		for i := range 2 {
			jobs = append(jobs, simtest.Job{Key: fmt.Sprint(i), At: 20, GPUs: 1, Run: 300, Spec: of("search", rungs, time.Second)})
		}
		run := simtest.Go(t, simtest.Config{Cluster: simtest.Nodes(1, 1), Make: with(func(c *themis.Config) { c.Variant = themis.ByRho })}, jobs...)
		if first := min(run.Start("0"), run.Start("1")) < run.Start("other"); first != want {
			t.Errorf("rungs %q: the search starts at %v and %v, the other job at %v", rungs, run.Start("0"), run.Start("1"), run.Start("other"))
		}
	}
}

// TestApps: the invariants of every run hold where jobs are apps of several, and a policy that
// starts anew decides the same.
func TestApps(t *testing.T) {
	longtest.Skip(t)
	for name, change := range map[string]func(*themis.Config){
		"auction": func(*themis.Config) {},
		"greedy":  func(c *themis.Config) { c.Variant = themis.ByRho },
		"worst":   func(c *themis.Config) { c.Rest = themis.ToWorst },
	} {
		for world, shape := range map[string]simtest.Shape{
			"costs": {Apps: true, Costs: true, Busy: true}, "types": {Apps: true, Types: true, Busy: true}, "parts": {Apps: true, Parts: true},
			"spread": {Apps: true, Spread: true, Costs: true, Busy: true}, "operated": {Apps: true, Operated: true, Failures: true, Costs: true},
			"tenants": {Apps: true, Tenants: true},
		} {
			t.Run(name+"/"+world, func(t *testing.T) {
				simtest.Properties(t, shape, func() (sched.Policy, error) {
					return with(func(c *themis.Config) { c.Term = 20 * time.Second; change(c) })()
				})
			})
		}
	}
}

// TestOneNode: a gang that runs at half the speed where it is spread has to begin on two nodes
// of two GPUs. When leases end it wins the GPUs of one node, and moves there, although the
// job beside it on its first node keeps what it has.
func TestOneNode(t *testing.T) {
	end := func(spread float64) (float64, int32) {
		model := perf.Analytic{Scaling: 1, Spread: spread}
		run := simtest.Go(t, simtest.Config{Cluster: simtest.Nodes(2, 2), Make: with(func(c *themis.Config) { c.Fair = 0 }), Model: model, Speeds: model},
			simtest.Job{Key: "a", GPUs: 1, Run: 40}, simtest.Job{Key: "b", GPUs: 1, Run: 900}, simtest.Job{Key: "c", GPUs: 1, Run: 40},
			simtest.Job{Key: "d", GPUs: 1, Run: 100}, simtest.Job{Key: "gang", At: 5, GPUs: 2, Run: 300}, simtest.Job{Key: "waits", At: 50, GPUs: 2, Run: 900})
		if run.Start("gang") != 40 {
			t.Fatalf("the gang starts at %v, want 40\n%v", run.Start("gang"), run.Log)
		}
		return run.End("gang"), run.Record("gang").Migrations
	}
	if at, moves := end(0.5); at >= 600 || moves == 0 {
		t.Errorf("the gang ends at %v after %d moves, though it has a node to itself from 120 s on", at, moves)
	}
	if _, moves := end(1); moves != 0 {
		t.Errorf("a gang that is as fast where it is spread is moved %d times", moves)
	}
}
