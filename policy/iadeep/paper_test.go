package iadeep

import (
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/sched"
	"github.com/norn-scheduler/norn/sim"
	"github.com/norn-scheduler/norn/sim/simtest"
	"github.com/norn-scheduler/norn/solve/gp"
)

// Acceptance 1: EFF = 1512/1256 and PD = 1.5 x 2 / EFF, which is one over the speed that
// perf tells of the same job.
func TestPD(t *testing.T) {
	s := perf.Stepping{Own: 512, Noise: 1000}
	if eff := s.Worth(256); math.Abs(eff-1.20382) > 1e-5 {
		t.Errorf("EFF %v", eff)
	}
	pd := 0.12 / 0.08 * 512 / 256 / s.Worth(256)
	if math.Abs(pd-2.4921) > 1e-4 {
		t.Errorf("PD %v", pd)
	}
	// A pass of half the samples takes 0.08 (0.3 + 0.7/2) = 0.052 s alone, and 0.12 s
	// beside somebody who slows it down by so much.
	s.Steady = 0.3
	slower := 0.12 / 0.052
	if speed := s.Rate(256) / slower; math.Abs(1/speed-pd) > 1e-9 {
		t.Errorf("a PD of %v, the speed is %v", pd, speed)
	}
}

// known are the sums of the spec (its section 2) that acceptance 3 needs.
var known = map[perf.Crowd]float64{
	perf.NewCrowd([]string{"vgg16", "neumf"}): 0.284, perf.NewCrowd([]string{"squeezenet", "neumf"}): 0.296, perf.NewCrowd([]string{"resnet50", "neumf"}): 0.080,
	perf.NewCrowd([]string{"vgg16", "adgcl"}): 1.102, perf.NewCrowd([]string{"squeezenet", "adgcl"}): 1.311, perf.NewCrowd([]string{"resnet50", "adgcl"}): 0.962,
}

// Acceptance 2: the interference of a crowd is the sum of (PD - 1), and that is what is
// noted of it, on the job that came last.
func TestInterference(t *testing.T) {
	run := simtest.Go(t, node(1, map[perf.Crowd]float64{"a+b": 0.10/0.08 - 1 + 0.05/0.04 - 1}, nil), task("first", "a", 0, 1000), task("last", "b", 10, 100))
	v := sched.NewView(run.State, nil, false)
	for id, with := range [][]string{nil, {"a"}} {
		if n, ok := sched.Recall[note](v.Job(job.ID(id))); ok != (with != nil) || !slices.Equal(n.with, with) || ok && math.Abs(n.sum-0.5) > 1e-9 {
			t.Errorf("of job %d is noted %+v%s", id, n, text(run))
		}
	}
}

// node is a run on one node of so many GPUs of 24 GiB, where jobs slow each other down
// as the sums say.
func node(gpus int, sums map[perf.Crowd]float64, change func(*Config)) simtest.Config {
	c := cluster.New()
	typ, err := c.AddType(cluster.GPUType{Name: "3090", Memory: 24 * unit.GiB})
	if err == nil {
		_, err = c.AddNode(cluster.NodeSpec{Name: "n", GPUs: []cluster.GPUs{{Type: typ, Count: gpus}}})
	}
	if err != nil {
		panic(err)
	}
	truth := perf.Rebatched{Of: perf.Crowds{Sum: sums}, Steps: steps}
	return simtest.Config{
		Cluster: c, Shared: true, Sharing: truth, World: func(c *sim.Config) { c.Sharing, c.Measure = truth, true },
		Make: func() (sched.Policy, error) {
			c := NewConfig()
			c.Known = sums
			if change != nil {
				change(c)
			}
			return c.Policy()
		},
	}
}

// steps is the model of the spec's section 4 for every job that tells its batch.
func steps(j *job.Job) *perf.Stepping {
	if j.Batch == 0 {
		return nil
	}
	return &perf.Stepping{Own: j.Batch, Steady: 0.3, Noise: 4 * float64(j.Batch), Sample: unit.GiB / 512}
}

