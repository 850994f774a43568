// Package philly is the scheduler of the cluster in Jeon et al., "Analysis of
// Large-Scale Multi-Tenant GPU Clusters for DNN Training Workloads", USENIX ATC
// 2019: fair share between virtual clusters, gangs, and locality that is relaxed
// as a job waits.
//
// Nouns: a virtual cluster (VC) is a tenant, its quota the GPUs that it is
// guaranteed; it borrows what it holds beyond that, and a VC below its quota
// reclaims it. A level is how near to each other the GPUs of a gang must be:
// the fewest servers of one rack, one rack, anywhere. An attempt is a request for
// GPUs of one level that stays open for a while; when it finds none the job backs
// off, and after some attempts the level is relaxed.
//
// A wait is fairness delay while the VC has used up its quota and nothing is
// left to borrow (job.OverShare, job.Quota), and fragmentation delay while enough
// GPUs are free but not near enough to each other (job.NeedOneNode and the like).
package philly

import (
	"errors"
	"time"

	"github.com/norn-scheduler/norn/policy/need"
	"github.com/norn-scheduler/norn/policy/param"
	"github.com/norn-scheduler/norn/sched"
)

// Level is how near to each other the GPUs of a gang must be.
type Level uint8

// The levels, nearest first.
const (
	Server Level = iota // one server, or the fewest that can hold it in one rack
	Rack                // one rack
	Anywhere
)

// levels is the number of levels.
const levels = int(Anywhere) + 1

var levelOptions = []param.Option[Level]{{Name: "server", Value: Server}, {Name: "rack", Value: Rack}, {Name: "any", Value: Anywhere}}

// Config is the settings of the policy.
type Config struct {
	Acquire   time.Duration // how long an attempt stays open
	Backoff   time.Duration // between two attempts
	Attempts  int           // at one level, before it is relaxed
	First     Level         // of the first attempt
	Last      Level         // beyond which it is never relaxed
	Lend      bool          // a VC may hold more than its quota
	ReclaimAt float64       // share of the GPUs in use from which on jobs are preempted
}

// NewConfig returns the defaults.
func NewConfig() *Config {
	return &Config{
		Acquire: 150 * time.Second, Backoff: 2 * time.Minute, Attempts: 3,
		First: Server, Last: Anywhere, Lend: true, ReclaimAt: 0.9,
	}
}

// Params binds the settings.
func (c *Config) Params() param.Set {
	return param.Set{
		param.Duration("acquire", &c.Acquire, "how long a request for GPUs near to each other stays open"),
		param.Duration("backoff", &c.Backoff, "how long a job backs off before its next request"),
		param.Int("attempts", &c.Attempts, 1, 1_000_000, "requests", "requests in vain after which locality is relaxed by one level"),
		param.Choice("locality", &c.First, levelOptions, "where a gang must have its GPUs at first: the fewest servers of one rack, one rack, or anywhere"),
		param.Choice("relax-to", &c.Last, levelOptions, "how far locality is relaxed at most"),
		param.Bool("lend", &c.Lend, "a virtual cluster may use what others leave idle of their quota"),
		param.Float("reclaim-at", &c.ReclaimAt, 0, 1, "share", "GPUs in use from which on jobs of virtual clusters above their quota are preempted for one below"),
	}
}

// Needs says what the policy lives on.
func (c *Config) Needs() need.List {
	return need.List(nil).
		And(need.Of(need.Tenants), "no virtual cluster takes anything back from another").
		And(need.Of(need.Quotas), "the quota of a virtual cluster is its part by weight").
		If(c.First != Anywhere, need.Of(need.Spread), "a gang that waits for near GPUs gains nothing by it")
}

// Policy makes the policy.
func (c *Config) Policy() (sched.Policy, error) {
	switch {
	case c.First > c.Last:
		return nil, errors.New("locality must not be laxer than relax-to")
	case c.Acquire <= 0 && c.Backoff <= 0:
		return nil, errors.New("acquire and backoff must not both be 0")
	}
	return &policy{cfg: *c}, nil
}
