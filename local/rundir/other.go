//go:build !unix

package rundir

import (
	"errors"
	"os"
)

// Lock fails: runs are for Unix.
func Lock(string) (*os.File, error) { return nil, errors.ErrUnsupported }

// KnownSignal tells whether a signal may be named in api.Stop.
func KnownSignal(string) bool { return false }
