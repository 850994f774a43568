package replay

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/norn-scheduler/norn/engine"
	"github.com/norn-scheduler/norn/eventlog"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/state"
)

// Part is one of several logs that lie one behind the other.
type Part struct {
	Header eventlog.Header
	From   time.Duration // when it begins
	To     time.Duration // its last event
	Torn   error         // where it breaks off and another one follows; nil: it is whole
}

// folder folds a log, and those behind it, into one state. Nobody who looks at
// the state or watches the events sees that there were several.
type folder struct {
	r      *eventlog.Reader
	s      *state.State
	sinks  []engine.Sink
	before func(ev *eventlog.Event) error // is told of events before they are folded in; nil: nobody
	parts  []Part

	number *numbering      // of the present log; nil: its numbers are those of the state
	active []job.ID        // had not ended when the present log began
	first  job.ID          // the first job that came behind those
	ran    map[job.ID]bool // of those that were put off: whether they ran
}

func newFolder(r *eventlog.Reader, sinks []engine.Sink) (*folder, error) {
	f := &folder{r: r, sinks: sinks}
	c, tenants, err := r.Header.Build()
	if err != nil {
		return f, r.Wrap(fmt.Errorf("the header: %w", err))
	}
	f.s = state.New(c, tenants)
	f.begin()
	return f, nil
}

// begin notes that a log begins.
func (f *folder) begin() {
	at := f.r.Header.Begins
	f.parts = append(f.parts, Part{Header: f.r.Header, From: at, To: at})
}

// part is the present log.
func (f *folder) part() *Part { return &f.parts[len(f.parts)-1] }

// run folds to the end.
func (f *folder) run() error {
	var ev eventlog.Event
	for {
		err := f.r.Next(&ev)
		for err != nil && errors.Is(err, eventlog.ErrAnother) {
			err = f.another(&ev)
		}
		if err == nil {
			err = f.event(&ev)
		}
		if err == nil {
			continue
		}
		f.part().To = max(f.part().From, f.s.Now)
		if !errors.Is(err, io.EOF) {
			return err
		}
		f.s.Now = f.part().To
		if err := f.s.Settle(); err != nil {
			return f.r.Wrap(err)
		}
		return nil
	}
}

// event folds in an event of the log.
func (f *folder) event(ev *eventlog.Event) error {
	if f.number != nil {
		if err := f.number.event(ev, f.s); err != nil {
			return f.r.Wrap(err)
		}
	}
	if err := f.fold(ev); err != nil {
		return f.r.Wrap(err)
	}
	return nil
}

// fold folds in an event with the numbers of the state.
func (f *folder) fold(ev *eventlog.Event) error {
	if f.before != nil {
		if err := f.before(ev); err != nil {
			return err
		}
	}
	if err := engine.Apply(f.s, ev); err != nil {
		return err
	}
	f.tell(ev)
	return nil
}

func (f *folder) tell(ev *eventlog.Event) {
	for _, sink := range f.sinks {
		sink.Event(ev, f.s)
	}
}
