package replay_test

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"reflect"
	"slices"
	"strconv"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/engine"
	"github.com/norn-scheduler/norn/eventlog"
	"github.com/norn-scheduler/norn/eventlog/replay"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/place"
	"github.com/norn-scheduler/norn/policy"
	"github.com/norn-scheduler/norn/report"
	"github.com/norn-scheduler/norn/sched"
	"github.com/norn-scheduler/norn/sim"
	"github.com/norn-scheduler/norn/sim/simtest"
	"github.com/norn-scheduler/norn/state"
	"github.com/norn-scheduler/norn/tenant"
	"github.com/norn-scheduler/norn/trace"
)

// logged writes the events of a run to a log.
type logged struct {
	out bytes.Buffer
	w   *eventlog.Writer
	err error
}

// Event implements engine.Sink.
func (l *logged) Event(ev *eventlog.Event, _ *state.State) {
	if err := l.w.Write(ev); l.err == nil {
		l.err = err
	}
}

// newLogged begins a log of a run that has not begun.
func newLogged(t fataler, c *cluster.Cluster, tenants *tenant.Tree, packing eventlog.Compression) *logged {
	l := &logged{}
	h := eventlog.Header{World: "sim", Policy: "test"}
	h.Describe(c, tenants)
	if l.w, l.err = eventlog.NewWriter(&l.out, &h, packing); l.err != nil {
		t.Fatal(l.err)
	}
	return l
}

type fataler interface{ Fatal(...any) }

// bytes ends the log.
func (l *logged) bytes(t fataler) []byte {
	if err := l.w.Close(); err != nil {
		t.Fatal(err)
	}
	if l.err != nil {
		t.Fatal(l.err)
	}
	return l.out.Bytes()
}

// fold folds a log with the collector of a report.
func fold(t fataler, log []byte) (*state.State, *report.Collector) {
	r, err := eventlog.NewReader(bytes.NewReader(log), "test.log")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	col := report.NewCollector(everything)
	s, err := replay.Fold(r, col)
	if err != nil {
		t.Fatal(err)
	}
	return s, col
}

// same checks that a folded state is that of the run, and that both give the
// same report.
func same(t *rapid.T, live, folded *state.State, a, b *report.Collector) {
	if live.Now != folded.Now || live.Jobs() != folded.Jobs() || !reflect.DeepEqual(live.Ended(), folded.Ended()) {
		t.Fatalf("at %v, %d jobs, %v ended; folded at %v, %d jobs, %v ended", live.Now, live.Jobs(), live.Ended(), folded.Now, folded.Jobs(), folded.Ended())
	}
	for id := range job.ID(live.Jobs()) {
		x, y := *live.Record(id), *folded.Record(id)
		if !reflect.DeepEqual(x.Job, y.Job) {
			t.Fatalf("job\n%+v, folded\n%+v", x.Job, y.Job)
		}
		held, again := live.Alloc(id), folded.Alloc(id)
		if (held == nil) != (again == nil) || held != nil && !held.Equal(again) {
			t.Fatalf("job %s holds %+v, folded %+v", x.Job.Key, held, again)
		}
		// The note of a job that has ended may tell of one that ended with it, of which a log
		// that begins between the two knows nothing.
		if !x.Phase.Over() && !x.Note.Equal(y.Note) {
			t.Fatalf("note of %s\n%s, folded\n%s", x.Job.Key, x.Note.Fields(), y.Note.Fields())
		}
		x.Job, y.Job, x.Slot, y.Slot, x.Note, y.Note = nil, nil, 0, 0, nil, nil
		if x != y {
			t.Fatalf("record of %s\n%+v, folded\n%+v", live.Record(id).Job.Key, x, y)
		}
	}
	ledger(t, live.Cluster, folded.Cluster)
	for d := range cluster.DeviceID(live.Cluster.Devices()) {
		if x, y := live.On(d), folded.On(d); !slices.Equal(x, y) {
			t.Fatalf("jobs %v are on device %d, folded %v", x, d, y)
		}
	}
	for id := range tenant.ID(live.Tenants.Len()) {
		x, y := live.Tenants.At(id), folded.Tenants.At(id)
		if x.Name != y.Name || x.Used != y.Used || live.Tenants.Usage(id, live.Now) != folded.Tenants.Usage(id, live.Now) {
			t.Fatalf("tenant\n%+v, folded\n%+v", x, y)
		}
	}
	if err := folded.Check(); err != nil {
		t.Fatal(err)
	}
	if x, y := figures(t, live, a), figures(t, folded, b); x != y {
		at := 0
		for at < len(x) && at < len(y) && x[at] == y[at] {
			at++
		}
		t.Fatalf("report\n%s\nof the folded log\n%s", around(x, at), around(y, at))
	}
}

