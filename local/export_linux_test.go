package local

import (
	"os"

	"golang.org/x/sys/unix"
)

func (w *watcher) deafen() error { return w.conn.Close() }

// count is the number of runners that are watched.
func (w *watcher) count() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.runs)
}

// replace lets a descriptor stand for another file.
func replace(fd int, by *os.File) error { return unix.Dup3(int(by.Fd()), fd, 0) }
