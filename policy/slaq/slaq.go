// Package slaq divides GPUs among elastic jobs so that quality improves most: in each short
// epoch of the scheduler, one unit after the other goes to the job whose loss it is foretold
// to lower most.
//
// Nouns:
//   - A unit is a task of a job, on one GPU or more.
//   - An epoch of the scheduler is the time between two divisions. Epochs of a job are called
//     steps here.
//   - The fall of a loss is measured in the largest that was seen of the job within a step,
//     so that jobs can be compared whatever their losses mean.
//   - The gain of a job with so many units is the fall that is foretold for the next epoch.
//   - A novice is a job that has not had the time to report two losses.
//
// Source: Zhang, Stafman, Or and Freedman, "SLAQ: Quality-Driven Scheduling for Distributed
// Machine Learning", SoCC 2017.
package slaq

import (
	"errors"
	"time"

	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/perf/predict/loss"
	"github.com/norn-scheduler/norn/place"
	"github.com/norn-scheduler/norn/policy/kit/resize"
	"github.com/norn-scheduler/norn/policy/need"
	"github.com/norn-scheduler/norn/policy/param"
	"github.com/norn-scheduler/norn/sched"
)

// Share is by what units are shared out.
type Share uint8

// The values of Share.
const (
	Quality Share = iota // the fall of the losses
	Equal                // every job has as many as the others
)

// Config is the settings of the policy.
type Config struct {
	Interval time.Duration
	Delay    time.Duration
	Largest  int
	Share    Share
	Place    place.Strategy
}

// NewConfig returns the defaults, which are for jobs on GPUs that take a while to restart.
// The paper has an interval of 3 s, and no delay.
func NewConfig() *Config {
	return &Config{Interval: time.Minute, Delay: 30 * time.Second, Largest: 64, Place: place.Pack}
}

// Params binds the settings.
func (c *Config) Params() param.Set {
	return param.Set{
		param.Duration("interval", &c.Interval, "how often units are shared out anew; nothing is decided in between"),
		param.Duration("delay", &c.Delay, "what another size is taken to cost; 0s: sizes change between steps, as in the paper"),
		param.Int("largest", &c.Largest, 1, 1<<20, "tasks", "the most that an elastic job gets"),
		param.Choice("share", &c.Share, []param.Option[Share]{{Name: "quality", Value: Quality}, {Name: "equal", Value: Equal}},
			"by what units are shared out: the fall of losses, or equally, as by the fair scheduler with which the paper compares"),
		place.Param(&c.Place),
	}
}

// Needs says what the policy lives on.
func (c *Config) Needs() need.List {
	return need.List(nil).
		And(need.Of(need.Elastic), "jobs go by submission, with the numbers of GPUs that they ask for").
		If(c.Share == Quality, need.Of(need.Losses), "every job gets as many GPUs as the others")
}

// Believer makes what the scheduler believes of losses from what jobs report of them.
func (c *Config) Believer(prior perf.Prior) perf.Believer { return loss.NewBeliever(prior) }

// Policy makes the policy.
func (c *Config) Policy() (sched.Policy, error) {
	switch {
	case c.Interval <= 0 || c.Interval == unit.Never:
		return nil, errors.New("interval must be above 0, and some time")
	case c.Delay < 0 || c.Delay == unit.Never:
		return nil, errors.New("delay must be 0 or more, and some time")
	}
	return &policy{*c}, nil
}

type policy struct{ cfg Config }

// Decide implements sched.Policy.
func (o *policy) Decide(v *sched.View, p *sched.Plan) {
	if !o.rounds().Begin(v, p) {
		return
	}
	for pool := range v.EachPool() {
		claims, gpus := resize.Claims(v, pool, func(j sched.Job) bool { return resize.Stays(v, j) })
		o.divide(v, claims, gpus)
		resize.CarryOut(p, claims, o.cfg.Place)
	}
}

// rounds are the moments at which units are shared out.
func (o *policy) rounds() resize.Rounds {
	return resize.Rounds{Interval: o.cfg.Interval, Place: o.cfg.Place}
}

// NextWake implements sched.Waker.
func (o *policy) NextWake(v *sched.View) time.Duration { return o.rounds().Wake(v) }

// divide settles the number of tasks of each job.
func (o *policy) divide(v *sched.View, claims []*resize.Claim, gpus int) {
	all := make([]Claim, len(claims))
	fair := max(1, float64(gpus)/max(1, float64(len(claims))))
	for i, c := range claims {
		most := c.Most
		if !c.Rigid() {
			most = max(c.Least, min(most, o.cfg.Largest))
		}
		all[i] = Claim{Least: c.Least, Most: most, Each: max(1, c.Each), First: max(1, c.GPUs()), Gain: o.gain(v, c.Job, fair)}
	}
	Divide(all, gpus)
	for i := range all {
		claims[i].Tasks = all[i].Units
	}
}

// gain is the gain of a job by its number of tasks, where an equal share is so many GPUs.
func (o *policy) gain(v *sched.View, j sched.Job, fair float64) func(tasks int) float64 {
	losses, learns := v.Speeds.(loss.Recorder)
	if o.cfg.Share == Equal || !learns {
		return nil
	}
	h := losses.History(j.Spec())
	if h == nil || h.Steepest() == 0 {
		if j.RunTime() >= 2*o.cfg.Interval { // it could have reported, and does not
			return nil
		}
		return func(tasks int) float64 { return min(1, float64(tasks)/fair) }
	}
	pace, steepest := o.pace(v, j, h), h.Steepest()
	return func(tasks int) float64 { return h.Fall(pace(tasks)) / steepest }
}

// pace is how many steps a job is believed to do in the next epoch, by its number of tasks: as
// many in a second as it was measured to do, times what is believed of that size. Another size
// than the present one costs the delay.
func (o *policy) pace(v *sched.View, j sched.Job, h *loss.History) func(tasks int) float64 {
	rate, on, known := h.Rate()
	largest := resize.LargestNode(v, j)
	was := resize.BestSpeed(v, j, on.Tasks, largest)
	return func(tasks int) float64 {
		left := o.cfg.Interval
		if !j.Running() || j.Tasks() != tasks {
			left = max(0, left-o.cfg.Delay)
		}
		if !known || was <= 0 {
			return 0
		}
		return left.Seconds() * rate * resize.BestSpeed(v, j, tasks, largest) / was
	}
}
