// Package slurm decides as Slurm does with its multifactor priorities, backfill, and
// preemption by QOS or by partition.
//
// Nouns:
//   - The priority of a job is a weighted sum of factors from 0 to 1: of its owner's
//     usage (fair), of its age, its size, its partition and its QOS.
//   - A QOS is a class of service with a priority. Its jobs may preempt those of the
//     QOSs that it lists.
//   - The tier of a partition comes before all priorities.
//   - A victim is a running job that is stopped for one that may preempt it.
//
// Sources: Slurm's documentation, pages Multifactor Priority Plugin, Preemption and
// Scheduling Configuration Guide. Usage, fair-share factors and the queue are those of
// package fairshare; for backfill see
// package backfill.
package slurm

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/norn-scheduler/norn/policy/fairshare"
	"github.com/norn-scheduler/norn/policy/need"
	"github.com/norn-scheduler/norn/policy/param"
	"github.com/norn-scheduler/norn/sched"
)

// Preempt says which jobs may be stopped for others.
type Preempt uint8

// The ways to preempt.
const (
	Nobody      Preempt = iota
	ByQOS               // those of the QOSs that the QOS of the job lists
	ByPartition         // those in partitions of lower tiers
)

// Config is the settings of the policy.
type Config struct {
	Fair       fairshare.Config // usage, weights of its factors, backfill
	Partition  float64          // weight
	QOS        float64          // weight
	Partitions []string         // NAME:FACTOR, NAME:FACTOR:TIER
	QOSs       []string         // NAME:PRIORITY, NAME:PRIORITY:NAME+NAME
	Limits     []string         // QOS:GPUS:USER-GPUS:USER-JOBS:JOB-GPUS, from the right on none where there is no limit
	Accounts   []string         // ACCOUNT:GPUS:JOBS:USER-JOBS:JOB-GPUS, or ACCOUNT/USER:..., likewise
	Preempt    Preempt
	Exempt     time.Duration // for which a job that has started is left alone
}

// NewConfig returns the defaults, which are Slurm's: all weights are 0, so that jobs go by
// submission, with backfill, and nobody is preempted.
func NewConfig() *Config {
	c := &Config{Fair: *fairshare.NewConfig()}
	c.Fair.Fair = 0
	return c
}

// Params binds the settings.
func (c *Config) Params() param.Set {
	weight := func(name string, v *float64, doc string) param.Param {
		return param.Float(name, v, 0, math.Inf(1), "weight", doc)
	}
	own := param.Set{
		weight("partition", &c.Partition, "weight of the factor of the partition (PriorityWeightPartition)"),
		weight("qos", &c.QOS, "weight of the priority of the QOS (PriorityWeightQOS)"),
		param.Words("partitions", &c.Partitions, "name:factor:tier", "PriorityJobFactor and PriorityTier of partitions, as in gpu:10,debug:1:2; 1 where none is told"),
		param.Words("qoses", &c.QOSs, "name:priority:preempts", "priority of QOSs, and which they may preempt, as in high:100:normal+low,normal:10; 0 and none where they are not told"),
		param.Words("limits", &c.Limits, "qos:gpus:user-gpus:user-jobs:job-gpus", "what jobs of a QOS may have at a time: all together, those of a user, how many jobs of a user, and each job, as in normal:64:8:4,high:16 (GrpTRES, MaxTRESPerUser, MaxJobsPerUser, MaxTRESPerJob)"),
		param.Words("accounts", &c.Accounts, "account:gpus:jobs:user-jobs:job-gpus", "what jobs of an account and those below it may have at a time, or jobs of a user in it (account/user): GPUs, how many run, how many of a user, and GPUs of each job, as in nlp:64::4,nlp/ann:8; root is above all (GrpTRES, GrpJobs, MaxJobs, MaxTRESPerJob)"),
		param.Choice("preempt", &c.Preempt, []param.Option[Preempt]{{Name: "none", Value: Nobody}, {Name: "qos", Value: ByQOS}, {Name: "partition", Value: ByPartition}},
			"who may be stopped for the first job that does not fit: jobs of the QOSs that its own lists, or jobs in partitions of lower tiers (PreemptType)"),
		param.Duration("exempt", &c.Exempt, "for how long a job that has started is not preempted (PreemptExemptTime)"),
	}
	shared := slices.DeleteFunc(c.Fair.Params(), func(p param.Param) bool { return p.Name == "priority" })
	return append(own, shared...)
}

