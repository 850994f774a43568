// Package drf is Dominant Resource Fairness of Ghodsi et al., "Dominant Resource
// Fairness: Fair Allocation of Multiple Resource Types", NSDI 2011: max-min
// fairness over the resource that each tenant needs most.
//
// Nouns: the dominant share of a tenant is the largest fraction of any resource
// of the cluster (GPUs, CPU cores, memory) that it holds, divided by its weight;
// progressive filling serves the tenant with the smallest one next. A resource
// of which the cluster tells nothing does not count. In a tree of tenants the
// filling goes down from the root: at each tenant the child with the smallest
// dominant share is next, a child holding what all below it hold.
package drf

import (
	"github.com/norn-scheduler/norn/place"
	"github.com/norn-scheduler/norn/policy/kit/quota"
	"github.com/norn-scheduler/norn/policy/need"
	"github.com/norn-scheduler/norn/policy/param"
	"github.com/norn-scheduler/norn/sched"
	"github.com/norn-scheduler/norn/tenant"
)

// Config is the settings of the policy.
type Config struct{ quota.Settings }

// NewConfig returns the defaults.
func NewConfig() *Config {
	return &Config{quota.Settings{Reclaim: quota.Guarantee, Place: place.Pack}}
}

// Params binds the settings.
func (c *Config) Params() param.Set { return c.Settings.Params(false) }

// Needs says what the policy lives on.
func (c *Config) Needs() need.List {
	return c.Settings.Needs("drf")
}

// Policy makes the policy.
func (c *Config) Policy() (sched.Policy, error) {
	return &quota.Policy{Settings: c.Settings, Rule: rule{}}, nil
}

// rule is the dominant share of those who have what they are guaranteed, after
// those who have not.
type rule struct{}

// Level implements quota.Rule.
func (rule) Level(b *quota.Book, n quota.Node, held tenant.Amount) quota.Level {
	if level, below := quota.Guaranteed(b, n, held); below {
		return level
	}
	return quota.Level{Tier: 1, Value: b.Dominant(held) / b.Weight(n)}
}
