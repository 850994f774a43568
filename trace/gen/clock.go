package gen

import (
	"math"
	"math/rand/v2"
)

// clock is a Poisson process whose rate changes from hour to hour and repeats
// after a cycle.
type clock struct {
	rates []float64 // events a second in each hour of the cycle
	cycle float64   // expected events in one cycle
	now   float64   // seconds since midnight before the first day
}

// newClock makes a clock with a mean rate in events a second, from relative
// rates by hour of the day and by day.
func newClock(hours, days []float64, rate float64) clock {
	var c clock
	sum := 0.0
	for _, d := range days {
		for _, h := range hours {
			c.rates = append(c.rates, d*h)
			sum += d * h
		}
	}
	for i := range c.rates {
		c.rates[i] *= rate * float64(len(c.rates)) / sum
	}
	c.cycle = rate * 3600 * float64(len(c.rates))
	return c
}

// next moves to the next event and returns its time. An exponential variate is
// spent at the rate of each hour that passes.
func (c *clock) next(rng *rand.Rand) float64 {
	left := rng.ExpFloat64()
	length := 3600 * float64(len(c.rates))
	if left > c.cycle {
		cycles := math.Floor(left / c.cycle)
		c.now += cycles * length
		left -= cycles * c.cycle
	}
	for {
		hour := math.Floor(c.now / 3600)
		rate := c.rates[int(math.Mod(hour, float64(len(c.rates))))]
		end := (hour + 1) * 3600
		if spent := (end - c.now) * rate; left > spent {
			left -= spent
			c.now = end
			continue
		}
		if rate > 0 {
			c.now += left / rate
		}
		return c.now
	}
}
