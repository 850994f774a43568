// Package ratio is a policy in a module of its own, as somebody writes it who uses Norn
// as a library.
package ratio

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/norn-scheduler/norn/place"
	"github.com/norn-scheduler/norn/policy"
	"github.com/norn-scheduler/norn/policy/need"
	"github.com/norn-scheduler/norn/policy/param"
	"github.com/norn-scheduler/norn/sched"
)

// Entry is the policy as package run takes it.
func Entry() policy.Entry {
	return policy.Entry{
		Name: "ratio", Title: "highest response ratio next", Source: "Brinch Hansen, 1971",
		New: func() policy.Config { return NewConfig() },
	}
}

// Config is the settings of the policy.
type Config struct {
	Least time.Duration // shorter jobs count as so long
	Place place.Strategy
}

// NewConfig returns the defaults.
func NewConfig() *Config { return &Config{Least: time.Second, Place: place.Pack} }

// Params binds the settings.
func (c *Config) Params() param.Set {
	return param.Set{
		param.Duration("least", &c.Least, "shorter jobs count as so long"),
		place.Param(&c.Place),
	}
}

// Needs says what the policy lives on.
func (c *Config) Needs() need.List {
	return need.List(nil).And(need.Of(need.RunTimes), "jobs go by submission")
}

// Policy makes the policy.
func (c *Config) Policy() (sched.Policy, error) {
	if c.Least <= 0 {
		return nil, fmt.Errorf("least is %v: write more than 0", c.Least)
	}
	return &ratio{*c}, nil
}

type ratio struct{ cfg Config }

// Decide implements sched.Policy.
func (r *ratio) Decide(v *sched.View, p *sched.Plan) {
	jobs := slices.SortedStableFunc(v.Waiting(), func(a, b sched.Job) int { return cmp.Compare(r.of(b), r.of(a)) })
	for _, j := range jobs {
		p.Start(j.ID, r.cfg.Place) // where it does not fit, the plan notes why
	}
}

// of is how long a job would have been there in the end if it started now, over its run
// time.
func (r *ratio) of(j sched.Job) float64 {
	left, known := j.Remaining()
	if !known {
		return 1
	}
	left = max(left, r.cfg.Least)
	return float64(j.Wait()+left) / float64(left)
}
