// Package lucid makes Norn behave like the simulator that was published with
// Lucid (Hu et al., ASPLOS 2023; S-Lab-System-Group/Lucid). That simulator grew
// out of the one of Helios QSSF (Hu et al., SC 2021). The package covers the
// policies with which Lucid is compared there, with its placer "consolidate":
// fifo, sjf, srtf, qssf and tiresias. It also covers Lucid itself (packed).
//
// Nouns: a virtual cluster (VC) is a share of the nodes with jobs of its own, a
// pool of the cluster here; a tick is one second, at which the published loop
// looks at everything. Nothing changes between arrivals, completions and the
// moments of the policies, so that only these are visited here.
//
// Units: seconds since 2020-04-01 as the published code counts them: from the
// first submission after that day.
package lucid

import (
	"context"
	"strings"
	"time"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/internal/published/harness"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/sched"
	"github.com/norn-scheduler/norn/sim"
	"github.com/norn-scheduler/norn/state"
)

// Policy is a scheduler of the simulator.
type Policy struct {
	Name string
	Note string // what is odd about it; empty where nothing is

	counts bool                       // it counts down what remains, see countdown
	make   func(vcs int) sched.Policy // nil: it is played without the engine, see packed
}

// Policies are all policies, in the order in which they are shown.
func Policies() []Policy {
	const late = "a job ends one second late"
	return []Policy{
		{"fifo", "", false, func(n int) sched.Policy { return newLine(n, bySubmit) }},
		{"sjf", "", false, func(n int) sched.Policy { return newLine(n, byDuration) }},
		{"qssf", "needs predictions", false, func(n int) sched.Policy { return newLine(n, byPriority) }},
		{"srtf", late, true, func(n int) sched.Policy { return newSRTF(n) }},
		{"tiresias", late, true, func(n int) sched.Policy { return newTiresias(n) }},
		{"lucid", "who came to the GPUs of another job stays slow when that has ended; needs predictions and measurements", true, nil},
	}
}

// Find finds a policy.
func Find(name string) (Policy, error) {
	return harness.Find("policy of lucid", name, Policies(), func(p *Policy) string { return p.Name })
}

// Options is what a run needs beside a trace and a cluster.
type Options struct {
	// Priorities is a file of predictions, for qssf and lucid: CSV with the columns
	// job_id and priority, the predicted run time in seconds.
	Priorities string

	// Further inputs of lucid. All are CSV files.
	Scores   string // jobs measured alone: model, dataset, batchsize, amp, label (0, 1, 2: how much it disturbs others)
	Pairs    string // speeds of pairs, relative to alone: model1, dataset1, batchsize1, amp1, speed1, and the same of the second
	Forecast string // for each ten minutes from the beginning of the window: pred_gpu_job, pred_gpu_num
}

// Run runs a policy on a trace and a cluster as the simulator would: the name
// venus-15vc, or the path of a file of virtual clusters.
func Run(ctx context.Context, tracePath, clusterName, policyName string, o Options) (*harness.Result, error) {
	p, err := Find(policyName)
	if err != nil {
		return nil, err
	}
	vcs, err := readVCs(clusterName)
	if err != nil {
		return nil, err
	}
	jobs, err := readJobs(tracePath, vcs)
	if err != nil {
		return nil, err
	}
	if p.make == nil {
		return runPacked(ctx, tracePath, vcs, jobs, o)
	}
	if p.Name == "qssf" {
		if err := readPriorities(o.Priorities, jobs); err != nil {
			return nil, err
		}
	}
	return p.run(ctx, vcs, jobs)
}

func (p Policy) run(ctx context.Context, vcs []vc, jobs harness.Jobs) (*harness.Result, error) {
	c, err := build(vcs)
	if err != nil {
		return nil, err
	}
	setup := harness.Setup{Cluster: c, Policy: p.make(c.Pools()), World: sim.Config{Source: jobs.Source(), Model: harness.EndlessIfZero{Jobs: jobs}}}
	if p.counts {
		for i := range jobs {
			jobs[i].Truth.Work += late
		}
		setup.World.Model = nil
		setup.Around = func(w *sim.Sim) harness.World { return &countdown{Sim: w} }
	}
	s, err := setup.Run(ctx)
	if err != nil {
		return nil, err
	}
	return p.result(s, jobs), nil
}

// late is by how much a job ends after its work is done where the published
// code counts down: the tick at which nothing remains is followed by another
// one, at which that is noticed.
const late = time.Second

// countdown is the simulated world of the policies that count down: a
// preemption adds the overhead to what remains, which is the same as taking that
// much progress away.
type countdown struct {
	*sim.Sim
	state *state.State
}