func task(key, model string, at, run float64) simtest.Job {
	return simtest.Job{Key: key, At: at, GPUs: 1, Run: run, Model: model}
}

func batch(j simtest.Job, own int) simtest.Job {
	j.Spec = func(j *job.Job) { j.Batch = own }
	return j
}

func text(run *simtest.Run) string { return "\n" + strings.Join(run.Log, "\n") }

// starts tells on which GPU of node n a job starts.
func starts(run *simtest.Run, key, gpu string) bool {
	for _, line := range run.Log {
		if strings.Contains(line, "start "+key+" on n["+gpu) {
			return true
		}
	}
	return false
}

// Acceptance 3: a job goes to the GPU with the least interference; not to one that is
// being tuned; and to an idle one before all others.
func TestChoice(t *testing.T) {
	residents := []simtest.Job{task("v", "vgg16", 0, 1000), task("s", "squeezenet", 0, 1000), task("r", "resnet50", 0, 1000)}
	for _, c := range []struct {
		name string
		gpus int
		more []simtest.Job
		gpu  string
	}{
		{"neumf", 3, []simtest.Job{task("new", "neumf", 10, 100)}, "2"},
		{"adgcl", 3, []simtest.Job{task("new", "adgcl", 10, 100)}, "2"},
		{"GPU 2 is being tuned", 3, []simtest.Job{task("other", "neumf", 9, 100), task("new", "neumf", 10, 100)}, "0"},
		{"an idle GPU", 4, []simtest.Job{task("new", "neumf", 10, 100)}, "3"},
	} {
		run := simtest.Go(t, node(c.gpus, known, nil), append(residents[:3:3], c.more...)...)
		if !starts(run, "new", c.gpu) {
			t.Errorf("%s: not on GPU %s%s", c.name, c.gpu, text(run))
		}
	}
}

// Acceptance 4: with 21 crowds known, one that is not is taken to disturb nobody; with 22
// it is predicted from them.
func TestUnknown(t *testing.T) {
	for n, zero := range map[int]bool{21: true, 22: false} {
		l := newLearnt(map[perf.Crowd]float64{}, 21)
		for i := range n {
			l.given[perf.NewCrowd([]string{"a", string(rune('b' + i))})] = 0.5 + float64(i)/100
		}
		got := l.predict(perf.NewCrowd([]string{"a", "a"}))
		if zero != (got == 0) || !zero && (got < 0.4 || got > 0.8) {
			t.Errorf("%d crowds: %v", n, got)
		}
	}
}

// The prediction tells sorts apart that disturb others much and little.
func TestPredicted(t *testing.T) {
	weight := map[string]float64{"a": 0.05, "b": 0.1, "c": 0.2, "d": 0.4, "e": 0.6, "f": 0.8, "g": 1, "h": 0.3}
	l := newLearnt(map[perf.Crowd]float64{}, 21)
	names := []string{"a", "b", "c", "d", "e", "f", "g", "h"}
	for i, x := range names {
		for _, y := range names[i:] {
			if x+y != "ab" && x+y != "fg" {
				l.given[perf.NewCrowd([]string{x, y})] = weight[x] + weight[y]
			}
		}
	}
	few, many := l.predict(perf.NewCrowd([]string{"a", "b"})), l.predict(perf.NewCrowd([]string{"f", "g"}))
	if few > 0.5 || many < 1.2 {
		t.Errorf("a and b %v, f and g %v", few, many)
	}
}

