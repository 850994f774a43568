package gavel_test

import (
	"math"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/policy/gavel"
	"github.com/norn-scheduler/norn/sched"
	"github.com/norn-scheduler/norn/sim"
	"github.com/norn-scheduler/norn/sim/simtest"
)

// strict is Gavel where nobody runs without a share, changed.
func strict(change func(*gavel.Config)) func() (sched.Policy, error) {
	return func() (sched.Policy, error) {
		c := gavel.NewConfig()
		c.Idle = false
		change(c)
		return c.Policy()
	}
}

// TestEvictedPairs: two jobs whose memory does not suffice for both have a share each from
// the next epoch on, though nobody has come or gone.
func TestEvictedPairs(t *testing.T) {
	c := cluster.New()
	typ, err := c.AddType(cluster.GPUType{Name: "gpu", Memory: 16 * unit.GiB})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.AddNode(cluster.NodeSpec{GPUs: []cluster.GPUs{{Type: typ, Count: 1}}}); err != nil {
		t.Fatal(err)
	}
	pairs := perf.Pairs{Speed: map[perf.Pair]float64{{Job: "a", Beside: "b"}: 0.9, {Job: "b", Beside: "a"}: 0.9}}
	large := func(key string) simtest.Job {
		return simtest.Job{Key: key, GPUs: 1, Run: 7200, Model: key, GPUMemory: 10 * unit.GiB, Spec: func(j *job.Job) { j.Retries = -1 }}
	}
	run := simtest.Go(t, simtest.Config{
		Cluster: c, Make: strict(func(c *gavel.Config) { c.Packed = true }), Shared: true, Sharing: pairs, World: func(c *sim.Config) { c.Sharing = pairs },
	}, large("a"), large("b"))
	log := strings.Join(run.Log, "\n")
	if !strings.Contains(log, "memory") {
		t.Fatalf("nobody was evicted\n%s", log)
	}
	for _, key := range []string{"a", "b"} {
		if end := run.End(key); end < 3*3600 || end > 5*3600 {
			t.Errorf("%s ends at %v s, want it to have half of the GPU once the epoch is over\n%s", key, end, log)
		}
	}
}

// changing is a policy in whose place another one comes.
type changing struct {
	sched.Policy
	at   time.Duration
	then sched.Policy
}

// Decide changes the policy when it is time.
func (c *changing) Decide(v *sched.View, p *sched.Plan) {
	if v.Now >= c.at {
		c.Policy, c.at = c.then, unit.Never
		v.First = true
	}
	c.Policy.Decide(v, p)
}

// NextWake implements sched.Waker.
func (c *changing) NextWake(v *sched.View) time.Duration {
	return min(max(v.Now+1, c.at), c.Policy.(sched.Waker).NextWake(v))
}

// TestOtherTerms: under another objective shares are settled anew, though nobody has come
// or gone.
func TestOtherTerms(t *testing.T) {
	run := simtest.Go(t, simtest.Config{Cluster: simtest.Nodes(1, 1), Make: func() (sched.Policy, error) {
		first, err := strict(func(c *gavel.Config) { c.Objective = gavel.ByFIFO })()
		if err != nil {
			return nil, err
		}
		then, err := strict(func(*gavel.Config) {})()
		return &changing{first, 2 * time.Hour, then}, err
	}}, simtest.Job{Key: "a", GPUs: 1, Run: 36000}, simtest.Job{Key: "b", GPUs: 1, Run: 36000})
	if at := run.Start("b"); at != 7200 && at != 7560 {
		t.Errorf("b starts at %v s, want it to as soon as shares are equal\n%s", at, strings.Join(run.Log, "\n"))
	}
}

// TestEndsAsEpochBegins: the share of a job that ends at the very moment at which it got it
// goes to the other one when the epoch is over.
func TestEndsAsEpochBegins(t *testing.T) {
	run := simtest.Go(t, simtest.Config{Cluster: simtest.Nodes(1, 1), Make: strict(func(c *gavel.Config) { c.Objective = gavel.ByFIFO })},
		simtest.Job{Key: "a", GPUs: 1}, simtest.Job{Key: "b", GPUs: 1, Run: 360})
	if at := run.Start("b"); run.End("a") != 0 || at != 6*360 { // the first round behind 32 minutes
		t.Errorf("a ends at %v s, b starts at %v\n%s", run.End("a"), at, strings.Join(run.Log, "\n"))
	}
}

// TestPairsInTurn: a job that stays where it is while two others are beside it in turn has as
// many rounds with each, and what goes on round after round is not noted again.
func TestPairsInTurn(t *testing.T) {
	speed := map[perf.Pair]float64{{Job: "b", Beside: "c"}: 0.3, {Job: "c", Beside: "b"}: 0.3}
	for _, key := range []string{"b", "c"} {
		speed[perf.Pair{Job: "a", Beside: key}], speed[perf.Pair{Job: key, Beside: "a"}] = 0.9, 0.9
	}
	pairs := perf.Pairs{Speed: speed}
	model := func(key string, run float64) simtest.Job { return simtest.Job{Key: key, GPUs: 1, Run: run, Model: key} }
	run := simtest.Go(t, simtest.Config{
		Cluster: simtest.Nodes(1, 1), Make: strict(func(c *gavel.Config) { c.Packed = true }), Shared: true, Sharing: pairs, World: func(c *sim.Config) { c.Sharing = pairs },
	}, model("a", 36000), model("b", 0.9*7200), model("c", 0.9*7200))
	log := strings.Join(run.Log, "\n")
	if b, c := run.End("b"), run.End("c"); math.Abs(b-c) > 720 || max(b, c) > 14400+1440 {
		t.Errorf("b ends at %v s, c at %v, want both to have half of the first four hours\n%s", b, c, log)
	}
	notes := 0
	for _, line := range run.Log {
		if at, _, ok := strings.Cut(line, " memo a "); ok && float(t, at) > max(run.End("b"), run.End("c"))+3600 {
			notes++
		}
	}
	if notes > 0 {
		t.Errorf("%d notes on a while it runs alone\n%s", notes, log)
	}
}

func float(t *testing.T, text string) float64 {
	x, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
	if err != nil {
		t.Fatal(err)
	}
	return x
}
