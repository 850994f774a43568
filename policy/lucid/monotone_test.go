package lucid

import (
	"math"
	"slices"
	"strconv"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf/predict"
	"github.com/norn-scheduler/norn/sched"
	"github.com/norn-scheduler/norn/sim/simtest"
)

// Section 3.6.1: values that fall are replaced by the mean of those that fall, counted by
// their weights.
func TestPool(t *testing.T) {
	for _, c := range []struct{ values, weights, want []float64 }{
		{[]float64{1, 3, 2, 4}, []float64{1, 1, 1, 1}, []float64{1, 2.5, 2.5, 4}},
		{[]float64{1, 3, 2, 4}, []float64{1, 3, 1, 1}, []float64{1, 2.75, 2.75, 4}},
		{[]float64{4, 3, 2, 1}, []float64{1, 1, 1, 1}, []float64{2.5, 2.5, 2.5, 2.5}},
		{[]float64{1, 2, 0, 0}, []float64{1, 1, 1, 1}, []float64{0.75, 0.75, 0.75, 0.75}},
		{nil, nil, []float64{}},
	} {
		if got := pool(c.values, c.weights); !slices.Equal(got, c.want) {
			t.Errorf("%v weighted by %v: %v, want %v", c.values, c.weights, got, c.want)
		}
	}
}

// The result for each is the largest, over all beginnings before it, of the
// least mean up to any end behind it: the known form of the least squares that
// never fall.
func TestPoolIsLeastSquares(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 8).Draw(t, "values")
		values, weights := make([]float64, n), make([]float64, n)
		for i := range n {
			values[i], weights[i] = float64(rapid.IntRange(0, 20).Draw(t, "value")), float64(rapid.IntRange(1, 5).Draw(t, "weight"))
		}
		for i, got := range pool(values, weights) {
			want := math.Inf(-1)
			for a := range i + 1 {
				least := math.Inf(1)
				for b := i; b < n; b++ {
					sum, w := 0.0, 0.0
					for k := a; k <= b; k++ {
						sum, w = sum+values[k]*weights[k], w+weights[k]
					}
					least = min(least, sum/w)
				}
				want = max(want, least)
			}
			if math.Abs(got-want) > 1e-9 {
				t.Fatalf("%v weighted by %v: value %d is %v, want %v", values, weights, i, got, want)
			}
		}
	})
}

// sized is a policy that has learnt from jobs of 1, 2 and 4 GPUs of one user that took 100, 900
// and 300 s, of each equally many.
func sized(t *testing.T, monotone bool) *estimator {
	t.Helper()
	var jobs []simtest.Job
	for i := range 90 {
		k := i % 3
		jobs = append(jobs, simtest.Job{Key: "j" + strconv.Itoa(i), At: float64(i * 100), GPUs: 1 << k, Run: []float64{100, 900, 300}[k], User: "u"})
	}
	var p *policy
	cfg := simtest.Config{Cluster: simtest.Nodes(8, 8), Shared: true, Estimator: predict.None{}, Make: func() (sched.Policy, error) {
		c := NewConfig()
		c.Refresh, c.Monotone = 10_000*time.Second, monotone
		made, err := c.Policy()
		p, _ = made.(*policy)
		return made, err
	}}
	simtest.Go(t, cfg, append(jobs, simtest.Job{Key: "later", At: 20_000, GPUs: 1, Run: 1, User: "u"})...)
	return p.estimator
}

// Jobs of more GPUs are never predicted to be shorter, those in between that were never
// seen included; what falls becomes the mean of its logarithms, and the explanation
// still multiplies out.
func TestMonotone(t *testing.T) {
	free, rises := sized(t, false), sized(t, true)
	of := func(e *estimator, g int) float64 {
		d := job.GPUs(g)
		return e.seconds(&job.Job{User: "u", Demand: &d})
	}
	if a, b := of(free, 2), of(free, 4); a < 2*b {
		t.Errorf("as it was: 2 GPUs are predicted to take %v s, 4 take %v s", a, b)
	}
	last := 0.0
	for g := 1; g <= 16; g++ {
		s := of(rises, g)
		if s < last-1e-9 {
			t.Errorf("%d GPUs are predicted to take %v s, %d take %v s", g, s, g-1, last)
		}
		last = s
	}
	if want := math.Sqrt((of(free, 2) + 1) * (of(free, 4) + 1)); math.Abs((of(rises, 4)+1)/want-1) > 1e-9 || of(rises, 2) != of(rises, 4) {
		t.Errorf("2 and 4 GPUs are predicted to take %v and %v s, want %v", of(rises, 2), of(rises, 4), want-1)
	}
	d := job.GPUs(4)
	product, parts := rises.parts(&job.Job{User: "u", Demand: &d})
	product++
	for _, x := range parts {
		product *= x.Factor
	}
	if math.Abs(product/(of(rises, 4)+1)-1) > 1e-9 {
		t.Errorf("%v come to %v", parts, product)
	}
}
