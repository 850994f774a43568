package pollux

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/engine"
	"github.com/norn-scheduler/norn/eventlog"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/sched"
	"github.com/norn-scheduler/norn/sim/simtest"
	"github.com/norn-scheduler/norn/state"
	"github.com/norn-scheduler/norn/trace"
)

// elastic is a job that runs on least to most GPUs and asks for some.
func elastic(key string, at float64, least, asked, most int, run float64) simtest.Job {
	d := job.GPUs(asked)
	d.Roles[0].Min, d.Roles[0].Max = int32(least), int32(most)
	return simtest.Job{Key: key, At: at, Demand: &d, Run: run, Model: key[:1]}
}

// scaling is the goodput of a job whose step takes as long on one node, however many
// GPUs it has, and half as long again over several.
func scaling(noise float64) perf.Goodput {
	return perf.Goodput{
		Time:    perf.StepTime{Grad: 0.05, GradEach: 0.001, Local: 1e-3, LocalEach: 1e-5, Node: 0.1, NodeEach: 1e-3, Overlap: 1},
		Noise:   perf.Noise{Sqr: 1, Var: noise},
		Batches: perf.Batches{First: 64, Most: 4096, LocalMin: 8, LocalMost: 128, Accumulate: true},
	}
}

// Jobs whose names begin with n have noisy gradients, and so gain from large batches;
// those with q have not.
var speeds = perf.NewAdaptive(map[string]perf.Goodput{"n": scaling(1000), "q": scaling(0.5)})

func config(nodes, gpus int, change func(*Config)) simtest.Config {
	return simtest.Config{
		Cluster: simtest.Nodes(nodes, gpus), Model: speeds, Speeds: speeds, Seed: 3,
		Make: func() (sched.Policy, error) {
			c := NewConfig()
			c.Search = Search{Population: 40, Generations: 30}
			if change != nil {
				change(c)
			}
			return c.Policy()
		},
	}
}

// sizes notes with how many tasks a job runs from when on.
type sizes struct {
	of   map[string][]string
	each func(ev *eventlog.Event, s *state.State)
}

func (n *sizes) Event(ev *eventlog.Event, s *state.State) {
	if n.of == nil {
		n.of = map[string][]string{}
	}
	if ev.Alloc != nil {
		key := s.Record(ev.Job).Job.Key
		n.of[key] = append(n.of[key], fmt.Sprintf("%v:%d", ev.Time, ev.Alloc.Tasks(0)))
	}
	if n.each != nil {
		n.each(ev, s)
	}
}

// A job by itself begins on one GPU, is given twice as many at each round that pays
// the restart, and never more than twice what it has run with.
func TestExplores(t *testing.T) {
	var n sizes
	cfg := config(2, 4, nil)
	cfg.Sinks = []engine.Sink{&n}
	simtest.Go(t, cfg, elastic("n", 1, 1, 4, 8, 3000))
	want := "[1m0s:1 2m0s:2 3m0s:4"
	if got := fmt.Sprint(n.of["n"]); len(got) < len(want) || got[:len(want)] != want {
		t.Errorf("sizes %s, want %s ...", got, want)
	}
	n.of = nil
	cfg = config(2, 4, func(c *Config) { c.Explore = 0 })
	cfg.Sinks = []engine.Sink{&n}
	simtest.Go(t, cfg, elastic("n", 1, 1, 4, 4, 3000))
	if got := n.of["n"][0]; got != "1m0s:4" {
		t.Errorf("without exploring it begins with %s", got)
	}
}

// Of two jobs with the same step times the one with noisy gradients, which can use
// larger batches, gets more GPUs when what counts is the plain mean.
func TestNoiseCounts(t *testing.T) {
	cfg := config(1, 8, func(c *Config) { c.Power = 1 })
	held := map[string]int{}
	n := sizes{each: func(ev *eventlog.Event, s *state.State) {
		if ev.Alloc != nil && ev.Time < 30*time.Minute {
			held[s.Record(ev.Job).Job.Key] = ev.Alloc.Tasks(0)
		}
	}}
	cfg.Sinks = []engine.Sink{&n}
	simtest.Go(t, cfg, elastic("n", 0, 1, 4, 8, 20000), elastic("q", 0, 1, 4, 8, 20000))
	if held["n"] <= held["q"] {
		t.Errorf("after half an hour they have %v", held)
	}
}

// A division that is as good as another costs nobody a restart: two equal jobs share
// the GPUs, and from then on nothing changes until one ends.
func TestSettles(t *testing.T) {
	cfg := config(2, 2, nil)
	run := simtest.Go(t, cfg, elastic("q1", 0, 1, 2, 4, 4000), elastic("q2", 0, 1, 2, 4, 4000))
	for _, key := range []string{"q1", "q2"} {
		r := run.Record(key)
		if n := r.Resizes + r.Migrations + r.Preemptions; n > 4 {
			t.Errorf("%s was restarted %d times", key, n)
		}
	}
}

