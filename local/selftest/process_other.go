//go:build !unix

package selftest

import (
	"errors"
	"os/exec"
	"time"
)

var began = time.Now()

// cpuTime is the time that this process has run: it is not told how much of the
// processor it had.
func cpuTime() time.Duration { return time.Since(began) }

func detach(*exec.Cmd) {}

func kill(int) error { return errors.ErrUnsupported }
