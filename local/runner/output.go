package runner

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/norn-scheduler/norn/local/rundir"
)

// output is the log of a run: what its tasks write, taken from pipes, so that no
// task is ever held up or killed by a full disk. It may be used by any goroutine.
type output struct {
	path string
	max  int64 // bytes at which it is put aside; 0: never
	keep int   // how many older files are kept

	mu   sync.Mutex
	file *os.File // nil: it cannot be opened
	copy *os.File // that its user wants; nil: none, or it cannot be written any more
	size int64
	text []byte // being put together
	mid  bool   // the last line has no end yet
	last int    // who wrote it
	torn bool   // the file does not end with a line
	lost int64  // bytes since something could last be written
	why  error  // of the last failure

	readers []*os.File
	open    sync.WaitGroup
}

func newOutput(dir string, run *rundir.Run) *output {
	o := &output{path: filepath.Join(dir, rundir.OutputFile), max: int64(run.LogBytes), keep: run.LogKeep}
	o.reopen()
	return o
}

func (o *output) reopen() error {
	f, err := os.OpenFile(o.path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	o.file, o.size = f, 0
	if st, err := f.Stat(); err == nil {
		o.size = st.Size()
	}
	return nil
}

// pipe makes a pipe whose other end one writer gets, who is known by a number.
// Each of its lines begins with the prefix.
func (o *output) pipe(who int, prefix string) (*os.File, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	o.take(r, who, prefix)
	return w, nil
}

// take has collected what comes from a file, as that of a writer with a number.
func (o *output) take(r *os.File, who int, prefix string) {
	o.readers = append(o.readers, r)
	o.open.Go(func() { o.collect(r, who, prefix) })
}

// quiet is how long a writer must be silent for a line without an end to be
// written as it stands.
const quiet = 200 * time.Millisecond

// collect takes what comes out of a pipe. Where there are several writers it is
// written by whole lines, as long as they come soon and are not too long.
func (o *output) collect(r *os.File, who int, prefix string) {
	buf := make([]byte, 16<<10)
	for n := 0; ; {
		var until time.Time
		if n > 0 {
			until = time.Now().Add(quiet)
		}
		r.SetReadDeadline(until)
		m, err := r.Read(buf[n:])
		n += m
		ready := bytes.LastIndexByte(buf[:n], '\n') + 1
		if prefix == "" || err != nil || n == len(buf) {
			ready = n
		}
		if ready > 0 {
			o.write(who, prefix, buf[:ready])
			n = copy(buf, buf[ready:n])
		}
		if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			r.Close()
			return
		}
	}
}

func (o *output) write(who int, prefix string, b []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.text = o.text[:0]
	if o.mid && o.last != who {
		o.text = append(o.text, '\n')
		o.mid = false
	}
	for line := range bytes.Lines(b) {
		if !o.mid {
			o.text = append(o.text, prefix...)
		}
		o.text = append(o.text, line...)
		o.mid = line[len(line)-1] != '\n'
	}
	o.last = who
	o.put(o.text)
	if o.copy == nil {
		return
	}
	if _, err := o.copy.Write(o.text); err != nil {
		name := o.copy.Name()
		o.copy.Close()
		o.copy = nil
		o.put([]byte(fmt.Sprintf("[norn] %s is not written any more: %v\n", name, reasonOf(err))))
	}
}

// put writes, or counts what cannot be written. The amount that was lost is
// reported as soon as there is room.
func (o *output) put(text []byte) {
	if o.max > 0 && o.size > 0 && o.size+int64(len(text)) > o.max {
		o.rotate()
	}
	if o.file == nil {
		if err := o.reopen(); err != nil {
			o.lost, o.why = o.lost+int64(len(text)), err
			return
		}
	}
	note := o.note()
	if note != "" {
		text = append([]byte(note), text...)
	}
	n, err := o.file.Write(text)
	if err != nil {
		o.why = err
	}
	if n < len(note) { // no room for the note: nothing of it stays
		o.file.Truncate(o.size)
		o.lost += int64(len(text) - len(note))
		return
	}
	o.size += int64(n)
	o.lost = int64(len(text) - n)
	if n > 0 {
		o.torn = text[n-1] != '\n'
	}
}

// note tells what was lost.
func (o *output) note() string {
	if o.lost == 0 {
		return ""
	}
	note := fmt.Sprintf("[norn] %d bytes of output were lost: %v\n", o.lost, reasonOf(o.why))
	if o.torn {
		note = "\n" + note
	}
	return note
}

// reasonOf is why a file cannot be written, without its name.
func reasonOf(err error) error {
	for {
		inner := errors.Unwrap(err)
		if inner == nil {
			return err
		}
		err = inner
	}
}

// rotate puts the file aside. Where that fails it is written on.
func (o *output) rotate() {
	old := func(i int) string { return o.path + "." + strconv.Itoa(i) }
	for i := o.keep; i > 1; i-- {
		os.Rename(old(i-1), old(i))
	}
	var err error
	if o.keep > 0 {
		err = os.Rename(o.path, old(1))
	} else {
		err = os.Remove(o.path)
	}
	if err == nil && o.file != nil {
		o.file.Close()
		o.file = nil
	}
}

// drain waits until all writers have closed their pipes, but no longer than it
// is told: one that has passed its end on to somebody else may never do so.
func (o *output) drain(patience time.Duration) {
	done := make(chan struct{})
	go func() { o.open.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(patience):
		for _, r := range o.readers {
			r.Close()
		}
		<-done
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.lost > 0 {
		o.put(nil)
	}
	if o.copy != nil {
		o.copy.Close()
		o.copy = nil
	}
	if o.file != nil {
		o.file.Close()
		o.file = nil
	}
}
