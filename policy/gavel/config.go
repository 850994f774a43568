// Package gavel is the scheduler of Narayanan et al., "Heterogeneity-Aware
// Cluster Scheduling Policies for Deep Learning Workloads", OSDI 2020. Each
// policy is an optimisation over the share of time that every job shall run on
// every GPU type. Rounds bring the shares about.
//
// Nouns: a Problem is what is to be shared at one moment. An Allocation is the
// share of its time for which each job shall run on each type. A Program finds
// one. X_eq and X_iso are the paper's reference allocations (Problem.Equal,
// Problem.Share). A program is aware when it knows how fast each job is on each
// type, agnostic when it takes all types to be equal. Steps are seconds in the
// reference configuration.
//
// Where jobs may share GPUs in pairs (space sharing), a program has a row for each pair as
// well; those that can make its answer better are found as they are needed.
package gavel

import (
	"errors"
	"fmt"
	"time"

	"github.com/norn-scheduler/norn/place"
	"github.com/norn-scheduler/norn/policy/kit/rounds"
	"github.com/norn-scheduler/norn/policy/need"
	"github.com/norn-scheduler/norn/policy/param"
	"github.com/norn-scheduler/norn/sched"
)

// Objective is what an allocation is to be best at.
type Objective uint8

// The objectives.
const (
	ByMaxMin Objective = iota
	ByWaterFilling
	ByHierarchy
	ByFIFO
	ByShortest
	ByMakespan
	ByFinishTimes
	ByThroughput
	ByCost
	ByCostSLO
	ByIsolated
	ByProof
	ByCostRatio
	ByCostRatioSLO
)

// program is the program of an objective.
func (o Objective) program() Program {
	return [...]Program{MaxMin, WaterFilling, Hierarchical, FIFO, ShortestFirst, Makespan, FinishTimes, Throughput, Cost, CostSLO, Isolated, StrategyProof, CostRatio, CostRatioSLO}[o]
}

// priced tells whether an objective looks at prices.
func (o Objective) priced() bool {
	return o == ByCost || o == ByCostSLO || o == ByCostRatio || o == ByCostRatioSLO
}

// Config is the settings of the policy.
type Config struct {
	Objective Objective
	Aware     bool
	Round     time.Duration
	Reset     time.Duration
	Idle      bool
	FIFO      bool      // inside the entities of ByHierarchy
	Prices    []float64 // by type, in the order of the cluster: of a GPU for an hour
	Place     place.Strategy

	Columns  bool          // time together on a node and time spread over nodes are columns of their own
	Packed   bool          // two jobs of one size may share GPUs
	Gangs    bool          // also those of several GPUs
	Estimate bool          // speeds of pairs that were not measured are estimated from those that were
	Profile  time.Duration // for which a job of a new sort is measured beside reference jobs; 0: never

	// Around, when set, solves in place of the program of the objective, with its
	// help.
	Around func(Program) Program
}

// NewConfig returns the defaults: those of the paper.
func NewConfig() *Config {
	return &Config{Objective: ByMaxMin, Aware: true, Round: 6 * time.Minute, Reset: 1920 * time.Second, Idle: true, Profile: 3 * time.Minute, Place: place.Pack}
}

