package engine_test

import (
	"slices"
	"testing"
	"time"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/sched"
	"github.com/norn-scheduler/norn/sim/simtest"
)

// yields runs the job that came last, and first measures it for ten seconds.
type yields struct{ saw *bool }

// Decide implements sched.Policy.
func (y yields) Decide(v *sched.View, p *sched.Plan) {
	*y.saw = v.Profiles
	for j := range v.Running() {
		if j.Profiling() && v.Now >= j.Ready()+10*time.Second {
			p.Stop(j.ID, job.Reason{Code: job.Profiled, Job: job.None})
		}
	}
	for j := range v.Waiting() {
		if j.ID == 0 && j.RunTime() > 0 {
			continue
		}
		for r := range v.Running() {
			if p.Alloc(r.ID) != nil {
				p.Stop(r.ID, job.Reason{Code: job.Outranked, Job: j.ID})
			}
		}
		a := cluster.Alloc{Pieces: []cluster.Piece{{Tasks: 1, Shares: 1}}, Shares: []cluster.Share{{Device: 0, Milli: 1000}}}
		if j.ID == 0 || j.Reason().Code == job.Profiled {
			p.StartOn(j.ID, &a)
		} else {
			p.Profile(j.ID, &a)
		}
	}
}

// NextWake implements sched.Waker.
func (yields) NextWake(v *sched.View) time.Duration { return (v.Now/time.Second + 1) * time.Second }

// TestProfileBehindAnother: a job to be measured on a device that another is
// still leaving is measured after that, and does not simply run. A policy knows
// whether jobs can be measured.
func TestProfileBehindAnother(t *testing.T) {
	saw := false
	run := simtest.Go(t, simtest.Config{
		Cluster: simtest.Nodes(1, 1), Costs: perf.Costs{Base: perf.Cost{Checkpoint: 5 * time.Second}}, Unchecked: true,
		Make: func() (sched.Policy, error) { return yields{&saw}, nil },
	}, simtest.Job{Key: "a", GPUs: 1, Run: 100}, simtest.Job{Key: "b", At: 20, GPUs: 1, Run: 30})
	for _, line := range []string{"20 assign b on n0[0]", "25 start b on n0[0] profile"} {
		if !slices.Contains(run.Log, line) {
			t.Errorf("no %q in %q", line, run.Log)
		}
	}
	if got := run.End("b"); got != 66 { // measured from 25 to 35, and started a second later
		t.Errorf("b ends at %v", got)
	}
	if !saw {
		t.Error("the policy was not told that jobs can be measured")
	}
}
