package parallel

import (
	"cmp"
	"math"
	"slices"
)

// Measured is an iteration that was measured.
type Measured struct {
	Model   Model
	Plan    Plan
	Seconds float64
}

func (o Operators) point() []float64 { return []float64{o.Layer, o.Embed, o.Head, o.Update, o.Ends} }

func operatorsAt(x []float64) Operators { return Operators{x[0], x[1], x[2], x[3], x[4]} }

// FitOperators finds the operators of each shape among the measured iterations, by which
// the simulation comes nearest to them: the squares of the relative errors are least. The
// search starts at the rates of the profile, and stays there where nothing is to be seen.
// Shapes come in ascending order.
func (p *Profile) FitOperators(seen []Measured) []Timed {
	of := map[Shape][]Measured{}
	for _, s := range seen {
		shape := Shape{s.Model.Hidden, s.Model.Sequence, s.Plan.Tensor, s.Plan.MicroBatch}
		of[shape] = append(of[shape], s)
	}
	var out []Timed
	for shape, rows := range of {
		start := p.Rates.operators(rows[0].Model, shape).point()
		best := leastSquares(start, len(rows), func(x, errs []float64) {
			for i, r := range rows {
				errs[i] = p.estimate(r.Model, r.Plan, operatorsAt(x)).Iteration/r.Seconds - 1
			}
		})
		out = append(out, Timed{shape, operatorsAt(best)})
	}
	slices.SortFunc(out, func(a, b Timed) int {
		return cmp.Or(cmp.Compare(a.Hidden, b.Hidden), cmp.Compare(a.Sequence, b.Sequence), cmp.Compare(a.Tensor, b.Tensor), cmp.Compare(a.MicroBatch, b.MicroBatch))
	})
	return out
}

// FitRates finds the rates that come nearest to all operators that were timed, and to the
// measured iterations by them.
func (p *Profile) FitRates(seen []Measured) Rates {
	start := p.Rates
	x := []float64{start.Launch, start.Math, start.Attention, start.Wide, start.Logit, start.Table, start.Update}
	at := func(x []float64) Rates { return Rates{x[0], x[1], x[2], x[3], x[4], x[5], x[6]} }
	best := leastSquares(x, len(seen), func(x, errs []float64) {
		r := at(x)
		for i, s := range seen {
			op := r.operators(s.Model, Shape{s.Model.Hidden, s.Model.Sequence, s.Plan.Tensor, s.Plan.MicroBatch})
			errs[i] = p.estimate(s.Model, s.Plan, op).Iteration/s.Seconds - 1
		}
	})
	return at(best)
}

const (
	mostSteps = 60
	nudge     = 1e-4 // of a logarithm, for slopes
	farthest  = 2    // that a logarithm moves in a step
)

// leastSquares is Levenberg and Marquardt's search for the positive numbers that make the
// sum of squared errors least, from a start, over their logarithms. Numbers on which no
// error depends stay as they are.
func leastSquares(start []float64, errors int, of func(x, errs []float64)) []float64 {
	n := len(start)
	logs, x := make([]float64, n), make([]float64, n)
	for i := range start {
		logs[i] = math.Log(start[i])
	}
	now, next := make([]float64, errors), make([]float64, errors)
	value := func(logs, errs []float64) (sum float64) {
		for i := range logs {
			x[i] = math.Exp(logs[i])
		}
		of(x, errs)
		for _, e := range errs {
			sum += e * e
		}
		return sum
	}
	slopes := make([][]float64, n)
	best, damping := value(logs, now), 1e-3
	for range mostSteps {
		for i := range n {
			slopes[i] = make([]float64, errors)
			moved := slices.Clone(logs)
			moved[i] += nudge
			value(moved, slopes[i])
			for k := range now {
				slopes[i][k] = (slopes[i][k] - now[k]) / nudge
			}
		}
		better := false
		for range 12 {
			step := damped(slopes, now, damping)
			to := slices.Clone(logs)
			for i := range to {
				to[i] += max(-farthest, min(farthest, step[i]))
			}
			if v := value(to, next); v < best {
				better = best-v > 1e-9*best
				logs, best, damping = to, v, damping/4
				now, next = next, now
				break
			}
			damping *= 4
		}
		if !better {
			break
		}
	}
	value(logs, next)
	return slices.Clone(x)
}

// damped is the step that solves (J J' + damping diag(J J') + a little) step = -J errs.
func damped(slopes [][]float64, errs []float64, damping float64) []float64 {
	n := len(slopes)
	a := make([][]float64, n)
	for i := range n {
		a[i] = make([]float64, n+1)
		for j := range n {
			for k := range errs {
				a[i][j] += slopes[i][k] * slopes[j][k]
			}
		}
		for k := range errs {
			a[i][n] -= slopes[i][k] * errs[k]
		}
	}
	for i := range n {
		a[i][i] += damping*a[i][i] + 1e-12
	}
	for i := range n { // the matrix is positive definite, so no pivot is 0
		for j := i + 1; j < n; j++ {
			f := a[j][i] / a[i][i]
			for k := i; k <= n; k++ {
				a[j][k] -= f * a[i][k]
			}
		}
	}
	step := make([]float64, n)
	for i := n - 1; i >= 0; i-- {
		step[i] = a[i][n]
		for k := i + 1; k < n; k++ {
			step[i] -= a[i][k] * step[k]
		}
		step[i] /= a[i][i]
	}
	return step
}
