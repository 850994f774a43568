package experiment_test

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/engine"
	"github.com/norn-scheduler/norn/eventlog"
	"github.com/norn-scheduler/norn/experiment"
	"github.com/norn-scheduler/norn/internal/longtest"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/policy"
	"github.com/norn-scheduler/norn/policy/fifo"
	"github.com/norn-scheduler/norn/policy/need"
	"github.com/norn-scheduler/norn/policy/param"
	"github.com/norn-scheduler/norn/sched"
	"github.com/norn-scheduler/norn/state"
	"github.com/norn-scheduler/norn/trace"
	"github.com/norn-scheduler/norn/trace/clusterspec"
)

// bare is the sample without anything but sizes, times of submission and run times.
func bare(t *testing.T, n int) experiment.Jobs {
	t.Helper()
	jobs := slices.Clone(sample(t, n))
	for i := range jobs {
		j := &jobs[i].Job
		*j = job.Job{ID: j.ID, Serial: j.Serial, Key: j.Key, Submit: j.Submit, Demand: j.Demand}
	}
	return jobs
}

// lives are the ends of jobs, and how often each was preempted.
func lives(t *testing.T, x *experiment.Experiment, text string, jobs experiment.Jobs) (ends []time.Duration, o *experiment.Outcome) {
	t.Helper()
	c, err := experiment.ParseChoice(text)
	if err != nil {
		t.Fatal(err)
	}
	if o, err = x.Run(t.Context(), c, jobs.Source()); err != nil {
		t.Fatal(err)
	}
	for id := range job.ID(o.State.Jobs()) {
		r := o.State.Record(id)
		ends = append(ends, r.End, time.Duration(r.Preemptions))
	}
	return ends, o
}

// actsAs finds the policy of which a clause says that another one acts like it.
var actsAs = regexp.MustCompile(`acts as ([a-z_-]+(?:\([^)]*\))?)`)

// variants are choices of policies of which some needs hold only as they are set.
func variants() []string {
	all := []string{
		"fifo(mode=easy)", "fifo(priority=true)", "sjf(block=true)", "drf(order=sjf)", "drf(order=priority,block=true)", "maxmin(order=sjf,block=true)",
		"maxmin(reclaim=guarantee)", "fairshare(mode=skip)", "fairshare(users=false)", "fairshare(mode=strict,priority=1)", "gandiva(weights=true)",
		"qssf(predict=told)", "pai(predict=trace)", "pai(by=estimate)", "synergy(share=greedy)", "synergy(share=opt)", "synergy(order=ftf)",
		"synergy(order=ftf-least)", "synergy(order=tetris)", "bsbf(share=first-fit)", "bsbf(share=never)", "bsbf(place=pack)",
	}
	for _, e := range policy.Table() {
		all = append(all, e.Name)
	}
	return all
}

// worlds are those in which policies act as others.
func worlds() map[string]func(*testing.T, *experiment.Experiment) {
	return map[string]func(*testing.T, *experiment.Experiment){
		"plain": func(*testing.T, *experiment.Experiment) {},
		"costs": func(_ *testing.T, x *experiment.Experiment) {
			x.Costs = &perf.Costs{Base: perf.Cost{Start: 10 * time.Second, Checkpoint: 5 * time.Second, Restore: time.Minute, Migrate: time.Minute, Resize: time.Minute}}
		},
		"types": func(t *testing.T, x *experiment.Experiment) {
			x.Spec = spec(t, "2x8:V100+2x8:K80")
			x.Spec.Types[1].Speed = 0.4
			x.Model = perf.Analytic{Scaling: 1, Spread: 1}
		},
		"nodes of six": func(t *testing.T, x *experiment.Experiment) { x.Spec = spec(t, "6x6") },
		"spread":       func(_ *testing.T, x *experiment.Experiment) { x.Model = perf.Analytic{Scaling: 1, Spread: 0.7} },
	}
}

