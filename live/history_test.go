package live

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/norn-scheduler/norn/api"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf/predict"
)

// learnt notes what an estimator was shown.
type learnt struct {
	predict.None
	all []string
}

func (l *learnt) Observe(j *job.Job, ran time.Duration) {
	l.all = append(l.all, fmt.Sprint(j.Key, j.Name, j.User, j.Tenant, j.Submit, *j.Demand, ran))
}

// TestTakeIn: of a history, of which only the last jobs are kept in memory, an
// estimator learns what it would if every line were read whole; torn lines and
// those of strangers are passed over.
func TestTakeIn(t *testing.T) {
	dir := t.TempDir()
	var text strings.Builder
	want := &learnt{}
	origin := time.Date(2026, 1, 2, 3, 4, 5, 678, time.UTC)
	journal, err := OpenJournal(dir)
	if err != nil {
		t.Fatal(err)
	}
	d := &Daemon{books: books{journal: journal}, Loop: NewLoop(nil, Hooks{})}
	d.Loop.Clock = NewClock(origin, 0)
	told := 0
	for i := range 40 {
		j := api.Job{
			ID: fmt.Sprint(i + 1), Name: "näme \"" + fmt.Sprint(i%3), User: "u", Tenant: "t", State: []api.State{api.Done, api.Failed, api.Cancelled}[i%5%3],
			GPUs: []api.Range{api.Fixed(2), api.Fixed(0.5), {}, {Least: 1, Most: 4, Ask: 3}}[i%4], Ran: api.Seconds(1.5 * float64(i)),
			Submitted: origin.Add(time.Duration(i) * time.Minute), Command: []string{"x"}, Progress: &api.Report{Stages: map[string]api.Seconds{"gpu": 1}},
		}
		if i == 7 {
			j.Command = []string{strings.Repeat("long", 40_000)}
		}
		e := Ended{Log: i / 30, N: i % 30, Job: j}
		line, err := json.Marshal(&e)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&text, "%s\n", line)
		if i%10 == 3 {
			fmt.Fprintf(&text, "%s\n{\"stranger\":1}\n\n", line[:len(line)/2])
		}
		d.cfg.Estimator = want
		d.observe(&j)
		if e.Log == 1 {
			told = e.N + 1
		}
	}
	text.WriteString(`{"log":1,"n":99,"job":{"id":"99"`) // by a crash
	if err := os.WriteFile(filepath.Join(dir, "history.jsonl"), []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, most := range []int{0, 5, 1000} {
		got := &learnt{}
		d.cfg.Estimator = got
		d.recent = Recent{Most: most}
		n := 0
		ended, damaged, err := d.journal.Load(&d.recent, func(e *Ended) {
			if e.Log == 1 {
				n = max(n, e.N+1)
			}
			d.observe(&e.Job)
		})
		if err != nil || n != told || ended != 40 || len(damaged) != 12 {
			t.Errorf("keeping %d: %d ends of the log are told, want %d; %d in all, lines %v are damaged (%v)", most, n, told, ended, damaged, err)
		}
		if strings.Join(got.all, "\n") != strings.Join(want.all, "\n") || len(want.all) < 10 {
			t.Errorf("keeping %d: an estimator learns\n%s\nwant\n%s", most, strings.Join(got.all, "\n"), strings.Join(want.all, "\n"))
		}
		last := d.recent.find("40")
		if kept := d.recent.Len(); kept != min(most, 40) || most > 0 && (last == nil || len(last.Command) != 1) || d.recent.Whole() && most < 40 {
			t.Errorf("keeping %d: %d are in memory, the last one %+v", most, kept, last)
		}
	}
}

// find is a job that has ended, nil when it is not remembered.
func (h *Recent) find(id string) (found *api.Job) {
	h.Each(func(j *api.Job) bool {
		if j.ID == id {
			found = j
		}
		return found == nil
	})
	return found
}
