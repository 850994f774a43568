//go:build !linux

package local

import (
	"errors"
)

// watcher waits for runners, which there are on Linux alone.
type watcher struct{ path string }

func newWatcher(*launcher) (*watcher, error) {
	return nil, errors.New("norn up needs Linux; every other verb runs here, also with --server")
}

func (w *watcher) add(int, string, int) error { return nil }

func (w *watcher) gone(string, int) {}

func (w *watcher) close() {}
