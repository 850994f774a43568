package fidelity

import (
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"syscall"
	"time"

	"github.com/norn-scheduler/norn/local/rundir"
)

// Verb is the hidden verb of norn by which a job of a trial is started:
// norn fidelity-job WORK.
const Verb = "fidelity-job"

// work is what a job has to do, as the word behind Verb has it in JSON.
type work struct {
	Time   time.Duration // that it works
	Burn   bool          // in CPU time of its own; else it sleeps
	Freeze bool          // it may be stopped in memory, and does not work then
	Notes  string        // folder
}

// note is what one run of a job tells of itself.
type note struct {
	First  time.Time // its first instruction
	Last   time.Time // about its last one
	Done   time.Duration
	Pauses []pause // in which it seems to have been frozen
}

type pause struct{ From, To time.Time }

// Main is a job of a trial, and returns its exit code. Told to stop by SIGTERM it
// writes down how far it has come, and goes on from there when it is started
// again.
func Main(arg string) int {
	n := note{First: time.Now()}
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM)
	var w work
	if err := json.Unmarshal([]byte(arg), &w); err != nil {
		fmt.Fprintln(os.Stderr, "norn:", err)
		return 2
	}
	code, err := w.do(&n, stop)
	if err != nil {
		fmt.Fprintln(os.Stderr, "norn:", err)
		return 1
	}
	return code
}

// do works until all is done or until it is told to stop.
func (w *work) do(n *note, stop <-chan os.Signal) (code int, err error) {
	name := os.Getenv(rundir.EnvJob)
	saved := filepath.Join(w.Notes, name+".saved")
	var before time.Duration
	if b, err := os.ReadFile(saved); err == nil {
		if err := json.Unmarshal(b, &before); err != nil {
			return 0, fmt.Errorf("%s: %w", saved, err)
		}
	}
	m := meter{w: w, note: n, last: n.First}
	stopped := false
	for n.Done = m.done(); before+n.Done < w.Time && !stopped; n.Done = m.done() {
		stopped = m.wait(w.Time-before-n.Done, stop)
	}
	if before+n.Done < w.Time {
		code = 75 // continue me later
		if err := write(saved, before+n.Done); err != nil {
			return 0, err
		}
	}
	n.Last = time.Now()
	return code, write(filepath.Join(w.Notes, name+"."+os.Getenv(rundir.EnvRun)+".json"), n)
}

// write replaces a file.
func write(path string, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if err := os.WriteFile(path+".tmp", b, 0o600); err != nil {
		return err
	}
	return os.Rename(path+".tmp", path)
}

// meter measures work, and does it.
type meter struct {
	w    *work
	note *note
	last time.Time // when wait was entered last
	sum  time.Duration
}

const (
	tick   = 10 * time.Millisecond // of one that may be frozen
	frozen = 60 * time.Millisecond // a tick that takes so much longer was not worked in
	chunk  = time.Millisecond      // of burning
)

// done is the work that was done.
func (m *meter) done() time.Duration {
	if m.w.Burn {
		return cpuTime()
	}
	now := time.Now()
	if gap := now.Sub(m.last); m.w.Freeze && gap > tick+frozen {
		m.note.Pauses = append(m.note.Pauses, pause{m.last, now})
		m.sum += tick
	} else {
		m.sum += gap
	}
	m.last = now
	return m.sum
}

// wait works for a while, at most for as long as is left, and tells whether it was
// told to stop meanwhile.
func (m *meter) wait(left time.Duration, stop <-chan os.Signal) (stopped bool) {
	if m.w.Burn {
		burn(min(left, chunk))
		select {
		case <-stop:
			return true
		default:
			return false
		}
	}
	if m.w.Freeze {
		left = min(left, tick)
	}
	select {
	case <-stop:
		return true
	case <-time.After(left):
		return false
	}
}

// burn computes for a while.
func burn(d time.Duration) {
	x := uint64(1)
	for end := cpuTime() + d; cpuTime() < end; {
		for range 10_000 {
			x ^= x << 13
			x ^= x >> 7
			x ^= x << 17
		}
	}
	runtime.KeepAlive(x) // so that burning is not optimised away
}
