package main

import (
	"errors"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/norn-scheduler/norn/eventlog"
)

// history is the event log of a machine, wherever it comes from.
type history struct {
	*eventlog.Reader
	close func()
	cause func() error // why no more of it came; nil: it is whole
}

// Close ends the reading.
func (h *history) Close() { h.close() }

// fault is what to tell of an error: why the log did not come, if it did not.
func (h *history) fault(err error) error {
	if cause := h.cause(); cause != nil {
		return cause
	}
	return err
}

// open opens the log: that of a running Norn, a file, or what lies in a folder.
func (f *planning) open(cmd *cobra.Command) (*history, error) {
	switch info, err := os.Stat(f.log); {
	case f.log == "":
		return f.ask(cmd)
	case f.log == "-":
		return read(io.NopCloser(cmd.InOrStdin()), "standard input")
	case err != nil:
		return nil, err
	case info.IsDir():
		if log, err := eventlog.OpenState(f.log); log != nil || err != nil {
			return whole(log, err)
		}
	}
	return whole(eventlog.Open(f.log))
}

// whole is a log that is there as a whole.
func whole(log *eventlog.File, err error) (*history, error) {
	if err != nil {
		return nil, err
	}
	return &history{log.Reader, func() { log.Close() }, func() error { return nil }}, nil
}

// ask fetches the log from the running Norn while it is read.
func (f *planning) ask(cmd *cobra.Command) (*history, error) {
	d, err := f.shell.open(cmd)
	if err != nil {
		return nil, err
	}
	in, out := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		err := d.EventLog(cmd.Context(), out)
		ended <- err
		out.CloseWithError(err)
	}()
	h, err := read(in, "the event log")
	cause := func() error {
		in.CloseWithError(errSeen)
		if err := <-ended; !errors.Is(err, errSeen) {
			return err
		}
		return nil
	}
	if err != nil {
		if why := cause(); why != nil {
			return nil, why
		}
		return nil, err
	}
	h.cause = cause
	return h, nil
}

// read begins to read a log.
func read(in io.ReadCloser, name string) (*history, error) {
	r, err := eventlog.NewReader(in, name)
	if err != nil {
		in.Close()
		return nil, err
	}
	end := func() {
		r.Close()
		in.Close()
	}
	return &history{r, end, func() error { return nil }}, nil
}
