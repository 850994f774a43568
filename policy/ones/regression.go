package ones

import (
	"math"
	"math/rand/v2"
)

// Row is what is known of a job after some epochs.
type Row struct {
	EpochSize float64 // samples
	Initial   float64 // its first loss
	Epochs    float64 // done
	Loss      float64
	Accuracy  float64 // on validation data, 0 to 1; 0: not told
}

// inputs of the network.
const inputs = 5

func (r *Row) features() (x [inputs]float64) {
	x = [inputs]float64{math.Log1p(max(0, r.EpochSize)) / 10, math.Log1p(math.Abs(r.Initial)), math.Log1p(max(0, r.Epochs)), 0, r.Accuracy}
	if r.Initial != 0 {
		x[3] = min(2, max(-2, 1-r.Loss/r.Initial))
	}
	return x
}

// Lesson is a row of a job that has ended, and the part of its work that it had done then.
type Lesson struct {
	Row
	Done float64
}

// hidden are the units of the network.
const hidden = 64

// Regression foretells the progress of a job: a Beta distribution with alpha, the epochs that it
// has done, and beta, 1 and what a network of one hidden layer makes of the row. The zero value,
// which was taught nothing, takes beta to be alpha: a job has as much ahead as behind.
type Regression struct {
	taught bool
	in     [hidden][inputs + 1]float64
	out    [hidden + 1]float64
}

// Beta is the parameters of the distribution, both at least 1.
func (g *Regression) Beta(r *Row) (alpha, beta float64) {
	alpha = max(1, r.Epochs)
	if !g.taught {
		return alpha, alpha
	}
	x := r.features()
	var h [hidden]float64
	return alpha, 1 + softplus(g.forward(&x, &h))
}

func (g *Regression) forward(x *[inputs]float64, h *[hidden]float64) float64 {
	z := g.out[hidden]
	for i := range h {
		s := g.in[i][inputs]
		for k := range x {
			s += g.in[i][k] * x[k]
		}
		h[i] = math.Tanh(s)
		z += g.out[i] * h[i]
	}
	return z
}

// softplus is a ReLU without the corner, so that no network is born deaf.
func softplus(z float64) float64 {
	if z > 30 {
		return z
	}
	return math.Log1p(math.Exp(z))
}

// How a network is taught.
const (
	mostLessons = 500
	rounds      = 60
	batch       = 8
	rate        = 0.01
	decay       = 1e-4
)

// Teach fits a network to lessons: the likelihood of what was seen is made great by Adam, from
// weights that are drawn. Of more lessons than 500 some are drawn.
func Teach(lessons []Lesson, rng *rand.Rand) *Regression {
	g := &Regression{taught: len(lessons) > 0}
	for i := range g.in {
		for k := range g.in[i] {
			g.in[i][k] = rng.NormFloat64()
		}
	}
	for i := range g.out {
		g.out[i] = rng.NormFloat64() / math.Sqrt(hidden)
	}
	order := rng.Perm(len(lessons))
	order = order[:min(len(order), mostLessons)]
	var a adam
	for range rounds {
		rng.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
		for from := 0; from < len(order); from += batch {
			var grad weights
			part := order[from:min(len(order), from+batch)]
			for _, i := range part {
				g.gradient(&lessons[i], &grad, 1/float64(len(part)))
			}
			a.step(g, &grad)
		}
	}
	return g
}

// weights are the numbers of a network, in a row.
type weights [hidden*(inputs+1) + hidden + 1]float64

// gradient adds the gradient of the negative log-likelihood of a lesson.
func (g *Regression) gradient(l *Lesson, to *weights, weight float64) {
	x := l.features()
	var h [hidden]float64
	z := g.forward(&x, &h)
	alpha, beta := max(1, l.Epochs), 1+softplus(z)
	done := min(1-1e-3, max(1e-3, l.Done))
	d := -math.Log(1-done) + digamma(beta) - digamma(alpha+beta)
	d *= weight / (1 + math.Exp(-z))
	d = min(10, max(-10, d))
	const outs = hidden * (inputs + 1)
	to[outs+hidden] += d
	for i := range h {
		to[outs+i] += d * h[i]
		e := d * g.out[i] * (1 - h[i]*h[i])
		for k := range x {
			to[i*(inputs+1)+k] += e * x[k]
		}
		to[i*(inputs+1)+inputs] += e
	}
}

// adam is the state of the optimizer.
type adam struct {
	mean, square weights
	steps        int
}

func (a *adam) step(g *Regression, grad *weights) {
	const b1, b2 = 0.9, 0.999
	a.steps++
	c1, c2 := 1-math.Pow(b1, float64(a.steps)), 1-math.Pow(b2, float64(a.steps))
	for n := range grad {
		w := g.weight(n)
		d := grad[n] + decay**w
		a.mean[n] = b1*a.mean[n] + (1-b1)*d
		a.square[n] = b2*a.square[n] + (1-b2)*d*d
		*w -= rate * a.mean[n] / c1 / (math.Sqrt(a.square[n]/c2) + 1e-8)
	}
}

// weight is a number of the network by its place in weights.
func (g *Regression) weight(n int) *float64 {
	if n < hidden*(inputs+1) {
		return &g.in[n/(inputs+1)][n%(inputs+1)]
	}
	return &g.out[n-hidden*(inputs+1)]
}

// digamma is the derivative of the logarithm of the gamma function, for x above 0.
func digamma(x float64) float64 {
	sum := 0.0
	for ; x < 6; x++ {
		sum -= 1 / x
	}
	f := 1 / (x * x)
	return sum + math.Log(x) - 0.5/x - f*(1.0/12-f*(1.0/120-f*(1.0/252-f/240)))
}

// draw draws from a Beta distribution.
func draw(alpha, beta float64, rng *rand.Rand) float64 {
	a, b := gamma(alpha, rng), gamma(beta, rng)
	return min(1-1e-3, max(1e-3, a/(a+b)))
}

// gamma draws from a Gamma distribution of shape k, at least 1 (Marsaglia and Tsang, 2000).
func gamma(k float64, rng *rand.Rand) float64 {
	d := k - 1.0/3
	c := 1 / math.Sqrt(9*d)
	for {
		x := rng.NormFloat64()
		v := 1 + c*x
		if v <= 0 {
			continue
		}
		v = v * v * v
		if math.Log(1-rng.Float64()) < 0.5*x*x+d-d*v+d*math.Log(v) {
			return d * v
		}
	}
}
