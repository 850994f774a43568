package defrag_test

import (
	"strings"
	"testing"
	"time"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/place"
	"github.com/norn-scheduler/norn/policy/defrag"
	"github.com/norn-scheduler/norn/policy/fifo"
	"github.com/norn-scheduler/norn/policy/kit/quota"
	"github.com/norn-scheduler/norn/policy/maxmin"
	"github.com/norn-scheduler/norn/sched"
	"github.com/norn-scheduler/norn/sim/simtest"
)

// scattered leaves two jobs of two GPUs on two nodes of four, and then has a gang of four come, which
// would wait for 900 s.
func scattered(spec func(*job.Job)) []simtest.Job {
	return []simtest.Job{
		{Key: "p", GPUs: 2, Run: 1000, Spec: spec}, {Key: "q", GPUs: 2, Run: 50}, {Key: "r", GPUs: 2, Run: 1000, Spec: spec}, {Key: "s", GPUs: 2, Run: 50},
		{Key: "gang", At: 100, GPUs: 4, Run: 10},
	}
}

func run(t *testing.T, migrate time.Duration, margin float64, jobs []simtest.Job) (*simtest.Run, *defrag.Policy) {
	t.Helper()
	return on(t, simtest.Nodes(2, 4), migrate, margin, jobs)
}

// on runs jobs on a cluster under fifo, with moves.
func on(t *testing.T, c *cluster.Cluster, migrate time.Duration, margin float64, jobs []simtest.Job) (*simtest.Run, *defrag.Policy) {
	t.Helper()
	var made *defrag.Policy
	r := simtest.Go(t, simtest.Config{Cluster: c, Costs: perf.Costs{Base: perf.Cost{Migrate: migrate}}, Make: func() (sched.Policy, error) {
		c := fifo.NewConfig()
		c.Place = place.Consolidated
		p, err := c.Policy()
		if err != nil {
			return nil, err
		}
		made = defrag.Wrap(p, defrag.Config{Margin: margin, Most: 4})
		return made, nil
	}}, jobs...)
	return r, made
}

// TestMoves: a job of two GPUs is moved for the gang. That costs 2 x 60 GPU-seconds and wins 4 x 900.
func TestMoves(t *testing.T) {
	r, p := run(t, time.Minute, 2, scattered(nil))
	if r.Start("gang") != 101 || r.Record("p").Migrations+r.Record("r").Migrations != 1 {
		t.Errorf("the gang starts at %v s, after %d moves\n%s", r.Start("gang"), r.Record("p").Migrations+r.Record("r").Migrations, strings.Join(r.Log, "\n"))
	}
	if got := p.Remarks()[0]; got != "defragmentation: 1 job moved, at a cost of 0.03 GPU-hours, so that 1 gang had room at once instead of after 1.0 GPU-hours, as was estimated" {
		t.Errorf("%s", got)
	}
}

// TestTellsThePolicy: a policy that does not look again at jobs that did not fit before something is freed
// starts the gang for which there is room now.
func TestTellsThePolicy(t *testing.T) {
	r := simtest.Go(t, simtest.Config{Cluster: simtest.Nodes(2, 4), Costs: perf.Costs{Base: perf.Cost{Migrate: time.Minute}}, Make: func() (sched.Policy, error) {
		c := maxmin.NewConfig()
		c.Reclaim, c.Place = quota.Nothing, place.Consolidated
		p, err := c.Policy()
		return defrag.Wrap(p, defrag.Config{Margin: 2, Most: 4}), err
	}}, scattered(nil)...)
	if r.Start("gang") != 101 {
		t.Errorf("the gang starts at %v s\n%s", r.Start("gang"), strings.Join(r.Log, "\n"))
	}
}

// TestPays: nothing is moved where that costs more than the margin allows, where jobs would lose their work,
// and where they must not be stopped.
func TestPays(t *testing.T) {
	for name, c := range map[string]struct {
		migrate time.Duration
		margin  float64
		spec    func(*job.Job)
		moves   bool
	}{
		"at the margin":   {899 * time.Second, 2, nil, true},
		"above it":        {900 * time.Second, 2, nil, false},
		"a smaller one":   {901 * time.Second, 1, nil, true},
		"loses its work":  {time.Second, 2, func(j *job.Job) { j.Stop = job.Restart }, false},
		"must not stop":   {time.Second, 2, func(j *job.Job) { j.Stop = job.Pinned }, false},
		"falls back":      {time.Second, 2, func(j *job.Job) { j.Stop = job.LastSave }, false},
		"costs nothing":   {0, 2, nil, true},
		"others are free": {time.Minute, 2, func(j *job.Job) { j.Priority = 1 }, true},
	} {
		r, p := run(t, c.migrate, c.margin, scattered(c.spec))
		if moved := r.Start("gang") == 101; moved != c.moves {
			t.Errorf("%s: the gang starts at %v s", name, r.Start("gang"))
		}
		if !c.moves && !strings.Contains(p.Remarks()[0], "no move would have won") {
			t.Errorf("%s: %v", name, p.Remarks())
		}
	}
}

// TestSeveralNodes: four nodes are half full. A gang of two nodes has two jobs moved to the other two.
func TestSeveralNodes(t *testing.T) {
	var jobs []simtest.Job
	for _, key := range []string{"a", "b", "c", "d"} {
		jobs = append(jobs, simtest.Job{Key: key, GPUs: 2, Run: 1000}, simtest.Job{Key: key + "x", GPUs: 2, Run: 50})
	}
	jobs = append(jobs, simtest.Job{Key: "gang", At: 100, GPUs: 8, Run: 10})
	r := simtest.Go(t, simtest.Config{Cluster: simtest.Nodes(4, 4), Make: func() (sched.Policy, error) {
		c := fifo.NewConfig()
		c.Place = place.Consolidated
		p, err := c.Policy()
		return defrag.Wrap(p, defrag.NewConfig()), err
	}}, jobs...)
	moves := int32(0)
	for _, key := range []string{"a", "b", "c", "d"} {
		moves += r.Record(key).Migrations
	}
	if r.Start("gang") != 101 || moves != 2 {
		t.Errorf("the gang starts at %v s after %d moves\n%s", r.Start("gang"), moves, strings.Join(r.Log, "\n"))
	}
}

// TestCores: jobs that have cores beside their GPUs are moved where these are free, too, and not elsewhere.
func TestCores(t *testing.T) {
	for cores, moves := range map[unit.Milli]bool{4 * unit.One: true, 5 * unit.One: false} {
		c := cluster.New()
		typ, err := c.AddType(cluster.GPUType{Name: "gpu"})
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if _, err := c.AddNode(cluster.NodeSpec{GPUs: []cluster.GPUs{{Type: typ, Count: 4}}, CPU: 8 * unit.One}); err != nil {
				t.Fatal(err)
			}
		}
		jobs := scattered(nil)
		for i := range jobs {
			role := job.Role{Tasks: 2, GPU: unit.One}
			if jobs[i].GPUs == 4 {
				role.Tasks = 4
			}
			if role.CPU = unit.One; jobs[i].Run == 1000 {
				role.CPU = cores / 2
			}
			jobs[i].Demand = &job.Demand{}
			jobs[i].Demand.Roles[0] = role
		}
		r, _ := on(t, c, time.Minute, 2, jobs)
		if moved := r.Start("gang") == 101; moved != moves {
			t.Errorf("with %v of 8 cores each: the gang starts at %v s\n%s", cores, r.Start("gang"), strings.Join(r.Log, "\n"))
		}
	}
}
