package engine_test

import (
	"errors"
	"io"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/norn-scheduler/norn/engine"
	"github.com/norn-scheduler/norn/eventlog"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/policy"
	"github.com/norn-scheduler/norn/sim"
	"github.com/norn-scheduler/norn/sim/simtest"
	"github.com/norn-scheduler/norn/state"
	"github.com/norn-scheduler/norn/trace"
)

// TestRenumbered cuts random histories at a random instant and goes on from a
// new log, twice. The jobs have their old numbers once, and then other numbers,
// after jobs that ended before. Every policy decides the same both times, also
// when another policy is in force in between.
func TestRenumbered(t *testing.T) {
	simtest.FewDraws(t)
	table := policy.Table()
	for _, e := range table {
		t.Run(e.Name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				shape := rapid.SampledFrom([]simtest.Shape{{}, {Types: true}, {Adapts: true, Costs: true}, {Costs: true, Tenants: true}, {Packed: true, Shared: true, Costs: true}, {Pools: true}, {Apps: true, Costs: true}}).Draw(t, "shape")
				shape.Shared = shape.Shared && e.Acts.Has(policy.Shares)
				r := renumbering{world: simtest.DrawLong(t, shape), shape: shape, of: e, between: e}
				for i := range r.world.Jobs {
					r.world.Jobs[i].Serial = 100 + int64(i) // behind those of the strangers
				}
				if rapid.Bool().Draw(t, "another policy in between") {
					r.between = rapid.SampledFrom(table).Draw(t, "in between")
				}
				r.cut, r.back = rapid.IntRange(1, 40).Draw(t, "instants"), rapid.IntRange(1, 10).Draw(t, "instants in between")
				r.check(t)
			})
		})
	}
}

// renumbering is one history that is cut twice.
type renumbering struct {
	world       simtest.World
	shape       simtest.Shape
	of, between policy.Entry
	cut, back   int // number of instants until the first cut, and from there to the second
}

func (r *renumbering) check(t *rapid.T) {
	n := 0
	err := r.world.Steps(made(t, r.of, r.shape), func(s *state.State, was *sim.Sim) bool {
		if n++; n < r.cut || s.Now == 0 { // strangers ended before anything began
			return true
		}
		work := map[string]time.Duration{}
		for id := range job.ID(s.Jobs()) {
			work[s.Record(id).Job.Key] = was.Truth(id).Work
		}
		same, other := simtest.Numbering{Past: s.Jobs()}, simtest.Numbering{Past: s.Jobs(), Strangers: 3}
		if r.of.Name == "fgd" || r.between.Name == "fgd" {
			other.Strangers = 0 // fgd learns its target from all jobs that were ever submitted
		}
		if (r.of.Name == "shockwave" || r.between.Name == "shockwave") && s.Now < 20*time.Minute {
			other.Strangers = 0 // its first plan may be in force, and they seem to have left just after that was made
		}
		a, b := r.goOn(t, s, work, same), r.goOn(t, s, work, other)
		simtest.SameDecisions(t, "with other numbers it", a, b)
		return false
	})
	if err != nil {
		t.Fatal(err)
	}
}

// goOn plays a state on from a new log, under the policy in between. Then it
// plays on from another new log, under the first policy, to the end.
func (r *renumbering) goOn(t *rapid.T, s *state.State, work map[string]time.Duration, n simtest.Numbering) []string {
	n.Forget = r.between.Name != r.of.Name
	first, err := simtest.ReopenAs(s, n)
	if err != nil {
		t.Fatal(err)
	}
	var lines decisions
	r.play(t, first, r.between, work, r.back, &lines)
	if n.Past = first.Jobs(); n.Strangers > 0 {
		n.Strangers = 2
	}
	second, err := simtest.ReopenAs(first, n)
	if err != nil {
		t.Fatal(err)
	}
	r.play(t, second, r.of, work, 5000, &lines)
	return lines
}

// play lets a policy decide for so many instants. The world knows the work that
// is left and the jobs that are still to come.
func (r *renumbering) play(t *rapid.T, s *state.State, of policy.Entry, work map[string]time.Duration, instants int, sink engine.Sink) {
	known := map[string]bool{}
	for id := range job.ID(s.Jobs()) {
		known[s.Record(id).Job.Key] = true
	}
	var later []trace.Entry
	source := simtest.Source(r.world.Jobs)
	for e := (trace.Entry{}); source.Next(&e) == nil; e = (trace.Entry{}) {
		if !known[e.Job.Key] {
			work[e.Job.Key] = e.Truth.Work
			e.Truth.Attempts = nil
			e.Job.ID = job.ID(s.Jobs() + len(later))
			later = append(later, e)
		}
	}
	cfg := sim.Config{Source: trace.FromMemory(later), Costs: r.world.Costs}
	if r.shape.Packed {
		cfg.Sharing, cfg.Measure = perf.Demands{Switch: 0.05}, true
	}
	world := sim.New(cfg)
	e := engine.New(engine.Config{
		Cluster: s.Cluster, Tenants: s.Tenants, Policy: made(t, of, r.shape), PolicyName: "test", Estimator: oracle{work}, Costs: &r.world.Costs,
		Sharing: r.world.Sharing, Exclusive: !of.Acts.Has(policy.Shares), Seed: 1, Sinks: []engine.Sink{sink},
	}, world)
	e.Resume(s)
	e.RestoreDemand()
	if err := world.Attach(s); err != nil {
		t.Fatal(err)
	}
	world.Resume(func(rec *job.Record) time.Duration { return max(0, work[rec.Job.Key]-rec.ProgressAt(s.Now)) })
	for range instants {
		if err := e.Step(); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			t.Fatal(err)
		}
	}
}

// oracle knows the work of each job by its key.
type oracle struct{ work map[string]time.Duration }

// Estimate implements predict.Estimator.
func (o oracle) Estimate(j *job.Job) (time.Duration, bool) {
	d, ok := o.work[j.Key]
	return d, ok
}

// decisions are events as text, with keys of jobs and no numbers.
type decisions []string

// Event implements engine.Sink.
func (d *decisions) Event(ev *eventlog.Event, s *state.State) {
	*d = append(*d, simtest.Line(ev, s))
}

// Observe implements predict.Estimator.
func (oracle) Observe(*job.Job, time.Duration) {}
