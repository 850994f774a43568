//go:build !unix

package foreign

import "os/exec"

// apart does nothing where processes have no groups.
func apart(*exec.Cmd) {}

// killAll kills a process.
func killAll(cmd *exec.Cmd) { _ = cmd.Process.Kill() } // it may have ended by itself
