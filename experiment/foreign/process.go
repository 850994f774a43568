package foreign

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/norn-scheduler/norn/cluster/unit"
)

// longest is the most bytes that a line of a process may have.
const longest = 64 << 20

// patience is for how long a process that has nothing more to do may take to end, and one
// that was killed to be gone.
const patience = time.Second

// process is one run of a command.
type process struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out io.ReadCloser
	buf *bufio.Reader

	busy atomic.Bool // it is being asked

	reap sync.Once
	gone chan struct{} // closed when it was waited for
	err  error         // of Wait
}

// start runs a command. What it writes to its standard error goes to messages.
func start(words []string, messages io.Writer) (*process, error) {
	cmd := exec.Command(words[0], words[1:]...)
	cmd.Stderr, cmd.WaitDelay = messages, patience
	apart(cmd)
	mortal(cmd)
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p := &process{cmd: cmd, in: in, out: out, buf: bufio.NewReaderSize(out, 64<<10), gone: make(chan struct{})}
	started := make(chan error)
	go func() { // the kernel ends the process with the thread that has started it
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		if started <- err; err == nil {
			<-p.gone
		}
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return p, nil
}

// exchange sends a message and waits for the line that answers it, without its end. The
// line is valid until the next exchange. A process with which an exchange has failed must
// be killed.
func (p *process) exchange(message []byte, budget time.Duration) ([]byte, error) {
	type result struct {
		line []byte
		err  error
	}
	p.busy.Store(true)
	defer p.busy.Store(false)
	done := make(chan result, 1)
	go func() {
		if _, err := p.in.Write(message); err != nil {
			done <- result{nil, err}
			return
		}
		line, err := p.read()
		done <- result{line, err}
	}()
	late := time.NewTimer(budget)
	defer late.Stop()
	select {
	case r := <-done:
		if r.err != nil && !errors.Is(r.err, errLong) {
			return nil, p.ended()
		}
		return r.line, r.err
	case <-late.C:
		p.kill()
		<-done
		return nil, fmt.Errorf("it did not answer within %s", unit.Human(budget))
	}
}

// errLong is the error of a line that does not end.
var errLong = fmt.Errorf("it wrote a line of more than %v", unit.Bytes(longest))

// read reads a line.
func (p *process) read() ([]byte, error) {
	var line []byte
	for {
		part, err := p.buf.ReadSlice('\n')
		switch {
		case err == nil && line == nil:
			return part[:len(part)-1], nil
		case err == nil:
			return append(line, part[:len(part)-1]...), nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, err
		case len(line) > longest:
			return nil, errLong
		}
		line = append(line, part...)
	}
}

// ended is the error of a process that has closed its input or output: how it ended, if it
// has.
func (p *process) ended() error {
	p.wait()
	select {
	case <-p.gone:
		if p.err != nil && p.cmd.ProcessState == nil {
			return fmt.Errorf("it ended: %w", p.err)
		}
		return fmt.Errorf("it ended: %s", p.cmd.ProcessState)
	case <-time.After(patience):
		return errors.New("it closed its standard output")
	}
}

// wait waits for the process in the background.
func (p *process) wait() {
	p.reap.Do(func() {
		go func() {
			p.err = p.cmd.Wait()
			close(p.gone)
		}()
	})
}

// kill ends the process and those that it has started, at once.
func (p *process) kill() {
	select {
	case <-p.gone: // its number may be that of a stranger by now
	default:
		killAll(p.cmd)
	}
	p.in.Close()
	p.out.Close() // somebody else may hold the other end
	p.wait()
	select {
	case <-p.gone:
	case <-time.After(2 * patience): // it is stuck in the kernel, or a child of it lives on
	}
}

// end lets the process end by itself, since it is told that nothing more comes, and then
// kills it. It kills one that is being asked at once: nobody waits for the answer.
func (p *process) end() {
	if !p.busy.Load() {
		p.in.Close()
		p.wait()
		select {
		case <-p.gone:
			return
		case <-time.After(patience / 2):
		}
	}
	p.kill()
}

// labelled writes whole lines, each after a label.
type labelled struct {
	to    io.Writer
	label string
	rest  []byte // of a line that has not ended
}

// Write implements io.Writer.
func (l *labelled) Write(text []byte) (int, error) {
	const most = 1 << 16 // of a line that does not end
	l.rest = append(l.rest, text...)
	var out []byte
	for {
		at := bytes.IndexByte(l.rest, '\n')
		if at < 0 && len(l.rest) < most {
			break
		}
		if at < 0 {
			at = len(l.rest) - 1
		}
		out = append(append(out, l.label...), l.rest[:at+1]...)
		l.rest = l.rest[at+1:]
	}
	if len(out) == 0 {
		return len(text), nil
	}
	_, err := l.to.Write(out)
	return len(text), err
}
