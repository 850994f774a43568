package testenv

import "syscall"

// withParent has a child die with this process, so that a test that is killed leaves none.
func withParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
