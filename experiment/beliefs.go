package experiment

import (
	"fmt"
	"time"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/engine"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/perf/predict"
	"github.com/norn-scheduler/norn/sim"
)

// Beliefs says where policies that have an estimator of their own take from what they
// believe of jobs.
type Beliefs uint8

// The sources of beliefs.
const (
	LearntBeliefs Beliefs = iota // their estimators, from what is measured; where nothing can be measured, as TrueBeliefs
	TrueBeliefs                  // the experiment: the truth, unless it says otherwise
)

var beliefNames = [...]string{"learnt", "true"}

// String is the name of the source: learnt or true.
func (b Beliefs) String() string { return beliefNames[b] }

// ParseBeliefs reads learnt or true.
func ParseBeliefs(s string) (Beliefs, error) {
	for i, name := range beliefNames {
		if s == name {
			return Beliefs(i), nil
		}
	}
	return 0, fmt.Errorf("%q is no source of beliefs: write %s", s, oneOf(beliefNames[:]))
}

// believe is what makes the beliefs of a run, and takes out of its world the measurements
// that nobody looks at. It is nil for a policy without an estimator, and where nothing can be
// measured. It is also nil where an estimator is one of jobs that share devices, and the
// experiment says what is believed of those.
func (x *Experiment) believe(c Choice, world *sim.Config) engine.Believe {
	of := c.Believe()
	if of != nil && varies(of) {
		if world.Meter = nil; !x.LearnVariability {
			return nil
		}
		world.Meter = deviceMeter{x.Seed}
	}
	if of == nil || world.Meter == nil || x.Beliefs != LearntBeliefs {
		world.Meter = nil
		return nil
	}
	if m, some := world.Meter.(interface{ serves(perf.Believer) bool }); some && !m.serves(of(perf.Prior{Speeds: x.speeds()})) {
		world.Meter = nil
		return nil
	}
	empty := of(perf.Prior{})
	times, _ := empty.(perf.RunTimes)
	_, shares := empty.(perf.Sharing)
	if shares && (x.Sharing != nil || x.Belief != Belief{}) { // what is believed is said
		world.Meter = nil
		return nil
	}
	return func(p perf.Prior) perf.Believer {
		p.Told = false
		if shares {
			p.Sharing = perf.Alone{}
			if x.Slowdown.Pairs != nil {
				p.Sharing = references(x.Slowdown.Pairs.Table)
			}
		}
		if times != nil {
			p.Speeds, p.Transfer = unlearnt{p.Speeds, times}, nil
		}
		return of(p)
	}
}

// unlearnt is what is believed of speeds before anything is measured: of jobs of which a
// policy learns, nothing but how jobs scale.
type unlearnt struct {
	perf.Typed
	learns perf.RunTimes
}

// On implements perf.Typed.
func (u unlearnt) On(j *job.Job, c *cluster.Cluster, t cluster.TypeID, tasks int, spread bool) float64 {
	if _, _, mine := u.learns.RunTime(j); mine {
		return perf.Analytic{Scaling: usualScaling, Spread: 1}.On(j, c, t, tasks, spread)
	}
	return u.Typed.On(j, c, t, tasks, spread)
}

// usualScaling is the exponent by which jobs are taken to be faster with more GPUs.
const usualScaling = 0.8

// varies tells whether a believer learns how far devices of a type differ.
func varies(of engine.Believe) bool {
	_, ok := of(perf.Prior{}).(perf.Varied)
	return ok
}

// foretells tells whether a believer learns how long jobs run.
func foretells(of engine.Believe) bool {
	_, ok := of(perf.Prior{}).(perf.RunTimes)
	return ok
}

// untold is the oracle for a policy that learns how long jobs of some sort run: it tells
// nothing of those.
type untold struct {
	predict.Estimator
	learns perf.Believer
}

// Estimate implements predict.Estimator.
func (u untold) Estimate(j *job.Job) (time.Duration, bool) {
	if times, ok := u.learns.(perf.RunTimes); ok {
		if _, _, mine := times.RunTime(j); mine {
			return 0, false
		}
	}
	return u.Estimator.Estimate(j)
}
