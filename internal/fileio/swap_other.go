//go:build !linux

package fileio

import "errors"

// exchange fails: only Linux can do that.
func exchange(a, b string) error { return errors.ErrUnsupported }
