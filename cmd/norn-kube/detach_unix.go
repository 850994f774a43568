//go:build unix

package main

import (
	"os"
	"os/exec"
	"syscall"
)

// background starts this program with other arguments, apart from the terminal, and returns
// its number and a channel that is closed when it ends.
func background(args []string, messages *os.File) (pid int, ended <-chan struct{}, err error) {
	self, err := os.Executable()
	if err != nil {
		return 0, nil, err
	}
	cmd := exec.Command(self, args...)
	cmd.Stdout, cmd.Stderr = messages, messages
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return 0, nil, err
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		cmd.Wait()
	}()
	return cmd.Process.Pid, done, nil
}