// TestActsAs runs each policy where it lacks what it lives on beside the one as which it is
// said to act then: all jobs end at the same moments, after as many preemptions.
func TestActsAs(t *testing.T) {
	longtest.Skip(t)
	t.Parallel()
	jobs := bare(t, 60)
	for _, text := range variants() {
		c, err := experiment.ParseChoice(text)
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range c.Needs() {
			m := actsAs.FindStringSubmatch(n.Without)
			if m == nil || len(c.Settings) > 0 && slices.Contains(experiment.Choice{Policy: c.Policy}.Needs(), n) {
				continue // nothing is claimed, or it is tried with the defaults
			}
			for name, world := range worlds() {
				if name != "plain" && strings.Contains(n.Without, m[1]+" but for ") {
					continue // the clause says what may differ elsewhere
				}
				t.Run(text+" as "+m[1]+" "+name, func(t *testing.T) {
					t.Parallel()
					x := &experiment.Experiment{Spec: spec(t, "4x8"), Seed: 1}
					world(t, x)
					if n.Any.Has(need.RunTimes) {
						x.Estimate.From = experiment.None
					}
					ends, o := lives(t, x, text, jobs)
					switch said := strings.Contains(strings.Join(o.Result.Lacks, " "), n.Without); {
					case !said && name == "plain":
						t.Fatalf("it is not told: %q", o.Result.Lacks)
					case !said:
						t.Skip("this world has what is missing elsewhere, or the clause does not hold in it")
					}
					if as, _ := lives(t, x, likewise(t, c, m[1]), jobs); !slices.Equal(ends, as) {
						t.Errorf("%s does not act as %s", text, m[1])
					}
				})
			}
		}
	}
}

// likewise is the choice as which another one acts: if it is of the same policy, it has the
// other settings, too.
func likewise(t *testing.T, c experiment.Choice, text string) string {
	t.Helper()
	as, err := experiment.ParseChoice(text)
	if err != nil {
		t.Fatal(err)
	}
	if as.Policy == c.Policy {
		as.Settings = append(slices.Clone(c.Settings), as.Settings...)
	}
	return as.String()
}

// slowed is a sink that finds jobs slowed down by others on their GPUs.
type slowed struct{ seen bool }

func (w *slowed) Event(ev *eventlog.Event, _ *state.State) {
	w.seen = w.seen || ev.Kind == eventlog.Speed && ev.Speed < 1
}

// TestNobodyShares: where it is said that no two jobs share GPUs, none do; with what was
// missing, some do.
func TestNobodyShares(t *testing.T) {
	t.Parallel()
	jobs := bare(t, 250)
	for _, c := range []struct {
		policy string
		assume experiment.Assumption
	}{{"lucid", experiment.AssumeUse}, {"muri-s", experiment.AssumeStages}, {"muri-l", experiment.AssumeStages}} {
		for _, assume := range []experiment.Assumption{"", c.assume} {
			var watch slowed
			x := &experiment.Experiment{Spec: spec(t, "4x8"), Seed: 1, Assume: assume, Watch: func(string) engine.Sink { return &watch }}
			_, o := lives(t, x, c.policy, jobs)
			said := strings.Contains(strings.Join(o.Result.Lacks, " "), "no two jobs share GPUs")
			if said == watch.seen || said != (assume == "") {
				t.Errorf("%s, assuming %q: said %v, seen %v", c.policy, assume, said, watch.seen)
			}
		}
	}
}

// has says of a thing how an experiment gets it; setting a trait of the jobs counts, too.
type has struct {
	thing  need.Thing
	spec   string // of the cluster; empty: 4x8
	assume experiment.Assumption
	world  func(*experiment.Experiment)
	jobs   func(int, *job.Job)
}

func hint(set func(*job.Hints)) func(int, *job.Job) {
	return func(_ int, j *job.Job) {
		j.Hints = &job.Hints{}
		set(j.Hints)
	}
}

