// Package fileio writes and compares files, for the command and for what the command
// does as a library.
package fileio

import (
	"io"
	"os"
)

// Create writes a file. It returns the first error, that of closing included.
func Create(path string, write func(io.Writer) error) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	err = write(file)
	if e := file.Close(); err == nil {
		err = e
	}
	return err
}

// Same tells whether two paths are one file, or one folder, that is there.
func Same(a, b string) bool {
	x, err := os.Stat(a)
	if err != nil {
		return false
	}
	y, err := os.Stat(b)
	return err == nil && os.SameFile(x, y)
}