// Section 4b: two equal jobs with interference 0.4 sqrt(x1 x2) each, and a noise scale of 4
// batches. The least sum of PDs is near x = 0.72 each; the tuner ends within 1 % of
// 1.358 each, with the nine trials of the policy as with fifty.
func TestClosedForm(t *testing.T) {
	pd := func(x, y float64) float64 {
		s := 0.4 * math.Sqrt(x*y)
		one := func(x float64) float64 { return (0.3 + 0.7*x) * (1 + s) / x * (4 + x) / 5 }
		return one(x) + one(y)
	}
	for x, want := range map[float64]float64{1: 1.400, 0.7: 1.3579, 0.8: 1.3622, 0.67: 1.3593} {
		if got := pd(x, x) / 2; math.Abs(got-want) > 6e-4 {
			t.Errorf("PD(%v) = %v, the spec says %v", x, got, want)
		}
	}
	for _, trials := range []int{NewConfig().Trials, 50} {
		all := Candidates(512, func(int) bool { return true })
		tuner := Tuner{Batches: [][]int{all, all}, From: []int{512, 512}, Trials: trials, Search: gp.Search{Kernel: gp.Smooth()}}
		got, sum, n := tune(&tuner, func(b []int) float64 { return pd(float64(b[0])/512, float64(b[1])/512) })
		if sum/2 > 1.358*1.01 || n > trials {
			t.Errorf("%d trials: batches %v with PD %v each after %d", trials, got, sum/2, n)
		}
	}
}

// Acceptance 5, of batches: those that are tried are within [m0/1.5, 2 m0], and leave a job
// within the memory that it asked for.
func TestCandidates(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		own, most := rapid.IntRange(1, 5000).Draw(t, "own"), rapid.IntRange(1, 10000).Draw(t, "most")
		all := Candidates(own, func(b int) bool { return b <= most })
		has := false
		for i, b := range all {
			if has = has || b == own; b != own && (b < int(float64(own)/1.5)-1 || b > 2*own || b > most || b < 1) || i > 0 && b <= all[i-1] {
				t.Fatalf("%d of %v", b, all)
			}
		}
		if !has || len(all) > 67 {
			t.Fatalf("%v", all)
		}
	})
}

// Acceptance 6: a tuning ends, and what is chosen is no worse than what it began with,
// whatever the function.
func TestNoWorse(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		own := rapid.IntRange(1, 100).Draw(t, "own")
		all := Candidates(own, func(int) bool { return true })
		tuner := Tuner{Batches: [][]int{all}, From: []int{own}, Own: own, Trials: 50, Samples: 5, Step: 16, Search: gp.Search{Kernel: gp.Smooth()}}
		values := rapid.SliceOfN(rapid.Float64Range(0.1, 10), 101, 101).Draw(t, "values")
		f := func(b []int) float64 { return values[b[0]%101] }
		_, sum, n := tune(&tuner, f)
		if sum > f([]int{own}) || n > 50 {
			t.Fatalf("%v after %d trials, from %v", sum, n, f([]int{own}))
		}
	})
}

// Through engine and simulator: two jobs that share are tuned and then faster than
// untuned, as the closed form says, and whoever is alone again has its own batch. With
// equal GPU use each bears half of the sum of 0.8.
func TestTunes(t *testing.T) {
	sums := map[perf.Crowd]float64{"m+m": 0.8}
	jobs := []simtest.Job{batch(task("a", "m", 0, 100_000), 512), batch(task("b", "m", 10, 100_000), 512)}
	tuned := simtest.Go(t, node(1, sums, nil), jobs...)
	plain := simtest.Go(t, node(1, sums, func(c *Config) { c.Tune = false }), jobs...)
	// a has a start of 10 s, and b ends 10 s of work behind it, half of its time alone.
	if got := plain.End("a"); math.Abs(got-140_000) > 30 {
		t.Errorf("untuned: a ends at %v%s", got, text(plain))
	}
	if got := tuned.End("a"); got > 100_000*1.358*1.01 {
		t.Errorf("tuned: a ends at %v%s", got, text(tuned))
	}
	if r := tuned.Record("b"); r.Preemptions+r.Migrations+r.Resizes != 0 || r.Phase != job.Done {
		t.Errorf("%+v", r)
	}
}

// tune measures until enough was tried, and returns the best batches and their sum of
// PDs: never worse than those it begins with.
func tune(t *Tuner, measure func(batches []int) float64) (batches []int, sum float64, trials int) {
	var values []float64
	for {
		seen, next, ok := t.Tried(values)
		if !ok {
			best := gp.Best(seen)
			return t.At(best.Point), best.Value, len(seen)
		}
		values = append(values, measure(t.At(next)))
	}
}
