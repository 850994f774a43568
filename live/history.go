package live

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/norn-scheduler/norn/api"
	"github.com/norn-scheduler/norn/internal/jsontext"
	"github.com/norn-scheduler/norn/internal/sealed"
)

// Ended is a job that has left for good, as a line of history.jsonl. Log and N
// name the event: the N-th end of that epoch.
type Ended struct {
	Log int     `json:"log"`
	N   int     `json:"n"`
	Job api.Job `json:"job"`

	// What is told of it by Why alone; older lines do not have it.
	Life   []string        `json:"life,omitempty"`
	Course []api.Stretch   `json:"course,omitempty"`
	Losses []api.LossPoint `json:"losses,omitempty"`
}

// fill tells of a job that has ended what is not part of the Job.
func (e *Ended) fill(w *api.Why) { w.Life, w.Course, w.Losses = e.Life, e.Course, e.Losses }

func (s *Journal) historyPath() string { return filepath.Join(s.dir, "history.jsonl") }

// EachEnded reads the history, oldest first. A line that is not as it was written is
// passed over, see Load.
func (s *Journal) EachEnded(visit func(*Ended)) error {
	return s.eachLine(func(line []byte) {
		if e := readEnded(line); e != nil {
			visit(e)
		}
	})
}

// lifeOf fills in what the history tells of a job that has ended.
func (s *Journal) lifeOf(w *api.Why) error {
	name, err := json.Marshal(w.Job.ID)
	if err != nil {
		return err
	}
	mark := append([]byte(`"id":`), name...) // few lines have it, and reading one costs more than looking
	return s.eachLine(func(line []byte) {
		if !bytes.Contains(line, mark) {
			return
		}
		if e := readEnded(line); e != nil && identityOf(&e.Job) == identityOf(&w.Job) {
			e.fill(w)
		}
	})
}

// readEnded reads a line of the history; nil: it is not as it was written.
func readEnded(line []byte) *Ended {
	e := new(Ended)
	if !isSound(line) || json.Unmarshal(line, e) != nil || e.Job.ID == "" {
		return nil
	}
	return e
}

// isSound tells whether a line agrees with its checksum, if it has any.
func isSound(line []byte) bool {
	_, err := sealed.Check(line)
	return err == nil
}

