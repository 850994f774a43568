package sia

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/internal/published/harness"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/sched"
	"github.com/norn-scheduler/norn/sim"
	"github.com/norn-scheduler/norn/trace"
)

// planner decides who has what.
type planner interface {
	// decide divides the GPUs among jobs that are there, at a moment in seconds. A job that
	// is not in the answer has none.
	decide(now int, active []*task) map[int]grant
}

// grant is what a job has: a GPU type, and the nodes among those of the type, one for each
// replica, in order.
type grant struct {
	on    string
	nodes []int
}

// machine is the loop of the simulators as a policy of the engine. At the end
// of each round it decides, and plays its tasks on to the end of the next one.
// So it knows which jobs will end in it.
type machine struct {
	policy  planner
	pools   []pool
	tasks   []*task
	round   int // seconds
	slows   float64
	over    int // tasks that have ended
	decided int // when it was decided last; 0: not yet
	clock   harness.Clock
	alloc   cluster.Alloc
	byType  map[string]cluster.NodeID // the first node of each type
}

// play carries the loop out: what it gives to whom the engine is told, and the ledger
// books it.
func (m *machine) play(ctx context.Context) error {
	c := cluster.New()
	m.byType = map[string]cluster.NodeID{}
	for _, p := range m.pools {
		typ, err := c.AddType(cluster.GPUType{Name: p.typ})
		if err != nil {
			return err
		}
		m.byType[p.typ] = cluster.NodeID(c.Nodes())
		for range p.nodes {
			if _, err := c.AddNode(cluster.NodeSpec{GPUs: []cluster.GPUs{{Type: typ, Count: p.gpus}}}); err != nil {
				return err
			}
		}
	}
	d := job.GPUs(1)
	d.Roles[0].Min, d.Roles[0].Max = 1, int32(c.TotalGPUs(0, 0))
	var jobs harness.Jobs
	for i, t := range m.tasks {
		jobs = append(jobs, trace.Entry{
			Job:   job.Job{ID: job.ID(i), Key: t.name, Name: t.app.name, Submit: seconds(t.arrives), Demand: &d, Retries: -1},
			Truth: trace.Truth{Work: harness.Seconds(harness.MaxSeconds)}, // the loop ends it
		})
	}
	setup := harness.Setup{
		Cluster: c, Policy: m, World: sim.Config{Source: jobs.Source()},
		Around: func(w *sim.Sim) harness.World { m.clock.Sim = w; return &m.clock },
	}
	end, err := setup.Run(ctx)
	if err != nil {
		return err
	}
	for i := range m.tasks {
		if r := end.Record(job.ID(i)); r.Phase != job.Done {
			return fmt.Errorf("job %s: was left %s", r.Job.Key, r.Phase)
		}
	}
	return nil
}

// Decide implements sched.Policy.
func (m *machine) Decide(v *sched.View, p *sched.Plan) {
	now := int(v.Now / time.Second)
	if v.Now%seconds(m.round) != 0 || now == m.decided { // a task may end at the moment at which the round begins
		return
	}
	m.decided = now
	var active []*task
	for _, t := range m.tasks {
		if t.arrives <= now && t.end < 0 {
			t.now = now
			active = append(active, t)
		}
	}
	if len(active) == 0 {
		return
	}
	given := m.policy.decide(now, active)
	for _, t := range active {
		t.rivals, t.rounds = t.rivals+len(active), t.rounds+1
		if g := given[t.id]; g.on != t.on || !slices.Equal(g.nodes, t.nodes) {
			t.nodes = g.nodes
			t.move(g.on, counts(g.nodes))
		}
	}
	m.tell(v, p, active)
	m.interfere(active)
	for _, t := range active {
		if t.step(m.round); t.end >= 0 {
			m.clock.Ends = append(m.clock.Ends, harness.End{Job: job.ID(t.id), At: seconds(t.end)})
			m.over++
		}
	}
}

// interfere slows those down that are spread over nodes on which another one is as
// well.
func (m *machine) interfere(active []*task) {
	type place struct {
		typ  string
		node int
	}
	met := map[place]int{}
	each := func(t *task, visit func(place)) {
		for i, n := range t.nodes {
			if len(t.placement) > 1 && (i == 0 || t.nodes[i-1] != n) {
				visit(place{t.on, n})
			}
		}
	}
	for _, t := range active {
		t.slowed = 0
		each(t, func(p place) { met[p]++ })
	}
	for _, t := range active {
		each(t, func(p place) {
			if met[p] > 1 {
				t.slowed = m.slows
			}
		})
	}
}

// counts is how many replicas are on each node.
func counts(nodes []int) (out []int) {
	for i, n := range nodes {
		if i == 0 || nodes[i-1] != n {
			out = append(out, 0)
		}
		out[len(out)-1]++
	}
	return out
}

// tell has the engine give to everybody what the loop gave.
func (m *machine) tell(v *sched.View, p *sched.Plan, active []*task) {
	var change []*task
	for _, t := range active {
		if a := v.Alloc(job.ID(t.id)); a != nil {
			if m.holds(a, t) {
				continue
			}
			p.Stop(job.ID(t.id), job.Reason{Code: job.Resized, Need: int32(len(t.nodes)), Job: job.None})
		}
		if len(t.nodes) > 0 {
			change = append(change, t)
		}
	}
	c := v.Cluster()
	for _, t := range change {
		m.alloc.Reset()
		for i := 0; i < len(t.nodes); {
			n := 1
			for i+n < len(t.nodes) && t.nodes[i+n] == t.nodes[i] {
				n++
			}
			node := m.byType[t.on] + cluster.NodeID(t.nodes[i])
			m.alloc.Pieces = append(m.alloc.Pieces, cluster.Piece{Node: node, Tasks: int32(n), Shares: int32(n)})
			m.alloc.Shares = c.AppendWhole(m.alloc.Shares, c.NodeGroups(node)[0], n, 0)
			i += n
		}
		p.StartOn(job.ID(t.id), &m.alloc)
	}
}

// holds tells whether a job has on each node what it is to have.
func (m *machine) holds(a *cluster.Alloc, t *task) bool {
	if len(a.Shares) != len(t.nodes) {
		return false
	}
	at := 0
	for i := range a.Pieces {
		for range a.Pieces[i].Tasks {
			if m.byType[t.on]+cluster.NodeID(t.nodes[at]) != a.Pieces[i].Node {
				return false
			}
			at++
		}
	}
	return true
}

// NextWake implements sched.Waker.
func (m *machine) NextWake(v *sched.View) time.Duration {
	if m.over == len(m.tasks) {
		return unit.Never
	}
	return (v.Now/seconds(m.round) + 1) * seconds(m.round)
}
