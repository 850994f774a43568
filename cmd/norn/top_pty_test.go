//go:build unix

package main

import (
	"context"
	"errors"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/creack/pty"
	"golang.org/x/term"

	"github.com/norn-scheduler/norn/api"
	"github.com/norn-scheduler/norn/internal/longtest"
)

// tty is a terminal with somebody before it.
type tty struct {
	t        *testing.T
	pty, tty *os.File
	before   *term.State
	mu       sync.Mutex
	written  strings.Builder
	more     chan struct{}
}

func newTTY(t *testing.T, width, height uint16) *tty {
	t.Helper()
	p, s, err := pty.Open()
	if err != nil {
		t.Skip("no terminal can be made here: ", err)
	}
	x := &tty{t: t, pty: p, tty: s, more: make(chan struct{}, 1)}
	t.Cleanup(func() { s.Close(); p.Close() })
	x.resize(width, height)
	if x.before, err = term.GetState(int(s.Fd())); err != nil {
		t.Fatal(err)
	}
	go func() {
		buf := make([]byte, 4096)
		for {
			n, err := p.Read(buf)
			x.mu.Lock()
			x.written.Write(buf[:n])
			x.mu.Unlock()
			select {
			case x.more <- struct{}{}:
			default:
			}
			if err != nil {
				return
			}
		}
	}()
	return x
}

func (x *tty) resize(width, height uint16) {
	if err := pty.Setsize(x.pty, &pty.Winsize{Cols: width, Rows: height}); err != nil {
		x.t.Fatal(err)
	}
}

func (x *tty) press(keys string) {
	x.t.Helper()
	if _, err := io.WriteString(x.pty, keys); err != nil {
		x.t.Fatal(err)
	}
}

// sees waits until a text has been written behind all that was seen before.
func (x *tty) sees(text string) {
	x.t.Helper()
	deadline := time.After(20 * time.Second)
	for {
		x.mu.Lock()
		got := x.written.String()
		at := strings.Index(got, text)
		if at >= 0 {
			x.written.Reset()
			x.written.WriteString(got[at+len(text):])
			x.mu.Unlock()
			return
		}
		x.mu.Unlock()
		select {
		case <-x.more:
		case <-deadline:
			x.t.Fatalf("%q does not come; what was written is %q", text, got)
		}
	}
}

// asBefore checks that the terminal is as it was.
func (x *tty) asBefore() {
	x.t.Helper()
	x.sees(screenEnd)
	now, err := term.GetState(int(x.tty.Fd()))
	if err != nil || *now != *x.before {
		x.t.Errorf("the terminal is left otherwise than it was: %v", err)
	}
}

// startTop runs norn top on a terminal; what it ends with is received.
func startTop(ctx context.Context, f *fake, x *tty) <-chan error {
	s := shellOf(f, "NO_COLOR=1")
	cmd := liveRoot(s)
	cmd.SetArgs([]string{"top"})
	cmd.SetIn(x.tty)
	cmd.SetOut(x.tty)
	cmd.SetErr(io.Discard)
	ended := make(chan error, 1)
	go func() {
		defer func() {
			if v := recover(); v != nil {
				ended <- errors.New("panic: " + v.(string))
			}
		}()
		ended <- cmd.ExecuteContext(ctx)
	}()
	return ended
}

// TestTopOnTerminal drives the live screen: keys, news, another size, and the end.
func TestTopOnTerminal(t *testing.T) {
	longtest.Skip(t)
	x := newTTY(t, 80, 24)
	f := busy()
	f.tell, f.why, f.output["5/0"] = make(chan api.Event), sampleWhy(), "loss 3.1\n"
	ended := startTop(t.Context(), f, x)
	x.sees(screenBegin)
	x.sees("\x1b[7m>  3 bert-large")
	x.sees("q quit")
	x.press("j")
	x.sees("\x1b[7m>  5 python train.py")
	x.press("w")
	x.sees("What would let it start")
	x.press("\x1b")
	x.sees("RUNNING 4")
	x.press("l")
	x.sees("loss 3.1")
	f.mu.Lock()
	f.output["5/0"] = "loss 3.1\nloss 2.9\n"
	f.mu.Unlock()
	x.sees("loss 2.9") // it goes on
	x.press("q")
	x.sees("RUNNING 4")
	x.press("c")
	x.sees("cancel job 5 (python train.py)? y: yes, any other key: no")
	x.press("y")
	x.sees("cancelled job 5")
	f.mu.Lock()
	f.list = slices.Delete(f.list, 1, 2)
	f.mu.Unlock()
	f.tell <- api.Event{}
	x.sees("RUNNING 3")
	x.resize(100, 30)
	x.sees("RUNNING 3")
	x.press("q")
	if err := <-ended; err != nil {
		t.Error(err)
	}
	x.asBefore()
	if !slices.Contains(f.asked, "cancel 5") {
		t.Errorf("%q", f.asked)
	}
}

// TestTopEnds: whatever ends it, the terminal is as it was before.
func TestTopEnds(t *testing.T) {
	t.Run("a signal", func(t *testing.T) {
		x := newTTY(t, 80, 24)
		ctx, cancel := context.WithCancel(t.Context())
		ended := startTop(ctx, busy(), x)
		x.sees("q quit")
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		x.asBefore()
	})
	t.Run("a panic", func(t *testing.T) {
		x := newTTY(t, 80, 24)
		f := busy()
		f.onLook = func(n int) {
			if n > 1 {
				panic("a mistake")
			}
		}
		ended := startTop(t.Context(), f, x)
		if err := <-ended; err == nil || !strings.HasPrefix(err.Error(), "panic: a mistake\n") || !strings.Contains(err.Error(), "goroutine") {
			t.Error(err)
		}
		x.asBefore()
	})
	t.Run("ctrl-c", func(t *testing.T) {
		x := newTTY(t, 80, 24)
		ended := startTop(t.Context(), busy(), x)
		x.sees("q quit")
		x.press("\x03")
		if err := <-ended; err != nil {
			t.Error(err)
		}
		x.asBefore()
	})
	t.Run("no Norn", func(t *testing.T) {
		x := newTTY(t, 80, 24)
		f := busy()
		f.refuse["status"] = errors.New("nobody is there")
		if err := <-startTop(t.Context(), f, x); err == nil || err.Error() != "nobody is there" {
			t.Error(err)
		}
		if x.mu.Lock(); x.written.Len() > 0 { // the error stays on the screen that is there
			t.Errorf("%q", x.written.String())
		}
		x.mu.Unlock()
	})
}