func ways() []has {
	return []has{
		{thing: need.RunTimes},
		{thing: need.Predictions, jobs: hint(func(h *job.Hints) { h.HasRank = true })},
		{thing: need.History, jobs: func(_ int, j *job.Job) { j.Name = "bert" }},
		{thing: need.Elastic, assume: experiment.AssumeGoodput},
		{thing: need.Reports, assume: experiment.AssumeGoodput},
		{thing: need.Batches, assume: experiment.AssumeTasks},
		{thing: need.Batches, assume: experiment.AssumeBatches},
		{thing: need.Stages, assume: experiment.AssumeStages},
		{thing: need.Bursts, assume: experiment.AssumeBursts},
		{thing: need.Adapters, world: func(x *experiment.Experiment) {
			x.Spec.Nodes[0].NICs = cluster.NICs{Count: 1, GBps: 6.25}
		}},
		{thing: need.Regions, world: func(x *experiment.Experiment) {
			x.Spec.Levels = []clusterspec.Level{{Name: "region", Nodes: 2}}
		}},
		{thing: need.Use, assume: experiment.AssumeUse},
		{thing: need.Use, assume: experiment.AssumeDLRM},
		{thing: need.Memory, assume: experiment.AssumeUse},
		{thing: need.Pairs, world: func(x *experiment.Experiment) {
			x.Slowdown.Pairs = &trace.Pairs{File: "pairs", Table: perf.Pairs{Speed: map[perf.Pair]float64{}}}
		}},
		{thing: need.Services, assume: experiment.AssumeServices},
		{thing: need.Types, spec: "2x8:V100+2x8:K80", world: func(x *experiment.Experiment) {
			x.Model = perf.Analytic{Scaling: 1, Spread: 1}
			x.Spec.Types[0].Speed = 0.5
		}},
		{thing: need.Kinds, spec: "2x8:V100+2x8:K80"},
		{thing: need.Spread, world: func(x *experiment.Experiment) { x.Model = perf.Analytic{Scaling: 1, Spread: 0.7} }},
		{thing: need.Devices, world: func(x *experiment.Experiment) {
			x.Variability = &perf.Variability{Classes: []string{"B"}, Scores: map[perf.Seat][]float64{{Node: "n0"}: {1.2}}}
		}},
		{thing: need.Models, jobs: func(_ int, j *job.Job) { j.Model = "vgg16" }},
		{thing: need.Rations, assume: experiment.AssumeCPU},
		{thing: need.Backbones, assume: experiment.AssumeTuning},
		{thing: need.Tenants, jobs: func(i int, j *job.Job) { j.Tenant = string(rune('a' + i%3)) }},
		{thing: need.Users, jobs: func(i int, j *job.Job) { j.User = string(rune('a' + i%3)) }},
		{thing: need.Quotas, world: func(x *experiment.Experiment) { x.Spec.Tenants = append(x.Spec.Tenants, quota()) }},
		{thing: need.Cells, world: func(x *experiment.Experiment) {
			x.Spec.Tenants = append(x.Spec.Tenants, clusterspec.Tenant{Name: "a", Cells: "node=1"})
		}},
		{thing: need.Classes, jobs: hint(func(h *job.Hints) { h.QoS = "guaranteed" })},
		{thing: need.Deadlines, jobs: func(_ int, j *job.Job) { j.Deadline = j.Submit + time.Hour }},
		{thing: need.Priorities, jobs: func(i int, j *job.Job) { j.Priority = int32(i % 2) }},
		{thing: need.Parts, jobs: func(_ int, j *job.Job) {
			d := *j.Demand
			d.Roles[0].GPU = unit.One / 2
			j.Demand = &d
		}},
		{thing: need.Tiers, jobs: func(_ int, j *job.Job) { j.Tier = job.Standard }},
		{thing: need.Links, spec: "4x8:V100/dgx1"},
		{thing: need.Sockets, world: func(x *experiment.Experiment) { x.Sockets = &perf.Sockets{} }},
		{thing: need.Bandwidth, jobs: hint(func(h *job.Hints) { h.Sensitive = true })},
		{thing: need.Bandwidth, jobs: func(_ int, j *job.Job) { j.Model = "vgg16" }},
		{thing: need.Processors, world: hosted, jobs: hint(func(h *job.Hints) { h.CPUTime = time.Hour })},
	}
}

// TestLacks: a policy that lives on a thing is told where it is missing, and is not where
// it is there. There is a way to every thing.
func TestLacks(t *testing.T) {
	longtest.Skip(t)
	t.Parallel()
	plain := bare(t, 12)
	var known need.Set
	for _, w := range ways() {
		known |= need.Of(w.thing)
		mine := policy.Entry{Name: "mine", New: func() policy.Config { return living{w.thing} }}
		for _, there := range []bool{false, true} {
			x := &experiment.Experiment{Spec: spec(t, "4x8"), Seed: 1}
			jobs := slices.Clone(plain)
			switch {
			case !there && w.thing == need.RunTimes:
				x.Estimate.From = experiment.None
			case there:
				w.into(t, x, jobs)
			}
			o, err := x.Run(t.Context(), experiment.Own(mine), jobs.Source())
			if err != nil {
				t.Fatalf("%s: %v", w.thing, err)
			}
			if there != (len(o.Result.Lacks) == 0) {
				t.Errorf("%s, there: %v: %q", w.thing, there, o.Result.Lacks)
			}
		}
	}
	for _, assume := range []experiment.Assumption{"", experiment.AssumeQuality} { // losses are measured for those alone that believe in them
		known |= need.Of(need.Losses)
		_, o := lives(t, &experiment.Experiment{Spec: spec(t, "4x8"), Seed: 1, Assume: assume}, "slaq", slices.Clone(plain))
		if lacks := fmt.Sprint(o.Result.Lacks); strings.Contains(lacks, "no job reports its loss") != (assume == "") {
			t.Errorf("slaq, --assume %q: %s", assume, lacks)
		}
	}
	for _, thing := range need.All() {
		if !known.Has(thing) {
			t.Errorf("no way to %s is tried", thing)
		}
	}
}

