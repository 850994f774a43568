//go:build unix

package hardware

import (
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/norn-scheduler/norn/cluster/unit"
)

// DiskOf is how much is free, for whoever is not root, on the disk that holds a
// path, and how large it is.
func DiskOf(path string) (free, size unit.Bytes, err error) {
	var s unix.Statfs_t
	if err := unix.Statfs(path, &s); err != nil {
		return 0, 0, fmt.Errorf("the disk of %s: %w", path, err)
	}
	block := unit.Bytes(s.Bsize)
	return unit.Bytes(s.Bavail) * block, unit.Bytes(s.Blocks) * block, nil
}
