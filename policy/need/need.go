// Package need says what policies live on. A policy that shares GPUs between elastic jobs
// does nothing of the kind where no job is elastic, and the figures of such a run say
// nothing about it. So each policy declares its needs, and the facts of a run tell which
// of them are missing.
//
// Nouns:
//   - A Thing is what a policy may live on: estimates of run times, elastic jobs,
//     services, several tenants.
//   - A Set is some things. Facts are the set of those that a run has (Look).
//   - A Need is a set of things of which one suffices, with what the policy does
//     without any of them.
package need

import "strings"

// Thing is something that a policy may live on.
type Thing uint8

// The things. The text of each is in the table of this package.
const (
	RunTimes    Thing = iota // estimates of run times
	Predictions              // run times or ranks that the trace itself predicts
	History                  // users, groups or names, by which jobs resemble those before
	Elastic                  // jobs that run with other numbers of tasks than they asked for
	Reports                  // jobs that report their batch sizes and what these are worth
	Losses                   // jobs that report how their loss falls
	Batches                  // jobs whose batches may be changed
	Stages                   // stages of an iteration: loading, GPU, network
	Use                      // how busy a job keeps its GPUs
	Memory                   // how much GPU memory a job takes
	Pairs                    // measured speeds of jobs that share a GPU
	Services                 // online services
	Types                    // GPU types on which jobs differ in speed
	Kinds                    // several GPU types, whatever the speeds
	Processors               // run times on processors, where nodes lend theirs
	Spread                   // gangs that are slower when they are spread over nodes
	Devices                  // GPUs of one type of which some are slower
	Models                   // names of the models that are trained
	Rations                  // jobs to which cores and memory beside GPUs matter
	Backbones                // foundation models that are tuned
	Tenants                  // several tenants in a pool
	Users                    // several users in a pool
	Quotas                   // guarantees or limits of tenants
	Cells                    // cells that tenants are promised
	Classes                  // classes of service of jobs
	Deadlines                // deadlines of jobs
	Tiers                    // jobs of a tier that is promised something
	Priorities               // jobs of several priority classes
	Links                    // links between the GPUs of a node
	Bandwidth                // jobs that mind the bandwidth between their GPUs
	Parts                    // tasks that ask for a part of a GPU, or for several on a node
	Sockets                  // run times of jobs beside others on a CPU socket
	Bursts                   // jobs that tell when in an iteration they send
	Adapters                 // network adapters of nodes, of which the speed is known
	Regions                  // several regions
	things
)

// about is how a thing is told of.
type about struct {
	name    string // what is lived on
	missing string // a clause: what the run lacks
	get     string // how a user gets it
}

var table = [things]about{
	RunTimes:    {"estimates of run times", "no run time is estimated", "--estimates oracle, user or history"},
	Predictions: {"predictions in the trace", "the trace predicts nothing", "a trace with predictions (docs/traces.md)"},
	History:     {"users, groups or names of jobs", "no job tells its user, group or name", "columns user and name of the trace"},
	Elastic:     {"elastic jobs", "no job is elastic", "--assume goodput"},
	Reports:     {"jobs that report their goodput", "no job reports its goodput", "--assume goodput"},
	Losses:      {"jobs that report their loss", "no job reports its loss", "--assume quality"},
	Batches:     {"jobs whose batches may be changed", "no job takes another batch than its own", "--assume tasks or batches"},
	Stages:      {"stages of iterations", "no job tells the stages of its iterations", "--assume stages"},
	Use:         {"use of GPUs by each job", "no job tells how busy it keeps its GPUs", "--assume use"},
	Memory:      {"GPU memory of each job", "no job tells how much GPU memory it takes", "--assume use"},
	Pairs:       {"measured speeds of pairs", "no pair of jobs was measured", "--pairs"},
	Services:    {"online services", "no job is an online service", "--assume services"},
	Types:       {"GPU types of different speeds", "no job is faster on one GPU type than on another", "--cluster with several types, --speeds"},
	Kinds:       {"several GPU types", "all GPUs are of one type", "--cluster with several types"},
	Processors:  {"jobs that may run on processors", "no job can run on processors here", "host slots in the cluster file, cpu_est in the trace"},
	Spread:      {"gangs that are slower when spread over nodes", "no gang is slower when it is spread over nodes", "--spread 0.7"},
	Devices:     {"GPUs of one type that differ", "all GPUs of a type are alike", "--variability"},
	Models:      {"names of models", "no job tells its model", "column model of the trace"},
	Rations:     {"jobs that need cores and memory", "no job needs cores or memory as far as is known", "--assume cpu"},
	Backbones:   {"jobs that tune foundation models", "no job tunes a foundation model", "--assume tuning"},
	Tenants:     {"several tenants", "all jobs are of one tenant", "column tenant of the trace"},
	Users:       {"several users", "all jobs are of one user", "column user of the trace"},
	Quotas:      {"quotas of tenants", "no tenant has a quota", "tenants in the cluster file (docs/clusters.md)"},
	Cells:       {"cells of tenants", "no tenant has cells", "cells of tenants in the cluster file (docs/clusters.md)"},
	Classes:     {"classes of service", "no job tells its class of service", "column qos of the trace"},
	Deadlines:   {"deadlines", "no job has a deadline", "column deadline of the trace, --deadlines 0.5-1.5"},
	Tiers:       {"tiers of jobs", "no job is promised a GPU fraction", "column tier of the trace"},
	Priorities:  {"priority classes", "all jobs are of one priority class", "column priority of the trace"},
	Links:       {"links between the GPUs of a node", "no links inside nodes are known", "links in the cluster file, --cluster 4x8:V100/dgx1 (docs/clusters.md)"},
	Bandwidth:   {"jobs that mind their bandwidth", "no job tells that it minds its bandwidth", "hint sensitive of the trace, column model"},
	Sockets:     {"run times of jobs beside others on a socket", "nothing was measured of jobs on the sockets of a node", "--sockets (docs/formats.md)"},
	Bursts:      {"bursts of iterations", "no job tells when in an iteration it sends", "--assume bursts, or bursts in the trace"},
	Adapters:    {"network adapters of nodes", "the network adapters of nodes are not known", "nics in the cluster file, or --cluster cassini"},
	Regions:     {"several regions", "the cluster is not divided into regions", "regions in the topology of the cluster file (docs/clusters.md)"},
	Parts:       {"tasks that ask for parts of GPUs, or several", "no task asks for a part of a GPU or for several GPUs", "columns gpus and tasks of the trace"},
}

