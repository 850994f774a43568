package live

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/norn-scheduler/norn/internal/sealed"
)

// mark says how far the log had come when something was last made durable, so that a log
// that is lost, or shorter than it was, is found out: events/mark, replaced in place. It
// is written behind the log and never before it, and is not itself made durable.
type mark struct {
	Log   int   `json:"log"`   // number of the log
	Bytes int64 `json:"bytes"` // how long it was at least
	Next  int64 `json:"next"`  // the number of the next job
}

// markSize is what a mark is filled up to, so that a shorter one leaves nothing of one
// that was longer.
const markSize = 128

func (s *Journal) markPath() string { return filepath.Join(s.dir, "events", "mark") }

// openMark opens the file of the mark for writing; nil where that fails: it is an aid.
func (s *Journal) openMark() *os.File {
	f, err := os.OpenFile(s.markPath(), os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return nil
	}
	return f
}

// write replaces the mark.
func (m mark) write(f *os.File) {
	if f == nil {
		return
	}
	b, err := json.Marshal(m)
	if err != nil {
		return
	}
	b = sealed.Seal(b)
	for len(b) < markSize-1 {
		b = append(b, ' ')
	}
	f.WriteAt(append(b, '\n'), 0) // one that is not written tells of less, and nothing wrong
}

// readMark reads the mark; the zero mark where there is none.
func (s *Journal) readMark() (m mark, err error) {
	b, err := os.ReadFile(s.markPath())
	if errors.Is(err, fs.ErrNotExist) {
		return mark{}, nil
	}
	if err != nil {
		return mark{}, err
	}
	if is, err := sealed.Check(b); !is || err != nil || json.Unmarshal(b, &m) != nil {
		return mark{}, errDamaged
	}
	return m, nil
}
