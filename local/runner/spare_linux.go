package runner

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Spare keeps a runner ready that waits for its run: to start the program takes
// longer than all else between a decision and a running job. It may be used by any
// goroutine.
type Spare struct {
	exe string

	mu     sync.Mutex
	closed bool
	pid    int      // of the one that waits; 0: none does
	give   *os.File // it reads from here which run is its own, and ends when this is closed
}

// NewSpare keeps runners of a norn program ready, from the first Ready or Launch on.
func NewSpare(exe string) *Spare { return &Spare{exe: exe} }

// waiting stands for the folder of a run that a runner is still to be told.
const waiting = "-"

// after is how long one waits with the next spare, so that it does not take the
// processor from the job that has just been launched.
const after = 50 * time.Millisecond

// Ready starts a runner that waits, unless there is one. Without one a launch
// takes longer, and that is all.
func (s *Spare) Ready() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.pid != 0 {
		return
	}
	in, give, err := os.Pipe()
	if err != nil {
		return
	}
	defer in.Close()
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		give.Close()
		return
	}
	defer null.Close()
	if s.pid, err = start(s.exe, waiting, in, null); err != nil {
		give.Close()
		return
	}
	s.give = give
}

// Launch is the function Launch, by the runner that waits where there is one.
func (s *Spare) Launch(dir string) (pid int, err error) {
	defer time.AfterFunc(after, s.Ready)
	if dir, err = filepath.Abs(dir); err != nil {
		return 0, err
	}
	s.mu.Lock()
	pid, give := s.pid, s.give
	s.pid, s.give = 0, nil
	s.mu.Unlock()
	if pid != 0 {
		_, err := give.WriteString(dir + "\n") // short, and so read as a whole or not at all
		give.Close()
		if err == nil {
			return pid, nil
		}
		unix.Wait4(pid, nil, 0, nil) // it had ended
	}
	return Launch(s.exe, dir)
}

// Close ends the runner that waits.
func (s *Spare) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	if s.pid != 0 {
		s.give.Close()
		unix.Wait4(s.pid, nil, 0, nil)
		s.pid = 0
	}
}

// await is the folder of the run that a runner waits for; ok is false when there
// will be none, as the daemon has ended.
func await() (dir string, ok bool) {
	text, err := io.ReadAll(os.Stdin)
	dir, ok = strings.CutSuffix(string(text), "\n")
	if err != nil || !ok {
		return "", false
	}
	null, log, err := outputs(dir)
	if err != nil {
		return dir, true
	}
	unix.Dup3(int(null.Fd()), 0, 0)
	unix.Dup3(int(log.Fd()), 1, 0)
	unix.Dup3(int(log.Fd()), 2, 0)
	null.Close()
	log.Close()
	return dir, true
}

// outputs are what a runner reads from, which is nothing, and where it says what
// goes wrong with itself.
func outputs(dir string) (null, log *os.File, err error) {
	if null, err = os.OpenFile(os.DevNull, os.O_RDWR, 0); err != nil {
		return nil, nil, err
	}
	log, err = os.OpenFile(filepath.Join(dir, "runner.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil { // the disk may be full; the run does not need it
		if log, err = os.OpenFile(os.DevNull, os.O_WRONLY, 0); err != nil {
			null.Close()
		}
	}
	return null, log, err
}

// start starts a runner in a session of its own. It is a child of this process,
// which has to wait for it.
func start(exe, dir string, in, log *os.File) (pid int, err error) {
	// Few threads: there is a runner for each running job. It says itself how little
	// garbage it may make, when what makes it start fast is behind it.
	env := append(os.Environ(), "GOMAXPROCS=2", "GOGC=off")
	return syscall.ForkExec(exe, []string{exe, Verb, dir}, &syscall.ProcAttr{
		Dir: "/", Env: env, Files: []uintptr{in.Fd(), log.Fd(), log.Fd()}, Sys: &syscall.SysProcAttr{Setsid: true},
	})
}
