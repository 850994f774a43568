package report

import (
	"bytes"
	"math"
	"testing"
	"time"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/engine"
	"github.com/norn-scheduler/norn/eventlog"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/state"
	"github.com/norn-scheduler/norn/tenant"
)

// TestRunsAreEventful makes sure that the runs of these tests hold what they
// are meant to test.
func TestRunsAreEventful(t *testing.T) {
	rec := &recorder{}
	col, s := play(t, setup{jobs: 400, seed: 1, sinks: []engine.Sink{rec}})
	seen := map[eventlog.Kind]int{}
	for i := range rec.events {
		seen[rec.events[i].Kind]++
	}
	for k := eventlog.Submit; k <= eventlog.Device; k++ {
		if seen[k] == 0 && k != eventlog.Speed && k != eventlog.Progress && k != eventlog.Memo && k != eventlog.NodeLabels {
			t.Errorf("no %s event", k)
		}
	}
	r := col.Result(s)
	if r.Jobs.Impossible == 0 || r.Jobs.Failed == 0 || r.Jobs.Cancelled == 0 || r.Migrations == 0 || r.Resizes == 0 {
		t.Errorf("%+v", r.Summary)
	}
	t.Logf("%v", seen)
}

// naive is the figures computed the slow way: after every event, all jobs are
// looked at.
type naive struct {
	s                 *state.State
	now               time.Duration
	first             time.Duration
	allocated, supply float64 // GPU-seconds since the first submission
	allocatedArrival  float64
	supArrival        float64
	allocatedEnd      float64
	supEnd            float64
	waits             map[string]float64 // job-seconds by reason
	loads             []float64          // integral of load over the life of each job
	failed            []time.Duration
	ratio             float64
	broken            map[cluster.DeviceID]bool
	seen              bool
}

func (n *naive) supplied() unit.Milli {
	var sum unit.Milli
	for id := range cluster.NodeID(n.s.Cluster.Nodes()) {
		if n.s.Cluster.Health(id) == cluster.Down || n.s.Cluster.Power(id) != cluster.Awake {
			continue
		}
		eachDevice(n.s.Cluster, id, func(d cluster.DeviceID, size unit.Milli) {
			if !n.broken[d] {
				sum += size
			}
		})
	}
	return sum
}

// pass lets time pass up to the next event, whose effects are not yet folded in.
func (n *naive) pass(to time.Duration) {
	dt := (to - n.now).Seconds()
	if dt > 0 {
		var allocated, demand unit.Milli
		for id := range job.ID(n.s.Jobs()) {
			r := n.s.Record(id)
			asks := n.s.Class(r.Class).Amount.GPU
			switch r.Phase {
			case job.Running, job.Stopping:
				allocated += r.Milli
				demand += asks
			case job.Assigned:
				n.waits["handover"] += dt
				demand += asks
			case job.Held:
				n.waits["on-hold"] += dt
			case job.Waiting:
				n.waits[r.Reason.Code.String()] += dt
				if !r.Reason.Never() {
					demand += asks
				}
			}
		}
		sup := n.supplied()
		if sup > 0 {
			n.ratio = float64(demand) / float64(sup)
		}
		n.allocated += float64(allocated) / 1000 * dt
		n.supply += float64(sup) / 1000 * dt
		for id := range n.loads {
			if !n.s.Record(job.ID(id)).Phase.Over() {
				n.loads[id] += n.ratio * dt
			}
		}
	}
	n.now = to
}

