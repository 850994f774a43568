// Package mast is one queue over all regions: each job goes to the region whose bid for it is the
// best, among those that have its data. Jobs of higher priority take the GPUs of lower ones there.
//
// Nouns:
//   - A region is a place of the topology of a level of its name. Nodes that stand in none are one
//     region together.
//   - A dynamic cluster is the nodes of one place of a region that have GPUs of one type. All tasks of
//     a job are in one dynamic cluster.
//   - A band is the jobs of one priority class, the larger the more urgent.
//   - The credit of a tenant is what its quota (tenant.Tenant.Guarantee) would have used until now,
//     less what the tenant has used, in GPU-seconds.
//   - A bid is what it would take to have a job in a dynamic cluster: whom to stop, and what would be
//     left. Victims are the jobs that would be stopped.
//
// The queue goes by band, then by credit, then by submission; nobody waits behind another one. Data is
// labels of nodes: a job that reads d asks for nodes with the label data/d (job.Demand.Where), which
// package replica gives to the nodes of a region once the copy is there. The policy remembers nothing
// but which jobs have no bid until something is freed.
//
// Source: Choudhury et al., "MAST: Global Scheduling of ML Training across Geo-Distributed Datacenters
// at Hyperscale", OSDI 2024. The order of the parts of a bid and the measure of credit are our reading:
// the paper's code is not published.
package mast

import (
	"github.com/norn-scheduler/norn/place"
	"github.com/norn-scheduler/norn/policy/need"
	"github.com/norn-scheduler/norn/policy/param"
	"github.com/norn-scheduler/norn/sched"
)

// Config is the settings of the policy.
type Config struct {
	Region, Cluster string // levels of the topology
	Preempt         bool
	Place           place.Strategy
}

// NewConfig returns the defaults.
func NewConfig() *Config {
	return &Config{Region: "region", Cluster: "zone", Preempt: true, Place: place.RackPack}
}

// Params binds the settings.
func (c *Config) Params() param.Set {
	return param.Set{
		param.Text("region", &c.Region, "level of the topology whose places are regions"),
		param.Text("cluster", &c.Cluster, "level of the topology, within regions, whose places are divided by GPU type into dynamic clusters; a region without such a place is one"),
		param.Bool("preempt", &c.Preempt, "jobs of higher bands take the GPUs of lower ones"),
		place.Param(&c.Place),
	}
}

// Needs says what the policy lives on.
func (c *Config) Needs() need.List {
	l := need.List(nil).
		And(need.Of(need.Regions), "all nodes are one region").
		And(need.Of(need.Quotas), "tenants go by what they have used alone")
	return l.If(c.Preempt, need.Of(need.Priorities), "nobody is stopped")
}

// Policy makes the policy.
func (c *Config) Policy() (sched.Policy, error) {
	m := &policy{cfg: *c, groupOf: map[groupKey]int32{}, failed: map[failedKey]failed{}, suits: map[suitKey][]int32{}}
	m.anywhere = &anywhere{m}
	return m, nil
}
