// Package synergy makes Norn behave like the simulator that was published with
// Synergy (Mohan et al., OSDI 2022; msr-fiddle/synergy), for its six orders of
// jobs. The cores and memory of a job are in proportion to GPUs (fair), as
// profiled (greedy), or as profiled and taken back where other jobs come short
// (tune).
//
// Nouns: a vector is GPUs, cores, memory and the speed of the disk. A round is
// 300 seconds, at the beginning of which all jobs are placed from scratch. A
// peer is a job that was placed before, in the same round.
//
// Units: seconds since the zero of the trace and iterations, as floating point numbers;
// GB, which are GiB in Norn's books; MB/s.
package synergy

import (
	"context"
	"fmt"
	"strings"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/internal/published/harness"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/sim"
	"github.com/norn-scheduler/norn/state"
)

// Policy is an order with a way to divide, under their names there.
type Policy struct {
	Name string
	Note string // what is odd about it; empty where nothing is

	order order
	share share
}

// order is in which order jobs are served.
type order uint8

const (
	fifo order = iota
	srtf
	las
	ftf
	drf
	tetris
)

// share is how cores and memory are divided.
type share uint8

const (
	fair share = iota
	tune
	greedy
)

// Policies are all policies, in the order in which they are shown.
func Policies() []Policy {
	var out []Policy
	for o, name := range []string{"FIFO", "SRTF", "LAS", "FTF", "DRF", "TETRIS"} {
		for s, how := range []string{"fair", "tune", "greedy"} {
			p := Policy{Name: name + "-" + how, order: order(o), share: share(s)}
			var notes []string
			switch {
			case p.order == ftf:
				notes = append(notes, "who is least late goes first")
			case p.order == las && p.share == tune:
				notes = append(notes, "the largest gangs are placed first")
			}
			if p.share == tune && p.order != fifo && p.order != las && p.order != drf {
				notes = append(notes, "goes by the speeds of the round before")
			}
			p.Note = strings.Join(notes, "; ")
			out = append(out, p)
		}
	}
	return out
}

// Find finds a policy.
func Find(name string) (Policy, error) {
	return harness.Find("policy of synergy", name, Policies(), func(p *Policy) string { return p.Name })
}

// Run runs a policy on a trace and a cluster as the simulator would.
func Run(ctx context.Context, tracePath, clusterName, policyName string) (*harness.Result, error) {
	p, err := Find(policyName)
	if err != nil {
		return nil, err
	}
	m, err := readMachine(clusterName)
	if err != nil {
		return nil, err
	}
	w, err := readTrace(tracePath, m)
	if err != nil {
		return nil, err
	}
	return p.run(ctx, m, w)
}

func (p Policy) run(ctx context.Context, m machine, w *workload) (*harness.Result, error) {
	c, err := m.build()
	if err != nil {
		return nil, err
	}
	k := &harness.Clock{}
	setup := harness.Setup{
		Cluster: c, Policy: newPlayer(newScheduler(p, m, w), k), World: sim.Config{Source: w.jobs.Source()},
		Around: func(world *sim.Sim) harness.World { k.Sim = world; return k },
	}
	s, err := setup.Run(ctx)
	if err != nil {
		return nil, err
	}
	return result(s, w), nil
}

// build is the cluster.
func (m machine) build() (*cluster.Cluster, error) {
	c := cluster.New()
	typ, err := c.AddType(cluster.GPUType{Name: "v100"})
	if err != nil {
		return nil, err
	}
	for range m.servers {
		spec := cluster.NodeSpec{GPUs: []cluster.GPUs{{Type: typ, Count: m.gpus}}, CPU: milli(float64(m.cpus)), Memory: bytes(float64(m.memory))}
		if _, err := c.AddNode(spec); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// result is the jobs that ended before the simulator stopped.
func result(s *state.State, w *workload) *harness.Result {
	r := &harness.Result{Columns: strings.Split("job_id,model,gpus,submit,start,end,jct", ",")}
	for i := range s.Jobs() {
		if rec := s.Record(job.ID(i)); rec.Phase.Over() {
			r.Rows = append(r.Rows, harness.Row{
				Key: rec.Job.Key, Submit: w.tasks[i].arrives, Start: rec.FirstStart.Seconds(), End: rec.End.Seconds(), Preempt: -1, Job: int32(i),
			})
		}
	}
	r.Append = func(dst []byte, row *harness.Row) []byte {
		t := w.tasks[row.Job]
		dst = fmt.Appendf(dst, "%s,%s,%d", row.Key, t.model, t.gpus)
		for _, v := range []float64{row.Submit, row.Start, row.End, row.JCT()} {
			dst = harness.AppendFloat(append(dst, ','), v)
		}
		return dst
	}
	return r
}
