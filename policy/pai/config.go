// Package pai is the scheduler of Weng et al., "MLaaS in the Wild: Workload
// Analysis and Scheduling in Large-Scale Heterogeneous GPU Clusters", NSDI
// 2022. Jobs that are predicted to be short go first, any job that fits goes
// ahead, and machines with high-end GPUs are kept for tasks that need many
// GPUs.
//
// Nouns: an instance is a task of a gang, which may ask for a part of a GPU; a
// gang starts as a whole, anywhere. A group is the recurrence key of a job: jobs
// of one group run about equally long. A heavy job has tasks that ask for more
// than one GPU, or is of a model known to be heavy; a light job is any other. The
// high end is the GPU types that are reserved for heavy jobs.
//
// The published simulator with its own ways is package published/pai.
package pai

import (
	"math"

	"github.com/norn-scheduler/norn/place"
	"github.com/norn-scheduler/norn/policy/need"
	"github.com/norn-scheduler/norn/policy/param"
	"github.com/norn-scheduler/norn/sched"
)

// By is what jobs are ordered by.
type By uint8

// The orders.
const (
	GroupSize By = iota // SJGG: mean of the group's jobs with as many GPUs
	Group               // SJG: mean of the group
	User                // SJU: mean of the user
	Estimate            // SJF: the estimate that the run gives
	Submit              // FIFO
)

// Predict is where the means come from.
type Predict uint8

// The sources of means.
const (
	Learn Predict = iota // from the jobs that have ended
	Trace                // told by the trace, where it does; else learnt
)

// Config is the settings of the policy.
type Config struct {
	By          By
	Predict     Predict
	Place       place.Strategy
	Reserve     []string // GPU types of the high end
	Heavy       float64  // GPUs of a task above which a job is heavy
	HeavyGang   float64  // GPUs of all its tasks above which a job is heavy
	HeavyModels []string
	Overflow    bool // heavy jobs may run outside of the high end
}

// NewConfig returns the defaults.
func NewConfig() *Config {
	return &Config{Place: place.FirstFit, Reserve: []string{"V100", "V100M32"}, Heavy: 1, HeavyGang: math.Inf(1), Overflow: true}
}

// Params binds the settings.
func (c *Config) Params() param.Set {
	orders := []param.Option[By]{
		{Name: "group-size", Value: GroupSize}, {Name: "group", Value: Group}, {Name: "user", Value: User},
		{Name: "estimate", Value: Estimate}, {Name: "submit", Value: Submit},
	}
	return param.Set{
		param.Choice("by", &c.By, orders,
			"shortest first by the mean run time of the group and size (SJGG), group (SJG) or user (SJU), or by the estimate of the run (SJF); or first come, first served"),
		param.Choice("predict", &c.Predict, []param.Option[Predict]{{Name: "learn", Value: Learn}, {Name: "trace", Value: Trace}},
			"whether means are learnt from jobs that have ended or taken from the trace where it tells them"),
		place.Param(&c.Place),
		param.Words("reserve", &c.Reserve, "GPU types", "high-end GPU types, kept for heavy jobs while any waits; empty: none"),
		param.Float("heavy", &c.Heavy, 0, math.Inf(1), "GPUs", "a job is heavy when each of its tasks asks for more"),
		param.Float("heavy-gang", &c.HeavyGang, 0, math.Inf(1), "GPUs", "a job is heavy when all its tasks together ask for more; inf: never for that"),
		param.Words("heavy-models", &c.HeavyModels, "models", "jobs that train one of these models are heavy"),
		param.Bool("overflow", &c.Overflow, "heavy jobs that find no room on the high end may run elsewhere"),
	}
}

// Needs says what the policy lives on.
func (c *Config) Needs() need.List {
	means := c.By <= User
	return need.List(nil).
		If(means && c.Predict == Trace, need.Of(need.Predictions), "it acts as pai(predict=learn)").
		If(means, need.Of(need.History), "every job is expected to run for the mean of all that have ended").
		If(c.By == Estimate, need.Of(need.RunTimes), "it acts as pai(by=submit)").
		If(len(c.Reserve) > 0, need.Of(need.Kinds), "no GPUs are kept for heavy jobs")
}

// Policy makes the policy.
func (c *Config) Policy() (sched.Policy, error) {
	return &policy{cfg: *c, means: newMeans()}, nil
}
