// Package mapa makes Norn behave like the simulator that was published with MAPA (Ranganath et al.,
// SC 2021; socal-ucr/MAPA): one machine, whose GPUs are given out by how they are linked.
//
// Nouns:
//   - A machine is its GPUs and the links between each two of them.
//   - A candidate is GPUs in an order, in which the first talks to the second and so on.
//   - A cycle is a second.
//
// Units: seconds since the start; GB/s, whole numbers.
package mapa

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/internal/published/harness"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/sim"
	"github.com/norn-scheduler/norn/state"
)

// Policy is a policy under its name there.
type Policy struct {
	Name string
	Note string // what is odd about it; empty where nothing is

	choose func(*machine, []candidate, *task) *candidate
}

// Policies are all policies, in the order in which they are shown.
func Policies() []Policy {
	return []Policy{
		{"baseline", "", baseline},
		{"topoAware", "the first order of the first set is taken, whatever the bandwidth", topoAware},
		{"greedy", "", greedy},
		{"preserve", "sensitive jobs wait at a prediction of up to 12.3 GB/s", preserve},
		{"minScore", "sensitive jobs wait for a perfect set", minScore},
	}
}

// Find finds a policy.
func Find(name string) (Policy, error) {
	return harness.Find("policy of mapa", name, Policies(), func(p *Policy) string { return p.Name })
}

// Run runs a policy on a trace and a machine as the simulator would.
func Run(ctx context.Context, tracePath, machineName, policyName string) (*harness.Result, error) {
	p, err := Find(policyName)
	if err != nil {
		return nil, err
	}
	m, err := findMachine(machineName)
	if err != nil {
		return nil, err
	}
	w, err := readTrace(tracePath)
	if err != nil {
		return nil, err
	}
	return p.run(ctx, m, w)
}

func (p Policy) run(ctx context.Context, m *machine, w *workload) (*harness.Result, error) {
	if err := w.check(m); err != nil {
		return nil, err
	}
	c := cluster.New()
	typ, err := c.AddType(cluster.GPUType{Name: "gpu"})
	if err != nil {
		return nil, err
	}
	if _, err := c.AddNode(cluster.NodeSpec{GPUs: []cluster.GPUs{{Type: typ, Count: m.n}}, Links: m.links}); err != nil {
		return nil, err
	}
	setup := harness.Setup{
		Cluster: c, Policy: &player{machine: m, policy: p, tasks: w.tasks},
		World: sim.Config{Source: w.jobs.Source(), Model: harness.EndlessIfZero{Jobs: w.jobs}},
	}
	s, err := setup.Run(ctx)
	if err != nil {
		return nil, err
	}
	return result(s, m, w), nil
}

// result is the jobs that ended, in their order.
func result(s *state.State, m *machine, w *workload) *harness.Result {
	r := &harness.Result{Columns: strings.Split("job_id,num_gpu,start,end,exec,last_score,norm_last_score,bw_sensitive,link_ratio,pred_bw,gpus", ",")}
	for i := range s.Jobs() {
		rec, t := s.Record(job.ID(i)), &w.tasks[i]
		if !rec.Phase.Over() || t.has == nil {
			continue
		}
		r.Rows = append(r.Rows, harness.Row{
			Key: rec.Job.Key, Start: rec.FirstStart.Seconds(), End: rec.End.Seconds(), Preempt: -1, Job: int32(i),
			Scores: []float64{float64(t.has.aggregate), m.normal(t.has), t.has.predicted()},
		})
	}
	r.Scores = scores
	r.Append = func(dst []byte, row *harness.Row) []byte {
		t := &w.tasks[row.Job]
		sensitive := 0
		if t.sensitive {
			sensitive = 1
		}
		dst = fmt.Appendf(dst, "%s,%d,%.0f,%.0f,%.0f,%d,%.6f,%d,%.6f,%.6f,", row.Key, t.gpus, row.Start, row.End, row.End-row.Start,
			t.has.aggregate, row.Scores[1], sensitive, t.has.slowShare(), row.Scores[2])
		for i, g := range t.has.gpus {
			if i > 0 {
				dst = append(dst, '+')
			}
			dst = strconv.AppendInt(dst, int64(g)+1, 10)
		}
		return dst
	}
	return r
}

// scores are the columns by which allocations are judged.
var scores = []string{"last_score", "norm_last_score", "pred_bw"}
