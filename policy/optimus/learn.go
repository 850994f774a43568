package optimus

import (
	"cmp"
	"math"
	"slices"

	"github.com/norn-scheduler/norn/perf/predict/loss"
)

// Assumptions about the convergence of jobs, as in the prototype.
const (
	fall    = 0.05 // of the largest loss, within ten epochs: a job that falls by no more has converged
	most    = 100  // epochs until then; later ones are not looked for
	unknown = 20   // epochs that a job is taken to have left of which no convergence is foretold
	window  = 256  // losses to which a curve is fitted
)

// remaining is the epochs that a job is believed to have left. One that goes on behind its
// convergence has one more.
func remaining(h *loss.History) float64 {
	curve, err := loss.FitRecent(loss.Normalize(h.Samples(window)))
	if err != nil {
		return unknown
	}
	done := h.Epochs()
	e, ok := loss.Converged(curve, 0, fall, most)
	if !ok {
		return unknown
	}
	return max(1, float64(e)-done)
}

// rates are the epochs in a second of a job by its number of tasks.
type rates struct {
	seen  []point                 // by tasks
	fit   [3]float64              // the time of an epoch is fit[0]/n + fit[1] + fit[2] n
	ready bool                    // there is a fit
	speed func(tasks int) float64 // what is believed where there is none
}

// point is the mean of what was measured with so many tasks.
type point struct {
	tasks int
	rate  float64
	times int
}

// enough is how many sizes must have been measured before a fit is made.
const enough = 4

// newRates are those that a job has reported. Of sizes that were not measured they are fitted
// where enough others were: an epoch takes the time of its samples, which the workers share, and of
// an exchange that grows with their number.
func newRates(h *loss.History, speed func(tasks int) float64) *rates {
	r := &rates{speed: speed}
	for rate, tasks := range h.Rates {
		i, found := slices.BinarySearchFunc(r.seen, tasks, func(p point, n int) int { return cmp.Compare(p.tasks, n) })
		if !found {
			r.seen = slices.Insert(r.seen, i, point{tasks: tasks})
		}
		p := &r.seen[i]
		p.times++
		p.rate += (rate - p.rate) / float64(p.times)
	}
	if len(r.seen) >= enough {
		var rows [][3]float64
		var times []float64
		for _, p := range r.seen {
			n := float64(p.tasks)
			rows, times = append(rows, [3]float64{p.rate / n, p.rate, p.rate * n}), append(times, 1) // relative errors count
		}
		r.fit, r.ready = nonNegative(rows, times)
	}
	return r
}

// at is the epochs in a second with so many tasks: as measured, as fitted, or as is believed of
// the sizes relative to the nearest that was measured.
func (r *rates) at(tasks int) float64 {
	if len(r.seen) == 0 {
		return r.speed(tasks)
	}
	i, found := slices.BinarySearchFunc(r.seen, tasks, func(p point, n int) int { return cmp.Compare(p.tasks, n) })
	if found {
		return r.seen[i].rate
	}
	if r.ready {
		n := float64(tasks)
		return 1 / (r.fit[0]/n + r.fit[1] + r.fit[2]*n)
	}
	near := r.seen[min(i, len(r.seen)-1)]
	return near.rate * r.speed(tasks) / r.speed(near.tasks)
}

// nonNegative are the factors, none below 0, with which the rows come nearest to the values by
// least squares. ok is false where none fit.
func nonNegative(rows [][3]float64, values []float64) (best [3]float64, ok bool) {
	least := math.Inf(1)
	for used := 1; used < 8; used++ { // of all choices of factors that are not 0
		x, solved := leastSquares(rows, values, used)
		if !solved || slices.Min(x[:]) < 0 {
			continue
		}
		sum := 0.0
		for i, row := range rows {
			d := row[0]*x[0] + row[1]*x[1] + row[2]*x[2] - values[i]
			sum += d * d
		}
		if sum < least {
			best, least, ok = x, sum, true
		}
	}
	return best, ok
}

// leastSquares solves the normal equations of the factors whose bits are set in used; the
// others are 0.
func leastSquares(rows [][3]float64, values []float64, used int) (x [3]float64, ok bool) {
	var m [3][4]float64
	for i := range 3 {
		for j := range 3 {
			if used>>i&1 == 1 && used>>j&1 == 1 {
				for _, row := range rows {
					m[i][j] += row[i] * row[j]
				}
			}
		}
		if used>>i&1 == 0 {
			m[i][i] = 1
			continue
		}
		for k, row := range rows {
			m[i][3] += row[i] * values[k]
		}
	}
	for i := range 3 {
		if math.Abs(m[i][i]) < 1e-300 {
			return x, false
		}
		for j := range 3 {
			if j != i {
				f := m[j][i] / m[i][i]
				for k := i; k < 4; k++ {
					m[j][k] -= f * m[i][k]
				}
			}
		}
	}
	for i := range 3 {
		x[i] = m[i][3] / m[i][i]
	}
	return x, true
}
