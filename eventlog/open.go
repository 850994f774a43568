package eventlog

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
)

// File is an event log that lies in a file, or in several one behind the other.
type File struct {
	*Reader
	Path string // of the file or the folder

	in io.Closer
}

// Open opens the event log in a file, or the only one in a folder that norn sim wrote.
// It fails where a folder holds none or several, and on what NewReader refuses.
func Open(path string) (*File, error) {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		if path, err = onlyLog(path); err != nil {
			return nil, err
		}
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	return newFile(file, path)
}

// OpenState opens the logs in the state folder of a live Norn as one, oldest first. It
// returns nil where the folder is none.
func OpenState(dir string) (*File, error) {
	paths, err := epochs(dir)
	if err != nil || len(paths) == 0 {
		return nil, err
	}
	return newFile(&chain{paths: paths}, dir)
}

func newFile(in io.ReadCloser, path string) (*File, error) {
	r, err := NewReader(in, path)
	if err != nil {
		in.Close()
		return nil, err
	}
	return &File{r, path, in}, nil
}

// Close ends the reading and closes the file.
func (f *File) Close() error {
	f.Reader.Close()
	return f.in.Close()
}

// onlyLog is the event log in a folder of one run.
func onlyLog(dir string) (string, error) {
	logs, err := filepath.Glob(filepath.Join(dir, "events.log*"))
	switch {
	case err == nil && len(logs) == 1:
		return logs[0], nil
	case len(logs) > 1:
		return "", fmt.Errorf("%s holds %d event logs; name the file", dir, len(logs))
	}
	if below, _ := filepath.Glob(filepath.Join(dir, "*", "events.log*")); len(below) > 0 {
		return "", fmt.Errorf("%s holds several runs; name one: %s", dir, filepath.Dir(below[0]))
	}
	return "", fmt.Errorf("%s holds no event log; name the file", dir)
}

// epochName is what the logs in a state folder are called.
var epochName = regexp.MustCompile(`^[0-9]{6,}\.log(\.zst)?$`)

// epochs are the logs in a state folder, oldest first; none where it is another
// folder. A log that is just being packed is there twice.
func epochs(dir string) ([]string, error) {
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
