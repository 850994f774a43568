package policy_test

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/policy"
	"github.com/norn-scheduler/norn/sim/simtest"
)

// TestMemoryThatIsTold: where jobs take of each GPU what they tell in their hints, nobody is
// thrown off one for its memory.
func TestMemoryThatIsTold(t *testing.T) {
	for _, name := range []string{"bsbf", "muri-s", "muri-l", "gandiva", "muxflow", "lucid"} {
		e, err := policy.ByName(name)
		if err != nil {
			t.Fatal(err)
		}
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				shape := simtest.Shape{Packed: true, Shared: true}
				w := simtest.Draw(t, shape)
				for i := range w.Jobs {
					var told job.Job
					w.Jobs[i].Spec(&told)
					w.Jobs[i].GPUMemory = told.Hints.GPUMemory
					spec, stage := w.Jobs[i].Spec, rapid.IntRange(0, 2).Draw(t, "stage") // that takes most of its time
					w.Jobs[i].Spec = func(j *job.Job) {
						spec(j)
						h := *j.Hints
						h.Iteration, h.Stages = 4*time.Second, [3]time.Duration{time.Second, time.Second, time.Second}
						h.Stages[stage] = 2 * time.Second
						j.Hints = &h
					}
				}
				w.Make = e.New().Policy
				w.Fresh(t, shape, rapid.SliceOfN(rapid.IntRange(1, 4), 1, 3).Draw(t, "nodes"))
				run, err := simtest.Try(w.Config, w.Jobs...)
				if err != nil {
					t.Fatalf("%v\n%s", err, strings.Join(run.Log, "\n"))
				}
				for _, l := range run.Log {
					if strings.Contains(l, " evict ") {
						t.Fatalf("%s\n%s", l, strings.Join(run.Log, "\n"))
					}
				}
			})
		})
	}
}
