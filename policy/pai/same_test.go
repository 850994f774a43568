package pai_test

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/norn-scheduler/norn/place"
	"github.com/norn-scheduler/norn/policy/fifo"
	"github.com/norn-scheduler/norn/policy/pai"
	"github.com/norn-scheduler/norn/policy/shortest"
	"github.com/norn-scheduler/norn/sched"
	"github.com/norn-scheduler/norn/sim/simtest"
)

// TestSameAsOthers holds the orders that need no history against the plain
// policies that they amount to where nothing is reserved.
func TestSameAsOthers(t *testing.T) {
	for _, c := range []struct {
		by    pai.By
		other func() (sched.Policy, error)
	}{
		{pai.Estimate, shortest.NewSJF().Policy},
		{pai.Submit, (&fifo.Config{Mode: fifo.Skip, Place: place.Pack}).Policy},
	} {
		mine := config(func(cfg *pai.Config) { cfg.By, cfg.Reserve, cfg.Place = c.by, nil, place.Pack })
		rapid.Check(t, func(t *rapid.T) {
			shape := simtest.Shape{Types: rapid.Bool().Draw(t, "types"), Parts: rapid.Bool().Draw(t, "parts"), Failures: rapid.Bool().Draw(t, "failures")}
			w := simtest.Draw(t, shape)
			nodes := rapid.SliceOfN(rapid.IntRange(1, 6), 1, 4).Draw(t, "nodes")
			logs := [2][]string{}
			for i, policy := range []func() (sched.Policy, error){mine, c.other} {
				w.Fresh(t, shape, nodes)
				w.Make = policy
				run, err := simtest.Try(w.Config, w.Jobs...)
				if err != nil {
					t.Fatal(err)
				}
				logs[i] = slices.DeleteFunc(run.Log, func(line string) bool { return strings.Contains(line, " wait ") })
			}
			if !slices.Equal(logs[0], logs[1]) {
				t.Fatalf("order %v decides\n%s\n--- the other policy\n%s", c.by, strings.Join(logs[0], "\n"), strings.Join(logs[1], "\n"))
			}
		})
	}
}