// The note keeps what is remembered.
func TestNote(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := note{restarts: rapid.IntRange(0, 1<<30).Draw(t, "restarts")}
		for range rapid.IntRange(0, 6).Draw(t, "sizes") {
			m.Add(rapid.IntRange(1, 80).Draw(t, "tasks"), rapid.Bool().Draw(t, "spread"))
		}
		written, err := sched.Written(&m)
		if err != nil {
			t.Fatal(err)
		}
		if got, _ := sched.NoteOf[note](written); got != m {
			t.Fatalf("%+v became %+v", m, got)
		}
	})
	m := note{}
	m.Add(3, false)
	m.Add(12, true)
	var seen []string
	m.Each(func(k int, spread bool) { seen = append(seen, fmt.Sprint(k, spread)) })
	if fmt.Sprint(seen) != "[3 false 12 true]" || m.Largest() != 12 {
		t.Errorf("sizes %v, largest %d", seen, m.Largest())
	}
}

// TestInvariants is acceptance 4, on random clusters with elastic jobs, some of
// which must not be stopped. A job runs on at most twice the GPUs on which it
// has run. A job that must not be stopped keeps its devices. A policy that is
// made anew at random moments decides the same. The checks of simtest see to
// capacity, and TestSearchProperties to who meets whom on nodes.
func TestInvariants(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var jobs []simtest.Job
		for i := range rapid.IntRange(1, 7).Draw(t, "jobs") {
			name := rapid.SampledFrom([]string{"n", "q", "u"}).Draw(t, "model")
			most := rapid.IntRange(1, 8).Draw(t, "most")
			j := elastic(fmt.Sprint(name, i), float64(rapid.IntRange(0, 200).Draw(t, "at")), 1, rapid.IntRange(1, most).Draw(t, "asked"), most, float64(rapid.IntRange(1, 2000).Draw(t, "run")))
			if i > 0 {
				j.At += jobs[i-1].At
			}
			if name != "u" && rapid.Bool().Draw(t, "turns") {
				j.Course = noisier(j.Run, rapid.Float64Range(1, 1000).Draw(t, "noise"), rapid.Float64Range(1, 1e6).Draw(t, "noise later"))
			}
			if rapid.IntRange(0, 4).Draw(t, "pinned") == 0 {
				j.Spec = func(j *job.Job) { j.Stop = job.Pinned }
			}
			jobs = append(jobs, j)
		}
		nodes, gpus := rapid.IntRange(1, 4).Draw(t, "nodes"), rapid.IntRange(1, 4).Draw(t, "gpus")
		var logs []string
		for _, restart := range []bool{false, true} {
			cfg := config(nodes, gpus, func(c *Config) { c.Search = Search{Population: 16, Generations: 10} })
			cfg.Costs = perf.Costs{Base: perf.Cost{Checkpoint: 5 * time.Second, Restore: 25 * time.Second, Resize: 30 * time.Second, Migrate: 30 * time.Second}}
			w := watcher{t: t, largest: map[job.ID]int{}, pinned: map[job.ID]*cluster.Alloc{}}
			cfg.Sinks, cfg.Restart = []engine.Sink{&w}, restart
			run, err := simtest.Try(cfg, jobs...)
			if err != nil {
				t.Fatal(err)
			}
			for i := range jobs {
				if run.Record(jobs[i].Key).Phase != job.Done {
					t.Fatalf("job %s is %s", jobs[i].Key, run.Record(jobs[i].Key).Phase)
				}
			}
			lines := slices.DeleteFunc(run.Log, func(line string) bool { return strings.Contains(line, " wait ") })
			logs = append(logs, strings.Join(lines, "\n"))
		}
		if logs[0] != logs[1] {
			t.Fatalf("a policy that starts anew decides otherwise:\n%s\n---\n%s", logs[0], logs[1])
		}
	})
}

// watcher holds every allocation against the invariants.
type watcher struct {
	t       *rapid.T
	largest map[job.ID]int
	pinned  map[job.ID]*cluster.Alloc
}

func (w *watcher) Event(ev *eventlog.Event, s *state.State) {
	if ev.Alloc == nil {
		return
	}
	r := s.Record(ev.Job)
	k := ev.Alloc.Tasks(0)
	if most := max(1, 2*w.largest[ev.Job]); k > most {
		w.t.Fatalf("job %s has %d GPUs, at most %d may be", r.Job.Key, k, most)
	}
	w.largest[ev.Job] = max(w.largest[ev.Job], k)
	if r.Job.Stop == job.Pinned {
		if was := w.pinned[ev.Job]; was != nil && !was.Equal(ev.Alloc) {
			w.t.Fatalf("job %s, which must not be stopped, was moved", r.Job.Key)
		}
		w.pinned[ev.Job] = new(cluster.Alloc)
		w.pinned[ev.Job].CopyFrom(ev.Alloc)
	}
}

