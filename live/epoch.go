package live

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/engine"
	"github.com/norn-scheduler/norn/eventlog"
	"github.com/norn-scheduler/norn/state"
	"github.com/norn-scheduler/norn/tenant"
)

// Epoch is the event log that is being written.
type Epoch struct {
	N       int // its number, from 1
	file    *os.File
	out     *eventlog.Writer
	size    *counter
	mark    *os.File
	Events  int // in it
	Carried int // of them, that were there from the start
	dirty   bool
	err     error
	next    func() int64 // the number of the next job
}

// counter counts what is written to a file.
type counter struct {
	file *os.File
	n    int64
}

// Write implements io.Writer.
func (c *counter) Write(b []byte) (int, error) {
	n, err := c.file.Write(b)
	c.n += int64(n)
	return n, err
}

// Write appends an event. An error is that of Sync.
func (e *Epoch) Write(ev *eventlog.Event) {
	e.Events++
	e.dirty = true
	if err := e.out.Write(ev); e.err == nil {
		e.err = err
	}
}

// Sync makes what was written durable.
func (e *Epoch) Sync() error {
	if !e.dirty || e.err != nil {
		return e.err
	}
	e.dirty = false
	if e.err = e.out.Flush(); e.err == nil {
		e.err = datasync(e.file)
	}
	if e.err == nil {
		mark{Log: e.N, Bytes: e.size.n, Next: e.next()}.write(e.mark)
	}
	return e.err
}

// Bytes is how long the log is.
func (e *Epoch) Bytes() int64 {
	if e.size == nil {
		return 0
	}
	return e.size.n
}

// Close closes the log. The zero Epoch may be closed.
func (e *Epoch) Close() {
	if e.file != nil {
		e.file.Close()
	}
	if e.mark != nil {
		e.mark.Close()
	}
}

// Begin writes a new log that starts with some events, and returns the state that reading
// it gives. The log appears whole or not at all. next is the number of the next job, for
// the mark.
func (s *Journal) Begin(n int, h *eventlog.Header, events []eventlog.Event, next func() int64) (Epoch, *state.State, error) {
	path := s.Path(n)
	file, err := os.OpenFile(path+".new", os.O_CREATE|os.O_TRUNC|os.O_RDWR, 0o600)
	if err != nil {
		return Epoch{}, nil, err
	}
	e := Epoch{N: n, file: file, size: &counter{file: file}, next: next}
	fresh, err := e.fill(h, events)
	if err == nil {
		err = os.Rename(path+".new", path)
	}
	if err == nil {
		e.mark = s.openMark()
		mark{Log: n, Bytes: e.size.n, Next: next()}.write(e.mark)
	}
	if err == nil {
		err = SyncDir(filepath.Dir(path))
	}
	if err != nil {
		file.Truncate(0) // where there is no room it takes none
		file.Close()
		return Epoch{}, nil, fmt.Errorf("a new event log: %w", err)
	}
	return e, fresh, nil
}

// Reopened is an Epoch that is not written any more, as it stands on the disk.
func (s *Journal) Reopened(n int) Epoch {
	e := Epoch{N: n}
	if info, err := os.Stat(s.Path(n)); err == nil {
		e.size = &counter{n: info.Size()}
	}
	return e
}

// Redirect has what is written from now on go to another file, as a full disk would.
func (e *Epoch) Redirect(file *os.File) { e.size.file = file }

// fill writes the beginning of a log, and folds it.
func (e *Epoch) fill(h *eventlog.Header, events []eventlog.Event) (*state.State, error) {
	c, tenants, err := h.Build()
	if err != nil {
		return nil, err
	}
	if e.out, err = eventlog.NewWriter(e.size, h, eventlog.Plain); err != nil {
		return nil, err
	}
	s := state.New(c, tenants)
	for i := range events {
		if err := engine.Apply(s, &events[i]); err != nil {
			return nil, err
		}
		e.Write(&events[i])
	}
	if err := s.Settle(); err != nil {
		return nil, err
	}
	s.Now = h.Begins
	e.dirty, e.Carried = true, e.Events
	return s, e.Sync()
}

// Usage is what the tenants of a new tree had used according to an old one.
func Usage(was *state.State, now *tenant.Tree) []float64 {
	out := make([]float64, now.Len())
	any := false
	for i := range out {
		if id, ok := was.Tenants.Lookup(now.At(tenant.ID(i)).Name); ok || i == 0 {
			out[i] = was.Tenants.Usage(id, was.Now)
			any = any || out[i] != 0
		}
	}
	if !any {
		return nil
	}
	return out
}

// Inventory is the events that add the nodes of a cluster at a moment, and what operators
// have ordered of them.
func Inventory(c *cluster.Cluster, at time.Duration, orders ...eventlog.Event) []eventlog.Event {
	events := append(eventlog.Inventory(c), orders...)
	for i := range events {
		events[i].Time = at
	}
	return events
}
