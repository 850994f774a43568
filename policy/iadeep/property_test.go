package iadeep

import (
	"testing"

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

// TestWorlds runs the policy over random worlds, replaced by a new one at random moments,
// at settings that change its course.
func TestWorlds(t *testing.T) {
	longtest.Skip(t)
	for name, set := range map[string]map[string]string{
		"defaults": nil, "short": {"settling": "2s", "left": "0s", "jobs": "4", "explore": "1", "util": "1"},
		"cluster": {"choose": "cluster", "settling": "7s", "left": "5s", "trials": "3"}, "first-fit": {"choose": "first-fit", "tune": "false"},
	} {
		for shape, s := range map[string]simtest.Shape{
			"packed": {Packed: true}, "types": {Packed: true, Types: true, Costs: true}, "operated": {Packed: true, Operated: true, Costs: true}, "failures": {Failures: true, Operated: true},
		} {
			s.Shared = true
			t.Run(name+"/"+shape, func(t *testing.T) {
				simtest.Properties(t, s, func() (sched.Policy, error) {
					c := NewConfig()
					for k, v := range set {
						if err := c.Params().Set(k, v); err != nil {
							return nil, err
						}
					}
					return c.Policy()
				})
			})
		}
	}
}

// watch notes what must never be.
type watch struct{ wrong string }

// Event implements engine.Sink.
func (w *watch) Event(_ *eventlog.Event, s *state.State) {
	tuned := map[cluster.DeviceID]job.ID{}
	memory := map[cluster.DeviceID]unit.Bytes{}
	v := sched.NewView(s, nil, false)
	for i := range s.Running(0).All() {
		id := job.ID(i)
		share, r := s.Alloc(id).Shares[0], s.Record(id)
		if owns(v.Job(id)) {
			if other, two := tuned[share.Device]; two {
				w.wrong = "jobs " + s.Record(other).Job.Key + " and " + r.Job.Key + " tune one GPU"
			}
			tuned[share.Device] = id
		}
		if memory[share.Device] += share.Memory; memory[share.Device] > 24*unit.GiB {
			w.wrong = "more memory is booked than there is"
		}
		if b, own := int(share.Batch), r.Job.Batch; b != 0 && (b < own*2/3-1 || b > 2*own) {
			w.wrong = "job " + r.Job.Key + " has a batch out of bounds"
		}
	}
}

// Acceptance 5: never two tunings on one GPU, batches within bounds, memory within what
// there is, with jobs that are tuned in random company; and everybody ends, also when the
// policy is replaced at random moments.
func TestAlways(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sums := map[perf.Crowd]float64{"a+a": 0.9, "a+b": 0.4, "b+b": 0.1, "a+a+b": 1.6, "a+b+b": 0.8}
		var jobs []simtest.Job
		at := 0.0
		for i := range rapid.IntRange(2, 14).Draw(t, "jobs") {
			at += float64(rapid.IntRange(0, 40).Draw(t, "gap"))
			j := task(string(rune('a'+i)), rapid.SampledFrom([]string{"a", "b"}).Draw(t, "sort"), at, float64(rapid.IntRange(1, 300).Draw(t, "run")))
			own, asks, uses := rapid.SampledFrom([]int{0, 1, 8, 512}).Draw(t, "batch"), rapid.IntRange(4, 12).Draw(t, "asks"), rapid.IntRange(1, 4).Draw(t, "uses")
			step := rapid.IntRange(0, 900).Draw(t, "step")
			j.Spec = func(j *job.Job) {
				d := *j.Demand
				d.Roles[0].GPUMemory = unit.Bytes(asks) * unit.GiB
				j.Demand, j.Batch = &d, own
				j.Hints = &job.Hints{GPUMemory: unit.Bytes(uses) * unit.GiB, GPUUse: 0.3, Iteration: duration(step)}
			}
			j.GPUMemory = unit.Bytes(uses) * unit.GiB
			jobs = append(jobs, j)
		}
		cfg := node(rapid.IntRange(1, 3).Draw(t, "GPUs"), sums, func(c *Config) { c.Left = 0 })
		world := cfg.World
		cfg.World = func(c *sim.Config) { world(c) }
		w := &watch{}
		cfg.Sinks = append(cfg.Sinks, w)
		cfg.Restart = rapid.Bool().Draw(t, "restart")
		run, err := simtest.Try(cfg, jobs...)
		if err != nil || w.wrong != "" || len(run.State.Ended()) != len(jobs) || run.Preemptions() > 0 {
			t.Fatalf("%v %s: %d of %d ended, %d preempted%s", err, w.wrong, len(run.State.Ended()), len(jobs), run.Preemptions(), text(run))
		}
	})
}
