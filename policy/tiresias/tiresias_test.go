package tiresias_test

import (
	"strings"
	"testing"

	"github.com/norn-scheduler/norn/policy/shortest"
	"github.com/norn-scheduler/norn/policy/tiresias"
	"github.com/norn-scheduler/norn/sched"
	"github.com/norn-scheduler/norn/sim/simtest"
)

func config(change func(*tiresias.Config)) func() (sched.Policy, error) {
	return func() (sched.Policy, error) {
		c := tiresias.NewConfig()
		if change != nil {
			change(c)
		}
		return c.Policy()
	}
}

var threeJobs = []simtest.Job{
	{Key: "J1", GPUs: 2, Run: 2}, {Key: "J2", GPUs: 1, Run: 8}, {Key: "J3", GPUs: 2, Run: 6},
}

// Gu et al., section 2.2, figure 3: three jobs on two GPUs under orders that
// know the run times.
func TestThreeJobExample(t *testing.T) {
	for _, c := range []struct {
		name string
		make func() (sched.Policy, error)
		ends [3]float64
	}{
		{"SRSF", shortest.NewSRSF().Policy, [3]float64{2, 10, 16}},
		{"SRTF", shortest.NewSRTF().Policy, [3]float64{2, 16, 8}},
	} {
		run := simtest.Go(t, simtest.Config{Cluster: simtest.Nodes(1, 2), Make: c.make}, threeJobs...)
		for i, key := range []string{"J1", "J2", "J3"} {
			if got := run.End(key); got != c.ends[i] {
				t.Errorf("%s: %s ends at %v, want %v", c.name, key, got, c.ends[i])
			}
		}
	}
}

var mlfq = []simtest.Job{
	{Key: "A", GPUs: 4, Run: 100}, {Key: "B", At: 10, GPUs: 2, Run: 40}, {Key: "C", At: 10, GPUs: 2, Run: 20},
}

// Section 3.2: a job that has attained the limit leaves the first queue at that
// very moment and makes room.
func TestDemotion(t *testing.T) {
	run := simtest.Go(t, simtest.Config{
		Cluster: simtest.Nodes(1, 4),
		Make:    config(func(c *tiresias.Config) { c.Limits = []float64{100} }),
	}, mlfq...)
	for key, want := range map[string]float64{"A": 140, "B": 55, "C": 35} {
		if got := run.JCT(key); got != want {
			t.Errorf("JCT of %s is %v, want %v", key, got, want)
		}
	}
	if n := run.Preemptions(); n != 1 {
		t.Errorf("%d preemptions, want 1", n)
	}
}

// Section 3.4: PROMOTEKNOB.
func TestPromotion(t *testing.T) {
	for kappa, promoted := range map[float64]bool{1: true, 2: false} {
		run := simtest.Go(t, simtest.Config{
			Cluster: simtest.Nodes(1, 4),
			Make:    config(func(c *tiresias.Config) { c.Limits, c.Promote = []float64{100}, kappa }),
		}, mlfq...)
		note := run.Record("A").Note.Fields()
		if got := strings.Contains(note, `"ran_before":25`); got != promoted {
			t.Errorf("kappa %v: promoted %v (note %s), want %v", kappa, got, note, promoted)
		}
		if run.End("A") != 140 || run.End("B") != 65 || run.End("C") != 45 {
			t.Errorf("kappa %v: ends %v %v %v", kappa, run.End("A"), run.End("B"), run.End("C"))
		}
	}
}
