//go:build !linux

package testenv

import "syscall"

// withParent has nothing to set where a child cannot be made to die with this process.
func withParent() *syscall.SysProcAttr { return nil }
