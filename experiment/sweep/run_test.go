package sweep

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go"

	"github.com/norn-scheduler/norn/experiment"
	"github.com/norn-scheduler/norn/sim"
	"github.com/norn-scheduler/norn/trace/clusterspec"
	"github.com/norn-scheduler/norn/trace/gen"
)

// lab makes small worlds: each seed has a trace of its own, unless the trace is called fixed.
// Axis mtbf breaks jobs.
type lab struct {
	build  string
	opened atomic.Int32
	broken string // the trace that cannot be opened
}

func (l *lab) Identity(w *World) (Identity, error) {
	made, err := json.Marshal([]any{l.build, w})
	return Identity{Cluster: "2x8", Made: made}, err
}

func (l *lab) Open(_ context.Context, w *World) (*Opened, error) {
	l.opened.Add(1)
	if w.Trace.Name == l.broken {
		return nil, errors.New("the disk is on fire")
	}
	spec, err := clusterspec.Load("2x8")
	if err != nil {
		return nil, err
	}
	seed := w.Seed
	if w.Trace.Name == "fixed" {
		seed = 1
	}
	jobs, err := gen.New(gen.Options{Jobs: 40, GPUs: 16, Seed: seed})
	x := &experiment.Experiment{Spec: spec, Seed: w.Seed}
	if w.Value("mtbf") == "1h" {
		x.World = func(c *sim.Config) { c.JobMTBF = time.Hour }
	}
	return &Opened{x, jobs, func() []string { return []string{"drawn"} }}, err
}

func plan(t testing.TB) *Plan {
	policies, err := experiment.ParseChoices("fifo,srtf,las")
	if err != nil {
		t.Fatal(err)
	}
	return &Plan{Traces: []Trace{{Name: "made"}, {Name: "fixed"}}, Axes: []Axis{{"mtbf", []string{"never", "1h"}}}, Seeds: []uint64{1, 2, 3}, Policies: policies}
}

