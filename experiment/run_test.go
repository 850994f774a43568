package experiment_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/engine"
	"github.com/norn-scheduler/norn/eventlog"
	"github.com/norn-scheduler/norn/eventlog/replay"
	"github.com/norn-scheduler/norn/experiment"
	"github.com/norn-scheduler/norn/internal/longtest"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/policy"
	"github.com/norn-scheduler/norn/sim"
	"github.com/norn-scheduler/norn/state"
	"github.com/norn-scheduler/norn/trace"
	"github.com/norn-scheduler/norn/trace/clusterspec"
	"github.com/norn-scheduler/norn/trace/gen"
)

// kept is a log that stays in memory when it is closed.
type kept struct{ bytes.Buffer }

func (k *kept) Close() error { return nil }

// logs keeps the event log of each choice.
type logs struct {
	mu sync.Mutex
	of map[string]*kept
}

func (l *logs) open(run string) (experiment.Log, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.of == nil {
		l.of = map[string]*kept{}
	}
	k := &kept{}
	l.of[run] = k
	return experiment.Log{WriteCloser: k}, nil
}

func spec(t testing.TB, text string) *clusterspec.Spec {
	t.Helper()
	s, err := clusterspec.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// sample is the first jobs of the built-in trace.
func sample(t testing.TB, n int) experiment.Jobs {
	t.Helper()
	g, err := gen.Sample()
	if err != nil {
		t.Fatal(err)
	}
	jobs, err := experiment.ReadAll(g)
	if err != nil {
		t.Fatal(err)
	}
	return jobs[:n]
}

// every is every policy of the table at its defaults.
func every() []experiment.Choice {
	var out []experiment.Choice
	for _, e := range policy.Table() {
		out = append(out, experiment.Choice{Policy: e.Name})
	}
	return out
}

// failing is a world in which everything random happens.
func failing(c *sim.Config) {
	c.NodeMTBF, c.NodeRepair, c.JobMTBF, c.Snapshot = 48*time.Hour, time.Hour, 20*time.Hour, 30*time.Minute
}

// stormy is an experiment with costs, failures, estimates with errors and speeds
// that depend on the place.
func stormy(t testing.TB, seed uint64) *experiment.Experiment {
	return &experiment.Experiment{
		Spec: spec(t, "8x8:V100"), Seed: seed, World: failing, Estimate: experiment.Estimate{From: experiment.Oracle, Noise: 0.5},
		Model: perf.Analytic{Scaling: 1, Spread: 0.9},
		Costs: &perf.Costs{Base: perf.Cost{Start: 10 * time.Second, Checkpoint: 5 * time.Second, Restore: 20 * time.Second, Migrate: 30 * time.Second}},
	}
}

// TestEqualInputsEqualLogs runs every policy three times, twice in parallel with
// all others and once alone: the logs are the same, byte by byte.
func TestEqualInputsEqualLogs(t *testing.T) {
	longtest.Skip(t)
	jobs := sample(t, 400)
	var all [2]logs
	for i := range all {
		x := stormy(t, 7)
		x.Log = all[i].open
		if _, err := x.All(t.Context(), every(), jobs.Source(), nil); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range every() {
		var alone logs
		x := stormy(t, 7)
		x.Log = alone.open
		if _, err := x.Run(t.Context(), c, jobs.Source()); err != nil {
			t.Fatal(err)
		}
		a, b, c1 := all[0].of[c.String()], all[1].of[c.String()], alone.of[c.String()]
		if a.Len() < 1000 || !bytes.Equal(a.Bytes(), b.Bytes()) || !bytes.Equal(a.Bytes(), c1.Bytes()) {
			t.Errorf("%s: logs of %d, %d and %d bytes differ", c, a.Len(), b.Len(), c1.Len())
		}
	}
}

// TestSeeds checks that the seed counts where anything is random, and nowhere
// else.
func TestSeeds(t *testing.T) {
	jobs := sample(t, 200)
	log := func(x *experiment.Experiment) string {
		var l logs
		x.Log = l.open
		if _, err := x.Run(t.Context(), experiment.Choice{Policy: "fifo"}, jobs.Source()); err != nil {
			t.Fatal(err)
		}
		_, events, _ := strings.Cut(l.of["fifo"].String(), "\n")                       // the header names the seed
		return regexp.MustCompile(`,"crc":"[0-9a-f]{8}"`).ReplaceAllString(events, "") // which are about the header, too
	}
	if log(stormy(t, 1)) == log(stormy(t, 2)) {
		t.Error("with failures, seeds 1 and 2 give the same")
	}
	calm := func(seed uint64) *experiment.Experiment {
		return &experiment.Experiment{Spec: spec(t, "8x8"), Seed: seed}
	}
	if log(calm(1)) != log(calm(2)) {
		t.Error("without anything random, seeds 1 and 2 differ")
	}
}

// TestFoldOfARun folds the log of an experiment with everything in it, and finds
// the state of the run.
func TestFoldOfARun(t *testing.T) {
	longtest.Skip(t)
	jobs := sample(t, 300)
	for _, c := range every() {
		var l logs
		x := stormy(t, 3)
		x.Log = l.open
		o, err := x.Run(t.Context(), c, jobs.Source())
		if err != nil {
			t.Fatal(err)
		}
		r, err := eventlog.NewReader(&l.of[c.String()].Buffer, "test.log")
		if err != nil {
			t.Fatal(err)
		}
		if h := r.Header; h.World != "sim" || h.Policy != c.Policy || h.Seed != 3 || h.Estimate != "oracle+50%" {
			t.Errorf("%s: header %+v", c, h)
		}
		s, err := replay.Fold(r)
		if err != nil {
			t.Fatalf("%s: %v", c, err)
		}
		if s.Now != o.State.Now || s.Jobs() != o.State.Jobs() {
			t.Fatalf("%s: folded to %v with %d jobs, the run ended at %v with %d", c, s.Now, s.Jobs(), o.State.Now, o.State.Jobs())
		}
		for id := range job.ID(s.Jobs()) {
			a, b := *s.Record(id), *o.State.Record(id)
			if !a.Note.Equal(b.Note) {
				t.Fatalf("%s: the note of job %d is folded to %s, it was %s", c, id, a.Note.Fields(), b.Note.Fields())
			}
			a.Job, b.Job, a.Note, b.Note = nil, nil, nil, nil
			if a != b {
				t.Fatalf("%s: job %d is folded to\n%+v, it was\n%+v", c, id, a, b)
			}
		}
	}
}

// TestOrder checks that outcomes come in the order of the choices, and that each
// is told once.
func TestOrder(t *testing.T) {
	choices := every()
	told := map[string]int{}
	total := 0
	x := &experiment.Experiment{Spec: spec(t, "8x8"), Total: func(n int) { total = n }}
	all, err := x.All(t.Context(), choices, sample(t, 50).Source(), func(o *experiment.Outcome) error {
		told[o.Choice.String()]++
		return nil
	})
	if err != nil || len(all) != len(choices) || total != 50 {
		t.Fatalf("%d outcomes, %d jobs, %v", len(all), total, err)
	}
	for i, o := range all {
		if o.Choice.String() != choices[i].String() || told[o.Choice.String()] != 1 || o.Result.Jobs.Submitted != 50 {
			t.Errorf("outcome %d is that of %s, told %d times, with %d jobs", i, o.Choice, told[o.Choice.String()], o.Result.Jobs.Submitted)
		}
	}
}

// TestCancelled checks that a context which ends stops all runs, that the logs
// are whole up to there, and that what had ended is kept.
func TestCancelled(t *testing.T) {
	jobs := sample(t, 1500)
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	x := &experiment.Experiment{Spec: spec(t, "8x8")}
	for _, choices := range [][]experiment.Choice{{{Policy: "fifo"}}, {{Policy: "fifo"}, {Policy: "srtf"}, {Policy: "las"}}} {
		if all, err := x.All(gone, choices, jobs.Source(), nil); !errors.Is(err, context.Canceled) || len(all) != len(choices) {
			t.Errorf("%d choices: %v, %v", len(choices), all, err)
		}
	}

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var l logs
	x.Log = l.open
	x.Watch = func(run string) engine.Sink {
		if run != "tiresias" {
			return quiet{}
		}
		return &breaker{at: 2000, cancel: cancel}
	}
	choices := []experiment.Choice{{Policy: "fifo"}, {Policy: "tiresias"}}
	all, err := x.All(ctx, choices, jobs.Source(), nil)
	if !errors.Is(err, context.Canceled) || all[1] != nil {
		t.Fatalf("%v, %v", all, err)
	}
	r, err := eventlog.NewReader(&l.of["tiresias"].Buffer, "test.log")
	if err != nil {
		t.Fatal(err)
	}
	s, err := replay.Fold(r)
	if err != nil || s.Jobs() == 0 {
		t.Errorf("the log of the run that was stopped: %d jobs, %v", s.Jobs(), err)
	}
}

type quiet struct{}

func (quiet) Event(*eventlog.Event, *state.State) {}

// breaker ends the context after so many events.
type breaker struct {
	at     int
	cancel func()
}

func (b *breaker) Event(*eventlog.Event, *state.State) {
	if b.at--; b.at == 0 {
		b.cancel()
	}
}

// TestErrors checks that errors name what is wrong: the policy, the setting, the
// trace, the log.
func TestErrors(t *testing.T) {
	jobs := sample(t, 100)
	disk := errors.New("no space left on device")
	for name, c := range map[string]struct {
		choice experiment.Choice
		change func(*experiment.Experiment)
		src    trace.Source
		want   string
	}{
		"policy":  {choice: experiment.Choice{Policy: "tiresas"}, want: `unknown policy "tiresas"; known are: `},
		"setting": {choice: experiment.Choice{Policy: "fifo", Settings: []experiment.Setting{{Name: "mod", Value: "easy"}}}, want: `policy fifo: unknown parameter "mod"`},
		"value":   {choice: experiment.Choice{Policy: "fifo", Settings: []experiment.Setting{{Name: "mode", Value: "lazy"}}}, want: "policy fifo: mode=lazy: write one of strict"},
		"trace":   {choice: experiment.Choice{Policy: "fifo"}, src: &broken{jobs.Source(), 20}, want: "line 21 is torn"},
		"no log": {choice: experiment.Choice{Policy: "fifo"}, change: func(x *experiment.Experiment) {
			x.Log = func(string) (experiment.Log, error) { return experiment.Log{}, disk }
		}, want: disk.Error()},
		"full disk": {choice: experiment.Choice{Policy: "fifo"}, change: func(x *experiment.Experiment) {
			x.Log = func(string) (experiment.Log, error) { return experiment.Log{WriteCloser: full{disk}}, nil }
		}, want: "policy fifo: the event log: " + disk.Error()},
		"estimates": {choice: experiment.Choice{Policy: "fifo"}, change: func(x *experiment.Experiment) { x.Estimate.From = 99 }, want: "source of estimates"},
	} {
		x := &experiment.Experiment{Spec: spec(t, "8x8")}
		if c.change != nil {
			c.change(x)
		}
		src := c.src
		if src == nil {
			src = jobs.Source()
		}
		if _, err := x.Run(t.Context(), c.choice, src); err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%s: %v, want %s", name, err, c.want)
		}
	}
	// The first error of several runs is told, and not that it ended the others.
	x := &experiment.Experiment{Spec: spec(t, "8x8")}
	stop := errors.New("enough")
	if _, err := x.All(t.Context(), every(), jobs.Source(), func(o *experiment.Outcome) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("%v", err)
	}
}

// broken is a trace that ends in an error.
type broken struct {
	trace.Source
	good int
}

func (b *broken) Next(e *trace.Entry) error {
	if b.good--; b.good < 0 {
		return fmt.Errorf("line %d is torn", 21)
	}
	return b.Source.Next(e)
}

// full is a disk without space.
type full struct{ err error }

func (f full) Write([]byte) (int, error) { return 0, f.err }
func (f full) Close() error              { return nil }

// TestRunaway checks that a run which would go on for longer than time can be
// counted is an error and no overflow: jobs too slow to end, and a policy that
// wants to be woken for ever.
func TestRunaway(t *testing.T) {
	jobs := sample(t, 100)
	x := &experiment.Experiment{Spec: spec(t, "8x1"), Model: crawl{}}
	if _, err := x.Run(t.Context(), experiment.Choice{Policy: "fifo"}, jobs.Source()); err == nil || !strings.Contains(err.Error(), ": the run does not end within") || !strings.Contains(err.Error(), "at speed 1e-300") || !strings.HasPrefix(err.Error(), "policy fifo at ") {
		t.Errorf("%v", err)
	}
	x = &experiment.Experiment{Spec: spec(t, "8x8"), Costs: &perf.Costs{Base: perf.Cost{Start: 145 * 365 * 24 * time.Hour}}}
	if _, err := x.Run(t.Context(), experiment.Choice{Policy: "fifo"}, jobs.Source()); err == nil || !strings.Contains(err.Error(), "does not end within") {
		t.Errorf("%v", err)
	}
}

// crawl is a model in which nothing comes forward.
type crawl struct{ perf.Reference }

func (crawl) Speed(*job.Job, *cluster.Cluster, *cluster.Alloc) float64 { return 1e-300 }

// TestPartitions runs a trace with a partition for each tenant and over the
// whole cluster: within partitions a tenant never has more than its own.
func TestPartitions(t *testing.T) {
	jobs := sample(t, 300)
	parts := spec(t, "team1=2x8,team2=2x8,team3=2x8,team4=1x8,team5=1x8")
	most := func(whole bool) (max int, o *experiment.Outcome) {
		x := &experiment.Experiment{Spec: parts, Whole: whole}
		m := &largest{tenant: "team1"}
		x.Watch = func(string) engine.Sink { return m }
		o, err := x.Run(t.Context(), experiment.Choice{Policy: "srtf"}, jobs.Source())
		if err != nil {
			t.Fatal(err)
		}
		return m.gpus, o
	}
	if n, o := most(false); n > 16 || n == 0 || o.State.Cluster.Pools() != 6 {
		t.Errorf("team1 held %d GPUs of its 16, %d pools", n, o.State.Cluster.Pools())
	}
	if n, o := most(true); n <= 16 || o.State.Cluster.Pools() != 1 {
		t.Errorf("over the whole cluster team1 held %d GPUs at most, %d pools", n, o.State.Cluster.Pools())
	}
}

// largest is the most GPUs that a tenant ever held.
type largest struct {
	tenant string
	gpus   int
}

func (l *largest) Event(ev *eventlog.Event, s *state.State) {
	if id, ok := s.Tenants.Lookup(l.tenant); ok {
		l.gpus = max(l.gpus, int(s.Tenants.At(id).Used.GPU/1000))
	}
}

// TestRemarks says what is told beside the figures.
func TestRemarks(t *testing.T) {
	jobs := sample(t, 302)
	for text, want := range map[string][]string{
		"8x8":                 nil,
		"2x8":                 {"1 job never ran; job 300, for one, needs 32 GPUs but there are only 16 in all: it can never run here"},
		"team1=4x8,team2=4x8": {"never ran, because no partition bears the name of their tenant"},
		"team1=4x8,4x8":       nil,
	} {
		x := &experiment.Experiment{Spec: spec(t, text)}
		o, err := x.Run(t.Context(), experiment.Choice{Policy: "fifo"}, jobs.Source())
		if err != nil {
			t.Fatal(err)
		}
		got := o.Remarks()
		if len(got) < len(want) || len(want) == 0 && len(got) > 0 {
			t.Errorf("%s: %q, want %q", text, got, want)
			continue
		}
		for _, w := range want {
			if !strings.Contains(strings.Join(got, "\n"), w) {
				t.Errorf("%s: %q, want %q", text, got, w)
			}
		}
	}
}

// TestSelection replays parts of a trace.
func TestSelection(t *testing.T) {
	var text strings.Builder
	g, err := gen.Sample()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := trace.WriteJSON(&text, g); err != nil {
		t.Fatal(err)
	}
	whole := sample(t, 1500)
	day := func(n int) time.Duration { return time.Duration(n) * 24 * time.Hour }
	count := func(keep func(*trace.Entry) bool) (n int) {
		for i := range whole {
			if keep(&whole[i]) {
				n++
			}
		}
		return n
	}
	for name, c := range map[string]struct {
		opt  trace.Options
		want int
	}{
		"limit":  {trace.Options{Limit: 120}, 120},
		"tenant": {trace.Options{Tenants: []string{"team2"}}, count(func(e *trace.Entry) bool { return e.Job.Tenant == "team2" })},
		"window": {trace.Options{From: day(1), To: day(2)}, count(func(e *trace.Entry) bool { return e.Job.Submit >= day(1) && e.Job.Submit < day(2) })},
		"all":    {trace.Options{Load: 2}, 1500},
	} {
		r, err := trace.NewReader(strings.NewReader(text.String()), "sample", c.opt)
		if err != nil {
			t.Fatal(err)
		}
		o, err := (&experiment.Experiment{Spec: spec(t, "8x8")}).Run(t.Context(), experiment.Choice{Policy: "fifo"}, r)
		if err != nil {
			t.Fatal(err)
		}
		if got := o.Result.Jobs.Submitted; got != c.want || got == 0 {
			t.Errorf("%s: %d jobs, want %d", name, got, c.want)
		}
		if last := o.State.Record(job.ID(c.want - 1)).Job.Submit; name == "all" && last != whole[1499].Job.Submit/2 {
			t.Errorf("twice the load: the last job comes at %v, at the first load at %v", last, whole[1499].Job.Submit)
		}
	}
}

// TestReadAll serves a trace from memory as often as it is asked.
func TestReadAll(t *testing.T) {
	jobs := sample(t, 10)
	for range 2 {
		src := jobs.Source()
		var e trace.Entry
		for i := range jobs {
			if err := src.Next(&e); err != nil || e.Job.Key != jobs[i].Job.Key {
				t.Fatalf("%v, %v", e, err)
			}
		}
		if err := src.Next(&e); !errors.Is(err, io.EOF) {
			t.Errorf("%v", err)
		}
	}
}
