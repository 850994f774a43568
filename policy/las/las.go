// Package las serves the job that has attained the least service: least
// attained service in GPU-time (2D) or in time alone (1D).
//
// Source: Gu et al., "Tiresias", NSDI 2019, section 3. Taken literally, the
// order would make jobs of equal service share the GPUs without end. Here the
// service of running jobs is read once a round, at multiples of the round's
// length, so a round bounds how often jobs change places. Service since the
// start of a job counts only from the moment at which the job makes progress.
// Otherwise jobs whose start takes longer than a round would change places
// without making any.
package las

import (
	"math/bits"
	"time"

	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/place"
	"github.com/norn-scheduler/norn/policy/kit/preempt"
	"github.com/norn-scheduler/norn/policy/need"
	"github.com/norn-scheduler/norn/policy/param"
	"github.com/norn-scheduler/norn/sched"
)

// Config is the settings of the policy.
type Config struct {
	Round   time.Duration
	OneD    bool
	Victims preempt.Victims
	Place   place.Strategy
}

// NewConfig returns the defaults.
func NewConfig() *Config { return &Config{Round: 5 * time.Minute, Place: place.Pack} }

// Params binds the settings.
func (c *Config) Params() param.Set {
	return param.Set{
		param.Duration("round", &c.Round, "how often the service of running jobs is taken note of; 0: at every event"),
		param.Bool("1d", &c.OneD, "attained service is time, not GPUs x time"),
		preempt.VictimsParam(&c.Victims),
		place.Param(&c.Place),
	}
}

// Needs says what the policy lives on.
func (c *Config) Needs() need.List {
	return nil
}

// Policy makes the policy.
func (c *Config) Policy() (sched.Policy, error) {
	p := &policy{cfg: *c}
	p.run.Order, p.run.Literal, p.run.Victims = order{c.Round, c.OneD}, true, c.Victims
	p.run.Place = func(sched.Job) place.Strategy { return p.cfg.Place }
	return p, nil
}

type policy struct {
	cfg Config
	run preempt.Policy
}

// Decide implements sched.Policy.
func (l *policy) Decide(v *sched.View, p *sched.Plan) {
	l.run.Follow(v, p)
	l.run.Decide(v, p)
}

// NextWake implements sched.Waker: rounds are multiples of the round length, as
// long as any job waits.
func (l *policy) NextWake(v *sched.View) time.Duration {
	if l.cfg.Round <= 0 || !l.run.Contended() {
		return l.run.Wake(v)
	}
	return min(l.run.Wake(v), (v.Now/l.cfg.Round+1)*l.cfg.Round)
}

// Why implements sched.Explainer.
func (l *policy) Why(v *sched.View, id job.ID) job.Reason { return l.run.Why(v, id) }

type order struct {
	round time.Duration
	oneD  bool
}

// Key is the service attained at the last beginning of a round, in nanoseconds or,
// as a number of 128 bits, in thousandths of GPU-nanoseconds.
func (o order) Key(v *sched.View, j sched.Job, chosen bool) preempt.Key {
	ran := j.RunTime()
	if chosen {
		at := v.Now
		if o.round > 0 {
			at = v.Now / o.round * o.round
		}
		if at <= j.Ready() {
			at = 0 // it has not made any progress yet
		}
		ran = j.RunTimeAt(at)
	}
	if o.oneD {
		return preempt.Key{A: int64(ran)}
	}
	d := j.Spec().Demand
	high, low := bits.Mul64(uint64(ran), uint64(d.Milli(d.Roles[0].Tasks)))
	return preempt.Key{A: int64(high), B: int64(low >> 1)}
}

// Shift is 0: both scales are the same.
func (order) Shift(*sched.View) int64 { return 0 }
