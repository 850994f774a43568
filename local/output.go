package local

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/norn-scheduler/norn/api"
	"github.com/norn-scheduler/norn/api/server"
	"github.com/norn-scheduler/norn/live"
	"github.com/norn-scheduler/norn/local/rundir"
)

// Output implements server.Backend.
func (d *Daemon) Output(ctx context.Context, c server.Caller, id string, run int) (server.Output, error) {
	var key string
	last, ended := 0, false
	err := d.Loop.Ask(ctx, func() error {
		jobs, err := d.Mine(c, id)
		if err == nil {
			key, last = jobs[0].Key, jobs[0].Run
			if len(jobs) > 1 {
				return api.Refuse(api.Invalid, "%s is an array: name one of its jobs, such as %s", id, key)
			}
			if last == 0 {
				return api.Refuse(api.Conflict, "job %s has written nothing yet, it is %s", key, d.View(jobs[0]).State)
			}
			return nil
		}
		if j := d.EndedJob(id); live.ValidID(id) && j != nil && (c.Operator || j.User == c.User) {
			key, last, ended = j.ID, j.Run, true
			if last == 0 {
				return api.Refuse(api.Conflict, "job %s never ran: it is %s", key, j.State)
			}
			return nil
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	if run == 0 {
		run = last
	}
	dir := d.store.runDir(key, run)
	_, err = os.Stat(dir)
	begins := run == last && !ended // its folder may be about to be made: it has written nothing yet
	if run < 0 || run > last || err != nil && !begins {
		return nil, api.Refuse(api.Unknown, "job %s has no run %d whose output is kept; its last one is %d", key, run, last)
	}
	_, err = os.Lstat(filepath.Join(dir, rundir.InputFile))
	return &output{dir: dir, gone: d.Loop.Stopped(), live: err == nil}, nil
}

// output reads the output of a run, across the files into which it is rotated.
type output struct {
	dir  string
	file *os.File // nil: before the first
	gone <-chan struct{}
	live bool // it is what a terminal shows
}

// path is the name of a file: 0 is the present one, 1 the one before.
func (o *output) path(n int) string {
	if n == 0 {
		return filepath.Join(o.dir, rundir.OutputFile)
	}
	return filepath.Join(o.dir, fmt.Sprintf("%s.%d", rundir.OutputFile, n))
}

// oldest is the number of the oldest file.
func (o *output) oldest() int {
	n := 0
	for {
		if _, err := os.Stat(o.path(n + 1)); err != nil {
			return n
		}
		n++
	}
}

// Read implements io.Reader.
func (o *output) Read(b []byte) (int, error) {
	for {
		if o.file == nil {
			if err := o.open(o.oldest()); err != nil {
				return 0, err
			}
		}
		n, err := o.file.Read(b)
		if n > 0 || !errors.Is(err, io.EOF) {
			return n, err
		}
		if more, err := o.advance(); !more {
			return 0, err
		}
	}
}

// open goes to the beginning of a file. If there is no file yet, that is the
// end of the output.
func (o *output) open(n int) error {
	f, err := os.Open(o.path(n))
	if errors.Is(err, fs.ErrNotExist) {
		return io.EOF
	}
	if err != nil {
		return err
	}
	if o.file != nil {
		o.file.Close()
	}
	o.file = f
	return nil
}

// advance goes from the end of a file to the next one; more is false at the end of
// the present one.
func (o *output) advance() (more bool, err error) {
	mine, err := o.file.Stat()
	if err != nil {
		return false, err
	}
	at, _ := o.file.Seek(0, io.SeekCurrent)
	for n := 0; ; n++ {
		info, err := os.Stat(o.path(n))
		switch {
		case err != nil && n > 0: // it is not kept any more: the oldest that is comes next
			err := o.open(n - 1)
			return err == nil, err
		case err != nil:
			return false, io.EOF
		case !os.SameFile(info, mine):
		case n == 0:
			return false, io.EOF
		case mine.Size() > at: // written to after the end was seen, before it was put aside
			return true, nil
		default:
			err := o.open(n - 1)
			return err == nil, err
		}
	}
}

// Tail implements server.Output.
func (o *output) Tail(n int) error {
	if n <= 0 {
		if err := o.open(0); err != nil {
			return unlessEnd(err)
		}
		_, err := o.file.Seek(0, io.SeekEnd)
		return err
	}
	for at := 0; ; at++ {
		if err := o.open(at); err != nil {
			if errors.Is(err, io.EOF) && at > 0 { // fewer lines than that are kept
				return o.open(at - 1)
			}
			return unlessEnd(err)
		}
		found, err := o.back(&n)
		if found || err != nil {
			return err
		}
	}
}

// unlessEnd is an error other than the end of the output.
func unlessEnd(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// back moves back over lines of the open file, and counts them off; found is
// false when its beginning was reached before.
func (o *output) back(n *int) (found bool, err error) {
	end, err := o.file.Seek(0, io.SeekEnd)
	if err != nil {
		return false, err
	}
	b := make([]byte, 1<<16)
	last := end
	for end > 0 {
		size := min(end, int64(len(b)))
		if _, err := o.file.ReadAt(b[:size], end-size); err != nil {
			return false, err
		}
		for i := bytes.LastIndexByte(b[:size], '\n'); i >= 0; i = bytes.LastIndexByte(b[:i], '\n') {
			at := end - size + int64(i) + 1
			if at == last { // the end of the last line begins no other
				continue
			}
			if *n--; *n <= 0 {
				_, err := o.file.Seek(at, io.SeekStart)
				return true, err
			}
		}
		end -= size
	}
	if last > 0 {
		*n-- // the first line of the file
	}
	_, err = o.file.Seek(0, io.SeekStart)
	return *n <= 0, err
}

// followEvery is how often a follower looks for more.
const followEvery = 100 * time.Millisecond

// typedEvery is the same where somebody may sit at a terminal.
const typedEvery = 10 * time.Millisecond

// Wait implements server.Output.
func (o *output) Wait(ctx context.Context) error {
	every := followEvery
	if o.live {
		every = typedEvery
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		ended, _ := rundir.Read(o.dir, rundir.ExitFile, &rundir.Exit{}) // before looking for more
		if o.more() {
			return nil
		}
		if ended {
			return io.EOF
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		case <-o.gone:
			return io.EOF
		}
	}
}

// more tells whether there is something to read.
func (o *output) more() bool {
	if o.file == nil {
		_, err := os.Stat(o.path(0))
		return err == nil
	}
	at, _ := o.file.Seek(0, io.SeekCurrent)
	info, err := o.file.Stat()
	if err == nil && info.Size() > at {
		return true
	}
	present, perr := os.Stat(o.path(0))
	return err == nil && perr == nil && !os.SameFile(info, present)
}

// Close implements io.Closer.
func (o *output) Close() error {
	if o.file == nil {
		return nil
	}
	return o.file.Close()
}
