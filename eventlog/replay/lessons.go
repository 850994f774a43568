package replay

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"

	"github.com/norn-scheduler/norn/eventlog"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/state"
)

// Lesson is what was learnt of a sort of jobs beside another on a GPU type: what it ran
// at, over its speed alone. A sort is a model, or the name of jobs that tell none.
type Lesson struct {
	Job    string  `json:"job"`
	Beside string  `json:"beside"`
	Type   string  `json:"type"`
	Speed  float64 `json:"speed"`
	Times  int     `json:"times"` // how often it was corrected
}

// Lessons folds a log and lists what was learnt of jobs that share devices, those that
// are slowed down most first. A log that breaks off is told as far as it goes.
func Lessons(r *eventlog.Reader) (all []Lesson, torn bool, err error) {
	count := counter{}
	s, err := Fold(r, count)
	if torn = errors.Is(err, eventlog.ErrTorn); err != nil && !torn {
		return nil, false, err
	}
	all = []Lesson{}
	for p, speed := range s.Learnt() {
		all = append(all, Lesson{p.Job, p.Beside, p.Type, speed, count[p]})
	}
	slices.SortFunc(all, func(a, b Lesson) int {
		return cmp.Or(cmp.Compare(a.Speed, b.Speed), cmp.Compare(a.Job, b.Job), cmp.Compare(a.Beside, b.Beside), cmp.Compare(a.Type, b.Type))
	})
	return all, torn, nil
}

// counter counts how often a pair was corrected.
type counter map[perf.Pair]int

// Event implements engine.Sink.
func (c counter) Event(ev *eventlog.Event, _ *state.State) {
	if ev.Kind == eventlog.Learnt {
		c[ev.Pair]++
	}
}

// WriteLessons lists lessons for a reader.
func WriteLessons(w io.Writer, all []Lesson) error {
	t := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	fmt.Fprintln(t, "JOB\tBESIDE\tGPU\tSPEED\tCORRECTED")
	for _, x := range all {
		name := func(s string) string { return cmp.Or(s, "-") }
		fmt.Fprintf(t, "%s\t%s\t%s\t%.3g\t%d\n", name(x.Job), name(x.Beside), name(x.Type), x.Speed, x.Times)
	}
	return t.Flush()
}
