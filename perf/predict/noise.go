package predict

import (
	"hash/fnv"
	"math"
	"math/rand/v2"
	"time"

	"github.com/norn-scheduler/norn/job"
)

// Factor draws by what an estimate is multiplied.
type Factor func(r *rand.Rand) float64

// LogNormal multiplies by a log-normal factor of median 1 whose logarithm has
// the standard deviation ln(1 + size). With a size of 0.5, 68 % of the
// estimates lie within a factor of 1.5 of what they were, as many above as
// below. This is the error model of size-based scheduling (Dell'Amico, Carra
// and Michiardi, "PSBS: Practical Size-Based Scheduling", IEEE Transactions on
// Computers 2016).
func LogNormal(size float64) Factor {
	sigma := math.Log1p(size)
	return func(r *rand.Rand) float64 { return math.Exp(sigma * r.NormFloat64()) }
}

// Helios multiplies by the errors that Hu et al. (SC 2021) measured of their
// predictions on Helios and applied to the true run times of Philly, which has
// no names to learn from. A tenth of the estimates is off by at most 10 %, four
// tenths by 10 to 50 %, and two tenths by 50 to 100 %. Two tenths are off by 1
// to 10 times and a tenth by 10 to 100 times. As many are too long as too
// short. Factors may be negative.
func Helios(r *rand.Rand) float64 {
	level := r.Float64()
	off := func(from, to float64) float64 {
		e := from + (to-from)*r.Float64()
		if r.Uint64()&1 == 0 {
			return 1 - e
		}
		return 1 + e
	}
	switch {
	case level <= 0.1:
		return off(0, 0.1)
	case level <= 0.5:
		return off(0.1, 0.5)
	case level <= 0.7:
		return off(0.5, 1)
	case level <= 0.9:
		return off(1, 10)
	}
	return off(10, 100)
}

// Noisy makes the estimates of another estimator worse. The error of a job
// depends on the seed and on the job's key alone: it is the same whenever, how
// often and in whatever order jobs are asked about.
type Noisy struct {
	Of     Estimator
	Seed   uint64
	Factor Factor
}

// Estimate is the estimate of the other, multiplied; never below 0.
func (n Noisy) Estimate(j *job.Job) (time.Duration, bool) {
	d, ok := n.Of.Estimate(j)
	if !ok {
		return 0, false
	}
	return clamp(float64(d) * n.Error(j.Key)), true
}

// Error is the factor of the job with a key.
func (n Noisy) Error(key string) float64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(key)) // cannot fail
	return n.Factor(rand.New(rand.NewPCG(n.Seed, h.Sum64())))
}

// Observe lets the other learn.
func (n Noisy) Observe(j *job.Job, ran time.Duration) { n.Of.Observe(j, ran) }

// clamp is a time of so many nanoseconds, within what can be reckoned with.
func clamp(ns float64) time.Duration {
	return time.Duration(min(max(ns, 0), math.MaxInt64/8))
}