// Params binds the settings.
func (c *Config) Params() param.Set {
	options := []param.Option[Objective]{
		{Name: "las", Value: ByMaxMin}, {Name: "water-filling", Value: ByWaterFilling}, {Name: "hierarchical", Value: ByHierarchy},
		{Name: "fifo", Value: ByFIFO}, {Name: "sjf", Value: ByShortest}, {Name: "makespan", Value: ByMakespan}, {Name: "ftf", Value: ByFinishTimes},
		{Name: "throughput", Value: ByThroughput}, {Name: "cost", Value: ByCost}, {Name: "cost-slo", Value: ByCostSLO}, {Name: "isolated", Value: ByIsolated},
		{Name: "strategy-proof", Value: ByProof}, {Name: "cost-ratio", Value: ByCostRatio}, {Name: "cost-ratio-slo", Value: ByCostRatioSLO},
	}
	return param.Set{
		param.Choice("objective", &c.Objective, options, "what shares are best at: max-min (las), max-min filled up, per tenant, first come, shortest, makespan, finish-time fairness, throughput, cost (a sum, or the ratio of the paper) without and with deadlines, equal parts, or the product of throughputs with payments"),
		param.Bool("aware", &c.Aware, "it knows how fast each job is on each GPU type; false: all types are taken to be equal"),
		param.Duration("round", &c.Round, "length of a round"),
		param.Duration("reset", &c.Reset, "how long shares stay as they are at least while jobs come and go"),
		param.Bool("idle", &c.Idle, "GPUs that nobody has a share of go to whoever can use them"),
		param.Bool("fifo", &c.FIFO, "hierarchical: inside a tenant the first job goes first, instead of equal shares"),
		param.Floats("prices", &c.Prices, "per hour", "cost: price of a GPU of each type, in the order of the cluster; empty: all the same"),
		place.Param(&c.Place),
		param.Bool("columns", &c.Columns, "a program settles who runs together on one node and who may be spread over several, where that makes a difference"),
		param.Bool("packed", &c.Packed, "two jobs may share a GPU where both together do more there than by turns"),
		param.Bool("gangs", &c.Gangs, "packed: jobs of several GPUs may share them too, two of one size"),
		param.Bool("estimate", &c.Estimate, "packed: speeds of pairs that were not measured are estimated from those that were, by completing the matrix of them; always so where they are learnt"),
		param.Duration("profile", &c.Profile, "packed: for which the first job of a new sort is measured beside reference jobs, where speeds of pairs are learnt; 0s: never"),
	}
}

// Shares tells whether several jobs may be on a GPU.
func (c *Config) Shares() bool { return c.Packed }

// Needs says what the policy lives on.
func (c *Config) Needs() need.List {
	o := c.Objective
	timed := o == ByFinishTimes || o == ByMakespan || o == ByShortest || o == ByCostSLO || o == ByCostRatioSLO
	return need.List(nil).
		If(c.Aware, need.Of(need.Types), "it shares GPUs as if all were alike").
		If(timed, need.Of(need.RunTimes), "a job is taken to have as much left as it has done, an hour at least").
		If(o == ByHierarchy, need.Of(need.Tenants), "it is fair between jobs alone").
		If(o == ByCostSLO || o == ByCostRatioSLO, need.Of(need.Deadlines), "it hurries no job").
		If(c.Packed, need.Of(need.Use, need.Stages, need.Pairs), "every job is taken to keep its GPUs busy all of the time")
}

// Policy makes the policy.
func (c *Config) Policy() (sched.Policy, error) {
	if c.Round <= 0 {
		return nil, fmt.Errorf("round is %v, it must last", c.Round)
	}
	if c.Profile < 0 || c.Profile > 0 && c.Profile < least {
		return nil, fmt.Errorf("profile is %v, it must be 0s or at least %v", c.Profile, least)
	}
	for _, price := range c.Prices {
		if !(price > 0) {
			return nil, fmt.Errorf("prices has %v, a price must be above 0", price)
		}
	}
	if o := c.Objective; (o == ByProof || o == ByCostRatio || o == ByCostRatioSLO) && (c.Packed || c.Columns) {
		return nil, errors.New("strategy-proof, cost-ratio and cost-ratio-slo do not go with packed or columns")
	}
	if err := c.checkColumns(); err != nil {
		return nil, err
	}
	p := &policy{cfg: *c, solve: c.Objective.program()}
	if c.Around != nil {
		p.solve = c.Around(p.solve)
	}
	terms := fmt.Sprint(c.Objective, c.Aware, c.FIFO, c.Prices, c.Gangs, c.Estimate)
	p.shares = rounds.Shares{Settle: p.settle, Least: c.Reset, Terms: terms, Pairs: c.Packed, Together: c.Columns}
	p.Policy = rounds.Policy{Grid: rounds.Grid(c.Round), Place: c.Place, Rule: p, Pairs: c.Packed, Together: c.Columns}
	return p, nil
}

// checkColumns says what columns do not go with, or nil.
func (c *Config) checkColumns() error {
	switch {
	case !c.Columns:
	case !c.Aware:
		return errors.New("columns need aware: without it all speeds are the same")
	case c.Packed:
		return errors.New("columns do not go with packed")
	case c.Around != nil:
		return errors.New("columns do not go with parts: nodes are not divided")
	case c.Place == place.Consolidated || c.Place == place.Rack:
		return fmt.Errorf("columns need a place that spreads gangs, %v does not", c.Place)
	}
	return nil
}