// String names the thing.
func (t Thing) String() string { return table[t].name }

// All lists the things.
func All() []Thing {
	all := make([]Thing, things)
	for i := range all {
		all[i] = Thing(i)
	}
	return all
}

// Set is some things.
type Set uint64

// Of is the set of some things.
func Of(some ...Thing) Set {
	var s Set
	for _, t := range some {
		s |= 1 << t
	}
	return s
}

// Has tells whether a thing is in the set.
func (s Set) Has(t Thing) bool { return s&(1<<t) != 0 }

// each lists the things of a set.
func (s Set) each() []Thing {
	var out []Thing
	for _, t := range All() {
		if s.Has(t) {
			out = append(out, t)
		}
	}
	return out
}

// String names the things, any of which suffices.
func (s Set) String() string { return s.joined(" or ", Thing.String) }

// Get says how a user gets the things, any of which suffices.
func (s Set) Get() string { return s.joined(", or ", func(t Thing) string { return table[t].get }) }

// missing says that all of them are missing.
func (s Set) missing() string {
	return s.joined(" and ", func(t Thing) string { return table[t].missing })
}

func (s Set) joined(between string, text func(Thing) string) string {
	var parts []string
	for _, t := range s.each() {
		if p := text(t); len(parts) == 0 || parts[len(parts)-1] != p {
			parts = append(parts, p)
		}
	}
	return strings.Join(parts, between)
}

// Need is what a policy lives on.
type Need struct {
	Any     Set    // one of these suffices
	Without string // a clause: what the policy does where there is none of them
	Given   Set    // the clause holds only where all of these are there
}

// List is the needs of a policy, with its settings as they are.
type List []Need

// And adds a need.
func (l List) And(any Set, without string) List { return append(l, Need{Any: any, Without: without}) }

// If adds a need that the policy has as it is set.
func (l List) If(set bool, any Set, without string) List {
	if !set {
		return l
	}
	return l.And(any, without)
}

// Has tells whether a policy lives on a thing.
func (l List) Has(t Thing) bool {
	for _, n := range l {
		if n.Any.Has(t) {
			return true
		}
	}
	return false
}

// Names lists what a policy lives on, one name for each need.
func (l List) Names() []string {
	var out []string
	for _, n := range l {
		out = append(out, n.Any.String())
	}
	return out
}

// Lack is a need that a run does not meet.
type Lack struct {
	Text string // what is missing, and what the policy does without it
	Get  string // how a simulation gets it
}

// String is the lack as a user reads it.
func (l Lack) String() string { return l.Text + ". " + l.Get }

// Lacks lists the needs that a run does not meet. Needs in a row without which the policy
// does the same are told of together. It is empty for a run that has everything.
func (l List) Lacks(facts Set) []Lack {
	var out []Lack
	for i := 0; i < len(l); i++ {
		if l[i].Any&facts != 0 {
			continue
		}
		text, get := l[i].Any.missing(), l[i].Any
		for i+1 < len(l) && l[i+1].Without == l[i].Without && l[i+1].Any&facts == 0 {
			i++
			text += " and " + l[i].Any.missing()
			get |= l[i].Any
		}
		if l[i].Given&^facts == 0 {
			text += "; " + l[i].Without
		}
		out = append(out, Lack{text, get.Get()})
	}
	return out
}
