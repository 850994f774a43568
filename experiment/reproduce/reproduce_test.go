package reproduce

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/norn-scheduler/norn/experiment"
	"github.com/norn-scheduler/norn/internal/shared"
	"github.com/norn-scheduler/norn/policy/stages"
	"github.com/norn-scheduler/norn/trace"
	"github.com/norn-scheduler/norn/trace/gen"
)

var update = flag.Bool("update", false, "write the table of docs/reproduce.md")

// TestStudies checks that the table is well formed: policies can be made, claims have a
// figure, a place and a name of their own, and each ratio is over three worlds or more.
func TestStudies(t *testing.T) {
	claims, ids := 0, map[string]bool{}
	for _, s := range Studies() {
		if len(s.Worlds) < 3 || len(s.Form(true)) < 3 || s.About == "" || s.Name == "" || s.CPU <= 0 {
			t.Errorf("%s/%s: %d worlds, %d in the quick form, about %q", s.System, s.Name, len(s.Worlds), len(s.Quick), s.About)
		}
		choices, err := experiment.ParseChoices(join(s.Compared()))
		switch {
		case err != nil:
		case strings.Contains(s.Worlds[0].Generate, "--like tpch"): // graphs of stages
			_, err = experiment.StagePolicies(choices, &stages.Weights{})
		default:
			err = experiment.CheckChoices(choices)
		}
		if err != nil || len(choices) != len(s.Compared()) {
			t.Errorf("%s/%s: %d policies of %d, %v", s.System, s.Name, len(choices), len(s.Compared()), err)
		}
		for i := range s.Claims {
			c := &s.Claims[i]
			claims++
			if id := s.ID(c); ids[id] || c.Place == "" || c.Metric.Of == nil || !(c.Published.From > 0 && c.Published.To >= c.Published.From) || c.Tolerance < 0 || c.Tolerance > 1.0/3 || s.Of(c) == c.Baseline || s.Of(c) == "" {
				t.Errorf("%s, place %q, published %v, tolerance %v: twice, or not well formed", id, c.Place, c.Published, c.Tolerance)
			} else {
				ids[id] = true
			}
		}
		for _, w := range slices.Concat(s.Worlds, s.Quick) {
			if (w.Make == nil) == (w.Sim == "") || (w.Generate != "") != strings.HasPrefix(w.Sim, TraceFile+" ") || (w.Cluster != "") != strings.Contains(w.Sim, " "+ClusterFile) || strings.Contains(w.Sim+w.Generate, "%") {
				t.Errorf("%s/%s: %+v is no world", s.System, s.Name, w)
			}
		}
	}
	if claims < 60 {
		t.Errorf("only %d claims", claims)
	}
}

// TestData finds every file that a world names.
func TestData(t *testing.T) {
	files := 0
	for _, s := range Studies() {
		for _, w := range slices.Concat(s.Worlds, s.Quick) {
			for _, f := range w.Files() {
				shared.Path(t, f)
				files++
			}
		}
	}
	if files < 30 {
		t.Errorf("only %d files are named", files)
	}
}

