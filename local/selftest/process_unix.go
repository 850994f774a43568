//go:build unix

package selftest

import (
	"os/exec"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// cpuTime is the CPU time of this process.
func cpuTime() time.Duration {
	var u unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// detach has a program run in a session of its own, so that an interrupt of the
// self-test is not one of it.
func detach(c *exec.Cmd) { c.SysProcAttr = &syscall.SysProcAttr{Setsid: true} }

// kill kills a process.
func kill(pid int) error { return unix.Kill(pid, unix.SIGKILL) }
