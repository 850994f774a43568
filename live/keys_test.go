package live

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/norn-scheduler/norn/api"
	"github.com/norn-scheduler/norn/api/server"
)

// Numbers are taken apart into submission and index, names never are, and what is neither
// is no key.
func TestKeys(t *testing.T) {
	for _, c := range []struct {
		key, base string
		serial    int64
		ok        bool
	}{
		{"17", "17", 17 << 24, true}, {"17_3", "17", 17<<24 + 3, true}, {"17_0", "17", 17 << 24, true},
		{"team-a/bert", "team-a/bert", 0, true}, {"team-a/bert_2", "team-a/bert_2", 0, true}, {"17/3", "17/3", 0, true}, {"17/3_1", "17/3_1", 0, true},
		{"a/pod/b.c", "a/pod/b.c", 0, true}, {"a/b:any", "a/b:any", 0, false},
		{"", "", 0, false}, {"bert", "bert", 0, false}, {"17_", "17_", 0, false}, {"_1", "_1", 0, false}, {"-1", "-1", 0, false},
		{"a//b", "a//b", 0, false}, {"a/", "a/", 0, false}, {"/a", "/a", 0, false}, {"a/../b", "a/../b", 0, false}, {"a/b c", "a/b c", 0, false}, {"a/b\x00", "a/b\x00", 0, false}, {"1/../2", "1/../2", 0, false},
		{"99999999999999999999", "99999999999999999999", 0, false}, {"a/" + strings.Repeat("b", maxKey), "a/" + strings.Repeat("b", maxKey), 0, false},
	} {
		if ok, base, n := ValidID(c.key), BaseOf(c.key), serial(c.key); ok != c.ok || base != c.base || n != c.serial {
			t.Errorf("%q: valid %v, base %q, serial %d", c.key, ok, base, n)
		}
	}
}

// Jobs are listed by number; names behind them by submission, and at the same moment as a
// reader would sort them.
func TestOrderOfKeys(t *testing.T) {
	at := func(s int) time.Time { return time.Unix(int64(s), 0) }
	want := []api.Job{
		{ID: "2", Submitted: at(9)}, {ID: "10", Submitted: at(3)}, {ID: "10_2", Submitted: at(3)}, {ID: "10_11", Submitted: at(1)},
		{ID: "z/z", Submitted: at(1)}, {ID: "a/job9", Submitted: at(2)}, {ID: "a/job10", Submitted: at(2)}, {ID: "a/a", Submitted: at(3)}, {ID: "z/z", Submitted: at(4)},
	}
	for i := range want {
		for k := range want {
			if c := compareViews(&want[i], &want[k]); (c < 0) != (i < k) || (c > 0) != (i > k) {
				t.Errorf("%s of %v and %s of %v: %d", want[i].ID, want[i].Submitted.Unix(), want[k].ID, want[k].Submitted.Unix(), c)
			}
		}
	}
}

// Jobs with names can be asked for and told what to do by them, and a name that has ended
// may come again: what is listed has both, and everything else is about the last one.
func TestNamedJobs(t *testing.T) {
	w := newPaper(t)
	ctx := context.Background()
	bert, first := "team-a/bert", w.submitAs("team-b/gpt_1", 2)
	w.submitAs(bert, 1)
	w.until("team-b/gpt_1 running, team-a/bert waiting")
	serials := func() (all []int64) {
		ok(t, w.Loop.Ask(ctx, func() error {
			for l := range w.All() {
				all = append(all, w.State().Record(l.ID).Serial())
			}
			return nil
		}))
		return all
	}
	before := serials()
	if len(before) != 2 || before[0] <= 0 || before[1] <= before[0] {
		t.Errorf("numbers for life %v", before)
	}
	w.down()
	w.up()
	w.until("team-b/gpt_1 running, team-a/bert waiting")
	if after := serials(); !slices.Equal(before, after) {
		t.Errorf("numbers for life %v were %v", after, before)
	}
	ok(t, w.Do(ctx, me, server.Hold, bert))
	w.until("team-b/gpt_1 running, team-a/bert held")
	ok(t, w.Do(ctx, me, server.Release, bert))
	ok(t, w.Do(ctx, me, server.Cancel, bert))
	w.until("team-b/gpt_1 running, team-a/bert cancelled")
	w.submitAs(bert, 1)
	w.until("team-b/gpt_1 running, team-a/bert cancelled, team-a/bert waiting")
	if y, err := w.Why(ctx, me, bert); err != nil || y.Job.State != api.Waiting {
		t.Errorf("%+v, %v", y, err)
	}
	w.end(first)
	w.until("team-b/gpt_1 done, team-a/bert cancelled, team-a/bert running")
	w.end(bert)
	w.until("team-b/gpt_1 done, team-a/bert cancelled, team-a/bert done")
	if y, err := w.Why(ctx, me, bert); err != nil || y.Job.State != api.Done {
		t.Errorf("%+v, %v", y, err)
	}
	for _, id := range []string{"team-a/bart", "bert", "team-a", "../x"} {
		if _, err := w.Why(ctx, me, id); err == nil || !strings.HasPrefix(err.Error(), "there is no job ") {
			t.Errorf("%s: %v", id, err)
		}
	}
}

// A job with a name is found in the history file when memory has it no more; one that never
// was is not looked for there.
func TestNamesInHistory(t *testing.T) {
	j, err := OpenJournal(t.TempDir())
	ok(t, err)
	d := books{journal: j}
	d.recent.Most = 2
	for i, id := range []string{"a/x", "a/y", "a/x", "a/z", "a/w"} {
		e := Ended{N: i, Job: api.Job{ID: id, State: []api.State{api.Done, api.Failed}[i%2], Name: string(rune('0' + i))}}
		ok(t, j.AppendEnded([]Ended{e}))
		d.recent.Add(e.Job)
	}
	for range 2 {
		for id, name := range map[string]string{"a/x": "2", "a/y": "1", "a/w": "4"} {
			if e := d.EndedJob(id); e == nil || e.Name != name {
				t.Errorf("%s: %+v", id, e)
			}
		}
		if d.submitted("a/w") || d.submitted("a/v") || d.EndedJob("a/v") != nil || !d.submitted("a/y") {
			t.Error("the history is read for who is in memory, or never was")
		}
		d.recent = Recent{Most: 2} // as the next daemon reads it
		_, _, err := j.Load(&d.recent, func(*Ended) {})
		ok(t, err)
	}
}

// ok fails the test at an error.
func ok(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
