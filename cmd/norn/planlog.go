package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/klauspost/compress/zstd"
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
func (h *history) Close() {
	h.Reader.Close()
	h.close()
}

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
		epochs, err := epochsIn(f.log)
		if err != nil {
			return nil, err
		}
		if len(epochs) > 0 {
			return read(&chain{paths: epochs}, f.log)
		}
	}
	log, err := openLog(f.log)
	if err != nil {
		return nil, err
	}
	return &history{log.Reader, func() { log.file.Close() }, func() error { return nil }}, nil
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
	return &history{r, func() { in.Close() }, func() error { return nil }}, nil
}

// epochName is what the logs in a state folder are called.
var epochName = regexp.MustCompile(`^[0-9]{6,}\.log(\.zst)?$`)

// epochsIn are the logs in a state folder, oldest first; none where it is another
// folder. A log that is just being packed is there twice.
func epochsIn(dir string) ([]string, error) {
	entries, err := os.ReadDir(filepath.Join(dir, "events"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		if epochName.MatchString(e.Name()) {
			names = append(names, e.Name())
		}
	}
	plain := func(name string) string { return strings.TrimSuffix(name, ".zst") }
	slices.SortFunc(names, func(a, b string) int { return strings.Compare(plain(a)+a, plain(b)+b) })
	names = slices.CompactFunc(names, func(a, b string) bool { return plain(a) == plain(b) })
	for i, name := range names {
		names[i] = filepath.Join(dir, "events", name)
	}
	return names, nil
}

// chain reads files one behind the other, unpacking those that are packed.
type chain struct {
	paths []string
	file  *os.File
	in    io.Reader
	done  func()
}

// Read implements io.Reader.
func (c *chain) Read(p []byte) (int, error) {
	for {
		if c.in == nil {
			if len(c.paths) == 0 {
				return 0, io.EOF
			}
			if err := c.next(); err != nil {
				return 0, err
			}
		}
		n, err := c.in.Read(p)
		if !errors.Is(err, io.EOF) {
			return n, err
		}
		if err := c.Close(); err != nil || n > 0 {
			return n, err
		}
	}
}

// next opens the next file.
func (c *chain) next() error {
	file, err := os.Open(c.paths[0])
	if errors.Is(err, fs.ErrNotExist) && !strings.HasSuffix(c.paths[0], ".zst") { // it has just been packed
		file, err = os.Open(c.paths[0] + ".zst")
	}
	if err != nil {
		return err
	}
	c.paths = c.paths[1:]
	c.file, c.in, c.done = file, file, func() {}
	if strings.HasSuffix(file.Name(), ".zst") {
		z, err := zstd.NewReader(file, zstd.WithDecoderConcurrency(1))
		if err != nil {
			file.Close()
			return fmt.Errorf("%s: %w", file.Name(), err)
		}
		c.in, c.done = z, z.Close
	}
	return nil
}

// Close implements io.Closer: it closes the file that is open.
func (c *chain) Close() error {
	if c.in == nil {
		return nil
	}
	c.done()
	c.in = nil
	return c.file.Close()
}
