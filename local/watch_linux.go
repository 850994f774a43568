package local

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// watcher waits for runners: for their datagrams, and for their ends, whether
// they are children of this daemon or of one before it.
type watcher struct {
	d    *launcher
	path string // of the socket to which runners send datagrams
	conn *net.UnixConn
	poll int // epoll
	wake int // eventfd that ends the waiting

	mu   sync.Mutex
	runs map[int]watched // by pidfd
	wait sync.WaitGroup
}

type watched struct {
	key string
	run int
	pid int
}

// newWatcher begins to wait. Socket paths are short: one that would not fit lies
// in the folder for temporary files.
func newWatcher(d *launcher) (*watcher, error) {
	w := &watcher{d: d, path: filepath.Join(d.store.dir, "notify.sock"), runs: map[int]watched{}}
	if len(w.path) > 100 {
		dir, err := os.MkdirTemp("", "norn-")
		if err != nil {
			return nil, err
		}
		w.path = filepath.Join(dir, "notify.sock")
	}
	os.Remove(w.path)
	var err error
	if w.conn, err = net.ListenUnixgram("unixgram", &net.UnixAddr{Name: w.path, Net: "unixgram"}); err != nil {
		return nil, fmt.Errorf("the socket for runners: %w", err)
	}
	if w.poll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return nil, fmt.Errorf("waiting for processes: %w", err)
	}
	if w.wake, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err != nil {
		return nil, fmt.Errorf("waiting for processes: %w", err)
	}
	if err := unix.EpollCtl(w.poll, unix.EPOLL_CTL_ADD, w.wake, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(w.wake)}); err != nil {
		return nil, fmt.Errorf("waiting for processes: %w", err)
	}
	w.wait.Go(w.datagrams)
	w.wait.Go(w.ends)
	return w, nil
}

// datagrams looks at each run of which a runner says that something has changed.
func (w *watcher) datagrams() {
	var b [256]byte
	for {
		n, err := w.conn.Read(b[:])
		if errors.Is(err, net.ErrClosed) {
			return
		}
		key, run, ok := strings.Cut(string(b[:n]), " ")
		number := 0
		if _, err := fmt.Sscanf(run, "%d", &number); ok && err == nil && !strings.ContainsAny(key, "/.") {
			w.d.look(key, number)
		}
	}
}

// add watches over a runner, which may have ended already.
func (w *watcher) add(pid int, key string, run int) error {
	fd, err := unix.PidfdOpen(pid, unix.PIDFD_NONBLOCK)
	if errors.Is(err, unix.ESRCH) {
		w.gone(key, run)
		return nil
	}
	if err != nil {
		return fmt.Errorf("watching process %d: %w", pid, err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := unix.EpollCtl(w.poll, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(fd)}); err != nil {
		unix.Close(fd)
		return fmt.Errorf("watching process %d: %w", pid, err)
	}
	w.runs[fd] = watched{key, run, pid}
	return nil
}

// ends waits for the ends of runners.
func (w *watcher) ends() {
	events := make([]unix.EpollEvent, 64)
	for {
		n, err := unix.EpollWait(w.poll, events, -1)
		if err != nil && !errors.Is(err, unix.EINTR) {
			return
		}
		for i := range max(0, n) {
			fd := int(events[i].Fd)
			if fd == w.wake {
				return
			}
			w.mu.Lock()
			run, known := w.runs[fd]
			delete(w.runs, fd)
			w.mu.Unlock()
			if !known {
				continue
			}
			// A child that has not become its program yet still has the descriptor,
			// so that closing it here would not take it out of the set.
			unix.EpollCtl(w.poll, unix.EPOLL_CTL_DEL, fd, nil)
			unix.Close(fd)
			unix.Wait4(run.pid, nil, unix.WNOHANG, nil) // a child of this daemon is no zombie; of another it is not ours to wait for
			w.gone(run.key, run.run)
		}
	}
}

// gone sees to a run whose runner has ended, or cannot be watched. The daemon does
// not let go of its folder before that is done.
func (w *watcher) gone(key string, run int) {
	w.wait.Go(func() { w.d.lost(key, run, "") })
}

func (w *watcher) close() {
	w.conn.Close()
	os.Remove(w.path)
	unix.Write(w.wake, []byte{1, 0, 0, 0, 0, 0, 0, 0})
	w.wait.Wait()
	for fd := range w.runs {
		unix.Close(fd)
	}
	unix.Close(w.poll)
	unix.Close(w.wake)
}
