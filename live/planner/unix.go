//go:build unix

package planner

import (
	"os"
	"os/exec"
	"syscall"
)

var errPipe error = syscall.EPIPE

// apart starts a process in a group of its own, so that signals to the daemon's do not
// reach it, and so that it can take all of itself back.
func apart(c *exec.Cmd) { c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// yieldToOthers has all threads of this process run only where nobody else wants to, and
// offers the process first when memory is short. Where that fails it runs as others do.
func yieldToOthers() {
	syscall.Setpriority(syscall.PRIO_PGRP, 0, 19) // the group is this process: see apart
	os.WriteFile("/proc/self/oom_score_adj", []byte("1000"), 0)
}
