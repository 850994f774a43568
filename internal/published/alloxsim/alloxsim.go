// Package alloxsim makes Norn behave like the simulator that was published with
// AlloX (Le et al., EuroSys 2020; lenhattan86/allox_sim), for its policies AlloXPlus,
// SJF, SRPT and DRF.
//
// Nouns: a side is CPUs or GPU; a task is a job, or one of the four short runs that
// measure it on both sides before it may start; a queue is a user. The published
// code looks at the queues in a second in which a task ended or a job came.
//
// Its matching (AlloX) is not among them: no result of it was published. Package
// policy/allox does it as the paper does.
//
// Units: seconds since the zero of the trace, as floating point numbers; GiB.
package alloxsim

import (
	"context"
	"strings"

	"github.com/norn-scheduler/norn/internal/published/harness"
	"github.com/norn-scheduler/norn/sim"
)

// Policy is a policy of the simulator.
type Policy struct {
	Name string
	Note string // what is odd about it; empty where nothing is

	serve func(*scheduler) error
}

// Policies are all policies, in the order in which they are shown.
func Policies() []Policy {
	return []Policy{
		{"AlloXPlus", "differences below a second are ties, fairness is off", func(s *scheduler) error { return s.shortest(nearlyShorter) }},
		{"DRF", "stops at the first user without room", (*scheduler).drf},
		{"SJF", "", func(s *scheduler) error { return s.shortest(shorter) }},
		{"SRPT", "goes by the times told at the start, not by what remains", (*scheduler).srpt},
	}
}

// Find finds a policy.
func Find(name string) (Policy, error) {
	return harness.Find("policy of alloxsim", name, Policies(), func(p *Policy) string { return p.Name })
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
	jobs, err := readTrace(tracePath)
	if err != nil {
		return nil, err
	}
	return p.run(ctx, m, jobs)
}

func (p Policy) run(ctx context.Context, m machine, jobs []facts) (*harness.Result, error) {
	c, err := m.build()
	if err != nil {
		return nil, err
	}
	k := &harness.Clock{}
	s := newScheduler(p, m, jobs, k)
	setup := harness.Setup{
		Cluster: c, Policy: s, World: sim.Config{Source: entries(jobs).Source()},
		Around: func(w *sim.Sim) harness.World { k.Sim = w; return k },
	}
	if _, err := setup.Run(ctx); err != nil {
		return nil, err
	}
	return s.result(), nil
}

// result is the jobs that ended before the simulator stopped. Their start is the
// last one.
func (s *scheduler) result() *harness.Result {
	r := &harness.Result{Columns: strings.Split("job_id,queue,submit,start,end,jct,run,on_cpu", ",")}
	for i := range s.jobs {
		t := &s.tasks[i*perJob]
		if t.phase != ended {
			continue
		}
		r.Rows = append(r.Rows, harness.Row{
			Key: s.jobs[i].key, Submit: float64(s.jobs[i].arrives), Start: float64(t.started), End: float64(t.ends), Preempt: -1, Job: int32(i),
		})
	}
	r.Append = func(dst []byte, row *harness.Row) []byte {
		t := &s.tasks[int(row.Job)*perJob]
		dst = append(append(append(dst, row.Key...), ','), s.jobs[row.Job].queue...)
		for _, v := range []float64{row.Submit, row.Start, row.End, row.JCT(), t.ran} {
			dst = harness.AppendFloat(append(dst, ','), v)
		}
		if t.side == onCPUs {
			return append(dst, ",true"...)
		}
		return append(dst, ",false"...)
	}
	return r
}
