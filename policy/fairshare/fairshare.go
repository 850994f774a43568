// Package fairshare orders jobs by what their owners have used of late, as
// Slurm does: who has used little for his share goes first, and what was used
// long ago counts for little. It never stops a job.
//
// Nouns:
//   - An account is a user of a tenant.
//   - Its usage is the GPU-time of its jobs, which loses half its weight in
//     every half-life.
//   - Its fair-share factor says from 0 to 1 how little it has used for its
//     share.
//   - The priority of a job is the weighted sum of that factor, its age, its
//     size and its priority class. Usage is taken note of at the end of each
//     period.
//
// Sources: Slurm's priority/multifactor plugin with and without Fair Tree (its
// pages multifactor priority, classic fairshare and fair tree); decayed usage
// goes back to Kay and Lauder, "A Fair Share Scheduler", CACM 31(1), 1988.
// For backfill see package backfill.
package fairshare

import (
	"errors"
	"math"
	"time"

	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/place"
	"github.com/norn-scheduler/norn/policy/kit/backfill"
	"github.com/norn-scheduler/norn/policy/need"
	"github.com/norn-scheduler/norn/policy/param"
	"github.com/norn-scheduler/norn/sched"
)

// Rank is how usage becomes a factor.
type Rank uint8

// The ranks.
const (
	FairTree Rank = iota // by place in the tree of tenants and users
	Classic              // 2^(-usage/share)
)

// Mode is what happens behind a job that does not fit.
type Mode uint8

// The modes.
const (
	EASY   Mode = iota // whoever fits without delaying one with a reservation goes ahead
	Skip               // whoever fits goes ahead
	Strict             // everyone behind it waits
)

// Config is the settings of the policy.
type Config struct {
	Rank     Rank
	HalfLife time.Duration
	Period   time.Duration
	Users    bool
	Damping  float64

	Fair, Age, Size, Priority float64 // weights of the factors
	MaxAge                    time.Duration
	Small                     bool // the size factor favours small jobs

	Mode         Mode
	Depth        int // jobs that backfill tries
	Reservations int // of these, as many that do not fit
	Place        place.Strategy
}

// NewConfig returns the defaults: times as Slurm's, and the fair-share factor
// alone.
func NewConfig() *Config {
	return &Config{
		Period: 5 * time.Minute, Users: true, Damping: 1, Fair: 1,
		MaxAge: 7 * 24 * time.Hour, Depth: 500, Reservations: 1, Place: place.Pack,
	}
}

// Params binds the settings.
func (c *Config) Params() param.Set {
	weight := func(name string, v *float64, doc string) param.Param {
		return param.Float(name, v, 0, math.Inf(1), "weight", doc)
	}
	return param.Set{
		param.Choice("rank", &c.Rank, []param.Option[Rank]{{Name: "tree", Value: FairTree}, {Name: "classic", Value: Classic}},
			"fair-share factor: by place in the fair tree, or 2^(-usage/share)"),
		param.Duration("half-life", &c.HalfLife, "time in which usage loses half its weight (PriorityDecayHalfLife); never: it does not decay; 0: as the cluster says, or 7 days"),
		param.Duration("period", &c.Period, "how often usage is taken note of (PriorityCalcPeriod)"),
		param.Bool("users", &c.Users, "share between the users of a tenant as well"),
		param.Float("damping", &c.Damping, 1e-6, 1e6, "", "divides usage in the classic factor (FairShareDampeningFactor)"),
		weight("fair", &c.Fair, "weight of the fair-share factor"),
		weight("age", &c.Age, "weight of the time since submission, as a part of maxage, at most 1"),
		weight("size", &c.Size, "weight of the GPUs asked for, as a part of the cluster"),
		weight("priority", &c.Priority, "weight of one step of the priority class"),
		param.Duration("maxage", &c.MaxAge, "age from which a job is not favoured any more (PriorityMaxAge)"),
		param.Bool("small", &c.Small, "the size factor favours small jobs instead of large ones (PriorityFavorSmall)"),
		param.Choice("mode", &c.Mode, []param.Option[Mode]{{Name: "easy", Value: EASY}, {Name: "skip", Value: Skip}, {Name: "strict", Value: Strict}},
			"what happens behind a job that does not fit: whoever does not delay it goes ahead, whoever fits, or nobody"),
		param.Int("depth", &c.Depth, 0, math.MaxInt32, "jobs", "how many jobs backfill tries at a time (bf_max_job_test)"),
		backfill.Param(&c.Reservations),
		place.Param(&c.Place),
	}
}

// Needs says what the policy lives on.
func (c *Config) Needs() need.List {
	owners := need.Of(need.Tenants)
	if c.Users {
		owners |= need.Of(need.Users)
	}
	alone := [...]string{"jobs go by submission, with backfill", "it acts as fifo(mode=skip)", "it acts as fifo(mode=strict)"}[c.Mode]
	if c.Age > 0 || c.Size > 0 || c.Priority > 0 {
		alone = "no job is favoured because of its owner"
	}
	return need.List(nil).
		And(owners, alone).
		If(c.Mode == EASY, need.Of(need.RunTimes), "it acts as fairshare(mode=strict)").
		If(c.Priority > 0, need.Of(need.Priorities), "it acts as fairshare(priority=0)")
}

// Policy makes the policy.
func (c *Config) Policy() (sched.Policy, error) {
	switch {
	case c.Period < time.Second || c.Period > maxPeriod:
		return nil, errors.New("the period must be from one second to one hour")
	case c.MaxAge == 0:
		return nil, errors.New("maxage must be positive")
	}
	return &policy{cfg: *c, fill: backfill.Backfill{Most: c.Reservations}}, nil
}

// halfLife is that of the settings, or else of the cluster; 0: usage does not
// decay.
func (c *Config) halfLife(cluster time.Duration) time.Duration {
	switch {
	case c.HalfLife == unit.Never:
		return 0
	case c.HalfLife > 0:
		return c.HalfLife
	case cluster > 0:
		return cluster
	}
	return 7 * 24 * time.Hour
}
