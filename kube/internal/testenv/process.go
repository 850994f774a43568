package testenv

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"time"
)

// Process is a program of a control plane, which can be killed and started again. Its
// methods may be called by several goroutines.
type Process struct {
	name  string
	path  string
	args  []string
	log   string                          // the file of its output
	ready func(ctx context.Context) error // nil: as soon as it runs

	mu  sync.Mutex
	run *run // nil: never started
}

// run is one run of a process.
type run struct {
	os    *os.Process
	ended chan struct{} // closed once it has ended
	err   error         // of the end, for readers of ended
}

// grace is how long a process that was asked to end may take.
const grace = 5 * time.Second

// Start starts a process that does not run, and waits until it is ready.
func (p *Process) Start(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.running() {
		return fmt.Errorf("%s runs already", p.name)
	}
	r, err := p.launch()
	if err != nil {
		return fmt.Errorf("%s: %w", p.name, err)
	}
	p.run = r
	if p.ready == nil {
		return nil
	}
	for {
		last := p.ready(ctx)
		if last == nil {
			return nil
		}
		select {
		case <-r.ended:
			return fmt.Errorf("%s ended before it was ready: %v\n%s", p.name, r.err, p.Tail())
		case <-ctx.Done():
			return fmt.Errorf("%s is not ready: %w: %v\n%s", p.name, ctx.Err(), last, p.Tail())
		case <-time.After(25 * time.Millisecond):
		}
	}
}

// launch starts the program. One goroutine starts it, keeps its thread and waits, since
// Linux ends a child that is to die with its parent once the thread that started it goes.
func (p *Process) launch() (*run, error) {
	out, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(p.path, p.args...)
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = withParent()
	r, started := &run{ended: make(chan struct{})}, make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer out.Close()
		err := cmd.Start()
		r.os = cmd.Process
		started <- err
		if err == nil {
			r.err = cmd.Wait()
			close(r.ended)
		}
	}()
	return r, <-started
}

// running tells whether the process runs; the caller has the lock.
func (p *Process) running() bool {
	if p.run == nil {
		return false
	}
	select {
	case <-p.run.ended:
		return false
	default:
		return true
	}
}

// PID is the number of the process in the operating system, or 0 where it does not run.
func (p *Process) PID() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.running() {
		return 0
	}
	return p.run.os.Pid
}

// Kill ends the process at once, as a machine does that fails, and waits until it is gone.
func (p *Process) Kill() error {
	return p.end(os.Kill)
}

// Stop asks the process to end, and kills it where it does not within five seconds.
func (p *Process) Stop() error {
	return p.end(syscall.SIGTERM)
}

func (p *Process) end(by os.Signal) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.running() {
		return nil
	}
	r := p.run
	if err := r.os.Signal(by); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("%s: %w", p.name, err)
	}
	select {
	case <-r.ended:
		return nil
	case <-time.After(grace):
	}
	if err := r.os.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("%s: %w", p.name, err)
	}
	<-r.ended
	return nil
}

// Tail is the end of what the process has written.
func (p *Process) Tail() string {
	const most = 4 << 10
	f, err := os.Open(p.log)
	if err != nil {
		return err.Error()
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && info.Size() > most {
		_, _ = f.Seek(-most, io.SeekEnd) // else all of it is read
	}
	text, err := io.ReadAll(f)
	if err != nil {
		return err.Error()
	}
	return string(bytes.TrimSpace(text))
}