func ledger(t *rapid.T, live, folded *cluster.Cluster) {
	if live.Nodes() != folded.Nodes() || live.Devices() != folded.Devices() || live.Pools() != folded.Pools() {
		t.Fatalf("%d nodes, %d devices, %d pools; folded %d, %d, %d", live.Nodes(), live.Devices(), live.Pools(), folded.Nodes(), folded.Devices(), folded.Pools())
	}
	for n := range cluster.NodeID(live.Nodes()) {
		x, _ := live.CPUFree(n)
		y, _ := folded.CPUFree(n)
		u, _ := live.MemoryFree(n)
		v, _ := folded.MemoryFree(n)
		if x != y || u != v || live.Health(n) != folded.Health(n) || live.Power(n) != folded.Power(n) || !reflect.DeepEqual(live.Node(n), folded.Node(n)) {
			t.Fatalf("node %d: %v cores, %v memory, %v; folded %v, %v, %v", n, x, u, live.Health(n), y, v, folded.Health(n))
		}
	}
	for d := range cluster.DeviceID(live.Devices()) {
		if live.DeviceFree(d) != folded.DeviceFree(d) || live.Sharers(d) != folded.Sharers(d) || live.Broken(d) != folded.Broken(d) {
			t.Fatalf("device %d: %v free; folded %v", d, live.DeviceFree(d), folded.DeviceFree(d))
		}
	}
}

// figures are the jobs, the course, the summary and the page of a run as they are written.
func figures(t fataler, s *state.State, c *report.Collector) string {
	var out bytes.Buffer
	result := c.Result(s)
	if err := errors.Join(result.WriteJobs(&out, s, nil), result.WriteSeries(&out), result.WriteSummary(&out)); err != nil {
		t.Fatal(err)
	}
	if s.Jobs()%3 != 0 { // the page takes longest, and some will do
		return out.String()
	}
	if err := report.WriteHTML(&out, report.Meta{}, []report.Named{{Name: "one", Result: result}}); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// around is what stands near a place of a text.
func around(text string, at int) string {
	return text[max(0, at-200):min(len(text), at+50)]
}

var shapes = []simtest.Shape{
	{}, {Types: true}, {Parts: true}, {Costs: true}, {Costs: true, Failures: true}, {Tenants: true, Costs: true}, {Pools: true, Costs: true, Failures: true},
}

// TestFoldIsTheRun runs every policy on random worlds of every shape, folds the
// log of each run, and finds the same state and the same report: a state is a
// fold over its log and nothing else.
func TestFoldIsTheRun(t *testing.T) {
	simtest.FewDraws(t)
	for _, e := range policy.Table() {
		t.Run(e.Name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				shape := rapid.SampledFrom(shapes).Draw(t, "shape")
				p, err := e.New().Policy()
				if err != nil {
					t.Fatal(err)
				}
				if shape.Pools {
					p = policy.Partitioned(func() (sched.Policy, error) { return e.New().Policy() })
				}
				foldsTo(t, simtest.Draw(t, shape), shape, p)
			})
		})
	}
}

// play runs a world to its end.
func play(t fataler, w *simtest.World, p sched.Policy, src trace.Source, sinks ...engine.Sink) *state.State {
	cfg := sim.Config{Source: src, Costs: w.Costs, Seed: w.Seed}
	if w.World != nil {
		w.World(&cfg)
	}
	world := sim.New(cfg)
	e := engine.New(engine.Config{
		Cluster: w.Cluster, Tenants: w.Tenants, Policy: p, PolicyName: "test", Estimator: world.Oracle(), Costs: &w.Costs, Sharing: w.Sharing, Seed: w.Seed, Sinks: sinks,
	}, world)
	e.Announce()
	if err := world.Attach(e.State()); err != nil {
		t.Fatal(err)
	}
	if err := e.Run(context.Background()); err != nil {
		t.Fatal(err)
	}
	return e.State()
}