func (n *naive) fold(t *testing.T, ev *eventlog.Event) {
	n.pass(ev.Time)
	var done time.Duration
	if ev.Kind == eventlog.Fail {
		done = n.s.Record(ev.Job).ProgressAt(ev.Time)
	}
	if err := engine.Apply(n.s, ev); err != nil {
		t.Fatal(err)
	}
	switch ev.Kind {
	case eventlog.Submit:
		if !n.seen {
			n.seen, n.first, n.allocated, n.supply = true, ev.Time, 0, 0
		}
		n.allocatedArrival, n.supArrival = n.allocated, n.supply
		n.loads, n.failed = append(n.loads, 0), append(n.failed, 0)
	case eventlog.Fail:
		n.failed[ev.Job] += done - ev.Kept
	case eventlog.End, eventlog.Cancel:
		if n.s.Record(ev.Job).Starts == 0 {
			return
		}
		n.allocatedEnd, n.supEnd = n.allocated, n.supply
	case eventlog.Device:
		n.broken[ev.Device] = ev.Broken
	}
}

func near(a, b float64) bool { return math.Abs(a-b) <= 1e-6*max(1, math.Abs(a), math.Abs(b)) }

// TestAgainstNaive compares the incremental figures with the slow ones.
func TestAgainstNaive(t *testing.T) {
	for seed := range uint64(4) {
		rec := &recorder{}
		col, s := play(t, setup{jobs: 250, seed: seed, sinks: []engine.Sink{rec}})
		n := &naive{s: state.New(testCluster(t), tenant.NewTree(0)), waits: map[string]float64{}, broken: map[cluster.DeviceID]bool{}}
		for i := range rec.events {
			n.fold(t, &rec.events[i])
		}
		n.pass(s.Now)
		r := col.Result(s)
		if r.Jobs.Running > 0 {
			n.allocatedEnd, n.supEnd = n.allocated, n.supply
		}
		if !near(r.Utilisation, n.allocatedEnd/n.supEnd) || !near(r.UtilisationArrivals, n.allocatedArrival/n.supArrival) || !near(r.GPU.Available, n.supEnd/3600) {
			t.Errorf("seed %d: utilisation %v %v of %v GPU-hours, want %v %v %v", seed, r.Utilisation, r.UtilisationArrivals, r.GPU.Available, n.allocatedEnd/n.supEnd, n.allocatedArrival/n.supArrival, n.supEnd/3600)
		}
		compareWaits(t, r, n)
		compareRho(t, col, s, r, n)
	}
}

func compareWaits(t *testing.T, r *Result, n *naive) {
	t.Helper()
	var sum, byTenant, bySize, records float64
	for _, w := range r.Reasons {
		if !near(w.Hours, n.waits[w.Reason]/3600) {
			t.Errorf("%s: %v job-hours, want %v", w.Reason, w.Hours, n.waits[w.Reason]/3600)
		}
		sum += w.Hours
	}
	for _, g := range r.Tenants {
		byTenant += g.Waiting.Total()
	}
	for _, g := range r.Sizes {
		bySize += g.Waiting.Total()
	}
	for id := range job.ID(n.s.Jobs()) {
		records += n.s.Record(id).WaitAt(n.now).Hours()
	}
	if !near(sum, records) || !near(byTenant, records) || !near(bySize, records) || !near(r.Waiting.Total(), records) {
		t.Errorf("%v job-hours of waiting by reason, %v by tenant, %v by size, %v in the records", sum, byTenant, bySize, records)
	}
}

func compareRho(t *testing.T, col *Collector, s *state.State, r *Result, n *naive) {
	t.Helper()
	var sum, worst, allocated, lost float64
	rated, unfair := 0, 0
	for id := range job.ID(s.Jobs()) {
		rec := s.Record(id)
		allocated += rec.ServiceAt(s.Now)
		lost += rec.Lost
		if rec.Phase.Over() && col.track(id).failed != n.failed[id] {
			t.Errorf("job %d: %v of work in failed attempts, want %v", id, col.track(id).failed, n.failed[id])
		}
		alone := (rec.Progress + n.failed[id]).Seconds()
		if !rec.Phase.Over() || rec.Starts == 0 || rec.Job.Demand.GPUs() == 0 || alone == 0 {
			continue
		}
		jct := (rec.End - rec.Job.Submit).Seconds()
		rho := jct / (alone * max(1, n.loads[id]/jct))
		rated++
		sum += rho
		worst = max(worst, rho)
		if rho > 1 {
			unfair++
		}
	}
	f := r.Fairness
	if f.Rated != rated || !near(f.Mean*float64(rated), sum) || !near(f.Worst, worst) || !near(f.Unfair, float64(unfair)/float64(rated)) {
		t.Errorf("%+v, want %d jobs, mean %v, worst %v, %d unfair", f, rated, sum/float64(rated), worst, unfair)
	}
	if !near(r.GPU.Held, allocated/3600) || !near(r.GPU.Lost, lost/3600) || rated == 0 || unfair == 0 {
		t.Errorf("%+v, want %v held, %v lost; %d rated, %d unfair", r.GPU, allocated/3600, lost/3600, rated, unfair)
	}
}