func (w *has) into(t *testing.T, x *experiment.Experiment, jobs experiment.Jobs) {
	if w.spec != "" {
		x.Spec = spec(t, w.spec)
	}
	x.Assume = w.assume
	if w.world != nil {
		w.world(x)
	}
	for i := range jobs {
		if w.jobs != nil {
			w.jobs(i, &jobs[i].Job)
		}
	}
}

// TestEstimatesTold: the source of run times stands in the results of those policies that
// go by them, and only there.
func TestEstimatesTold(t *testing.T) {
	t.Parallel()
	jobs := bare(t, 12)
	for _, c := range []struct{ policy, estimates, want string }{
		{"srtf", "oracle", "oracle"}, {"srtf", "user+50%", "user+50%"}, {"srtf", "none", "none"}, {"las", "oracle", ""},
		{"fifo", "oracle", ""}, {"fifo(mode=easy)", "oracle", "oracle"}, {"drf", "oracle", ""}, {"drf(order=sjf)", "oracle", "oracle"},
	} {
		e, err := experiment.ParseEstimate(c.estimates)
		if err != nil {
			t.Fatal(err)
		}
		x := &experiment.Experiment{Spec: spec(t, "4x8"), Seed: 1, Estimate: e}
		if _, o := lives(t, x, c.policy, jobs); o.Result.Estimates != c.want {
			t.Errorf("%s, --estimates %s: %q, want %q", c.policy, c.estimates, o.Result.Estimates, c.want)
		}
	}
}

// TestFreePreemptions: what costs nothing is told with how often it was done, and only
// where a policy did it and no cost was asked for.
func TestFreePreemptions(t *testing.T) {
	t.Parallel()
	jobs := bare(t, 250)
	for _, c := range []struct {
		policy string
		costs  *perf.Costs
		told   bool
	}{{"srtf", nil, true}, {"srtf", &perf.Costs{}, false}, {"srtf", &perf.Costs{Base: perf.Cost{Restore: time.Second}}, false}, {"sjf", nil, false}} {
		x := &experiment.Experiment{Spec: spec(t, "4x8"), Seed: 1, Costs: c.costs}
		_, o := lives(t, x, c.policy, jobs)
		want := "preempted jobs " + unit.Count(o.Result.Preemptions, "time") + " at no cost (--cost says what transitions take)"
		if got := o.Remarks(); slices.Contains(got, want) != c.told || !c.told && len(got) > 0 || math.MaxInt16 < o.Result.Preemptions {
			t.Errorf("%s with %v: %q", c.policy, c.costs, got)
		}
	}
}

// living is the settings of a fifo that is said to live on a thing.
type living struct{ thing need.Thing }

func (living) Params() param.Set             { return nil }
func (living) Policy() (sched.Policy, error) { return fifo.NewConfig().Policy() }
func (l living) Needs() need.List            { return need.List(nil).And(need.Of(l.thing), "it does nothing") }
func quota() clusterspec.Tenant {
	return clusterspec.Tenant{Name: "a", Guarantee: clusterspec.Share{GPUs: 4 * unit.One}}
}

// hosted lends jobs a part of the processors of each node.
func hosted(x *experiment.Experiment) {
	x.Spec.Types = append(x.Spec.Types, cluster.GPUType{Name: "cpu", Host: true})
	x.Spec.Nodes[0].GPUs = append(x.Spec.Nodes[0].GPUs, clusterspec.GPUs{Type: "cpu", Count: 1})
}
