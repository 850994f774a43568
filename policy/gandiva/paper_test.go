package gandiva

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/sched"
	"github.com/norn-scheduler/norn/sim"
	"github.com/norn-scheduler/norn/sim/simtest"
)

func with(change func(*Config)) func() (sched.Policy, error) {
	return func() (sched.Policy, error) {
		c := NewConfig()
		if change != nil {
			change(c)
		}
		return c.Policy()
	}
}

func near(t *testing.T, what string, got, want float64) {
	t.Helper()
	if math.Abs(got-want) > 1e-6 {
		t.Errorf("%s is %v, want %v", what, got, want)
	}
}

// Acceptance A: two jobs take turns on one GPU, a minute each.
func TestTurns(t *testing.T) {
	jobs := []simtest.Job{{Key: "A", GPUs: 1, Run: 120}, {Key: "B", GPUs: 1, Run: 120}}
	run := simtest.Go(t, simtest.Config{Cluster: simtest.Nodes(1, 1), Make: with(nil)}, jobs...)
	near(t, "the end of A", run.End("A"), 180)
	near(t, "the end of B", run.End("B"), 240)
	near(t, "the first progress of B", run.Start("B"), 60)

	costs := perf.Costs{Base: perf.Cost{Restore: time.Second}}
	run = simtest.Go(t, simtest.Config{Cluster: simtest.Nodes(1, 1), Make: with(nil), Costs: costs}, jobs...)
	near(t, "the end of A that pays for each resume", run.End("A"), 242)
	near(t, "the end of B that pays for each resume", run.End("B"), 244)
	if n := run.Preemptions(); n != 4 || !strings.Contains(strings.Join(run.Log, "\n"), "has used its share") {
		t.Errorf("%d suspensions, want 4\n%s", n, strings.Join(run.Log, "\n"))
	}
}

// A turn ends when it has lasted, also where nothing else wakes the policy.
func TestTurnsAreEnded(t *testing.T) {
	run := simtest.Go(t, simtest.Config{Cluster: simtest.Nodes(1, 1), Make: with(func(c *Config) { c.Quantum, c.Every = 20*time.Second, time.Hour })},
		simtest.Job{Key: "A", GPUs: 1, Run: 30}, simtest.Job{Key: "B", GPUs: 1, Run: 30})
	near(t, "the first progress of B", run.Start("B"), 20)
	near(t, "the end of A", run.End("A"), 50)
	near(t, "the end of B", run.End("B"), 60)
}

// Acceptance B: what is kept.
func TestGain(t *testing.T) {
	for _, c := range []struct {
		packed, alone [2]float64
		gain          float64
		keep          bool
	}{
		{[2]float64{0.8, 0.75}, [2]float64{1, 1}, 1.55, true},
		{[2]float64{0.45, 0.5}, [2]float64{1, 1}, 0.95, false},
		{[2]float64{1, 0.5}, [2]float64{2, 1}, 1, false}, // as good as to take turns
		{[2]float64{1, 1}, [2]float64{1, 0}, 0, false},   // nobody knows
	} {
		got := Gain(c.packed, c.alone)
		if near(t, "a gain", got, c.gain); Worthwhile(got) != c.keep {
			t.Errorf("%+v: keeps %v", c, Worthwhile(got))
		}
	}
}

// lines are those lines of a log that contain a text.
func lines(run *simtest.Run, text string) []string {
	var out []string
	for _, line := range run.Log {
		if strings.Contains(line, text) {
			out = append(out, line)
		}
	}
	return out
}

// has fails the test when a log lacks a line.
func has(t *testing.T, run *simtest.Run, want ...string) {
	t.Helper()
	for _, line := range want {
		if !slices.Contains(run.Log, line) {
			t.Errorf("no line %q in\n%s", line, strings.Join(run.Log, "\n"))
		}
	}
}

