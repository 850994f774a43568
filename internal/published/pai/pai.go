// Package pai makes Norn behave like the simulator that was published with the
// PAI trace of 2020 (Weng et al., NSDI 2022; alibaba/clusterdata,
// cluster-trace-gpu-v2020/simulator).
//
// Nouns: an instance is a task of a gang; a gang starts all its instances at
// once, anywhere, and the simulator counts each of them as a finished job. A
// tick is one second, at which the published loop looks at everything; here only
// arrivals and completions are visited, since nothing can change between them.
//
// Units: seconds since the zero of the trace; GPUs and CPUs in per cent of one,
// 100 is a whole one.
package pai

import (
	"context"
	"math"
	"strings"
	"time"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/internal/published/harness"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/sim"
	"github.com/norn-scheduler/norn/state"
)

// Policy is an allocation policy of the simulator with an order of nodes.
type Policy struct {
	Name string
	Note string // what is odd about it; empty where nothing is

	column  string // of the trace, by which jobs go, least first
	balance bool
}

// Policies are all policies, in the order in which they are shown.
func Policies() []Policy {
	const backfills = "whoever fits goes ahead"
	sorts := []Policy{
		{Name: "SJF", Note: backfills, column: "duration"},
		{Name: "FIFO", Note: backfills, column: "submit_time"},
		{Name: "SJU", Note: backfills, column: "user_dur"},
		{Name: "SJG", Note: backfills, column: "group_dur"},
		{Name: "SJGG", Note: backfills, column: "group_gpu_dur"},
	}
	var all []Policy
	for _, p := range sorts {
		name := p.Name
		p.balance = true
		all = append(all, p)
		for _, balance := range []bool{false, true} {
			p.Name, p.balance = name+"-pack", balance
			if balance {
				p.Name = name + "-balance"
			}
			all = append(all, p)
		}
	}
	return all
}

// Find finds a policy. Without -pack (nodes by number) or -balance (the least
// used node first) it balances, which is the default of the simulator.
func Find(name string) (Policy, error) {
	return harness.Find("policy of pai", name, Policies(), func(p *Policy) string { return p.Name })
}

// Options changes what the simulator reads.
type Options struct {
	// Rate, when it is not zero, lets that many jobs arrive each minute, in the
	// order of the trace, instead of when the trace says.
	Rate int
}

// Run runs a policy on a trace and a cluster as the simulator would: the name
// gN, for one node of N GPUs, or hetero, for its list of 380 nodes.
func Run(ctx context.Context, tracePath, clusterName, policyName string, o Options) (*harness.Result, error) {
	p, err := Find(policyName)
	if err != nil {
		return nil, err
	}
	nodes, err := nodesOf(clusterName)
	if err != nil {
		return nil, err
	}
	w, err := readTrace(tracePath, p.column)
	if err != nil {
		return nil, err
	}
	w.setRate(int64(o.Rate), p.column == "submit_time")
	return p.run(ctx, nodes, w)
}

func (p Policy) run(ctx context.Context, m *machine, w *workload) (*harness.Result, error) {
	w.clip(m)
	c, err := m.build()
	if err != nil {
		return nil, err
	}
	policy := newPolicy(p, m, w)
	setup := harness.Setup{Cluster: c, Policy: policy, World: sim.Config{Source: &source{workload: w, matching: m.matching}}}
	s, err := setup.Run(ctx)
	if err != nil {
		return nil, err
	}
	return result(s, w, m, policy), nil
}

// machine is a cluster as the simulator describes it.
type machine struct {
	nodes    []node
	first    int  // number of the first node
	matching bool // jobs that want a V100 get nothing else
}

// node is a node, or what is free of it, in per cent.
type node struct {
	gpus, cpus int64
	v100       bool
}

// cpusPerGPU is how many CPUs the one big node has for each GPU.
const cpusPerGPU = 23.22

// maxGPUs bounds the one big node.
const maxGPUs = 1_000_000

func nodesOf(name string) (*machine, error) {
	if name == "hetero" {
		return hetero(), nil
	}
	n, ok := harness.Digits(strings.TrimPrefix(name, "g"))
	if !ok || !strings.HasPrefix(name, "g") || n < 1 || n > maxGPUs {
		return nil, harness.Unknown("cluster of pai", name, []string{"gN for one node of N GPUs", "hetero"})
	}
	cpus := int64(math.RoundToEven(cpusPerGPU * float64(n)))
	return &machine{nodes: []node{{gpus: 100 * n, cpus: 100 * cpus}}, first: 1}, nil
}

// hetero is the simulator's list of nodes, by type: CPU, MISC, T4, P100, V100.
func hetero() *machine {
	m := &machine{matching: true}
	for _, kind := range []struct {
		nodes      int
		gpus, cpus int64
		v100       bool
	}{{16, 0, 96, false}, {56, 8, 96, false}, {100, 2, 96, false}, {160, 2, 64, false}, {48, 8, 96, true}} {
		for range kind.nodes {
			m.nodes = append(m.nodes, node{100 * kind.gpus, 100 * kind.cpus, kind.v100})
		}
	}
	return m
}

// totals is what all nodes have.
func (m *machine) totals() (gpus, cpus int64) {
	for _, n := range m.nodes {
		gpus, cpus = gpus+n.gpus, cpus+n.cpus
	}
	return gpus, cpus
}

// milli is per cent in thousandths.
func milli(percent int64) unit.Milli { return unit.Milli(percent * 10) }

func (m *machine) build() (*cluster.Cluster, error) {
	c := cluster.New()
	for _, n := range m.nodes {
		name := "any"
		if n.v100 {
			name = "V100"
		}
		t, err := c.AddType(cluster.GPUType{Name: name})
		if err != nil {
			return nil, err
		}
		spec := cluster.NodeSpec{Pooled: true, CPU: milli(n.cpus), GPUs: []cluster.GPUs{{Type: t, Count: int(n.gpus / 100)}}}
		if _, err := c.AddNode(spec); err != nil {
			return nil, err
		}
	}
	return c, nil
}

func result(s *state.State, w *workload, m *machine, p *policy) *harness.Result {
	r := &harness.Result{
		Columns: strings.Split("job_id,submit,start,end,jct,duration,num_gpu,num_cpu,num_inst,node", ","),
		Rows:    make([]harness.Row, 0, s.Jobs()),
	}
	for i := range s.Jobs() {
		rec := s.Record(job.ID(i))
		if !rec.Phase.Over() {
			continue
		}
		row := harness.Row{
			Key: rec.Job.Key, Submit: rec.Job.Submit.Seconds(), Start: rec.FirstStart.Seconds(), End: rec.End.Seconds(),
			Preempt: -1, Job: int32(i),
		}
		for part := range w.facts[i].instances {
			row.Part = int32(part)
			r.Rows = append(r.Rows, row)
		}
	}
	r.Append = func(dst []byte, row *harness.Row) []byte {
		rec, f := s.Record(job.ID(row.Job)), &w.facts[row.Job]
		dst = append(dst, rec.Job.Key...)
		return harness.AppendInts(dst, secs(rec.Job.Submit), secs(rec.FirstStart), secs(rec.End), secs(rec.End-rec.Job.Submit),
			f.duration, int64(f.gpus), int64(f.cpus), int64(f.instances), int64(m.first)+int64(p.nodeOf(row.Job, row.Part)))
	}
	return r
}

// secs is a duration in whole seconds.
func secs(d time.Duration) int64 { return int64(d / time.Second) }
