package local

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/norn-scheduler/norn/job"
)

// TestLife has every cell of the life of a run: testdata/life.txt.
func TestLife(t *testing.T) {
	datadriven.RunTest(t, "testdata/life.txt", func(t *testing.T, _ *datadriven.TestData) string {
		var b strings.Builder
		for s := range stages {
			for h := range happenings {
				next := life(s, h)
				fmt.Fprintf(&b, "%-9s %-8s -> %-9s %s\n", s, h, next.to, next.do)
			}
		}
		return b.String()
	})
}

// Rules for every cell. Impossible events and late messages of a runner change
// nothing. A run can end from every stage in which it is there. It is there
// from its launch to its end.
func TestLifeHolds(t *testing.T) {
	reached := map[stage]bool{noRun: true, late: true} // late is a verdict, not a happening
	for range stages {
		for s := range stages {
			for h := range happenings {
				if reached[s] {
					reached[life(s, h).to] = true
				}
			}
		}
	}
	for s := range stages {
		if !reached[s] {
			t.Errorf("no run is ever %s", s)
		}
		for h := range happenings {
			next := life(s, h)
			switch {
			case (next.do == nothing || next.do == cannotBe) && next.to != s:
				t.Errorf("%s: %s leads to %s, and nothing is done", s, h, next.to)
			case h == isOver && (s.there() != (next.do == conclude) || next.to.there()):
				t.Errorf("%s: %s leads to %s by %s", s, h, next.to, next.do)
			case (h == isUp || h == isStill || h == isOver) && next.do == cannotBe:
				t.Errorf("%s: a runner may say at any time that it %s", s, h)
			case next.do == launch && s.there(), next.do == tell && !s.there(), next.do == thaw && s != frozen:
				t.Errorf("%s: %s leads to %s by %s", s, h, next.to, next.do)
			case h == starts && next.do != cannotBe && !next.to.there():
				t.Errorf("%s: %s leads to %s", s, h, next.to)
			}
		}
	}
}

// A daemon does only what is possible for a job that it finds, in whatever
// state. It starts only a job that is to run, never starts one again that was
// told to leave, and watches a run that may be there.
func TestResumeHolds(t *testing.T) {
	seen := map[string]int{}
	for bits := range 1 << 9 {
		is := func(n int) bool { return bits>>n&1 == 1 }
		for _, phase := range []job.Phase{job.Running, job.Stopping, job.Waiting, job.Held, job.Assigned} {
			f := facts{phase: phase, away: is(0), ran: is(1), ended: is(2), news: is(3), done: is(4), behind: is(5), toLeave: is(6), seen: is(7), pinned: is(8)}
			if (f.ended || f.seen || f.away || f.toLeave) && !f.ran || f.news && !f.ended || f.done && !f.ended || f.behind && f.toLeave || f.away && f.ended && !f.news {
				continue // cannot be
			}
			s, do := f.resume()
			seen[s.String()+" "+do.String()]++
			there := f.ran && !f.ended
			switch {
			case do == startNow && (phase != job.Running || f.away || there),
				(do == stopNow || do == hasLeft) && phase != job.Stopping,
				do == waits && (phase == job.Running || phase == job.Stopping),
				do == hasLeft && there,
				do == stopNow && !f.ran,
				f.news && (phase == job.Running || phase == job.Stopping) && do != watch, // an end that is news is taken in
				there && (phase == job.Running || phase == job.Stopping) && !s.there(),
				s == late && !f.done,
				s == frozen && !f.ran:
				t.Errorf("%+v: %s, %s", f, s, do)
			}
		}
	}
	for _, want := range []string{"leaving watch", "noRun start", "leaving go-back", "up watch", "launching watch", "no-run has-left", "up stop", "frozen waits", "late waits", "no-run waits"} {
		want = strings.Replace(want, "noRun", "no-run", 1)
		if seen[want] == 0 {
			t.Errorf("nothing leads to %s: %v", want, seen)
		}
	}
}

var actNames = [...]string{"nothing", "launch", "thaw", "recall", "tell", "measure", "vacate", "conclude", "cannot-be"}

func (a act) String() string { return actNames[a] }

var todoNames = [...]string{"watch", "start", "go-back", "stop", "has-left", "waits"}

func (t todo) String() string { return todoNames[t] }
