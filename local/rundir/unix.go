//go:build unix

package rundir

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/norn-scheduler/norn/internal/fileio"
)

// Lock takes the lock of the folder, or fails with ErrHeld. It is let go when
// the file is closed, and when the process ends, however it ends.
func Lock(dir string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, LockFile), os.O_CREATE|os.O_RDWR|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, err
	}
	if err := fileio.TryLock(f); err != nil {
		f.Close()
		if errors.Is(err, fileio.ErrLocked) {
			err = fmt.Errorf("%s %w", filepath.Join(dir, LockFile), ErrHeld)
		}
		return nil, err
	}
	return f, nil
}

// KnownSignal tells whether a signal may be named in api.Stop: TERM, SIGUSR1.
func KnownSignal(name string) bool { return Signal(name) != 0 }

// Signal is the number of a signal by its name, with or without SIG; 0 when
// there is none.
func Signal(name string) unix.Signal {
	name = strings.ToUpper(name)
	if !strings.HasPrefix(name, "SIG") {
		name = "SIG" + name
	}
	return unix.SignalNum(name)
}
