// Package maxmin divides the GPUs of a cluster between tenants by weighted
// max-min fairness, with guarantees, borrowing of what others leave idle, and
// reclaim of what is borrowed.
//
// Nouns:
//   - A tenant below its guarantee goes first.
//   - The rest is divided by weight: no tenant gets more while one that has
//     less, for its weight, could use it.
//   - The share of a tenant is the result, given what all ask for.
//   - GPUs that a tenant holds above its guarantee are borrowed. GPUs above its
//     share may have to be given back.
//
// Sources: max-min fairness by water-filling is Bertsekas and Gallager, "Data
// Networks", 1992, section 6.5.2; guarantee, borrowing and reclaim are those of
// the YARN fair scheduler (min share, fair share preemption), Kueue's cohorts
// and KAI's queues (quota, over-quota weight).
package maxmin

import (
	"github.com/norn-scheduler/norn/place"
	"github.com/norn-scheduler/norn/policy/kit/quota"
	"github.com/norn-scheduler/norn/policy/need"
	"github.com/norn-scheduler/norn/policy/param"
	"github.com/norn-scheduler/norn/sched"
	"github.com/norn-scheduler/norn/tenant"
)

// Config is the settings of the policy.
type Config struct {
	quota.Settings
	Divide quota.Basis
}

// NewConfig returns the defaults.
func NewConfig() *Config {
	return &Config{Settings: quota.Settings{Reclaim: quota.Share, Place: place.Pack}}
}

// Params binds the settings.
func (c *Config) Params() param.Set {
	return append(param.Set{
		param.Choice("divide", &c.Divide, []param.Option[quota.Basis]{{Name: "borrowed", Value: quota.Borrowed}, {Name: "all", Value: quota.All}},
			"what weights divide: what is left once guarantees are served (Kueue, KAI), or all, guarantees being least shares (YARN)"),
	}, c.Settings.Params(true)...)
}

// Needs says what the policy lives on.
func (c *Config) Needs() need.List {
	return c.Settings.Needs("maxmin")
}

// Policy makes the policy.
func (c *Config) Policy() (sched.Policy, error) {
	return &quota.Policy{Settings: c.Settings, Rule: rule(c.Divide), Divide: c.Divide}, nil
}

// rule is what a tenant holds for each unit of weight, once it has what it is
// guaranteed.
type rule quota.Basis

// Level implements quota.Rule.
func (r rule) Level(b *quota.Book, n quota.Node, held tenant.Amount) quota.Level {
	if level, below := quota.Guaranteed(b, n, held); below {
		return level
	}
	gpus := held.GPU
	if quota.Basis(r) == quota.Borrowed {
		gpus -= b.Promise(n)
	}
	return quota.Level{Tier: 1, Value: float64(gpus) / b.Weight(n)}
}
