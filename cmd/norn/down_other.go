//go:build !unix

package main

import (
	"context"
	"errors"
	"io"
)

func startDetached([]string, io.Writer) (<-chan struct{}, error) { return nil, errors.ErrUnsupported }

func down(context.Context, string) error { return errors.ErrUnsupported }

// unlocked tells whether no daemon holds a state folder: none can.
func unlocked(string) (bool, error) { return true, nil }
