//go:build unix

package mps

import (
	"os/exec"
	"syscall"

	"github.com/norn-scheduler/norn/local/rundir"
)

// as has a program run as a user, in a session of its own: it outlives who started it.
func as(c *exec.Cmd, u *rundir.User) error {
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if u != nil {
		c.SysProcAttr.Credential = &syscall.Credential{Uid: u.UID, Gid: u.GID, Groups: u.Groups}
	}
	return nil
}
