package ones

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/label"
	"github.com/norn-scheduler/norn/eventlog"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/sched"
	"github.com/norn-scheduler/norn/sim"
	"github.com/norn-scheduler/norn/sim/simtest"
)

// usage is what is left of a job that has done so many samples, of which rho is a part, by the
// rates with so many tasks.
func usage(done, rho float64, rates map[int]float64) func(int) float64 {
	return func(n int) float64 { return done * (1/rho - 1) * float64(n) / rates[n] }
}

// TestScore is acceptance 1 of the specification: the scores of two divisions, and the order of
// padding.
func TestScore(t *testing.T) {
	p := Problem{GPUs: 6, Claims: []Claim{
		{Least: 1, Limit: 4, Allowed: 4, Each: 1, First: 1, Usage: usage(10000, 0.5, map[int]float64{1: 120, 2: 200, 4: 320})},
		{Least: 1, Limit: 4, Allowed: 4, Each: 1, First: 1, Usage: usage(40000, 0.8, map[int]float64{1: 130, 2: 250, 4: 400})},
	}}
	if one, other := p.Score(Division{2, 4}), p.Score(Division{4, 2}); math.Abs(one-200) > 1e-6 || math.Abs(other-205) > 1e-6 {
		t.Errorf("scores %v and %v, want 200 and 205", one, other)
	}
	if p.prepare(); !slices.Equal(p.order, []int{1, 0}) {
		t.Errorf("padded in the order %v", p.order)
	}
	for i, want := range []float64{83.33, 76.92} {
		if got := p.Claims[i].Usage(1); math.Abs(got-want) > 0.005 {
			t.Errorf("job %d has %v s left on one GPU, want %v", i, got, want)
		}
	}
}

// TestShrunk is acceptance 2.
func TestShrunk(t *testing.T) {
	for _, c := range []struct {
		size  int
		ratio float64
		want  int
	}{{32, 3, 16}, {16, 2, 10}, {8, 7, 2}, {4, 4, 2}} {
		if got := Shrunk(c.size, c.ratio, 1); got != c.want {
			t.Errorf("size %d, %v times as long: %d, want %d", c.size, c.ratio, got, c.want)
		}
	}
}

// drawn is a random problem.
func drawn(r *rand.Rand) *Problem {
	p := &Problem{GPUs: 1 + r.IntN(24)}
	left := p.GPUs
	for range 1 + r.IntN(8) {
		c := Claim{Least: 1 + r.IntN(2), Each: 1 + r.IntN(2), Young: r.IntN(3) == 0}
		c.First = c.Least * c.Each
		c.Limit = c.Least + r.IntN(8)
		c.Allowed = c.Least + r.IntN(c.Limit-c.Least+1)
		if n := c.room(0, c.Allowed, left); n > 0 && r.IntN(2) == 0 {
			c.Now, c.Locked = n, r.IntN(3) == 0
			left -= c.gpus(n)
		}
		work, power := 100*r.ExpFloat64(), 0.3+0.7*r.Float64()
		c.Usage = func(n int) float64 { return work * float64(n) / math.Pow(float64(n), power) }
		p.Claims = append(p.Claims, c)
	}
	return p
}

// TestInvariants is acceptance 5: no division has more than the GPUs, than the limits, or less than
// the least of a job; what is locked stays. More search never scores worse.
func TestInvariants(t *testing.T) {
	for seed := range uint64(400) {
		p := drawn(rand.New(rand.NewPCG(seed, 1)))
		last := math.Inf(1)
		for _, n := range []int{1, 3, 9} {
			d := Search{Population: 6, Iterations: n, Mutation: 0.3}.Run(p, rand.New(rand.NewPCG(seed, 2)))
			if p.free(d) < 0 {
				t.Fatalf("seed %d: %v takes too much of %d", seed, d, p.GPUs)
			}
			for i, c := range p.Claims {
				if d[i] > c.Limit || d[i] > 0 && d[i] < c.Least || c.Locked && d[i] != c.Now {
					t.Fatalf("seed %d: job %d of %+v has %d", seed, i, c, d[i])
				}
			}
			if s := p.Score(d); s > last+1e-9 {
				t.Fatalf("seed %d: after %d iterations the score is %v, before it was %v", seed, n, s, last)
			} else {
				last = s
			}
		}
	}
}

