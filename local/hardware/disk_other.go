//go:build !unix

package hardware

import (
	"errors"

	"github.com/norn-scheduler/norn/cluster/unit"
)

// DiskOf fails: it is known for Unix alone.
func DiskOf(string) (free, size unit.Bytes, err error) { return 0, 0, errors.ErrUnsupported }
