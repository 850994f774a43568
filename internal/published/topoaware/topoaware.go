// Package topoaware makes Norn behave like the simulator that was published with the topology-aware scheduler
// (Amaral et al., SC 2017; HiEST/gpu-topo-aware): machines of four GPUs at two sockets.
//
// Nouns:
//   - A step lasts 1.1 s. In it at most one group of jobs comes, jobs start, and then jobs end.
//   - A profile is the run times of jobs alone and beside others.
//   - A half is what recursive bi-partitioning has made of the machines.
//
// Units: seconds since the start.
package topoaware

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/internal/published/harness"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/sched"
	"github.com/norn-scheduler/norn/sim"
	"github.com/norn-scheduler/norn/state"
)

// Policy is a policy under its name there.
type Policy struct {
	Name string
	Note string // what is odd about it; empty where nothing is

	decide func(*scheduler) []decision
	twice  bool // a GPU may be given to two jobs, so that each job has next to nothing of its GPUs in Norn's books
}

// Policies are all policies, in the order in which they are shown.
func Policies() []Policy {
	return []Policy{
		{"fcfs", "only jobs that fit what is free on the first machine are looked at, and go to the last one that has room", (*scheduler).fcfs, false},
		{"bf", "as fcfs; GPUs that were looked at on other machines are lost to later jobs of the step", (*scheduler).bestFit, false},
		{"utilityaware", "new jobs are looked at when they fit what is free on the first machine; a GPU may be given twice in a step", func(s *scheduler) []decision { return s.utility(false) }, true},
		{"utilityaware-postpone", "as utilityaware; jobs wait below their minimal utility", func(s *scheduler) []decision { return s.utility(true) }, true},
	}
}

// Find finds a policy.
func Find(name string) (Policy, error) {
	return harness.Find("policy of gpu-topo-aware", name, Policies(), func(p *Policy) string { return p.Name })
}

// mostMachines bounds a cluster.
const mostMachines = 100_000

// Machines reads the name of a cluster: mN for N machines of four GPUs. What follows a blank is a remark.
func Machines(name string) (int, error) {
	word, _, _ := strings.Cut(name, " ")
	digits, ok := strings.CutPrefix(word, "m")
	n, err := strconv.Atoi(digits)
	if !ok || err != nil || n < 1 || n > mostMachines {
		return 0, fmt.Errorf("unknown cluster %q: write m5 for five machines, %d at most", name, mostMachines)
	}
	return n, nil
}

// Check says what is wrong with the names of a cluster and a policy.
func Check(clusterName, policyName string) error {
	if _, err := Find(policyName); err != nil {
		return err
	}
	_, err := Machines(clusterName)
	return err
}

// Run runs a policy on a trace and a cluster as the simulator would. Profile is the path of the run times.
func Run(ctx context.Context, tracePath, clusterName, policyName, profilePath string) (*harness.Result, error) {
	p, err := Find(policyName)
	if err != nil {
		return nil, err
	}
	n, err := Machines(clusterName)
	if err != nil {
		return nil, err
	}
	w, err := readFiles(tracePath, profilePath)
	if err != nil {
		return nil, err
	}
	return p.run(ctx, n, w)
}

func (p Policy) run(ctx context.Context, machines int, w *workload) (*harness.Result, error) {
	return p.play(ctx, newScheduler(p, w, machines), w)
}

// play has a scheduler of the policy run.
func (p Policy) play(ctx context.Context, s *scheduler, w *workload) (*harness.Result, error) {
	c := cluster.New()
	typ, err := c.AddType(cluster.GPUType{Name: "p100"})
	if err != nil {
		return nil, err
	}
	for range s.hosts {
		if _, err := c.AddNode(cluster.NodeSpec{GPUs: []cluster.GPUs{{Type: typ, Count: perMachine}}}); err != nil {
			return nil, err
		}
	}
	part := unit.One
	if p.twice {
		part = 1
	}
	k := &harness.Clock{}
	setup := harness.Setup{
		Cluster: c, Policy: &player{scheduler: s, clock: k, part: part}, World: sim.Config{Source: w.of(part).Source()},
		Around: func(world *sim.Sim) harness.World { k.Sim = world; return k },
	}
	st, err := setup.Run(ctx)
	if err != nil {
		return nil, err
	}
	return result(st, s), nil
}

// mostSteps is where the simulator ends, at a million seconds.
const mostSteps = 1_000_000 * 10 / 11

// player carries the simulator's loop out as a policy.
type player struct {
	*scheduler
	clock *harness.Clock
	steps int        // done
	at    float64    // the moment of the next step
	part  unit.Milli // of each of its GPUs that a job has
	alloc cluster.Alloc
}

// Decide implements sched.Policy.
func (p *player) Decide(v *sched.View, plan *sched.Plan) {
	for p.steps <= mostSteps && p.busy() && nanos(p.at) <= v.Now {
		started, ended := p.step(p.at)
		for _, id := range started {
			plan.StartOn(job.ID(id), p.holds(&p.tasks[id]))
		}
		for _, id := range ended {
			p.clock.Ends = append(p.clock.Ends, harness.End{Job: job.ID(id), At: v.Now})
		}
		p.steps++
		p.at += period
	}
}

// holds is the GPUs of a job.
func (p *player) holds(t *task) *cluster.Alloc {
	a, n := &p.alloc, int32(t.gpus)
	a.Reset()
	a.Pieces = append(a.Pieces, cluster.Piece{Node: cluster.NodeID(t.machine), Tasks: n, Shares: n})
	for _, g := range t.has {
		a.Shares = append(a.Shares, cluster.Share{Device: cluster.DeviceID(t.machine*perMachine + g), Milli: int32(p.part)})
	}
	return a
}

// NextWake implements sched.Waker: the next step.
func (p *player) NextWake(*sched.View) time.Duration {
	if p.steps > mostSteps || !p.busy() {
		return unit.Never
	}
	return nanos(p.at)
}

func nanos(seconds float64) time.Duration {
	return time.Duration(math.Round(seconds * float64(time.Second)))
}

// result is the jobs that ended, in order of their numbers.
func result(st *state.State, s *scheduler) *harness.Result {
	r := &harness.Result{Columns: strings.Split("job_id,num_gpu,submit,start,end,jct,exec_needed", ",")}
	for i := range st.Jobs() {
		if rec := st.Record(job.ID(i)); rec.Phase.Over() && s.tasks[i].over {
			r.Rows = append(r.Rows, harness.Row{
				Key: rec.Job.Key, Submit: float64(s.tasks[i].arrival), Start: rec.FirstStart.Seconds(), End: rec.End.Seconds(), Preempt: -1, Job: int32(i),
			})
		}
	}
	r.Append = func(dst []byte, row *harness.Row) []byte {
		t := &s.tasks[row.Job]
		return fmt.Appendf(dst, "%s,%d,%d,%.1f,%.1f,%.1f,%v", row.Key, t.gpus, t.arrival, row.Start, row.End, row.JCT(), math.Round(t.needs*1e6)/1e6)
	}
	return r
}

var _ sched.Waker = (*player)(nil)