// TestRegression: from jobs that end after 20 epochs, with a loss that shows how far they have
// come, the progress of another one is learnt.
func TestRegression(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	var lessons []Lesson
	for range 12 {
		all := 15 + 10*r.Float64()
		for e := 1.0; e < all; e++ {
			lessons = append(lessons, Lesson{Row{10000, 2.3, e, 2.3 * (1 - 0.9*e/all), 0.9 * e / all}, e / all})
		}
	}
	g := Teach(lessons, rand.New(rand.NewPCG(5, 6)))
	for _, e := range []float64{4, 10, 16} {
		a, b := g.Beta(&Row{10000, 2.3, e, 2.3 * (1 - 0.9*e/20), 0.9 * e / 20})
		if got := a / (a + b); math.Abs(got-e/20) > 0.15 {
			t.Errorf("after %v of 20 epochs it is believed to have done %.2f", e, got)
		}
	}
	if a, b := (&Regression{}).Beta(&Row{Epochs: 7}); a != 7 || b != 7 {
		t.Errorf("untaught: %v, %v", a, b)
	}
}

// TestDraw: the Beta distribution has its mean and its variance.
func TestDraw(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	const n, a, b = 20000, 3.0, 5.0
	mean, square := 0.0, 0.0
	for range n {
		x := draw(a, b, r)
		mean, square = mean+x/n, square+x*x/n
	}
	if v := square - mean*mean; math.Abs(mean-a/(a+b)) > 0.01 || math.Abs(v-a*b/((a+b)*(a+b)*(a+b+1))) > 0.002 {
		t.Errorf("mean %v, variance %v", mean, v)
	}
	for _, x := range []float64{1, 2.5, 10} { // the derivative of the logarithm of gamma
		up, _ := math.Lgamma(x + 1e-5)
		down, _ := math.Lgamma(x - 1e-5)
		if got, want := digamma(x), (up-down)/2e-5; math.Abs(got-want) > 1e-5 {
			t.Errorf("digamma(%v) = %v, want %v", x, got, want)
		}
	}
}

// trainer is a meter of jobs that end after twenty epochs, reported every second.
type trainer struct{}

func (trainer) Every(*job.Job) time.Duration { return time.Second }

// Measure implements sim.Meter.
func (trainer) Measure(l *sim.Look, to *perf.Reading) {
	const size, epochs = 1000, 20
	if l.Work <= 0 {
		return
	}
	done := float64(l.Progress) / float64(l.Work)
	to.Add(perf.EpochSize, size)
	to.Add(perf.Loss, 2-1.8*done)
	to.Add(perf.Accuracy, 0.8*done)
	to.Add(perf.Samples, done*epochs*size)
	to.Add(perf.Rate, l.Speed/l.Work.Seconds()*epochs*size)
}

func elastic(key string, at, run float64, asked, most int) simtest.Job {
	d := job.GPUs(asked)
	d.Roles[0].Min, d.Roles[0].Max = 1, int32(most)
	return simtest.Job{Key: key, At: at, Run: run, Demand: &d, Spec: func(j *job.Job) { j.Resize = job.InPlace }}
}

func config(nodes, gpus int) simtest.Config {
	c := NewConfig()
	c.Interval, c.First = 5*time.Second, Least
	return simtest.Config{
		Cluster: simtest.Nodes(nodes, gpus), Make: c.Policy, Believe: c.Believer, Model: perf.Analytic{Scaling: 0.8, Spread: 1},
		Costs: perf.Costs{Base: perf.Cost{Restore: 30 * time.Second, Resize: 30 * time.Second, Migrate: 30 * time.Second, InPlace: time.Second}},
		World: func(s *sim.Config) { s.Meter = trainer{} },
	}
}

