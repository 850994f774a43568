package live

import (
	"errors"
	"fmt"
	"io"
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

// Fold reads what a daemon left behind. A tail that was torn by a crash, in
// the middle of a line or of a set of moves, is cut off: nothing of it had been
// acted on. sink makes the one that watches; a log that was cut off is read again.
func (s *Journal) Fold(n int, sink func() engine.Sink) (*state.State, *eventlog.Header, error) {
	for {
		st, h, good, err := s.foldOnce(n, sink())
		if err == nil && st.Settle() == nil {
			return st, h, nil
		}
		if err != nil && !errors.Is(err, eventlog.ErrTorn) {
			return nil, nil, err
		}
		if err := os.Truncate(s.Path(n), good); err != nil {
			return nil, nil, fmt.Errorf("cutting off the torn end of %s: %w", s.Path(n), err)
		}
	}
}

// foldOnce folds a log to its end. good is how much of it makes a state that can
// be.
func (s *Journal) foldOnce(n int, sink engine.Sink) (st *state.State, h *eventlog.Header, good int64, err error) {
	in, err := s.OpenLog(n)
	if err != nil {
		return nil, nil, 0, err
	}
	defer in.Close()
	r, err := eventlog.NewReader(in, s.Path(n))
	if err != nil {
		return nil, nil, 0, err
	}
	defer r.Close()
	c, tenants, err := r.Header.Build()
	if err != nil {
		return nil, nil, 0, r.Wrap(err)
	}
	st, h = state.New(c, tenants), &r.Header
	var ev eventlog.Event
	for {
		if st.Settle() == nil {
			good = r.Whole()
		}
		if err := r.Next(&ev); errors.Is(err, io.EOF) {
			st.Now = max(st.Now, h.Begins)
			return st, h, good, nil
		} else if err != nil {
			return nil, nil, good, err
		}
		if err := engine.Apply(st, &ev); err != nil {
			return nil, nil, good, r.Wrap(err)
		}
		sink.Event(&ev, st)
	}
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