// Attach implements replay.World.
func (w *countdown) Attach(s *state.State) error {
	w.state = s
	return w.Sim.Attach(s)
}

// Stop implements engine.World.
func (w *countdown) Stop(id job.ID) (kept time.Duration, atOnce bool) {
	kept, atOnce = w.Sim.Stop(id)
	return kept - overhead(w.state.Record(id).Job.Demand.GPUs()), atOnce
}

// overhead is what a preemption adds to the work of a job.
func overhead(gpus int) time.Duration {
	if gpus <= nodeGPUs {
		return 40 * time.Second
	}
	return 60 * time.Second
}

// nodeGPUs is the number of GPUs of every node. The published placer knows no
// other.
const nodeGPUs = 8

// vc is a virtual cluster.
type vc struct {
	name  string
	nodes int
}

// venus are the virtual clusters of Venus in September 2020 that the published
// simulator ships.
const venus = `vcEwI 9
vcWoR 5
vcHvQ 8
vcvGl 20
vc8Gr 6
vcKeu 12
vcKrE 4
vcYVn 11
vchbv 4
vcLTP 8
vchA3 3
vcJsw 32
vcefl 10
vcvlY 2
vcgkz 1`

// maxNodes bounds a cluster.
const maxNodes = 100_000

// readVCs reads the name of a cluster, or the path of a file: CSV with the name
// of each virtual cluster in the first column and its number of nodes in the
// column num.
func readVCs(name string) ([]vc, error) {
	t, err := openVCs(name)
	if err != nil {
		return nil, err
	}
	return vcsOf(t)
}

func vcsOf(t *harness.Table) ([]vc, error) {
	at, err := t.Need("num")
	if err != nil {
		return nil, err
	}
	var vcs []vc
	total := int64(0)
	for {
		more, err := t.Next()
		if err != nil || !more {
			return vcs, err
		}
		n, err := t.Int(at[0])
		if err != nil {
			return nil, err
		}
		if total += n; total > maxNodes {
			return nil, t.Errorf("more than %d nodes", maxNodes)
		}
		vcs = append(vcs, vc{t.Field(0), int(n)})
	}
}

func openVCs(name string) (*harness.Table, error) {
	switch {
	case name == "venus-15vc":
		return harness.NewTable("venus-15vc.csv", ",num\n"+strings.ReplaceAll(venus, " ", ","))
	case strings.HasSuffix(name, ".csv"), strings.HasSuffix(name, ".csv.gz"):
		return harness.OpenTable(name)
	}
	return nil, harness.Unknown("cluster of lucid", name, []string{"venus-15vc", "or the path of a .csv file of virtual clusters"})
}

func build(vcs []vc) (*cluster.Cluster, error) {
	c := cluster.New()
	t, err := c.AddType(cluster.GPUType{Name: "gpu"})
	if err != nil {
		return nil, err
	}
	for _, v := range vcs {
		pool := c.AddPool(v.name)
		for range v.nodes {
			if _, err := c.AddNode(cluster.NodeSpec{Pool: pool, GPUs: []cluster.GPUs{{Type: t, Count: nodeGPUs}}}); err != nil {
				return nil, err
			}
		}
	}
	return c, nil
}

// columns are those of a result.
const columns = "job_id,vc,num_gpu,submit,start,end,jct,duration,pending,preempt"

func (p Policy) result(s *state.State, jobs harness.Jobs) *harness.Result {
	r := &harness.Result{
		Columns: strings.Split(columns, ","),
		Rows:    make([]harness.Row, 0, s.Jobs()),
	}
	for i := range s.Jobs() {
		if rec := s.Record(job.ID(i)); rec.Phase.Over() {
			r.Rows = append(r.Rows, harness.Row{
				Key: rec.Job.Key, Submit: rec.Job.Submit.Seconds(), Start: rec.FirstStart.Seconds(), End: rec.End.Seconds(),
				Preempt: rec.Preemptions, Job: int32(i),
			})
		}
	}
	r.Append = func(dst []byte, row *harness.Row) []byte {
		rec := s.Record(job.ID(row.Job))
		duration := jobs[row.Job].Truth.Work
		if p.counts {
			duration -= late
		}
		dst = append(dst, rec.Job.Key...)
		dst = append(append(dst, ','), rec.Job.Tenant...)
		return harness.AppendInts(dst, int64(rec.Job.Demand.GPUs()), secs(rec.Job.Submit), secs(rec.FirstStart), secs(rec.End),
			secs(rec.End-rec.Job.Submit), secs(duration), secs(rec.WaitAt(rec.End)), int64(rec.Preemptions))
	}
	return r
}

// secs is a duration in whole seconds.
func secs(d time.Duration) int64 { return int64(d / time.Second) }
