package live

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/klauspost/compress/zstd"
)

// Journal is the folder of the event logs of a live world, and of the history of its jobs.
//
//	events/000001.log    event logs, one an epoch; those that have ended end in .zst
//	events/mark          how far the last log had come: see mark
//	history.jsonl        jobs that have ended, one a line
//	aside/               what could not be read any more
type Journal struct{ dir string }

// OpenJournal makes the folder of a journal where it is not there.
func OpenJournal(dir string) (*Journal, error) {
	return &Journal{dir}, os.MkdirAll(filepath.Join(dir, "events"), 0o700)
}

// SyncDir makes the names in a folder durable.
func SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}

// Path is the file of a log that is not packed.
func (s *Journal) Path(epoch int) string {
	return filepath.Join(s.dir, "events", fmt.Sprintf("%06d.log", epoch))
}

// Epochs are the numbers of the logs, oldest first.
func (s *Journal) Epochs() ([]int, error) {
	entries, err := os.ReadDir(filepath.Join(s.dir, "events"))
	if err != nil {
		return nil, err
	}
	var out []int
	for _, e := range entries {
		name, isLog := strings.CutSuffix(strings.TrimSuffix(e.Name(), ".zst"), ".log")
		if n, err := strconv.Atoi(name); err == nil && isLog {
			out = append(out, n)
		}
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}

// OpenLog opens a log, packed or not, for reading.
func (s *Journal) OpenLog(epoch int) (io.ReadCloser, error) {
	f, err := os.Open(s.Path(epoch))
	if !errors.Is(err, fs.ErrNotExist) {
		return f, err
	}
	if f, err = os.Open(s.Path(epoch) + ".zst"); err != nil {
		return nil, err
	}
	z, err := zstd.NewReader(f, zstd.WithDecoderConcurrency(1))
	if err != nil {
		f.Close()
		return nil, err
	}
	return &packed{z, f}, nil
}

type packed struct {
	*zstd.Decoder
	file *os.File
}

// Close implements io.Closer.
func (p *packed) Close() error {
	p.Decoder.Close()
	return p.file.Close()
}

// Pack compresses a log that has ended. The plain file goes only when the packed
// one is whole and on disk.
func (s *Journal) Pack(epoch int) error {
	path := s.Path(epoch)
	in, err := os.Open(path)
	if err != nil {
		return err
	}
	defer in.Close()
	tmp, err := os.OpenFile(path+".tmp", os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer os.Remove(tmp.Name())
	defer tmp.Close()
	z, err := zstd.NewWriter(tmp, zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(1<<20))
	if err != nil {
		return err
	}
	_, err = io.Copy(z, in)
	if cerr := z.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = tmp.Sync()
	}
	if err == nil {
		err = os.Rename(tmp.Name(), path+".zst")
	}
	if err == nil {
		err = SyncDir(filepath.Dir(path))
	}
	if err == nil {
		err = os.Remove(path)
	}
	return err
}
