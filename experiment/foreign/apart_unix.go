//go:build unix

package foreign

import (
	"os/exec"
	"syscall"
)

// apart gives a command a group of processes of its own, so that all of them can be killed,
// and so that a key that interrupts Norn does not interrupt a decision.
func apart(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// killAll kills a process that nobody has waited for yet, and its group.
func killAll(cmd *exec.Cmd) { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) } // it may have ended by itself
