//go:build !linux

package local

import "errors"

func (w *watcher) deafen() error { return errors.ErrUnsupported }

func (w *watcher) count() int { return 0 }
