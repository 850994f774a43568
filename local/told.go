package local

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"github.com/norn-scheduler/norn/api"
	"github.com/norn-scheduler/norn/jsontext"
)

// takeIn reads the history when a daemon starts: it counts the jobs that have
// ended, lets the estimator learn from them, and keeps the last ones in memory. It
// returns how many of the ends that the log of an epoch tells are in it. The
// history may be long, so that only what is needed of a line is read, by hand.
func (d *Daemon) takeIn(epoch int) (told int, err error) {
	lines, err := d.store.countEnded()
	if err != nil {
		return 0, err
	}
	var short ended
	at := 0
	r := jsontext.NewReader(nil)
	err = d.store.eachLine(func(line []byte) {
		e := &short
		if at++; at <= lines-d.opt.Limits.Recent {
			short = ended{}
			r.Reset(line)
			if readShort(r, e) != nil || e.Job.ID == "" {
				return
			}
		} else if e = new(ended); json.Unmarshal(line, e) != nil || e.Job.ID == "" {
			return
		} else {
			d.recent.add(e.Job)
		}
		if e.Log == epoch {
			told = max(told, e.N+1)
		}
		d.observe(&e.Job)
		d.tally.ended++
	})
	if lines > d.opt.Limits.Recent {
		d.recent.all = false
	}
	return told, err
}

// readShort reads what an estimator learns from, and which end it is.
func readShort(r *jsontext.Reader, e *ended) error {
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
func (s *store) eachLine(visit func(line []byte)) error {
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
func (s *store) countEnded() (n int, err error) {
	err = s.eachLine(func([]byte) { n++ })
	return n, err
}