// TestWithin: an interval meets a figure or a range, a mean keeps to a bound, and what
// is published as a gain is one.
func TestWithin(t *testing.T) {
	for _, c := range []struct {
		published       Published
		tolerance       float64
		mean, low, high float64
		want            bool
		why             string
	}{
		{exactly(2), 0.1, 1.85, 1.8, 1.9, true, "the whole interval is inside"},
		{exactly(2), 0.1, 1.6, 1.5, 1.8, true, "the interval touches the lower end"},
		{exactly(2), 0.1, 1.6, 1.5, 1.79, false, "it ends below"},
		{exactly(2), 0.1, 2.4, 2.21, 2.6, false, "it begins above"},
		{exactly(2), 0.1, 2.2, 1, 5, true, "it contains what is allowed"},
		{between(1.5, 3.4), 0, 3.5, 3.4, 3.6, true, "it touches a range"},
		{between(1.5, 3.4), 0, 1.4, 1.3, 1.49, false, "it is below a range"},
		{between(1.2, 1.3), 0.25, 1, 1, 1, false, "no gain is no gain of 1.2, whatever the tolerance"},
		{exactly(0.92), 0.15, 0.8, 0.79, 0.81, true, "what is published as a loss may be one"},
		{better(), 0, 1, 0.5, 3, false, "one lucky world makes no order"},
		{better(), 0, 1.01, 0.5, 3, true, "the mean is better"},
		{better(), 0.01, 1, 1, 1, true, "no worse, give or take a hundredth"},
		{atLeast(1.8), 0, 1.8, 1.8, 1.8, false, "a bound is to be passed"},
		{exactly(2), 0.1, math.NaN(), math.NaN(), math.NaN(), false, "no figure"},
		{better(), 0, math.NaN(), math.NaN(), math.NaN(), false, "no figure"},
	} {
		if got := within(c.published, c.tolerance, c.mean, c.low, c.high); got != c.want {
			t.Errorf("%s: %v within %v give or take %v of %v to %v, mean %v", c.why, got, c.published, c.tolerance, c.low, c.high, c.mean)
		}
	}
}

// fixed is a metric that the test tells.
func fixed(key string, higher bool) Metric { return Metric{Key: key, Name: key, Higher: higher} }

// TestJudge: ratios are above 1 where the policy is better, ours is their geometric mean,
// and the interval is from the smallest to the largest.
func TestJudge(t *testing.T) {
	tables := []table{
		{"srtf": {"jct": 10, "jain": 0.8}, "fifo": {"jct": 20, "jain": 0.4}},
		{"srtf": {"jct": 10, "jain": 0.9}, "fifo": {"jct": 80, "jain": 0.9}},
	}
	for _, c := range []struct {
		claim           Claim
		ours, low, high float64
	}{
		{Claim{Baseline: "fifo", Metric: fixed("jct", false)}, 4, 2, 8},
		{Claim{Baseline: "fifo", Metric: fixed("jain", true)}, 1.414, 1, 2},
		{Claim{Metric: fixed("jain", true)}, 0.8485, 0.8, 0.9},
	} {
		var r Row
		r.judge(&c.claim, "srtf", tables)
		if r.Ours != c.ours || r.Low != c.low || r.High != c.high || len(r.Ratios) != 2 || len(r.Figures) != 2 {
			t.Errorf("%+v: %+v", c, r)
		}
	}
	for _, x := range []struct{ from, to float64 }{{1.23456, 1.235}, {123456, 123500}, {0, 0}, {math.Inf(1), 0}, {math.NaN(), 0}, {-0.00123456, -0.001235}} {
		if got := digits(x.from); got != x.to {
			t.Errorf("digits(%v) = %v", x.from, got)
		}
	}
}

// onSample simulates on the built-in trace, whatever the world.
func onSample(ctx context.Context, _ *World, policies []experiment.Choice, done func(*experiment.Outcome) error) error {
	src, err := experiment.OpenSample(trace.Options{Limit: 300})
	if err != nil {
		return err
	}
	defer src.Close()
	x, err := plain(gen.SampleCluster)
	if err != nil {
		return err
	}
	_, err = x.All(ctx, policies, src, done)
	return err
}

// sample is a study that needs no data.
func sample() *Study {
	return &Study{System: "srtf", Name: "sample", About: "built-in", Policy: "srtf", Worlds: []World{{Sim: "--seed 1"}, {Sim: "--seed 2"}, {Sim: "--seed 3"}}, Claims: []Claim{
		{Baseline: "fifo", Metric: meanJCT(), Published: better(), Place: "none"},
		{Policy: "fifo", Baseline: "srtf", Metric: meanJCT(), Published: exactly(3), Tolerance: 0.1, Place: "none"},
		{Metric: jain(), Published: between(0.01, 1), Place: "none"},
	}}
}