// TestGrowsInPlace: a job begins with one GPU and doubles as it goes on, beside the GPUs that it
// has, at the cost of a resize in place.
func TestGrowsInPlace(t *testing.T) {
	run := simtest.Go(t, config(2, 4), elastic("a", 0, 400, 4, 8))
	log := strings.Join(run.Log, "\n")
	for _, line := range run.Log {
		if strings.Contains(line, " resize a on ") {
			if !strings.HasSuffix(line, "delay=1") || !strings.Contains(line, " n0[0") {
				t.Errorf("%q is not in place", line)
			}
		}
	}
	for _, want := range []string{"0 start a on n0[0]", " resize a on n0[0-1] delay=1", " resize a on n0[0-3] delay=1", " resize a on n0[0-3]+n1[0-3] delay=1"} {
		if !strings.Contains(log, want) {
			t.Errorf("%q is not in\n%s", want, log)
		}
	}
}

// TestShrinksInPlace: a job that is to make room leaves some of its GPUs and stays on the others.
func TestShrinksInPlace(t *testing.T) {
	run := simtest.Go(t, config(2, 4), elastic("a", 0, 4000, 4, 8), elastic("b", 600, 100, 4, 8), elastic("c", 600, 100, 4, 8))
	log := strings.Join(run.Log, "\n")
	if strings.Contains(log, "delay=30") && !strings.Contains(log, "preempt") {
		t.Errorf("a resize costs a restart\n%s", log)
	}
	for _, key := range []string{"b", "c"} {
		if run.Start(key) > 1200 {
			t.Errorf("job %s starts at %v\n%s", key, run.Start(key), log)
		}
	}
}

// TestOnceAnEpoch is the last invariant of acceptance 5: no running job is changed twice within
// one of its epochs.
func TestOnceAnEpoch(t *testing.T) {
	var jobs []simtest.Job
	for i := range 9 {
		jobs = append(jobs, elastic(fmt.Sprint("j", i), float64(20*i), float64(200+70*i), 2, 8))
	}
	run := simtest.Go(t, config(2, 4), jobs...)
	changed := map[string]float64{}
	epochs := map[string]float64{}
	resizes := 0
	for _, line := range run.Log {
		f := strings.Fields(line)
		switch f[1] {
		case "measured":
			for _, word := range f {
				var n float64
				if _, err := fmt.Sscanf(word, "samples=[%f]", &n); err == nil {
					epochs[f[2]] = n / 1000
				}
			}
		case "start":
			changed[f[2]] = epochs[f[2]]
		case "resize":
			if resizes++; epochs[f[2]] < changed[f[2]]+1-1e-9 {
				t.Errorf("%s: %v epochs after it was changed last\n%s", line, epochs[f[2]]-changed[f[2]], strings.Join(run.Log, "\n"))
				return
			}
			changed[f[2]] = epochs[f[2]]
		}
	}
	if resizes < 6 {
		t.Errorf("%d resizes", resizes)
	}
}

// TestLearnt: a scheduler that starts again believes the same, and decides the same.
func TestLearnt(t *testing.T) {
	c := NewConfig()
	c.Interval = 10 * time.Second
	learning := simtest.Learning{Build: c.Policy, Believe: c.Believer, Meter: trainer{}}
	learning.Properties(t, simtest.Shape{Costs: true})
}

var _ sched.Waker = (*policy)(nil)

// TestTaintedMeanwhile: where the only node is tainted while a job runs there, the job is told as it
// fails that it can never run, as by a policy that starts anew at that moment, and not in the next round.
func TestTaintedMeanwhile(t *testing.T) {
	run := simtest.Go(t, simtest.Config{
		Cluster: simtest.Nodes(1, 1),
		Make:    func() (sched.Policy, error) { return NewConfig().Policy() },
		World: func(c *sim.Config) {
			n := cluster.NodeSpec{Taints: []label.Taint{{Key: "spot", Effect: label.NoSchedule}}}
			c.Script = append(c.Script, eventlog.Event{Time: 12 * time.Second, Kind: eventlog.NodeLabels, NodeSpec: &n})
		},
	}, simtest.Job{Key: "a", GPUs: 1, Fails: []float64{35}, Run: 20})
	if last := run.Log[len(run.Log)-1]; !strings.HasPrefix(last, "35 wait a: every node that would do is tainted") {
		t.Errorf("the last event is %q", last)
	}
}
