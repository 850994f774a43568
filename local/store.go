package local

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/norn-scheduler/norn/api"
	"github.com/norn-scheduler/norn/live"
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
//	aside/               what could not be made sense of any more
type store struct {
	*live.Journal
	dir  string
	lock *os.File
}

// openStore takes the state folder for this process alone.
func openStore(dir string) (*store, error) {
	for _, d := range []string{dir, filepath.Join(dir, "jobs"), filepath.Join(dir, "runs")} {
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
	journal, err := live.OpenJournal(dir)
	if err != nil {
		lock.Close()
		return nil, fmt.Errorf("the state folder: %w", err)
	}
	return &store{Journal: journal, dir: dir, lock: lock}, nil
}

func (s *store) close() { s.lock.Close() }

// stored is a job, or an array of them, as it was submitted and by whom.
type stored struct {
	ID        string       `json:"id"`
	Spec      api.JobSpec  `json:"spec"`
	User      string       `json:"user"`
	Cred      *rundir.User `json:"cred,omitempty"` // nil: that of the daemon
	Indices   []int        `json:"indices,omitempty"`
	AtOnce    int          `json:"at_once,omitempty"` // of an array: so many run at a time; 0: all
	Exempt    bool         `json:"exempt,omitempty"`  // an operator has submitted it: no limits of users and tenants
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
	if err := rundir.Write(dir, specFile, job); err != nil {
		return err
	}
	return rundir.Sync(filepath.Dir(dir))
}

// dropSpec removes the description of a submission that was refused.
func (s *store) dropSpec(base string) { os.RemoveAll(s.jobDir(base)) }

func (s *store) readSpec(base string) (*stored, error) {
	job := new(stored)
	ok, err := rundir.Read(s.jobDir(base), specFile, job)
	switch {
	case err == nil && !ok:
		err = fmt.Errorf("%s is missing: %w", filepath.Join(s.jobDir(base), specFile), fs.ErrNotExist)
	case err == nil && (job.ID != base || len(job.Spec.Command) == 0):
		err = fmt.Errorf("%s %w: it describes job %q", filepath.Join(s.jobDir(base), specFile), rundir.ErrDamaged, job.ID)
	}
	return job, err
}

// specFile is what was submitted, in the folder of a job.
const specFile = "spec.json"

// folders are the numbers of the submissions of which there is a folder, smallest first.
func (s *store) folders() []string {
	var all []int
	for _, dir := range []string{"jobs", "runs"} {
		entries, _ := os.ReadDir(filepath.Join(s.dir, dir)) // made when the store was opened
		for _, e := range entries {
			if n, err := strconv.Atoi(live.BaseOf(e.Name())); err == nil && n > 0 && live.ValidID(e.Name()) {
				all = append(all, n)
			}
		}
	}
	slices.Sort(all)
	all = slices.Compact(all)
	out := make([]string, len(all))
	for i, n := range all {
		out[i] = strconv.Itoa(n)
	}
	return out
}

// setAside sets the folders of a submission aside.
func (s *store) setAside(base string) error {
	names := []string{filepath.Join("jobs", base)}
	runs, err := os.ReadDir(filepath.Join(s.dir, "runs"))
	if err != nil {
		return err
	}
	for _, e := range runs {
		if live.BaseOf(e.Name()) == base {
			names = append(names, filepath.Join("runs", e.Name()))
		}
	}
	for _, name := range names {
		if _, err := os.Lstat(filepath.Join(s.dir, name)); err != nil {
			continue
		}
		if err := s.SetAside(name); err != nil {
			return err
		}
	}
	return nil
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

// free is the free space on the disk of the state folder, and its size, in
// bytes.
func (s *store) free() (free, size api.Bytes) {
	f, n, err := hardware.DiskOf(s.dir)
	if err != nil {
		return 0, 0
	}
	return api.Bytes(f), api.Bytes(n)
}