// TestRun tries claims on a small trace, and writes and reads what came of them.
func TestRun(t *testing.T) {
	r := Runner{Quick: true, Simulate: onSample}
	rows, err := r.Run(t.Context(), sample())
	if err != nil || len(rows) != 3 {
		t.Fatal(rows, err)
	}
	if !rows[0].Within || rows[1].Within || !rows[2].Within || rows[0].Ours < 1.2 || rows[1].Ours > 1/1.2 || rows[0].Form != Quick || len(rows[0].Commands) != 3 {
		t.Errorf("%+v", rows)
	}
	var b bytes.Buffer
	if err := WriteJSON(&b, rows); err != nil {
		t.Fatal(err)
	}
	var objects []map[string]any
	if err := json.Unmarshal(b.Bytes(), &objects); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"system", "claim", "published", "ours", "tolerance", "within"} {
		if _, ok := objects[0][key]; !ok {
			t.Errorf("the objects have no %q: %v", key, objects[0])
		}
	}
	if objects[0]["at_least"] != true || objects[2]["published_to"] != 1.0 || objects[1]["published"] != 3.0 {
		t.Errorf("what is published: %v", objects)
	}
	back, err := ReadJSON(&b)
	if err != nil {
		t.Fatal(err)
	}
	for i := range rows {
		rows[i].Seconds, rows[i].smaller = 0, false
	}
	if !reflect.DeepEqual(back, rows) {
		t.Errorf("%+v was read as %+v", rows, back)
	}
	var text bytes.Buffer
	if err := WriteRows(&text, rows, 200); err != nil || !strings.Contains(text.String(), "built-in (3 workloads)") || !strings.Contains(text.String(), "mean JCT: fifo over srtf") {
		t.Errorf("%s, %v", text.String(), err)
	}
}

// TestRunFails: an error of a world names the study, and a missing file is none.
func TestRunFails(t *testing.T) {
	broken := errors.New("broken")
	r := Runner{Data: t.TempDir(), Simulate: func(context.Context, *World, []experiment.Choice, func(*experiment.Outcome) error) error {
		return broken
	}}
	if _, err := r.Run(t.Context(), sample()); !errors.Is(err, broken) || !strings.HasPrefix(err.Error(), "srtf/sample: ") {
		t.Error(err)
	}
	s := sample()
	s.Worlds[1].Sim = "data/none.csv --cluster 8x8"
	rows, err := r.Run(t.Context(), s)
	if err != nil || rows[0].NoData != "data/none.csv" || rows[0].Within {
		t.Errorf("%+v, %v", rows, err)
	}
	var text bytes.Buffer
	if err := WriteRows(&text, rows, 200); err != nil || !strings.Contains(text.String(), "no data: data/none.csv") {
		t.Errorf("%s, %v", text.String(), err)
	}
}

// TestWorse finds rows that got worse by more than is tolerated, those of which nothing
// is recorded, and those without data.
func TestWorse(t *testing.T) {
	recorded := []Row{{ID: "a", Form: Quick, Ours: 2}, {ID: "b", Form: Quick, Ours: 0.8}, {ID: "c", Form: Full, Ours: 1}}
	for _, c := range []struct {
		row  Row
		want string
	}{
		{Row{ID: "a", Form: Quick, Ours: 1.81}, ""},
		{Row{ID: "a", Form: Quick, Ours: 5}, ""},
		{Row{ID: "a", Form: Quick, Ours: 1.79}, "a: 1.79, recorded is 2.00, and more than 10 % worse"},
		{Row{ID: "a", Form: Quick, Ours: 1.55, Tolerance: 0.25}, ""},
		{Row{ID: "a", Form: Quick, Ours: 1.45, Tolerance: 0.25}, "a: 1.45, recorded is 2.00, and more than 25 % worse"},
		{Row{ID: "b", Form: Quick, Ours: 0.6, smaller: true}, ""},
		{Row{ID: "b", Form: Quick, Ours: 0.9, smaller: true}, "b: 0.90, recorded is 0.80, and more than 10 % worse"},
		{Row{ID: "c", Form: Quick, Ours: 1}, "c: nothing is recorded of it in the quick form"},
		{Row{ID: "a", Form: Quick, NoData: "x.csv"}, "a: no data: x.csv"},
	} {
		if got := strings.Join(Worse([]Row{c.row}, recorded), "; "); got != c.want {
			t.Errorf("%+v: %q, want %q", c.row, got, c.want)
		}
	}
}

