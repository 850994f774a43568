// Package history reads small histories written as text: a cluster, a policy, a
// table of jobs and what else happens, so that what comes of them can be put
// beside them as lines that a person reads. The files are tests that read like
// documentation, and belong to no world: they say what users and machines do,
// and the simulator, this machine or a Kubernetes cluster can play them. A world
// whose clock is not exact compares the lines without their times.
//
// # The format
//
// A file is blocks in the way of cockroachdb/datadriven: a line that begins with
// run and names the arguments, the input, a line of four dashes, and the events
// that are expected. A line that begins with # is for the reader.
//
//	run policy=fifo cluster=1x4
//	job  at  gpus  run
//	a    0   3     60
//	b    10  2     30
//	at 20 cancel b
//	----
//	0 submit a
//	0 start a on n0[0-2]
//	10 submit b
//	...
//
// The arguments, each name=value or name=(value, value):
//
//	policy    a name of policy.Table
//	set       settings of the policy, name=value each
//	cluster   a shorthand of clusterspec.Parse
//	types     instead of it, one node with GPUs of several types: type:GPUs, or
//	          type:GPUs:speed
//	rack      nodes in each rack; none: no racks
//	estimate  oracle, none or user: what the policy may know about run times
//	start, checkpoint, restore, migrate, resize
//	          what transitions cost, in seconds or as 1m30s
//	snapshot  how often jobs save their state; none: only with a checkpoint
//	spread    speed of a gang for each step in the topology between its nodes
//	seed      of the policy's random source
//	exact     true: what is told hangs on things that happen at one moment, or on
//	          equal spans of time, and only a world with an exact clock has such
//
// The input is lines of four kinds. The first is a table of jobs, in order of
// submission: a line that begins with job names its columns, and each line up to
// the next of another kind is a job. A dash stands for the default.
//
//	job       what the job is called
//	at        when it is submitted, in seconds
//	gpus      4: a gang of 4 GPUs; 0.5: half of one; 2x0.5, 2x4: tasks x GPUs of each
//	run       run time of the last attempt in the reference configuration, seconds
//	fails     run times of the attempts that fail before it, with commas
//	tenant, user, model, types (V100|P100), priority, estimate (seconds)
//	cpu, memory of each task
//	slots     counted resources of each task: rdma=1|pods=1
//	tasks     for gangs that can be resized: least-most
//	ps        parameter servers: number x cores, as in 1x2
//	stop      checkpoint, freeze, restart, never or last-save
//
// The second is a tenant: its name, and guarantee, limit and weight where it has
// them. The third is a comment. The fourth is what happens besides, at a time in
// seconds:
//
//	tenant research guarantee=4 limit=8 weight=2
//	at 30 down n0      the node is lost with all that runs there
//	at 30 drain n0     it takes no new work
//	at 60 up n0        it works again
//	at 30 break n0 2   one of its GPUs takes no new work
//	at 60 mend n0 2
//	at 30 add 1x4      a node arrives
//	at 30 change n0 1x2
//	                   the node is lost, and at once one like that has its name
//	at 30 foreign n0 cpu=4 memory=2GiB gpus=0,1 rdma=1
//	                   what others use of the node from now on, GPUs by their numbers
//	                   in it (of a node that counts them: how many); nothing: nothing
//	at 30 cancel a     its user takes a job back
//	at 30 hold a       a waiting job is put aside
//	at 60 free a       and may run again
//	at 30 speed a 0.5  a running job changes its speed
//
// An event is the line that simtest.Line writes: time, what, which job or node,
// on what, and why. Notes that a policy makes for itself are left out.
package history

import (
	"fmt"
	"strings"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/eventlog"
	"github.com/norn-scheduler/norn/experiment"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/perf/predict"
	"github.com/norn-scheduler/norn/policy"
	"github.com/norn-scheduler/norn/sched"
	"github.com/norn-scheduler/norn/sim"
	"github.com/norn-scheduler/norn/sim/simtest"
	"github.com/norn-scheduler/norn/trace/clusterspec"
)

// History is a cluster, a policy, jobs and what happens besides.
type History struct {
	Choice   experiment.Choice
	Spec     *clusterspec.Spec
	Estimate experiment.From
	Costs    perf.Costs
	Snapshot float64 // seconds; 0: none
	Spread   float64 // speed for each step between the nodes of a gang; 0: no penalty
	Seed     uint64
	Exact    bool          // only a world with an exact clock can play it
	Jobs     []simtest.Job // in order of submission, which is also that of their numbers
	Happens  []Happening   // in order of time
}

// Happening is something that befalls the cluster or a job.
type Happening struct {
	At    float64  // seconds
	What  string   // as in the format: down, drain, up, break, mend, add, change, foreign, cancel, hold, free, speed
	Name  string   // of the node or job; of add: the nodes as a shorthand
	GPU   int      // break, mend: its index in the node
	Speed float64  // speed: progress per second
	Use   []string // foreign: name=amount each
	Shape string   // change: the new node as a shorthand
}

// Simulate plays a history in the simulator and returns what happened, line by
// line. Invariants are checked after every instant.
func (h *History) Simulate() ([]string, error) {
	site, err := h.Spec.Build()
	if err != nil {
		return nil, err
	}
	cfg := simtest.Config{
		Cluster: site.Cluster, Tenants: site.Tenants, Costs: h.Costs, Seed: h.Seed, Make: h.Choice.Make,
	}
	spread := h.Spread
	if spread == 0 {
		spread = 1
	}
	cfg.Model = perf.Analytic{Scaling: 1, Spread: spread}
	if site.Cluster.Pools() > 1 {
		cfg.Make = func() (sched.Policy, error) { return policy.Partitioned(h.Choice.Make), nil }
	}
	switch h.Estimate {
	case experiment.None:
		cfg.Estimator = predict.None{}
	case experiment.User:
		cfg.Estimator = predict.User{}
	}
	script, arrivals, err := h.script(site.Cluster)
	if err != nil {
		return nil, err
	}
	cfg.World = func(c *sim.Config) {
		c.Script, c.Nodes, c.Snapshot = script, arrivals, duration(h.Snapshot)
	}
	played, err := simtest.Try(cfg, h.Jobs...)
	if err != nil {
		return nil, err
	}
	var lines []string
	for _, line := range played.Log {
		if !strings.Contains(line, " memo ") {
			lines = append(lines, line)
		}
	}
	return lines, nil
}

// script turns what happens into events of a simulated world, and nodes that
// arrive.
func (h *History) script(c *cluster.Cluster) (events []eventlog.Event, arrivals []sim.Node, err error) {
	nodes := map[string]cluster.NodeID{}
	for n := range cluster.NodeID(c.Nodes()) {
		nodes[c.Node(n).Name] = n
	}
	jobs := map[string]int{}
	for i := range h.Jobs {
		jobs[h.Jobs[i].Key] = i
	}
	count := c.Nodes()
	for _, w := range h.Happens {
		if w.What != "add" {
			ev, err := w.event(c, nodes, jobs)
			if err != nil {
				return nil, nil, err
			}
			events = append(events, ev)
		}
		if w.What != "add" && w.What != "change" {
			continue
		}
		more, err := arrive(c, w)
		if err != nil {
			return nil, nil, err
		}
		for _, spec := range more {
			if spec.Name = w.Name; w.What == "add" {
				spec.Name = fmt.Sprint("n", count)
			}
			nodes[spec.Name] = cluster.NodeID(count)
			count++
			arrivals = append(arrivals, sim.Node{At: duration(w.At), Spec: spec})
		}
	}
	return events, arrivals, nil
}