// foldsTo runs a world and folds its log.
func foldsTo(t *rapid.T, w simtest.World, shape simtest.Shape, p sched.Policy, more ...engine.Sink) {
	w.Fresh(t, shape, rapid.SliceOfN(rapid.IntRange(1, 6), 1, 5).Draw(t, "nodes"))
	if w.Tenants == nil {
		w.Tenants = tenant.NewTree(time.Minute)
	}
	log := newLogged(t, w.Cluster, w.Tenants, eventlog.Plain)
	col := report.NewCollector(everything)
	live := play(t, &w, p, simtest.Source(w.Jobs), append(more, col, log)...)
	folded, again := fold(t, log.bytes(t))
	same(t, live, folded, col, again)
}

// everything is all that a report can hold.
var everything = report.Options{Series: true, Intervals: true}

// restless is a policy for tests that stops, moves, swaps and resizes jobs all
// the time.
type restless struct{}

// Decide implements sched.Policy.
func (restless) Decide(v *sched.View, p *sched.Plan) {
	r := rand.New(rand.NewPCG(uint64(v.Now), 5))
	var stopped []job.ID
	for j := range v.Running() {
		id := j.Spec().ID
		if j.Phase() != job.Running || j.Spec().Stop == job.Pinned || j.Spec().Stop == job.Restart && j.Preemptions() > 3 {
			continue
		}
		switch n := r.IntN(8); {
		case n == 0:
			p.Stop(id, job.Reason{Code: job.MakesRoom, Job: job.None})
		case n == 1 && j.Spec().Demand.Elastic():
			p.Resize(id, 1+r.IntN(4), place.Pack)
		case n == 2:
			p.Move(id, place.FirstFit)
		case n < 6: // it may come back elsewhere, on what another one has left
			p.Stop(id, job.Reason{Code: job.UsedShare, Job: job.None})
			stopped = append(stopped, id)
		}
	}
	r.Shuffle(len(stopped), func(i, k int) { stopped[i], stopped[k] = stopped[k], stopped[i] })
	for _, id := range stopped {
		p.Start(id, place.Random)
	}
	for j := range v.Waiting() {
		p.Start(j.Spec().ID, place.Pack)
	}
}

// NextWake implements sched.Waker.
func (restless) NextWake(v *sched.View) time.Duration {
	for range v.Running() {
		return (v.Now/(7*time.Second) + 1) * 7 * time.Second
	}
	return unit.Never
}

// together counts the moves that are told at the same moment as another one.
type together struct {
	last eventlog.Event
	n    int
}

// Event implements engine.Sink.
func (m *together) Event(ev *eventlog.Event, _ *state.State) {
	if ev.Kind == eventlog.Move && m.last.Kind == eventlog.Move && ev.Time == m.last.Time {
		m.n++
	}
	m.last = *ev
}

// TestFoldOfSwaps does the same with a policy that lets jobs change places: each
// moves to what the other one holds, at the same moment.
func TestFoldOfSwaps(t *testing.T) {
	moves := &together{}
	rapid.Check(t, func(t *rapid.T) {
		shape := rapid.SampledFrom(shapes).Draw(t, "shape")
		w := simtest.Draw(t, shape)
		for i := range w.Jobs {
			was, elastic := w.Jobs[i].Spec, i%3 == 0
			w.Jobs[i].Key = "j" + strconv.Itoa(i)
			w.Jobs[i].Run *= 4
			w.Jobs[i].Spec = func(j *job.Job) {
				was(j)
				if elastic && j.Demand.Roles[0].GPU == unit.One {
					d := *j.Demand
					d.Roles[0].Min, d.Roles[0].Max = 1, max(4, d.Roles[0].Tasks)
					j.Demand = &d
				}
			}
		}
		foldsTo(t, w, shape, restless{}, moves)
	})
	if moves.n < 50 && !testing.Short() {
		t.Errorf("only %d moves at the moment of another", moves.n)
	}
}
