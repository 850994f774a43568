//go:build unix

package main

import (
	"os"
	"syscall"
)

// resizes are the signals that tell that the terminal has another size, hangups
// those that end a program which owns the screen, beside the usual ones.
var (
	resizes = []os.Signal{syscall.SIGWINCH}
	hangups = []os.Signal{syscall.SIGHUP, syscall.SIGQUIT}
)