// TestRecorded: what is recorded is about the claims that there are, and the page shows
// it. -update writes the table of the page anew.
func TestRecorded(t *testing.T) {
	file, err := os.Open(filepath.Join("..", "..", "docs", "reproduced.json"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	recorded, err := ReadJSON(file)
	if err != nil {
		t.Fatal(err)
	}
	var want, got []string
	for _, s := range Studies() {
		for i := range s.Claims {
			want = append(want, s.ID(&s.Claims[i]))
		}
	}
	for _, r := range recorded {
		got = append(got, r.ID)
	}
	if !slices.Equal(got, want) {
		t.Errorf("docs/reproduced.json is about other claims than there are; make reproduced writes it anew")
	}
	var b bytes.Buffer
	if err := writeMarkdown(&b, recorded); err != nil {
		t.Fatal(err)
	}
	page := filepath.Join("..", "..", "docs", "reproduce.md")
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	const begin, end = "<!-- rows: written by the test -->\n\n", "\n<!-- end of rows -->"
	head, rest, ok := strings.Cut(string(text), begin)
	old, tail, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatal("docs/reproduce.md has no place for the rows")
	}
	if old == b.String() {
		return
	}
	if !*update {
		t.Fatal("docs/reproduce.md shows other rows than docs/reproduced.json: go test ./experiment/reproduce -update writes them")
	}
	if err := os.WriteFile(page, []byte(head+begin+b.String()+end+tail), 0o666); err != nil {
		t.Fatal(err)
	}
}

// writeMarkdown writes rows as one table of docs/reproduce.md.
func writeMarkdown(out io.Writer, rows []Row) error {
	if _, err := fmt.Fprintf(out, "| system | claim | published | ours | interval | tolerance | within |\n|---|---|--:|--:|---|--:|---|\n"); err != nil {
		return err
	}
	for i := range rows {
		r := &rows[i]
		ours, interval, verdict := number(r.Ours), number(r.Low)+" to "+number(r.High), "no"
		switch {
		case r.NoData != "":
			ours, interval, verdict = "", "", "no data"
		case r.Within:
			verdict = "yes"
		}
		if _, err := fmt.Fprintf(out, "| %s | %s; %s (%s) | %s | %s | %s | %s | %s |\n", r.System, r.Claim, r.About, r.Place, r.Published, ours, interval, r.tolerance(), verdict); err != nil {
			return err
		}
	}
	return nil
}

// TestOwn makes each world that norn sim cannot make, and looks at its first job.
func TestOwn(t *testing.T) {
	made := 0
	for _, s := range Studies() {
		for _, w := range s.Form(true) {
			if w.Make == nil {
				continue
			}
			made++
			for _, f := range w.Files() {
				shared.Path(t, f)
			}
			x, src, err := w.Make(filepath.Dir(filepath.Dir(shared.Path(t, "data/README.md"))), experiment.Choice{Policy: "fifo"})
			if err != nil {
				t.Errorf("%s/%s: %v", s.System, s.Name, err)
				continue
			}
			var e trace.Entry
			if err := src.Next(&e); err != nil || errors.Is(err, io.EOF) || x.Spec == nil || e.Truth.Work <= 0 {
				t.Errorf("%s/%s: %v, %+v", s.System, s.Name, err, e)
			}
		}
	}
	if made < 12 {
		t.Errorf("only %d worlds were made", made)
	}
}
