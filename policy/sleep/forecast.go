package sleep

import (
	"math"

	"github.com/norn-scheduler/norn/perf/predict/boost"
)

// forecast foretells the mean use of the steps to come. Up to the third day it goes by the day before,
// as far as there is one; from then on by boosted trees, which are grown anew as the history grows by
// a quarter, or each week. The paper's model knows the calendar and, in its evaluation, values of up
// to an hour before the moment that is foretold, which nobody can know further ahead. So this one
// foretells the means over the two windows, from what is known at the moment of the decision.
type forecast struct {
	near, far *boost.Model // of the change of the use
	rows      int          // that they have learnt from
}

// Steps of ten minutes.
const (
	day  = 144
	week = 7 * day
)

// foretell is the mean use over the next steps, the present one included, and over twice as many.
func (f *forecast) foretell(uses []float64, now float64, ahead int) (near, far float64) {
	all := append(uses, now) // the next step is written where now is
	i := len(all) - 1
	if i < day {
		return now, now
	}
	if rows := i - day - 2*ahead; rows >= 2*day && (f.near == nil || rows >= f.rows+min(f.rows/4, week)) {
		f.near, f.far, f.rows = grow(all, rows, ahead, ahead), grow(all, rows, ahead, 2*ahead), rows
	}
	if f.near == nil || f.far == nil {
		was := all[i-day]
		return now + window(all, i-day, ahead) - was, now + window(all, i-day, 2*ahead) - was
	}
	row := features(nil, all, i, ahead)
	return now + f.near.Predict(row), now + f.far.Predict(row)
}

// most is how many of the latest steps are learnt from: four weeks.
const most = 4 * week

// grow grows trees for the change of the use over the next steps.
func grow(all []float64, rows, ahead, over int) *boost.Model {
	var x, y []float64
	for i := day + max(0, rows-most); i < day+rows; i++ {
		x = features(x, all, i, ahead)
		y = append(y, window(all, i, over)-all[i])
	}
	cfg := boost.Defaults()
	cfg.Trees, cfg.Depth = 60, 4
	m, err := boost.Train(cfg, x, y)
	if err != nil {
		return nil // not with these settings
	}
	return m
}

// features appends what is known at step i: the time of the day and of the week, and the present use.
// Further, how that compares with the last half hour, hour and three hours, how it varies, and how it
// went on a day and a week before.
func features(x, all []float64, i, ahead int) []float64 {
	now := all[i]
	last := func(n int) float64 { return now - mean(all[i-n:i]) }
	weekly, weeklyFar := math.NaN(), math.NaN()
	if i >= week {
		weekly, weeklyFar = window(all, i-week, ahead)-all[i-week], window(all, i-week, 2*ahead)-all[i-week]
	}
	return append(x, float64(i%day), float64(i/day%7), now, last(3), last(6), last(18), now-all[i-18], spread(all[i-6:i]),
		window(all, i-day, ahead)-all[i-day], window(all, i-day, 2*ahead)-all[i-day], weekly, weeklyFar)
}

// window is the mean of the steps from one on, as far as they are known.
func window(all []float64, from, n int) float64 { return mean(all[from:min(from+n, len(all))]) }

// spread is the standard deviation.
func spread(x []float64) float64 {
	m, sum := mean(x), 0.0
	for _, v := range x {
		sum += (v - m) * (v - m)
	}
	return math.Sqrt(sum / float64(len(x)))
}
