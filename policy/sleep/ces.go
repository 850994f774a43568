package sleep

import (
	"errors"
	"time"

	"github.com/norn-scheduler/norn/policy/param"
	"github.com/norn-scheduler/norn/sched"
)

// CES is the settings of CES. Steps are periods, thresholds are nodes.
type CES struct {
	History int     // steps whose mean use is compared with the present one
	Future  int     // steps ahead that are foretold
	Fallen  float64 // the use must have fallen by so much
	Falls   float64 // and be foretold to fall by so much
	Least   int     // fewer nodes are not worth it
	Buffer  int
	Keep    int // steps after a wake in which no node sleeps
	Period  time.Duration
}

// NewCES returns the settings that the paper's code has for Venus.
func NewCES() *CES {
	return &CES{History: 3, Future: 18, Fallen: 0.5, Falls: 1, Least: 2, Buffer: 5, Keep: 12, Period: DefaultPeriod}
}

// Params binds the settings.
func (c *CES) Params() param.Set {
	return param.Set{
		param.Int("history", &c.History, 1, 1000, "steps", "over which the use must have fallen"),
		param.Int("future", &c.Future, 1, 1000, "steps", "over which it is foretold"),
		param.Float("his_thr", &c.Fallen, 0, 1e6, "nodes", "by which the use must have fallen"),
		param.Float("fut_thr", &c.Falls, 0, 1e6, "nodes", "by which it must be foretold to fall"),
		param.Int("de_thr", &c.Least, 1, 1e6, "nodes", "fewer do not go to sleep"),
		param.Int("buffer", &c.Buffer, 0, 1e6, "nodes", "idle ones that stay awake"),
		param.Int("keep", &c.Keep, 0, 1e6, "steps", "after a wake in which no node goes to sleep"),
		param.Duration("period", &c.Period, "length of a step"),
	}
}

// Sleeper makes a sleeper.
func (c *CES) Sleeper() (sched.Sleeper, error) {
	if c.Period < time.Second {
		return nil, errors.New("period: a step takes a second at least")
	}
	own := *c
	return &sleeper{period: own.Period, buffer: own.Buffer, keep: own.Keep, cut: own.cut}, nil
}

// Vanilla is the settings of Vanilla.
type Vanilla struct {
	Buffer int
	Period time.Duration
}

// NewVanilla returns the settings without a buffer.
func NewVanilla() *Vanilla { return &Vanilla{Period: DefaultPeriod} }

// Params binds the settings.
func (c *Vanilla) Params() param.Set {
	return param.Set{
		param.Int("buffer", &c.Buffer, 0, 1e6, "nodes", "idle ones that stay awake"),
		param.Duration("period", &c.Period, "time between two looks for idle nodes"),
	}
}

// Sleeper makes a sleeper.
func (c *Vanilla) Sleeper() (sched.Sleeper, error) {
	if c.Period < time.Second {
		return nil, errors.New("period: a step takes a second at least")
	}
	buffer := c.Buffer
	return &sleeper{period: c.Period, buffer: buffer, cut: func(_ *sleeper, awake, _, used int) int { return awake - used - buffer }}, nil
}

// begins is the part of a run in which nothing is known yet, and only the buffer stays awake.
const begins = time.Hour

// cut is how many of the nodes that are awake go to sleep at the end of a step, of which the most were
// used.
func (c *CES) cut(s *sleeper, awake, used, _ int) int {
	i, over := len(s.uses), awake-used-c.Buffer
	if time.Duration(i)*c.Period < begins {
		return over
	}
	if i < c.History || i < s.stable {
		return 0
	}
	near, far := s.model.foretell(s.uses, float64(used), c.Future)
	if mean(s.uses[i-c.History:])-float64(used) < c.Fallen || float64(used)-near < c.Falls {
		return 0
	}
	if s.stable = i; near < far || over < c.Least { // the use will rise again
		return 0
	}
	return over
}

func mean(x []float64) float64 {
	sum := 0.0
	for _, v := range x {
		sum += v
	}
	return sum / float64(max(1, len(x)))
}
