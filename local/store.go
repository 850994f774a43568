package local

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/norn-scheduler/norn/api"
	"github.com/norn-scheduler/norn/local/hardware"
	"github.com/norn-scheduler/norn/local/rundir"
)

// store is the state folder.
//
//	lock                 held by the daemon
//	events/000001.log    event logs, one an epoch; those that have ended end in .zst
//	jobs/17/spec.json    what was submitted
//	runs/17/1/           the first run of job 17 (package rundir)
//	residents/1/         a resident trainer: a run with a note of what it is for
//	history.jsonl        jobs that have ended, one a line
//	drained.json         what an operator has put out of use
type store struct {
	dir  string
	lock *os.File
}

// openStore takes the state folder for this process alone.
func openStore(dir string) (*store, error) {
	for _, d := range []string{dir, filepath.Join(dir, "events"), filepath.Join(dir, "jobs"), filepath.Join(dir, "runs")} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			return nil, fmt.Errorf("the state folder: %w", err)
		}
	}
	lock, err := rundir.Lock(dir)
	for range 100 { // a daemon that was killed in the act of launching lives on in its child, until that has become a runner
		if !errors.Is(err, rundir.ErrHeld) {
			break
		}
		time.Sleep(20 * time.Millisecond)
		lock, err = rundir.Lock(dir)
	}
	if errors.Is(err, rundir.ErrHeld) {
		return nil, fmt.Errorf("another norn runs on the state folder %s", dir)
	}
	if err != nil {
		return nil, fmt.Errorf("the state folder: %w", err)
	}
	return &store{dir: dir, lock: lock}, nil
}

func (s *store) close() { s.lock.Close() }

// stored is a job, or an array of them, as it was submitted and by whom.
type stored struct {
	ID        string       `json:"id"`
	Spec      api.JobSpec  `json:"spec"`
	User      string       `json:"user"`
	Cred      *rundir.User `json:"cred,omitempty"` // nil: that of the daemon
	Indices   []int        `json:"indices,omitempty"`
	Submitted time.Time    `json:"submitted"`
}

func (s *store) jobDir(base string) string { return filepath.Join(s.dir, "jobs", base) }

func (s *store) runDir(key string, run int) string {
	return filepath.Join(s.dir, "runs", key, strconv.Itoa(run))
}

func (s *store) writeSpec(job *stored) error {
	dir := s.jobDir(job.ID)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	if err := rundir.Write(dir, "spec.json", job); err != nil {
		return err
	}
	return rundir.Sync(filepath.Dir(dir))
}

func (s *store) readSpec(base string) (*stored, error) {
	job := new(stored)
	ok, err := rundir.Read(s.jobDir(base), "spec.json", job)
	if err == nil && !ok {
		err = fmt.Errorf("job %s: what was submitted is missing in %s", base, s.jobDir(base))
	}
	return job, err
}

// lastRun is the number of the last run of a job, 0 for none.
func (s *store) lastRun(key string) int {
	entries, err := os.ReadDir(filepath.Join(s.dir, "runs", key))
	if err != nil {
		return 0
	}
	last := 0
	for _, e := range entries {
		if n, err := strconv.Atoi(e.Name()); err == nil {
			last = max(last, n)
		}
	}
	return last
}

// baseOf is the number under which a job was submitted: 17 of 17_3.
func baseOf(key string) string {
	base, _, _ := strings.Cut(key, "_")
	return base
}

func (s *store) logPath(epoch int) string {
	return filepath.Join(s.dir, "events", fmt.Sprintf("%06d.log", epoch))
}

// epochs are the numbers of the logs, oldest first.
func (s *store) epochs() ([]int, error) {
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

// openLog opens a log, packed or not, for reading.
func (s *store) openLog(epoch int) (io.ReadCloser, error) {
	f, err := os.Open(s.logPath(epoch))
	if !errors.Is(err, fs.ErrNotExist) {
		return f, err
	}
	if f, err = os.Open(s.logPath(epoch) + ".zst"); err != nil {
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

// pack compresses a log that has ended. The plain file goes only when the packed
// one is whole and on disk.
func (s *store) pack(epoch int) error {
	path := s.logPath(epoch)
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
		err = rundir.Sync(filepath.Dir(path))
	}
	if err == nil {
		err = os.Remove(path)
	}
	return err
}

// ended is a job that has left for good, as a line of history.jsonl. Log and N
// name the event: the N-th end of that epoch.
type ended struct {
	Log int     `json:"log"`
	N   int     `json:"n"`
	Job api.Job `json:"job"`
}

func (s *store) historyPath() string { return filepath.Join(s.dir, "history.jsonl") }

// eachEnded reads the history, oldest first. A line that was torn by a crash is
// passed over: its job is told again from the log.
func (s *store) eachEnded(visit func(*ended)) error {
	return s.eachLine(func(line []byte) {
		var e ended
		if json.Unmarshal(line, &e) == nil && e.Job.ID != "" {
			visit(&e)
		}
	})
}

// appendEnded adds to the history. A torn line at its end is ended first.
func (s *store) appendEnded(lines []ended) error {
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

// syncHistory makes the history durable.
func (s *store) syncHistory() error {
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

// free is what is left on the disk of the state folder, and its size.
func (s *store) free() (free, size api.Bytes) {
	f, n, err := hardware.DiskOf(s.dir)
	if err != nil {
		return 0, 0
	}
	return api.Bytes(f), api.Bytes(n)
}
