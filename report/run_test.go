package report

import (
	"context"
	"io"
	"math"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/engine"
	"github.com/norn-scheduler/norn/eventlog"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/place"
	"github.com/norn-scheduler/norn/policy/fifo"
	"github.com/norn-scheduler/norn/sched"
	"github.com/norn-scheduler/norn/sim"
	"github.com/norn-scheduler/norn/state"
	"github.com/norn-scheduler/norn/tenant"
	"github.com/norn-scheduler/norn/trace"
)

var _ engine.Sink = (*Collector)(nil)

// churn is a policy for tests that does all that a policy can do: it starts
// whoever fits, and every so often stops, moves and resizes who runs.
type churn struct{ slice time.Duration }

func (p churn) Decide(v *sched.View, plan *sched.Plan) {
	if v.Woken {
		for j := range v.Running() {
			p.shake(v, plan, j)
		}
	}
	for j := range v.Waiting() {
		if j.Spec().Tenant == "capped" && v.Tenants().At(j.Tenant()).Used.GPU >= 4*unit.One {
			plan.Wait(j.Spec().ID, job.Reason{Code: job.Quota, Need: 4, Have: 4, Job: job.None})
			continue
		}
		plan.Start(j.Spec().ID, place.Pack)
	}
}

func (p churn) shake(v *sched.View, plan *sched.Plan, j sched.Job) {
	id := j.Spec().ID
	if j.Phase() != job.Running || v.Now-j.Since() < p.slice || j.Preemptions() >= 20 {
		return // who loses its work when it is stopped must end some day
	}
	switch {
	case j.Spec().Demand.Elastic():
		plan.Resize(id, 1+(j.Tasks()+1)%4, place.Pack)
	case int(id)%5 == 0:
		plan.Move(id, place.FirstFit)
	case int(id)%2 == 0:
		plan.Stop(id, job.Reason{Code: job.UsedShare, Need: int32(p.slice.Seconds()), Job: job.None})
	default:
		plan.Stop(id, job.Reason{Code: job.MakesRoom, Job: id / 2})
	}
}

func (p churn) NextWake(v *sched.View) time.Duration {
	for range v.Running() {
		return (v.Now/p.slice + 1) * p.slice
	}
	return unit.Never
}

// meddler is a simulated world in which users hold, free and cancel jobs, and
// devices break and are mended.
type meddler struct {
	*sim.Sim
	s    *state.State
	rand *rand.Rand
}

func (m *meddler) Next(wake time.Duration, out []eventlog.Event) (time.Duration, []eventlog.Event, error) {
	now, out, err := m.Sim.Next(wake, out)
	if err != nil {
		return now, out, err
	}
	busy := map[job.ID]bool{}
	for i := range out {
		busy[out[i].Job] = true
	}
	if n := m.s.Jobs(); n > 0 && m.rand.IntN(6) == 0 {
		id := job.ID(m.rand.IntN(n))
		ev := eventlog.Event{Time: now, Job: id}
		switch phase := m.s.Record(id).Phase; {
		case busy[id]:
			return now, out, nil
		case phase == job.Held:
			ev.Kind = eventlog.Free
		case phase == job.Waiting && m.rand.IntN(4) == 0:
			ev.Kind = eventlog.Cancel
		case phase == job.Waiting:
			ev.Kind, ev.Reason = eventlog.Hold, job.Reason{Code: job.OnHold, Job: job.None}
		default:
			return now, out, nil
		}
		out = append(out, ev)
	}
	if d := cluster.DeviceID(m.rand.IntN(m.s.Cluster.Devices())); m.rand.IntN(8) == 0 && m.s.Cluster.Sharers(d) == 0 {
		out = append(out, eventlog.Event{Time: now, Kind: eventlog.Device, Device: d, Broken: m.rand.IntN(3) == 0})
	}
	return now, out, nil
}

// workload is a random stream of jobs of every sort.
type workload struct {
	n, next int
	at      time.Duration
	gap     float64 // mean seconds between submissions
	rand    *rand.Rand
	shapes  job.Interner
	name    func(i int) string
	tenants []string
}

func newWorkload(n int, gap float64, seed uint64) *workload {
	return &workload{n: n, gap: gap, rand: rand.New(rand.NewPCG(seed, 1)), name: strconv.Itoa, tenants: []string{"vision", "speech", "capped", "recsys"}}
}

func (w *workload) Next(e *trace.Entry) error {
	if w.next == w.n {
		return io.EOF
	}
	r := w.rand
	if r.IntN(20) > 0 { // some come together
		w.at += time.Duration(r.ExpFloat64()*w.gap*1e3) * time.Millisecond
	}
	d := w.demand()
	work := time.Duration(math.Exp(r.NormFloat64()*1.6+6.5)*1e3) * time.Millisecond
	*e = trace.Entry{Job: job.Job{
		ID: job.ID(w.next), Key: w.name(w.next), Name: "train-" + strconv.Itoa(w.next%17), Submit: w.at,
		Tenant: w.tenants[r.IntN(len(w.tenants))], Demand: w.shapes.Get(d), Retries: 2, Stop: job.StopMode(r.IntN(3)),
	}, Truth: trace.Truth{Work: work}}
	if r.IntN(10) == 0 {
		e.Truth.Attempts = []time.Duration{work / 3, work / 2}
	}
	if r.IntN(8) == 0 {
		e.Truth.Outcome = trace.Outcome(1 + r.IntN(2))
	}
	w.next++
	return nil
}

