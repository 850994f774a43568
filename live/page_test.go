package live

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/norn-scheduler/norn/api"
	"github.com/norn-scheduler/norn/api/server"
)

// Pages one behind the other are the list as a whole, whatever is selected, also where the
// job has ended behind which a page begins.
func TestPages(t *testing.T) {
	w := newPaper(t)
	ctx := context.Background()
	for range 30 {
		w.submit(2)
	}
	w.submitAs("team/b", 2)
	w.submitAs("team/a", 2)
	w.until("1 running" + waiting(2, 30) + ", team/b waiting, team/a waiting")
	ids := func(q api.Query) (out []string) {
		t.Helper()
		jobs, err := w.Jobs(ctx, me, q)
		ok(t, err)
		if q.Page > 0 && len(jobs) > q.Page {
			t.Errorf("a page of %d has %d", q.Page, len(jobs))
		}
		for _, j := range jobs {
			out = append(out, j.ID)
		}
		return out
	}
	pages := func(q api.Query, size int) (out []string) {
		t.Helper()
		q.Page = size
		for range 100 {
			jobs, err := w.Jobs(ctx, me, q)
			ok(t, err)
			if len(jobs) == 0 {
				return out
			}
			for _, j := range jobs {
				out = append(out, j.ID)
			}
			text := api.Behind(&jobs[len(jobs)-1]).String()
			if q.After, err = api.ParseCursor(text); err != nil {
				t.Fatal(err)
			}
		}
		t.Error("pages have no end")
		return out
	}
	check := func() {
		for _, q := range []api.Query{{}, {All: true}, {States: []api.State{api.Waiting}}, {Users: []string{me.User}}, {Users: []string{"bob"}}, {IDs: []string{"3", "4", "team/b", "99"}}, {Name: "job5"}} {
			whole := ids(q)
			for _, size := range []int{1, 7, 100} {
				if have := pages(q, size); !slices.Equal(have, whole) {
					t.Errorf("%+v in pages of %d: %v, want %v", q, size, have, whole)
				}
			}
		}
	}
	check()
	jobs, err := w.Jobs(ctx, me, api.Query{Page: 5})
	ok(t, err)
	ok(t, w.Do(ctx, me, server.Cancel, "5"))
	if have := ids(api.Query{Page: 2, After: api.Behind(&jobs[4])}); !slices.Equal(have, []string{"6", "7"}) {
		t.Errorf("behind job 5, which has ended, are %v", have)
	}
	check()
	if have := ids(api.Query{IDs: []string{"5", "6"}, States: []api.State{api.Waiting}}); !slices.Equal(have, []string{"6"}) {
		t.Errorf("of 5 and 6, %v wait", have)
	}
}

// waiting says that the jobs from one number to another wait.
func waiting(from, to int) (out string) {
	for i := from; i <= to; i++ {
		out += fmt.Sprintf(", %d waiting", i)
	}
	return out
}

// Texts that are no places in lists are refused, and others are read as they were written.
func TestCursor(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(rapid.String(), rapid.StringMatching(`2026-03-0[1-9]T12:00:00(\.[0-9]{1,6})?Z,[0-9a-z/]{0,9}`)).Draw(t, "text")
		c, err := api.ParseCursor(text)
		if err != nil {
			return
		}
		if again, err := api.ParseCursor(c.String()); err != nil || again.ID != c.ID || !again.Submitted.Equal(c.Submitted) {
			t.Fatalf("%q is read as %+v, and that as %+v, %v", text, c, again, err)
		}
	})
}
