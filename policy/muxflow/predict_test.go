package muxflow

import (
	"math"
	"math/rand/v2"
	"strconv"
	"testing"

	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/perf/predict/boost"
	"github.com/norn-scheduler/norn/sched"
	"github.com/norn-scheduler/norn/sim"
	"github.com/norn-scheduler/norn/sim/simtest"
)

// TestPredictor: learnt from 1,000 jobs whose speeds were measured within 5 %, the
// predictor is off by less than 0.05 on average for others, which is the paper's target.
func TestPredictor(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	draw := func(n int) (x, y []float64) {
		shares := NewConfig().Shares
		for range n {
			row := features{0.6 * rng.Float64(), 0.3 * rng.Float64(), 0, rng.Float64(), rng.Float64()}
			row[2] = float64(shares.For(row[0], row[3], 0.8)) / 1000
			x, y = append(x, row[:]...), append(y, row.formula())
		}
		return x, y
	}
	x, y := draw(1000)
	for i := range y {
		y[i] *= 1 + 0.05*rng.NormFloat64()
	}
	m, err := boost.Train(Trees(), x, y)
	if err != nil {
		t.Fatal(err)
	}
	l := predictor{model: m}
	x, y = draw(1000)
	sum := 0.0
	for i := range y {
		sum += math.Abs(l.worth(Learnt, features(x[5*i:5*i+5])) - y[i])
	}
	t.Logf("mean absolute error %.4f", sum/1000)
	if sum/1000 > 0.05 {
		t.Errorf("the mean absolute error is %.4f", sum/1000)
	}
}

// learner notes what its policy has learnt.
type learner struct {
	*policy
	t      *testing.T
	learnt bool
}

func (l *learner) Decide(v *sched.View, p *sched.Plan) {
	l.policy.Decide(v, p)
	l.learnt = l.learnt || l.predictor.model != nil
}

// TestLearns: speeds are learnt from the jobs that have ended beside services, and
// what is remembered of them is what they ran at.
func TestLearns(t *testing.T) {
	jobs := []simtest.Job{{Key: "s0", GPUs: 1, Run: 20000, Spec: serves(0.2, 4)}, {Key: "s1", GPUs: 1, Run: 20000, Spec: serves(0.4, 4)}}
	for i := range 40 {
		jobs = append(jobs, simtest.Job{Key: "j" + strconv.Itoa(i), At: float64(100 + 300*i), GPUs: 1, Run: 400, Spec: func(j *job.Job) {
			j.Hints = &job.Hints{GPUUse: float64(i%10+1) / 10}
		}})
	}
	l := &learner{t: t}
	cfg := world(box(t, 2), nil)
	cfg.World = func(c *sim.Config) { c.Sharing, c.Measure = perf.Served{}, true }
	cfg.Make = func() (sched.Policy, error) {
		p, err := built(map[string]string{"predict": "learnt", "rows": "10", "retrain": "1h", "round": "1m"})()
		l.policy, _ = p.(*policy)
		return l, err
	}
	run := simtest.Go(t, cfg, jobs...)
	seenOf := 0
	v := sched.NewView(run.State, nil, false)
	for i := range v.Jobs() {
		j := v.Job(job.ID(i))
		if n, _ := sched.Recall[note](j); n.seen.known {
			seenOf++
			if x := n.seen.features(j.Spec()); math.Abs(x.formula()-n.seen.speed) > 0.02 {
				t.Errorf("job %s: seen %v, %v by the formula of %v", j.Spec().Key, n.seen.speed, x.formula(), x)
			}
		}
	}
	if !l.learnt || seenOf < 30 {
		t.Errorf("learnt %v, from %d jobs", l.learnt, seenOf)
	}
}