func (w *workload) demand() job.Demand {
	r := w.rand
	switch r.IntN(12) {
	case 0: // a part of a GPU
		d := job.GPUs(1)
		d.Roles[0].GPU = []unit.Milli{250, 500, 700}[r.IntN(3)]
		return d
	case 1: // elastic
		d := job.GPUs(2)
		d.Roles[0].Min, d.Roles[0].Max = 1, 4
		return d
	case 2: // no GPU at all
		d := job.GPUs(1)
		d.Roles[0].GPU, d.Roles[0].CPU = 0, 2*unit.One
		return d
	case 3: // several nodes
		return job.GPUs([]int{12, 16, 20}[r.IntN(3)])
	case 4: // can never run
		if r.IntN(10) == 0 {
			return job.GPUs(1000)
		}
	}
	return job.GPUs([]int{1, 1, 1, 2, 4, 8}[r.IntN(6)])
}

// setup is a run to be made.
type setup struct {
	jobs    int
	seed    uint64
	policy  sched.Policy
	calm    bool // nothing fails and transitions are free
	name    func(i int) string
	opt     Options
	sinks   []engine.Sink
	sized   func(*testing.T) *cluster.Cluster
	gap     float64
	tenant  []string
	settled func(c *Collector, s *state.State) // looks on whenever all has happened that happens at a moment; nil: nobody does
}

// testCluster has three nodes of eight GPUs told apart, one with counted GPUs,
// and one without any.
func testCluster(t *testing.T) *cluster.Cluster {
	t.Helper()
	c := cluster.New()
	typ, err := c.AddType(cluster.GPUType{Name: "V100"})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 5 {
		spec := cluster.NodeSpec{CPU: 64 * unit.One, GPUs: []cluster.GPUs{{Type: typ, Count: 8}}}
		switch i {
		case 3:
			spec.Pooled = true
		case 4:
			spec.GPUs = nil
		}
		if _, err := c.AddNode(spec); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

// play makes a run to its end and returns its collector and state.
func play(t *testing.T, u setup) (*Collector, *state.State) {
	t.Helper()
	if u.gap == 0 {
		u.gap = 60
	}
	source := newWorkload(u.jobs, u.gap, u.seed)
	if u.name != nil {
		source.name = u.name
	}
	if u.tenant != nil {
		source.tenants = u.tenant
	}
	cfg := sim.Config{Source: source, Seed: u.seed}
	if !u.calm {
		cfg.Costs = perf.Costs{Base: perf.Cost{Start: 10 * time.Second, Checkpoint: 20 * time.Second, Restore: 30 * time.Second, Migrate: 40 * time.Second, Resize: 15 * time.Second}}
		cfg.Model = perf.Analytic{Scaling: 0.8, Spread: 0.9}
		cfg.NodeMTBF, cfg.NodeRepair, cfg.JobMTBF, cfg.Snapshot = 8*time.Hour, 30*time.Minute, 6*time.Hour, 10*time.Minute
		cfg.Nodes = []sim.Node{{At: 20 * time.Minute, Spec: cluster.NodeSpec{Name: "late", CPU: 64 * unit.One, GPUs: []cluster.GPUs{{Count: 4}}}}}
	}
	if u.sized == nil {
		u.sized = testCluster
	}
	if u.policy == nil {
		u.policy = churn{slice: 10 * time.Minute}
	}
	col := NewCollector(u.opt)
	var world engine.World
	w := sim.New(cfg)
	world = w
	m := &meddler{Sim: w, rand: rand.New(rand.NewPCG(u.seed, 2))}
	if !u.calm {
		world = m
	}
	if u.settled != nil {
		world = &settling{world, func() { u.settled(col, m.s) }}
	}
	e := engine.New(engine.Config{
		Cluster: u.sized(t), Tenants: tenant.NewTree(0), Policy: u.policy, PolicyName: "test", Estimator: w.Oracle(),
		Seed: u.seed, Sinks: append([]engine.Sink{col}, u.sinks...),
	}, world)
	m.s = e.State()
	if err := w.Attach(e.State()); err != nil {
		t.Fatal(err)
	}
	if err := e.Run(context.Background()); err != nil {
		t.Fatal(err)
	}
	if err := e.State().Check(); err != nil {
		t.Fatal(err)
	}
	return col, e.State()
}

// settling is a world that looks on before anything else happens.
type settling struct {
	engine.World
	look func()
}

func (w *settling) Next(wake time.Duration, out []eventlog.Event) (time.Duration, []eventlog.Event, error) {
	w.look()
	return w.World.Next(wake, out)
}

func first(t *testing.T, mode fifo.Mode) sched.Policy {
	t.Helper()
	p, err := (&fifo.Config{Mode: mode, Place: place.Pack}).Policy()
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// recorder keeps a deep copy of every event.
type recorder struct{ events []eventlog.Event }

func (r *recorder) Event(ev *eventlog.Event, _ *state.State) {
	own := *ev
	if ev.Alloc != nil {
		own.Alloc = new(cluster.Alloc)
		own.Alloc.CopyFrom(ev.Alloc)
	}
	r.events = append(r.events, own)
}
