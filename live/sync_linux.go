package live

import (
	"os"

	"golang.org/x/sys/unix"
)

// datasync makes what was written to a file durable.
func datasync(f *os.File) error { return unix.Fdatasync(int(f.Fd())) }