// TestAvoids: in no round do two jobs that are spread over nodes meet on one, where
// nobody was pinned.
func TestAvoids(t *testing.T) {
	for _, avoid := range []bool{true, false} {
		cfg := config(3, 2, func(c *Config) { c.Avoid = avoid })
		met := 0
		n := sizes{each: func(ev *eventlog.Event, s *state.State) {
			spread := map[cluster.NodeID]int{}
			for id := range job.ID(s.Jobs()) {
				if a := s.Alloc(id); a != nil && a.Nodes() > 1 && ev.Time%time.Minute != 0 {
					for i := range a.Pieces {
						spread[a.Pieces[i].Node]++
					}
				}
			}
			for _, k := range spread {
				met = max(met, k)
			}
		}}
		cfg.Sinks = []engine.Sink{&n}
		simtest.Go(t, cfg, elastic("n1", 0, 3, 3, 3, 1000), elastic("n2", 0, 3, 3, 3, 1000), elastic("n3", 601, 1, 1, 1, 10))
		if want := map[bool]int{true: 1, false: 2}[avoid]; met != want {
			t.Errorf("avoid=%v: %d spread jobs on a node, want %d", avoid, met, want)
		}
	}
}

// noisier is the course of a job whose gradient noise is another in its second half.
func noisier(run, first, later float64) []trace.Turn {
	return []trace.Turn{
		{Reported: job.Reported{Noise: first}},
		{From: time.Duration(run / 2 * float64(time.Second)), Reported: job.Reported{Noise: later}},
	}
}

// TestBatchFollowsNoise: a job is told the batch that is best with the noise that it has
// reported, and another one when that has changed, without a restart. It begins with the
// smallest batch that it may have.
func TestBatchFollowsNoise(t *testing.T) {
	var told []int32
	n := sizes{each: func(ev *eventlog.Event, s *state.State) {
		if ev.Alloc != nil {
			told = append(told, s.Record(ev.Job).Config.Chosen.Batch)
		}
	}}
	cfg := config(1, 1, nil)
	cfg.Sinks = []engine.Sink{&n}
	quiet, loud := scaling(1).At(1000), scaling(1).At(100000)
	j := elastic("n", 0, 1, 1, 1, 3000)
	j.Course = noisier(3000, 1000, 100000)
	run := simtest.Go(t, cfg, j)
	best := func(g perf.Goodput) int32 {
		b, _ := g.Best(1, false)
		return int32(b.Local * (b.Accum + 1))
	}
	if want := []int32{64, best(quiet), best(loud)}; !slices.Equal(told, want) || want[2] <= want[1] {
		t.Errorf("it is told batches of %v, want %v", told, want)
	}
	if r := run.Record("n"); r.Starts != 1 || r.Migrations+r.Resizes > 0 {
		t.Errorf("it starts %d times, moves %d times and is resized %d times for that", r.Starts, r.Migrations, r.Resizes)
	}
}

// A restart is paid back: with dear restarts the same jobs are restarted less often.
func TestDelayCounts(t *testing.T) {
	restarts := func(delay time.Duration) (n int32) {
		cfg := config(2, 4, func(c *Config) { c.Delay = delay })
		var jobs []simtest.Job
		for i := range 8 {
			jobs = append(jobs, elastic(fmt.Sprint("n", i), float64(100*i), 1, 2, 8, 1500))
		}
		run := simtest.Go(t, cfg, jobs...)
		for i := range jobs {
			r := run.Record(jobs[i].Key)
			n += r.Resizes + r.Migrations + r.Preemptions
		}
		return n
	}
	if dear, cheap := restarts(5*time.Minute), restarts(0); dear >= cheap {
		t.Errorf("%d restarts at 5 min each, %d at none", dear, cheap)
	}
}

// The belief about a job is the fit to its reports: at sizes that it has run
// with, within a few per cent of the truth.
func TestBelief(t *testing.T) {
	truth := scaling(1000)
	j := &job.Job{Model: "n", Demand: &job.Demand{}}
	*j.Demand = job.GPUs(4)
	c := claimant{each: Need{GPUs: 1}}
	for _, k := range []int{1, 2, 4} {
		c.note.Add(k, false)
	}
	c.note.Add(8, true)
	var seen []perf.Measurement
	c.note.Each(func(k int, spread bool) {
		r, ok := speeds.Report(j, k, spread)
		if !ok {
			t.Fatal("it does not report")
		}
		seen = append(seen, r.Measurement)
	})
	believed := perf.Goodput{Time: perf.Fit(seen), Noise: truth.Noise, Batches: truth.Batches}
	for _, k := range []int{1, 2, 3, 4} {
		_, is := believed.Best(k, false)
		_, want := truth.Best(k, false)
		if math.Abs(is/want-1) > 0.05 {
			t.Errorf("goodput on %d GPUs is believed to be %v, and is %v", k, is, want)
		}
	}
}