// Acceptance C: who goes where, and who takes turns, and that a job for which no server
// is waits for GPUs, however long.
func TestPlacement(t *testing.T) {
	const long = 1e5
	jobs := []simtest.Job{
		{Key: "j1", At: 0, GPUs: 1, Run: long}, {Key: "j2", At: 1, GPUs: 2, Run: 300}, {Key: "j3", At: 2, GPUs: 1, Run: long},
		{Key: "j4", At: 3, GPUs: 2, Run: long}, {Key: "j5", At: 4, GPUs: 1, Run: long}, {Key: "j6", At: 5, GPUs: 1, Run: long},
		{Key: "j7", At: 6, GPUs: 2, Run: long}, {Key: "j8", At: 2000, GPUs: 4, Run: 10},
	}
	run := simtest.Go(t, simtest.Config{Cluster: simtest.Nodes(2, 4), Make: with(func(c *Config) { c.Patience = unit.Never })}, jobs...)
	has(t, run,
		"0 start j1 on n0[0]", "1 start j2 on n1[0-1]", "2 start j3 on n0[1]", "3 start j4 on n1[2-3]", "4 start j5 on n0[2]", "5 start j6 on n0[3]",
		"6 wait j7: waits for its turn on n1",
		"61 start j7 on n1[0-1]", // in the place of j2, whose turn has ended
		"2000 wait j8: needs 4 GPUs; 0 free",
	)
	end := run.End("j2") // of three jobs on two places, each has two turns of three
	if end < 420 || end > 480 {
		t.Errorf("j2 ends at %v", end)
	}
	for _, line := range lines(run, " preempt ") {
		at, _, _ := strings.Cut(line, " ")
		if s, err := strconv.ParseFloat(at, 64); err != nil || s > end || strings.Contains(line, "j1") {
			t.Errorf("%s: n1 is no longer over-subscribed from %v on, and n0 never was", line, end)
		}
	}
	if n := len(lines(run, " move ")); n > 0 {
		t.Errorf("%d moves", n)
	}
}

// Acceptance D: the emptiest server is emptied, once.
func TestDefragmentation(t *testing.T) {
	run := simtest.Go(t, simtest.Config{Cluster: simtest.Nodes(3, 4), Make: with(nil)},
		simtest.Job{Key: "a", GPUs: 3, Run: 600}, simtest.Job{Key: "b", At: 1, GPUs: 1, Run: 599}, simtest.Job{Key: "c", At: 2, GPUs: 2, Run: 598})
	has(t, run, "0 start a on n0[0-2]", "1 start b on n1[0]", "2 start c on n2[0-1]", "60 move b on n0[3]")
	if moves := lines(run, " move "); len(moves) != 1 {
		t.Errorf("moves %v, want one", moves)
	}
}

// speeds is how fast jobs are beside each other: "a beside b" -> factor.
type speeds map[string]float64

// Beside implements perf.Sharing.
func (b speeds) Beside(j *job.Job, others []*job.Job, _ cluster.GPUType) float64 {
	f := 1.0
	for _, o := range others {
		f *= b[j.Key+" beside "+o.Key]
	}
	return f
}

// shared is one node whose GPUs have 16 GiB, and where jobs disturb each other.
func shared(gpus int, truth speeds) simtest.Config {
	c := cluster.New()
	typ, _ := c.AddType(cluster.GPUType{Name: "gpu", Memory: 16 * unit.GiB})
	if _, err := c.AddNode(cluster.NodeSpec{GPUs: []cluster.GPUs{{Type: typ, Count: gpus}}}); err != nil {
		panic(err)
	}
	return simtest.Config{Cluster: c, Make: with(nil), Shared: true, World: func(c *sim.Config) { c.Sharing = truth }}
}

// using is a job that tells how much it uses of its GPUs.
func using(key string, run, use float64, memory unit.Bytes) simtest.Job {
	return simtest.Job{Key: key, GPUs: 1, Run: run, Spec: func(j *job.Job) { j.Hints = &job.Hints{GPUUse: use, GPUMemory: memory} }}
}

// Acceptance B: a pair that gains stays together, one that does not is taken apart,
// and one that lacks the memory is never tried.
func TestPacking(t *testing.T) {
	pair := func(memory unit.Bytes) []simtest.Job {
		return []simtest.Job{using("a", 600, 0.5, 8*unit.GiB), using("b", 600, 0.6, memory)}
	}
	good := simtest.Go(t, shared(1, speeds{"a beside b": 0.8, "b beside a": 0.75}), pair(8*unit.GiB)...)
	has(t, good, "120 start a on n0[0x0.5]")
	// a has 60 s, b 60 s behind it: a ends after 540/0.8 s, and b has 93.75 s left.
	near(t, "the end of a", good.End("a"), 120+675)
	near(t, "the end of b", good.End("b"), 120+675+540-675*0.75)
	if n := good.Preemptions(); n != 1 {
		t.Errorf("%d suspensions, want 1 before they are packed", n)
	}

	bad := simtest.Go(t, shared(1, speeds{"a beside b": 0.45, "b beside a": 0.5}), pair(8*unit.GiB)...)
	has(t, bad, "120 start a on n0[0x0.5]", "180 preempt a kept=87: packed with b both get on no faster than in turns")
	if n := len(lines(bad, "x0.5")); n != 2 { // b halved, a beside it, and never again
		t.Errorf("%d trials\n%s", n, strings.Join(bad.Log, "\n"))
	}

	full := simtest.Go(t, shared(1, speeds{"a beside b": 0.8, "b beside a": 0.75}), pair(9*unit.GiB)...)
	if n := len(lines(full, "x0.5")); n != 0 {
		t.Errorf("%d trials of jobs that have not the memory", n)
	}
}
