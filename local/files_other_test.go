//go:build !linux

package local_test

import "errors"

func mkfifo(string) error { return errors.ErrUnsupported }

// ownerOf fails: runs are for Linux.
func ownerOf(string) (uint32, error) { return 0, errors.ErrUnsupported }