func open(t testing.TB, path string) *Store {
	s, err := OpenStore(path)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// written is all that is made of results.
func written(t testing.TB, r *Results) string {
	var out bytes.Buffer
	if err := errors.Join(r.WriteCSV(&out), r.WriteJSON(&out), r.WriteText(&out, 100), r.WriteParquet(&out)); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// TestSideBySide: however many simulations go on at once, and however little memory there is,
// results are the same to the byte; the trace of a world is opened once.
func TestSideBySide(t *testing.T) {
	want := ""
	for _, s := range []Sweep{{AtOnce: 1}, {AtOnce: 8}, {AtOnce: 8, Memory: 1}} {
		l := &lab{}
		s.Plan, s.Lab = plan(t), l
		r, err := s.Run(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if len(r.Runs) != 36 || l.opened.Load() != 12 {
			t.Errorf("%d runs in %d worlds", len(r.Runs), l.opened.Load())
		}
		got := written(t, r)
		if want == "" {
			want = got
		}
		if got != want {
			t.Errorf("at once %d, memory %d: results differ", s.AtOnce, s.Memory)
		}
	}
}

// killed is in the environment of the process that TestKilled starts, and names its folder.
const killed = "NORN_TEST_SWEEP"

// TestKilled: a sweep that is killed and begun again makes the runs that are missing alone, and
// has the results of one that went through.
func TestKilled(t *testing.T) {
	if path := os.Getenv(killed); path != "" {
		s := Sweep{Plan: plan(t), Lab: &lab{}, Store: open(t, path), AtOnce: 2, Watch: func(p Progress) {
			if p.Done == 7 {
				syscall.Kill(os.Getpid(), syscall.SIGKILL)
			}
		}}
		s.Run(t.Context())
		return
	}
	path := t.TempDir()
	cmd := exec.Command(os.Args[0], "-test.run=^TestKilled$")
	cmd.Env = append(os.Environ(), killed+"="+path)
	if err := cmd.Run(); err == nil {
		t.Fatal("it was not killed")
	}
	var steps []Progress
	s := Sweep{Plan: plan(t), Lab: &lab{}, Store: open(t, path), Watch: func(p Progress) { steps = append(steps, p) }}
	r, err := s.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	kept := 0
	for _, run := range r.Runs {
		if run.Kept {
			kept++
		}
		if len(run.Notes) != 1 || run.Notes[0] != "drawn" {
			t.Errorf("notes of a run that was kept (%v): %q", run.Kept, run.Notes)
		}
	}
	if first := steps[0]; first.Done != kept || first.Kept != kept || first.Total != 36 || kept < 7 || kept > 8 { // 7 and what the other one made meanwhile
		t.Errorf("%d were kept, %+v", kept, first)
	}
	if len(steps) != 36-kept+1 || steps[len(steps)-1].Done != 36 || steps[len(steps)-1].Left != 0 {
		t.Errorf("%d steps, the last is %+v", len(steps), steps[len(steps)-1])
	}
	whole, err := (&Sweep{Plan: plan(t), Lab: &lab{}}).Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if written(t, r) != written(t, whole) {
		t.Error("results differ from those of a sweep that went through")
	}
}

// made is how many runs a sweep makes in a folder.
func made(t *testing.T, path string, p *Plan, l *lab) int {
	store := open(t, path)
	defer store.Close()
	r, err := (&Sweep{Plan: p, Lab: l, Store: store}).Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, run := range r.Runs {
		if !run.Kept {
			n++
		}
	}
	return n
}

// TestKept: what is asked for again is there; what is new, damaged, or of another build is made.
func TestKept(t *testing.T) {
	path := t.TempDir()
	small := func() *Plan {
		p := plan(t)
		p.Traces, p.Axes = p.Traces[:1], nil
		return p
	}
	if n := made(t, path, small(), &lab{}); n != 9 {
		t.Fatalf("%d runs", n)
	}
	l := &lab{}
	if n := made(t, path, small(), l); n != 0 || l.opened.Load() != 0 {
		t.Errorf("again, %d runs were made and %d traces opened", n, l.opened.Load())
	}
	more := small()
	more.Seeds = append(more.Seeds, 4)
	if n := made(t, path, more, &lab{}); n != 3 {
		t.Errorf("with one more seed, %d runs were made", n)
	}
	files, err := filepath.Glob(filepath.Join(path, runsName, "*.json"))
	if err != nil || len(files) != 12 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for i, damage := range []func([]byte) []byte{
		func(b []byte) []byte { return nil },
		func(b []byte) []byte { return b[:len(b)/2] },
		func(b []byte) []byte { return bytes.Replace(b, []byte(`"jct_mean_s":`), []byte(`"jct_mean_s":1`), 1) },
	} {
		text, err := os.ReadFile(files[i])
		if err == nil {
			err = os.WriteFile(files[i], damage(text), 0o666)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Rename(files[4], files[3]); err != nil { // one is gone, and one is another run
		t.Fatal(err)
	}
	if n := made(t, path, more, &lab{}); n != 5 {
		t.Errorf("of five that were damaged, %d were made", n)
	}
	if n := made(t, path, more, &lab{build: "another"}); n != 12 {
		t.Errorf("by another build, %d runs were made", n)
	}
}

// TestAnotherSweep: two cannot go on in one folder.
func TestAnotherSweep(t *testing.T) {
	path := t.TempDir()
	defer open(t, path).Close()
	if _, err := OpenStore(path); err == nil || !strings.Contains(err.Error(), "another sweep goes on in "+path) {
		t.Error(err)
	}
}

// TestInterrupted: what had ended is returned and kept.
func TestInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	store := open(t, t.TempDir())
	s := Sweep{Plan: plan(t), Lab: &lab{}, Store: store, AtOnce: 1, Watch: func(p Progress) {
		if p.Done == 4 {
			cancel()
		}
	}}
	r, err := s.Run(ctx)
	if !errors.Is(err, context.Canceled) || len(r.Runs) != 4 {
		t.Errorf("%d runs, %v", len(r.Runs), err)
	}
	if p, err := s.Count(t.Context()); err != nil || p.Done != 4 || p.Total != 36 {
		t.Errorf("%+v, %v", p, err)
	}
}

// TestBroken: the error of a world ends the sweep, and is told as it is.
func TestBroken(t *testing.T) {
	r, err := (&Sweep{Plan: plan(t), Lab: &lab{broken: "fixed"}, AtOnce: 2}).Run(t.Context())
	if err == nil || err.Error() != "the disk is on fire" || len(r.Runs) < 10 || len(r.Runs) > 18 {
		t.Errorf("%d runs, %v", len(r.Runs), err)
	}
}

// TestGroups: figures are compared over the seeds of a group, and seeds that change nothing are told.
func TestGroups(t *testing.T) {
	p := plan(t)
	p.Baseline = 1
	r, err := (&Sweep{Plan: p, Lab: &lab{}}).Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	groups := r.Groups()
	if len(groups) != 4 {
		t.Fatalf("%d groups", len(groups))
	}
	for i, g := range groups {
		if len(g.Policies) != 3 || g.Base.String() != "srtf" || g.Base.Versus != nil || len(g.Seeds) != 3 {
			t.Errorf("group %d: %+v", i, g)
		}
		for _, policy := range g.Policies {
			if still := g.Trace == "fixed" && g.Varied[0].Value == "never"; policy.Unmoved != still {
				t.Errorf("%s under %s: unmoved is %v", g.Title(), policy, policy.Unmoved)
			}
		}
	}
	var own, base []float64
	for _, run := range r.Runs[:9] {
		switch run.Choice.String() {
		case "fifo":
			own = append(own, run.Figures["jct_mean_s"])
		case "srtf":
			base = append(base, run.Figures["jct_mean_s"])
		}
	}
	if fifo := groups[0].Policies[0]; fifo.Means["jct_mean_s"] != MeanOf(own) || fifo.Versus["jct_mean_s"] != PairedOf(own, base) || len(own) != 3 {
		t.Errorf("%+v", fifo)
	}
	texts := Unmoved(groups)
	if len(texts) != 1 || !strings.HasPrefix(texts[0], "fixed on 2x8, mtbf never: seeds change nothing: every figure is the same in each.") {
		t.Errorf("%q", texts)
	}
}

// TestParquet: the file has the rows and columns of the CSV, numbers as numbers.
func TestParquet(t *testing.T) {
	r, err := (&Sweep{Plan: plan(t), Lab: &lab{}}).Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var text, packed bytes.Buffer
	if err := errors.Join(r.WriteCSV(&text), r.WriteParquet(&packed)); err != nil {
		t.Fatal(err)
	}
	type row struct {
		Trace   string  `parquet:"trace"`
		Cluster string  `parquet:"cluster"`
		Load    float64 `parquet:"load"`
		MTBF    string  `parquet:"mtbf"`
		Seed    uint64  `parquet:"seed"`
		Policy  string  `parquet:"policy"`
		Params  string  `parquet:"params"`
		Metric  string  `parquet:"metric"`
		Value   float64 `parquet:"value"`
	}
	rows, err := parquet.Read[row](bytes.NewReader(packed.Bytes()), int64(packed.Len()))
	if err != nil {
		t.Fatal(err)
	}
	lines, err := csv.NewReader(&text).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(lines[0], ","); got != "trace,cluster,load,mtbf,seed,policy,params,metric,value" {
		t.Errorf("columns %s", got)
	}
	if len(rows) != len(lines)-1 || len(rows) < 36*15 {
		t.Fatalf("%d rows, %d lines", len(rows), len(lines))
	}
	for i, x := range rows {
		want := lines[i+1]
		got := []string{x.Trace, x.Cluster, fmt.Sprint(x.Load), x.MTBF, fmt.Sprint(x.Seed), x.Policy, x.Params, x.Metric, want[8]}
		var value float64
		if _, err := fmt.Sscan(want[8], &value); err != nil || value != x.Value || strings.Join(got, ",") != strings.Join(want, ",") {
			t.Fatalf("row %d is %v, line %v", i, x, want)
		}
	}
}

// TestWindow: a window lies in the trace and has a job in it, and equal seeds have equal ones.
func TestWindow(t *testing.T) {
	const day = 24 * time.Hour
	submits := []time.Duration{2 * day, 3 * day, 10 * day, 20 * day}
	starts := map[time.Duration]bool{}
	for seed := range uint64(200) {
		from, err := Window(submits, day, seed)
		if err != nil {
			t.Fatal(err)
		}
		if again, _ := Window(submits, day, seed); again != from {
			t.Fatalf("seed %d: %v and %v", seed, from, again)
		}
		holds := false
		for _, s := range submits {
			holds = holds || s >= from && s < from+day
		}
		if from < 2*day || from+day > 20*day || !holds {
			t.Fatalf("seed %d: a window from %v", seed, from)
		}
		starts[from.Truncate(day)] = true
	}
	if len(starts) < 2 {
		t.Errorf("windows begin on %v alone", starts)
	}
	for _, length := range []time.Duration{18 * day, 30 * day} {
		if _, err := Window(submits, length, 1); err == nil {
			t.Errorf("a window of %v", length)
		}
	}
	if _, err := Window(nil, day, 1); err == nil {
		t.Error("a window of nothing")
	}
}

// TestRoom: weights that are taken never exceed the room, and one that is too large for it goes alone.
func TestRoom(t *testing.T) {
	r := newRoom(10)
	if err := r.take(t.Context(), 8); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	took := make(chan error)
	go func() { took <- r.take(ctx, 100) }()
	cancel()
	if err := <-took; !errors.Is(err, context.Canceled) {
		t.Errorf("more than there is was taken: %v", err)
	}
	go func() { took <- r.take(t.Context(), 100) }()
	r.give(8)
	if err := <-took; err != nil || r.used != 100 {
		t.Errorf("%v, %d used", err, r.used)
	}
}