// TestFoldedAgain checks that a log folded again gives the same report, byte by
// byte, as the live run.
func TestFoldedAgain(t *testing.T) {
	opt := Options{Series: true, Intervals: true, MaxIntervals: 100}
	rec := &recorder{}
	live, s := play(t, setup{jobs: 300, seed: 7, opt: opt, sinks: []engine.Sink{rec}})
	again := NewCollector(opt)
	folded := state.New(testCluster(t), tenant.NewTree(0))
	for i := range rec.events {
		if err := engine.Apply(folded, &rec.events[i]); err != nil {
			t.Fatal(err)
		}
		again.Event(&rec.events[i], folded)
	}
	folded.Now = s.Now
	a, b := render(t, live, s), render(t, again, folded)
	if !bytes.Equal(a, b) {
		t.Error("the report of the folded log differs from that of the live run")
	}
	if !bytes.Equal(a, render(t, live, s)) {
		t.Error("asking twice gives different reports")
	}
}

// render is everything that can be written about a run.
func render(t *testing.T, c *Collector, s *state.State) []byte {
	t.Helper()
	var out bytes.Buffer
	r := c.Result(s)
	runs := []Named{{"one", r}, {"two", r}}
	table := Compare(runs)
	for _, err := range []error{
		r.WriteSummary(&out), r.WriteJobs(&out, s, nil), r.WriteSeries(&out), table.WriteText(&out, TextOptions{}), table.WriteMarkdown(&out),
		table.WriteCSV(&out), table.WriteJSON(&out), WriteHTML(&out, Meta{Title: "a run"}, runs),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	return out.Bytes()
}

// TestJoinsLate checks that a collector may join a run that has begun.
func TestJoinsLate(t *testing.T) {
	rec := &recorder{}
	play(t, setup{jobs: 200, seed: 3, sinks: []engine.Sink{rec}})
	s := state.New(testCluster(t), tenant.NewTree(0))
	late := NewCollector(Options{Series: true, Intervals: true})
	half := len(rec.events) / 2
	for i := range rec.events {
		if err := engine.Apply(s, &rec.events[i]); err != nil {
			t.Fatal(err)
		}
		if i >= half {
			late.Event(&rec.events[i], s)
		}
	}
	r := late.Result(s)
	if r.Jobs.Submitted != 200 || r.Utilisation <= 0 || r.Utilisation > 1 {
		t.Errorf("%+v", r.Summary)
	}
	if late.behind != 0 || late.ahead != 0 || late.flow.allocated < 0 {
		t.Errorf("left with %v behind, %v ahead, %v held", late.behind, late.ahead, late.flow.allocated)
	}
}

// TestNothing checks that a run without any event can be reported.
func TestNothing(t *testing.T) {
	s := state.New(testCluster(t), tenant.NewTree(0))
	out := render(t, NewCollector(Options{Series: true, Intervals: true}), s)
	if !bytes.Contains(out, []byte(`"jct_s": null`)) || bytes.Contains(out, []byte(": NaN")) || bytes.Contains(out, []byte("NaN%")) {
		t.Errorf("%s", out)
	}
}
