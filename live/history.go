package live

import (
	"bufio"
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
)

// Ended is a job that has left for good, as a line of history.jsonl. Log and N
// name the event: the N-th end of that epoch.
type Ended struct {
	Log int     `json:"log"`
	N   int     `json:"n"`
	Job api.Job `json:"job"`
}

func (s *Journal) historyPath() string { return filepath.Join(s.dir, "history.jsonl") }

// EachEnded reads the history, oldest first. A line that was torn by a crash is
// passed over: its job is told again from the log.
func (s *Journal) EachEnded(visit func(*Ended)) error {
	return s.eachLine(func(line []byte) {
		var e Ended
		if json.Unmarshal(line, &e) == nil && e.Job.ID != "" {
			visit(&e)
		}
	})
}

// AppendEnded adds to the history. A torn line at its end is ended first.
func (s *Journal) AppendEnded(lines []Ended) error {
	f, err := os.OpenFile(s.historyPath(), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	var b []byte
	if size > 0 {
		var last [1]byte
		if _, err := f.ReadAt(last[:], size-1); err == nil && last[0] != '\n' {
			b = append(b, '\n')
		}
	}
	for i := range lines {
		line, err := json.Marshal(&lines[i])
		if err != nil {
			return fmt.Errorf("job %s: %w", lines[i].Job.ID, err)
		}
		b = append(append(b, line...), '\n')
	}
	_, err = f.Write(b)
	return err
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
// how many of the ends that the log of an epoch tells are among them. The history may be
// long, so that only what an estimator learns from is read of most lines, by hand.
func (s *Journal) Load(epoch int, keep *Recent, visit func(*api.Job)) (ended, told int, err error) {
	lines, err := s.countEnded()
	if err != nil {
		return 0, 0, err
	}
	var short Ended
	at := 0
	r := jsontext.NewReader(nil)
	err = s.eachLine(func(line []byte) {
		e := &short
		if at++; at <= lines-keep.Most {
			short = Ended{}
			r.Reset(line)
			if readShort(r, e) != nil || e.Job.ID == "" {
				return
			}
		} else if e = new(Ended); json.Unmarshal(line, e) != nil || e.Job.ID == "" {
			return
		} else {
			keep.Add(e.Job)
		}
		if e.Log == epoch {
			told = max(told, e.N+1)
		}
		visit(&e.Job)
		ended++
	})
	if lines > keep.Most {
		keep.Drop()
	}
	return ended, told, err
}

// readShort reads what an estimator learns from, and which end it is.
func readShort(r *jsontext.Reader, e *Ended) error {
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
