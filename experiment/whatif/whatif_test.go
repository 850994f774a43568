package whatif_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/norn-scheduler/norn/engine"
	"github.com/norn-scheduler/norn/eventlog"
	"github.com/norn-scheduler/norn/eventlog/replay"
	"github.com/norn-scheduler/norn/experiment"
	"github.com/norn-scheduler/norn/experiment/whatif"
	"github.com/norn-scheduler/norn/policy"
	"github.com/norn-scheduler/norn/policy/fifo"
	"github.com/norn-scheduler/norn/report"
	"github.com/norn-scheduler/norn/state"
	"github.com/norn-scheduler/norn/trace/clusterspec"
)

// history reads the log of a machine of two GPUs: four of its jobs have ended after they
// ran, the first of them under fifo, the others under fifo(mode=skip).
func history(t *testing.T, change func(string) string, in replay.Stretch) *whatif.History {
	t.Helper()
	text, err := os.ReadFile("../testdata/events.log")
	if err != nil {
		t.Fatal(err)
	}
	r, err := eventlog.NewReader(strings.NewReader(change(string(text))), "events.log")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	h, err := whatif.Read(r, in, report.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func same(text string) string { return text }

func choices(t *testing.T, list string, own ...policy.Entry) []experiment.Choice {
	t.Helper()
	all, err := experiment.ParseChoices(list, own...)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func estimates(t *testing.T, text string) whatif.Estimates {
	t.Helper()
	e, err := whatif.ParseEstimates(text)
	if err != nil || e.String() != text {
		t.Fatalf("%q is read as %v, %v", text, e, err)
	}
	return e
}

// watch counts the runs that are followed, and whether their batch ended.
type watch struct {
	batch whatif.Batch
	runs  int
	ended bool
}

func (w *watch) Sink(string) engine.Sink {
	w.runs++
	return nothing{}
}

func (w *watch) End() { w.ended = true }

type nothing struct{}

func (nothing) Event(*eventlog.Event, *state.State) {}

// TestAnswer tries a policy of the caller's own, on the machine as it was and on a larger
// one: all rows and files are there, and with as many GPUs as all jobs need, nobody waits
// but for transitions.
func TestAnswer(t *testing.T) {
	mine := policy.Entry{Name: "mine", New: func() policy.Config { return fifo.NewConfig() }}
	h := history(t, same, replay.Stretch{})
	more, err := h.Resized(8)
	if err != nil {
		t.Fatal(err)
	}
	var watched []*watch
	q := whatif.Question{
		History: h, Policies: choices(t, "mine,fifo(mode=skip)", mine), Machines: []*whatif.Machine{more}, Estimates: estimates(t, "believed"),
		Folder: &experiment.Folder{Path: filepath.Join(t.TempDir(), "out"), Packing: eventlog.Zstd},
		Watch: func(b whatif.Batch) whatif.Watch {
			watched = append(watched, &watch{batch: b})
			return watched[len(watched)-1]
		},
	}
	if err := q.Folder.Begin(); err != nil {
		t.Fatal(err)
	}
	p, err := q.Answer(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	var names, kinds []string
	for _, r := range p.Rows {
		names, kinds = append(names, r.Name), append(kinds, string(r.Kind))
	}
	if got, want := strings.Join(names, "|"), "as it was|fifo(mode=skip), simulated|mine|fifo(mode=skip), 8 GPUs|mine, 8 GPUs"; got != want {
		t.Errorf("rows %q, want %q", got, want)
	}
	if got := strings.Join(kinds, " "); got != "real check plan plan plan" || p.Unchecked != nil {
		t.Errorf("kinds %q, %v", got, p.Unchecked)
	}
	if r := p.Rows[4]; r.Wait.Mean != 0 || r.Left != 0 || r.Change >= p.Rows[2].Change {
		t.Errorf("with 8 GPUs: %+v", r)
	}
	if _, err := p.Publish(); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"as it was", "fifo(mode=skip)", "mine", "fifo(mode=skip), 8 GPUs", "mine, 8 GPUs"} {
		if _, err := os.Stat(filepath.Join(q.Folder.Final(name), "jobs.csv")); err != nil {
			t.Error(err)
		}
	}
	if len(watched) != 2 || watched[1].runs != 2 || !watched[1].ended || watched[1].batch.Jobs != len(h.Jobs) {
		t.Errorf("%+v", watched)
	}
}

// TestUnchecked: where the policy that was in force is not known here, others are tried
// all the same; without another one there is nothing to do.
func TestUnchecked(t *testing.T) {
	h := history(t, func(s string) string {
		return strings.ReplaceAll(s, `"policy":"fifo","settings":["mode=skip"]`, `"policy":"theirs"`)
	}, replay.Stretch{})
	p, err := (&whatif.Question{History: h, Policies: choices(t, "srtf")}).Answer(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if p.Unchecked == nil || !strings.Contains(p.Unchecked.Error(), "theirs") || len(p.Rows) != 2 {
		t.Errorf("%v, %d rows", p.Unchecked, len(p.Rows))
	}
	if _, err := (&whatif.Question{History: h}).Answer(context.Background()); err == nil || !strings.Contains(err.Error(), "name another one") {
		t.Errorf("%v", err)
	}
}

// TestMoved: where the history's machine moved jobs together, plans do, as much as it did.
func TestMoved(t *testing.T) {
	for condition, moves := range map[string]bool{"defrag=2": true, "defrag=0.5": false, "rate=2": false} {
		h := history(t, func(s string) string {
			return strings.ReplaceAll(s, `"origin":`, `"conditions":["`+condition+`"],"origin":`)
		}, replay.Stretch{})
		more, err := h.Resized(8)
		if err != nil {
			t.Fatal(err)
		}
		p, err := (&whatif.Question{History: h, Policies: choices(t, "srtf"), Machines: []*whatif.Machine{more}}).Answer(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range p.Rows[1:] { // the first is what was
			told := strings.Contains(strings.Join(r.Remarks, "\n"), "defragmentation: ")
			if told != moves {
				t.Errorf("%s: %s: moves are told: %v, %q", condition, r.Name, told, r.Remarks)
			}
		}
	}
}

// TestTooLittle: a stretch in which no job ended is refused, with its times.
func TestTooLittle(t *testing.T) {
	h := history(t, same, replay.Stretch{To: 30 * time.Minute})
	zone := time.FixedZone("here", 3600)
	_, err := (&whatif.Question{History: h, Policies: choices(t, "srtf"), Clock: zone}).Answer(context.Background())
	if err == nil || !strings.Contains(err.Error(), "from 2026-03-04 10:00 to 2026-03-04 10:30, none has ended") {
		t.Errorf("%v", err)
	}
}

// TestMachines: another cluster has the tenants that were there unless it tells its own,
// and what cannot be made of a machine is said.
func TestMachines(t *testing.T) {
	h := history(t, same, replay.Stretch{})
	was, err := h.Was()
	if err != nil {
		t.Fatal(err)
	}
	spec, err := clusterspec.Parse("2x8:A100")
	if err != nil {
		t.Fatal(err)
	}
	m, err := h.On(spec, "2x8:A100")
	if err != nil {
		t.Fatal(err)
	}
	if m.Name != "on 2x8:A100" || m.Resized || !slices.Equal(m.Spec.Tenants, was.Tenants) || len(was.Tenants) != 2 || len(spec.Tenants) != 0 {
		t.Errorf("%+v", m)
	}
	own := *spec
	own.Tenants = []clusterspec.Tenant{{Name: "all", Weight: 1}}
	if m, err = h.On(&own, "theirs"); err != nil || len(m.Spec.Tenants) != 1 {
		t.Errorf("%+v, %v", m, err)
	}
	if m, err = h.Resized(1); err != nil || m.Spec.GPUs() != 1 || m.Name != "1 GPU" || was.GPUs() != 2 {
		t.Errorf("%+v, %v", m, err)
	}
	if _, err := h.Resized(65); err == nil || !strings.Contains(err.Error(), "64 are the most") {
		t.Errorf("%v", err)
	}
	if got := h.Measured().Base; got.Restore != got.Start || got.Start != 3*time.Second {
		t.Errorf("%+v", got)
	}
}

// TestEstimates: what is believed may have an error on it, as every estimate may.
func TestEstimates(t *testing.T) {
	for _, text := range []string{"believed", "believed+30%", "oracle", "history+50%"} {
		estimates(t, text)
	}
	for _, text := range []string{"", "guess", "believed+x"} {
		if _, err := whatif.ParseEstimates(text); err == nil {
			t.Errorf("%q is let through", text)
		}
	}
	if got := (whatif.Estimates{}).String(); got != "oracle" {
		t.Errorf("the zero value is %s", got)
	}
}
