package policy_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/norn-scheduler/norn/policy"
	"github.com/norn-scheduler/norn/sim/simtest"
)

// TestNoForesight: no policy sees what jobs will train with before they say so. Of two
// worlds in which a job goes on in another way from some change on, every policy decides
// the same up to the moment of that change.
func TestNoForesight(t *testing.T) {
	met := 0
	for _, e := range policy.Table() {
		t.Run(e.Name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				shape := simtest.Shape{Adapts: true, Costs: true, Shared: e.Acts.Has(policy.Shares)}
				w := simtest.Draw(t, shape)
				w.Make = e.New().Policy
				which := rapid.IntRange(0, len(w.Jobs)-1).Draw(t, "whose future")
				play := func(jobs []simtest.Job) []string {
					w.Fresh(t, shape, []int{4, 2})
					run, err := simtest.Try(w.Config, jobs...)
					if err != nil {
						t.Fatalf("%v\n%s", err, strings.Join(run.Log, "\n"))
					}
					return run.Log
				}
				other := slices.Clone(w.Jobs)
				course := slices.Clone(other[which].Course)
				if len(course) < 2 {
					return
				}
				from := rapid.IntRange(1, len(course)-1).Draw(t, "from change")
				for i := from; i < len(course); i++ {
					course[i].Batch, course[i].Pace, course[i].Noise = 64, 3, 777
				}
				other[which].Course = course
				a, b := play(w.Jobs), play(other)
				same := 0
				for same < min(len(a), len(b)) && a[same] == b[same] {
					same++
				}
				if same == len(a) && same == len(b) {
					return // the change never came
				}
				met++
				if said := fmt.Sprintf(" config %s ", w.Jobs[which].Key); same >= len(b) || !strings.Contains(b[same], said) || !strings.Contains(b[same], "noise=777") {
					t.Fatalf("it decides otherwise before the job has changed:\n%s\n---\n%s", strings.Join(a[:min(len(a), same+1)], "\n"), strings.Join(b[:min(len(b), same+1)], "\n"))
				}
			})
		})
	}
	if met == 0 {
		t.Error("no change was ever met")
	}
}
