//go:build !unix

package main

import (
	"errors"
	"os"
)

func background([]string, *os.File) (int, <-chan struct{}, error) {
	return 0, nil, errors.ErrUnsupported
}