// Needs says what the policy lives on.
func (c *Config) Needs() need.List {
	owners := need.Of(need.Tenants)
	if c.Fair.Users {
		owners |= need.Of(need.Users)
	}
	return need.List(nil).
		If(c.Fair.Fair > 0, owners, "it acts as slurm(fair=0)").
		If(len(c.Accounts) > 0, need.Of(need.Tenants), "limits of accounts hold for none but root").
		If(c.Fair.Mode == fairshare.EASY, need.Of(need.RunTimes), "it acts as slurm(mode=strict)")
}

// Policy makes the policy.
func (c *Config) Policy() (sched.Policy, error) {
	x := &extra{cfg: *c, sorts: map[sortKey]int32{}}
	var err error
	if x.partitions, x.plain, err = parsePartitions(c.Partitions); err != nil {
		return nil, err
	}
	if x.qoses, err = parseQOSs(c.QOSs); err != nil {
		return nil, err
	}
	if x.limits, err = parseLimits(c.Limits); err != nil {
		return nil, err
	}
	if x.accounts, err = parseAccounts(c.Accounts); err != nil {
		return nil, err
	}
	x.users = ofUsers(x.limits) || len(x.accounts) > 0
	x.cfg.Fair.Priority = 0
	return x.cfg.Fair.With(x)
}

// partition is what is told of a partition.
type partition struct {
	factor float64 // part of the largest of all
	tier   int32
}

// qos is what is told of a QOS.
type qos struct {
	rank   float64 // its priority
	factor float64 // that as a part of the largest of all
	over   []string
}

const wantPartition, wantQOS = "a partition is written NAME:FACTOR or NAME:FACTOR:TIER, with numbers from 0 on", "a QOS is written NAME:PRIORITY or NAME:PRIORITY:NAME+NAME, with a number from 0 on"

// parsePartitions reads the factors and tiers of partitions. plain is one that is not told.
func parsePartitions(words []string) (all map[string]partition, plain partition, err error) {
	out, most := map[string]partition{}, 1.0
	for _, w := range words {
		parts := strings.Split(w, ":")
		p := partition{tier: 1}
		if len(parts) == 3 {
			var tier uint64
			tier, err = strconv.ParseUint(parts[2], 10, 16)
			p.tier = int32(tier)
		}
		if len(parts) < 2 || len(parts) > 3 || err != nil {
			return nil, plain, fmt.Errorf("partitions: %q: %s", w, wantPartition)
		}
		if p.factor, err = strconv.ParseFloat(parts[1], 64); err != nil || !(p.factor >= 0 && p.factor <= math.MaxUint32) {
			return nil, plain, fmt.Errorf("partitions: %q: %s", w, wantPartition)
		}
		if _, twice := out[parts[0]]; twice || parts[0] == "" {
			return nil, plain, fmt.Errorf("partitions: %q: each has a name, and is told once", w)
		}
		out[parts[0]], most = p, max(most, p.factor)
	}
	for name, p := range out {
		p.factor /= most
		out[name] = p
	}
	return out, partition{1 / most, 1}, nil
}

// parseQOSs reads the priorities of QOSs and whom they preempt. It fails where two may
// preempt each other, by way of others or not, for their jobs would take turns for ever.
func parseQOSs(words []string) (map[string]qos, error) {
	out, most := map[string]qos{}, 0.0
	for _, w := range words {
		parts := strings.Split(w, ":")
		if len(parts) < 2 || len(parts) > 3 {
			return nil, fmt.Errorf("qoses: %q: %s", w, wantQOS)
		}
		var q qos
		var err error
		if q.rank, err = strconv.ParseFloat(parts[1], 64); err != nil || !(q.rank >= 0 && q.rank <= math.MaxUint32) {
			return nil, fmt.Errorf("qoses: %q: %s", w, wantQOS)
		}
		if len(parts) == 3 {
			q.over = strings.FieldsFunc(parts[2], func(r rune) bool { return r == '+' })
		}
		if _, twice := out[parts[0]]; twice || parts[0] == "" {
			return nil, fmt.Errorf("qoses: %q: each has a name, and is told once", w)
		}
		out[parts[0]], most = q, max(most, q.rank)
	}
	for name, q := range out {
		if reaches(out, name, name, len(out)) {
			return nil, fmt.Errorf("qoses: jobs of %s may preempt some that may preempt them", name)
		}
		q.factor = q.rank / max(most, 1)
		out[name] = q
	}
	return out, nil
}

// reaches tells whether jobs of one QOS may preempt those of another, by way of so many
// others at most.
func reaches(all map[string]qos, from, to string, steps int) bool {
	for _, next := range all[from].over {
		if next == to || steps > 0 && reaches(all, next, to, steps-1) {
			return true
		}
	}
	return false
}
