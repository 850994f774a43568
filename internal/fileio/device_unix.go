//go:build unix

package fileio

import (
	"os"
	"syscall"
)

// SameDevice tells whether two paths are on one file system, or one of them is not there.
func SameDevice(a, b string) bool {
	x, err := os.Stat(a)
	if err != nil {
		return true
	}
	y, err := os.Stat(b)
	if err != nil {
		return true
	}
	p, known := x.Sys().(*syscall.Stat_t)
	q, too := y.Sys().(*syscall.Stat_t)
	return !known || !too || p.Dev == q.Dev
}
