package live

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"time"

	"github.com/norn-scheduler/norn/engine"
	"github.com/norn-scheduler/norn/eventlog"
	"github.com/norn-scheduler/norn/state"
)

// Copy streams logs, oldest first, to a writer; of the last one so many bytes.
func (s *Journal) Copy(w io.Writer, last int, size int64) error {
	epochs, err := s.Epochs()
	if err != nil {
		return err
	}
	for _, n := range epochs {
		if n > last {
			break
		}
		in, err := s.OpenLog(n)
		if err != nil {
			return err
		}
		var part io.Reader = in
		if n == last {
			part = io.LimitReader(in, size)
		}
		_, err = io.Copy(w, part)
		if cerr := in.Close(); err == nil {
			err = cerr
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Folded is what a log tells, as far as it is as it was written.
type Folded struct {
	State  *state.State // nil: not even its beginning is
	Header *eventlog.Header
	Good   int64 // bytes up to there
	Wrong  error // why no further; nil: all of it is
}

// Torn tells whether the log ends in the middle of a line or of a set of moves, as a
// crash leaves it: nothing of that had been acted on.
func (f *Folded) Torn() bool { return errors.Is(f.Wrong, eventlog.ErrTorn) }

// Fold reads what a daemon left behind, as far as it is as it was written. It changes
// nothing. sink makes the one that watches; a log that is not whole is read again. It
// fails where the log cannot be read, or a newer program has written it.
func (s *Journal) Fold(n int, sink func() engine.Sink) (Folded, error) {
	f := s.foldOnce(n, math.MaxInt64, sink())
	wrong, good := f.Wrong, f.Good
	switch {
	case wrong == nil:
		return f, nil
	case !isDamage(wrong):
		return Folded{}, wrong
	case f.State == nil:
		return f, nil
	}
	if f = s.foldOnce(n, good, sink()); f.Wrong != nil {
		return Folded{}, f.Wrong
	}
	f.Wrong = wrong
	return f, nil
}

// isDamage tells whether an error is about what stands in a log, and not about reading it.
func isDamage(err error) bool {
	var of *fs.PathError
	return !errors.As(err, &of) && !errors.Is(err, eventlog.ErrNewer)
}

// foldOnce folds a log up to a position, or to where it is not as it was written.
func (s *Journal) foldOnce(n int, to int64, sink engine.Sink) (f Folded) {
	in, err := s.OpenLog(n)
	if err != nil {
		return Folded{Wrong: err}
	}
	defer in.Close()
	r, err := eventlog.NewReader(io.LimitReader(in, to), s.Path(n))
	if err != nil {
		return Folded{Wrong: err}
	}
	defer r.Close()
	c, tenants, err := r.Header.Build()
	if err != nil {
		return Folded{Wrong: r.Wrap(err)}
	}
	f.State, f.Header = state.New(c, tenants), &r.Header
	var ev eventlog.Event
	for {
		unsettled := f.State.Settle()
		if unsettled == nil {
			f.Good = r.Whole()
		}
		switch err := r.Next(&ev); {
		case errors.Is(err, io.EOF) && unsettled != nil:
			f.Wrong = fmt.Errorf("%w: %w", eventlog.ErrTorn, unsettled)
			return f
		case errors.Is(err, io.EOF):
			f.State.Now = max(f.State.Now, f.Header.Begins)
			return f
		case err != nil:
			f.Wrong = err
			return f
		}
		if err := engine.Apply(f.State, &ev); err != nil {
			f.Wrong = r.Wrap(err)
			return f
		}
		sink.Event(&ev, f.State)
	}
}

// CheckLog reads a log up to a position, and returns how many events it has, and how many
// bytes of it are as they were written. wrong says why not more; nil: all are.
func (s *Journal) CheckLog(n int, to int64) (events, good int64, wrong, err error) {
	in, err := s.OpenLog(n)
	if err != nil {
		return 0, 0, nil, err
	}
	defer in.Close()
	r, err := eventlog.NewReader(io.LimitReader(in, to), logName(n))
	for ev := (eventlog.Event{}); err == nil; events++ {
		good = r.Whole()
		err = r.Next(&ev)
	}
	switch {
	case errors.Is(err, io.EOF):
		return events - 1, good, nil, nil
	case isDamage(err):
		return max(0, events-1), good, err, nil
	}
	return 0, 0, nil, err
}

// DropLogs removes logs that ended before a moment.
func (s *Journal) DropLogs(before time.Time, present int) {
	epochs, _ := s.Epochs()
	for _, n := range epochs {
		path := s.Path(n) + ".zst"
		if info, err := os.Stat(path); err == nil && n < present && info.ModTime().Before(before) {
			os.Remove(path)
		}
	}
}
