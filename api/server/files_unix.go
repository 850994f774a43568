//go:build unix

package server

import "golang.org/x/sys/unix"

// openFiles is how many files this process may have open.
func openFiles() int {
	var l unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &l); err != nil {
		return 1024
	}
	return int(min(l.Cur, 1<<20))
}
