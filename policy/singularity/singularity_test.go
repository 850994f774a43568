package singularity

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/sim/simtest"
)

// of is a job of a tier with so many workers, which take turns on fewer GPUs.
func of(tier job.Tier, key string, at, run float64, workers int) simtest.Job {
	d := job.GPUs(workers)
	d.Roles[0].Min, d.Roles[0].Max = 1, int32(workers)
	return simtest.Job{Key: key, At: at, Run: run, Demand: &d, Spec: func(j *job.Job) { j.Tier, j.Resize = tier, job.TimeSliced }}
}

func run(t *testing.T, gpus int, costs perf.Costs, jobs ...simtest.Job) *simtest.Run {
	t.Helper()
	return simtest.Go(t, simtest.Config{Cluster: simtest.Nodes(1, gpus), Make: NewConfig().Policy, Model: perf.Analytic{Scaling: 1, Spread: 1}, Costs: costs}, jobs...)
}

func has(t *testing.T, run *simtest.Run, lines ...string) {
	t.Helper()
	log := strings.Join(run.Log, "\n") + "\n"
	for _, l := range lines {
		text, absent := strings.CutPrefix(l, "!")
		if strings.Contains(log, text) == absent {
			t.Errorf("%q in this log: %v\n%s", text, !absent, log)
		}
	}
}

// TestOrder is acceptance 4 of the specification, on 8 GPUs: a premium and a standard job of four
// workers run. A basic one that comes waits. For a premium one of two workers the standard job is
// spliced onto two GPUs, and nobody is stopped. It has all of its GPUs again before its promise is broken, and
// ends with it kept.
func TestOrder(t *testing.T) {
	r := run(t, 8, perf.Costs{}, of(job.Premium, "p", 0, 90000, 4), of(job.Standard, "s", 0, 9000, 4), of(job.Basic, "b", 3600, 3000, 4), of(job.Premium, "p2", 3601, 4000, 2))
	has(t, r, "0 start p on n0[", "0 start s on n0[", "3600 wait b", "3601 resize s on n0[", "3601 start p2 on n0[", "!preempt")
	for _, key := range []string{"p", "s", "p2"} {
		rec := r.Record(key)
		if f := rec.Fraction(rec.End); f < rec.Job.Tier.Promise() {
			t.Errorf("%s has had %v", key, rec.FractionText(rec.End))
		}
	}
}

// TestNeed is the same example as arithmetic. After an hour at full speed a standard job of four
// workers may have two GPUs for the next hour, where it keeps (1 + 0.4854)/2, but not one. After two
// more hours on two, it may not have two any longer. A premium job of age 600 s may have lost 30 s.
func TestNeed(t *testing.T) {
	c := Claim{Sizes: []int{1, 2, 4}, Rate: []float64{0.242718, 0.485437, 1}, Each: 1, Window: 3600}
	for _, k := range []struct {
		tier          job.Tier
		fraction, age float64
		want          int
	}{
		{job.Standard, 1, 3600, 2}, {job.Premium, 1, 3600, 4}, {job.Basic, 1, 3600, 0}, {job.Standard, (1 + 0.485437*0.41) / 1.41, 1.41 * 3600, 4},
		{job.Standard, 1, 0, 4}, {job.Standard, 1, 360000, 1}, {job.Premium, 0.5, 3600, 4},
	} {
		c.Tier, c.Fraction, c.Age = k.tier, k.fraction, k.age
		if got := c.Need(); got != k.want {
			t.Errorf("%+v needs %d", k, got)
		}
	}
}

// TestTransparent is acceptance 3 of the specification: a job that is preempted goes on where it was,
// and loses no more than it costs to come back.
func TestTransparent(t *testing.T) {
	costs := perf.Costs{Base: perf.Cost{Restore: 30 * time.Second}}
	r := run(t, 2, costs, of(job.Basic, "b", 0, 1000, 2), of(job.Premium, "p", 400, 500, 2))
	has(t, r, "400 preempt b", "900 start b on n0[0-1] delay=30")
	if got := r.End("b"); math.Abs(got-1530) > 0.01 {
		t.Errorf("b ends at %v", got)
	}
}

// TestDivide holds on random jobs that nobody has a size that he must not have, and GPUs suffice.
// Nobody of a lower tier has more while one of a higher tier needs and could use it, and no GPU is
// idle that somebody can use.
func TestDivide(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for range 2000 {
		gpus := 1 + r.IntN(24)
		var all []*Claim
		for range 1 + r.IntN(8) {
			c := &Claim{Tier: job.Tier(r.IntN(3)), Fraction: r.Float64(), Age: r.Float64() * 7200, Each: 1, Window: 3600}
			for n, workers := 1, 1<<r.IntN(4); n <= workers; n *= 2 {
				c.Sizes, c.Rate = append(c.Sizes, n), append(c.Rate, float64(n)/float64(workers))
			}
			all = append(all, c)
		}
		Divide(all, gpus)
		left := gpus
		for _, c := range all {
			if left -= c.Size; c.Size > 0 && c.largest(c.Size) != c.Size {
				t.Fatalf("%+v", c)
			}
		}
		if left < 0 {
			t.Fatalf("%d GPUs of %d", gpus-left, gpus)
		}
		for _, c := range all {
			if n := c.largest(c.Size + left); n > c.Size {
				t.Fatalf("%d GPUs are left over beside %+v", left, c)
			}
			for _, d := range all {
				if need := c.Need(); d.Tier < c.Tier && d.Size > 0 && c.largest(min(need, c.Size+d.Size)) > c.Size {
					t.Fatalf("%+v has %d GPUs, where %+v needs %d", d, d.Size, c, need)
				}
			}
		}
	}
}