// AppendEnded adds to the history. A torn line at its end is cut off first: its job is
// told again from the log.
func (s *Journal) AppendEnded(lines []Ended) error {
	f, err := os.OpenFile(s.historyPath(), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	size, err := wholeLines(f)
	if err != nil {
		return err
	}
	var b []byte
	for i := range lines {
		line, err := json.Marshal(&lines[i])
		if err != nil {
			return fmt.Errorf("job %s: %w", lines[i].Job.ID, err)
		}
		b = append(append(b, sealed.Seal(line)...), '\n')
	}
	if _, err = f.WriteAt(b, size); err != nil {
		return errors.Join(err, f.Truncate(size)) // none of them is told twice
	}
	return nil
}

// wholeLines cuts off what stands behind the last end of a line, and returns how long the
// file is then.
func wholeLines(f *os.File) (size int64, err error) {
	if size, err = f.Seek(0, io.SeekEnd); err != nil {
		return 0, err
	}
	whole := size
	for b := make([]byte, 4096); whole > 0; {
		n := min(int64(len(b)), whole)
		if _, err := f.ReadAt(b[:n], whole-n); err != nil {
			return 0, err
		}
		if at := bytes.LastIndexByte(b[:n], '\n'); at >= 0 {
			whole += int64(at) + 1 - n
			break
		}
		whole -= n
	}
	if whole == size {
		return size, nil
	}
	return whole, f.Truncate(whole)
}

// SyncHistory makes the history durable.
func (s *Journal) SyncHistory() error {
	f, err := os.OpenFile(s.historyPath(), os.O_WRONLY, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	return f.Sync()
}

// Load reads the history when a daemon starts: it visits the jobs that have ended, of
// which only the last ones are whole, and keeps those. It returns how many there are, and
// the numbers of lines that are not as they were written, from 1. The history may be
// long, so that only what an estimator learns from is read of most lines, by hand.
func (s *Journal) Load(keep *Recent, visit func(*Ended)) (ended int, damaged []int, err error) {
	lines, err := s.countEnded()
	if err != nil {
		return 0, nil, err
	}
	at := 0
	var short Ended
	r := jsontext.NewReader(nil)
	err = s.eachLine(func(line []byte) {
		e := &short
		if at++; at > lines-keep.Most {
			e = readEnded(line)
		} else if short = (Ended{}); !isSound(line) || readShort(r, line, e) != nil || e.Job.ID == "" {
			e = nil
		}
		if e == nil {
			damaged = append(damaged, at)
			return
		}
		if at > lines-keep.Most {
			keep.Add(e.Job)
		} else {
			keep.Drop(e.Job.ID)
		}
		visit(e)
		ended++
	})
	return ended, damaged, err
}

// CheckHistory reads the history, and returns how many lines are as they were written, and
// the numbers of those that are not. A last line without an end does not count.
func (s *Journal) CheckHistory() (ended int, damaged []int, err error) {
	var none Recent
	return s.Load(&none, func(*Ended) {})
}

// errDamaged is the error of what is not as it was written.
var errDamaged = errors.New("is damaged")

// SetAsideLines moves lines of the history that are not as they were written to the
// folder of what is set aside. It may be repeated.
func (s *Journal) SetAsideLines() error {
	var bad []byte
	path := s.historyPath() + ".new"
	out, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer os.Remove(path)
	defer out.Close()
	w := bufio.NewWriter(out)
	err = s.eachLine(func(line []byte) {
		if readEnded(line) != nil {
			w.Write(line)
		} else {
			bad = append(bad, line...)
		}
	})
	if err == nil {
		err = w.Flush()
	}
	if err == nil {
		err = out.Sync()
	}
	if err == nil && len(bad) > 0 {
		err = s.keepAside("history.jsonl", bad)
	}
	if err == nil {
		err = os.Rename(path, s.historyPath())
	}
	return err
}

// readShort reads of a line what an estimator learns from, and which end it is.
func readShort(r *jsontext.Reader, line []byte, e *Ended) error {
	r.Reset(line)
	whole := func(to *int) error {
		n, err := r.Int(0, 1<<40)
		*to = int(n)
		return err
	}
	err := r.Object(func(key []byte) error {
		switch string(key) {
		case "log":
			return whole(&e.Log)
		case "n":
			return whole(&e.N)
		case "job":
			return r.Object(func(key []byte) error { return readShortJob(r, &e.Job, key) })
		}
		return r.Skip()
	})
	if err != nil {
		return err
	}
	return r.End()
}

func readShortJob(r *jsontext.Reader, j *api.Job, key []byte) (err error) {
	var b []byte
	text := func(to *string) error {
		b, err = r.Text()
		*to = string(b)
		return err
	}
	switch string(key) {
	case "id":
		return text(&j.ID)
	case "name":
		return text(&j.Name)
	case "user":
		return text(&j.User)
	case "tenant":
		return text(&j.Tenant)
	case "state":
		return text((*string)(&j.State))
	case "ran":
		ran, err := r.Float()
		j.Ran = api.Seconds(ran)
		return err
	case "gpus":
		if r.Peek() != '"' {
			n, err := r.Float()
			j.GPUs = api.Fixed(n)
			return err
		}
		var s string
		if err = text(&s); err == nil {
			j.GPUs, err = api.ParseRange(s)
		}
		return err
	case "submitted":
		var s string
		if err = text(&s); err == nil {
			j.Submitted, err = time.Parse(time.RFC3339Nano, s)
		}
		return err
	}
	return r.Skip()
}

// eachLine visits the lines of the history, oldest first, each valid during the
// visit. One that was torn by a crash is visited too, if another one follows.
func (s *Journal) eachLine(visit func(line []byte)) error {
	f, err := os.Open(s.historyPath())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	in := bufio.NewReaderSize(f, 1<<16)
	var long []byte
	for {
		line, err := in.ReadSlice('\n')
		if errors.Is(err, bufio.ErrBufferFull) {
			long = append(long, line...)
			continue
		}
		if len(long) > 0 {
			long = append(long, line...)
			line = long
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("the history of jobs: %w", err)
		}
		visit(line)
		long = long[:0]
	}
}

// countEnded counts the lines of the history.
func (s *Journal) countEnded() (n int, err error) {
	err = s.eachLine(func([]byte) { n++ })
	return n, err
}
