//go:build !unix

package mps

import (
	"errors"
	"os/exec"

	"github.com/norn-scheduler/norn/local/rundir"
)

// as fails: there is no MPS here.
func as(*exec.Cmd, *rundir.User) error { return errors.ErrUnsupported }
