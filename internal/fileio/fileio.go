// Package fileio writes and compares files, for the command and for what the command
// does as a library.
package fileio

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
)

// ErrLocked says that another process has locked the file.
var ErrLocked = errors.New("is locked by another process")

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

// Unfinished is what the name of a file ends with while CreateWhole writes it.
const Unfinished = ".new"

// CreateWhole is Create for a file that has its name only when it is whole, whenever the
// program ends.
func CreateWhole(path string, write func(io.Writer) error) error {
	if err := Create(path+Unfinished, write); err != nil {
		os.Remove(path + Unfinished)
		return err
	}
	return os.Rename(path+Unfinished, path)
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

// Lock opens a file, which it creates where it is not there, and locks it until it is
// closed, and no longer than the process lives. It fails with ErrLocked where another
// process has locked it.
func Lock(path string) (*os.File, error) {
	for {
		f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o666)
		if err != nil {
			return nil, err
		}
		if err := TryLock(f); err != nil {
			f.Close()
			return nil, fmt.Errorf("%s %w", path, err)
		}
		// Until it was locked, the one who had the lock may have moved the file away.
		have, err := f.Stat()
		there, missing := os.Stat(path)
		if err == nil && missing == nil && os.SameFile(have, there) {
			return f, nil
		}
		f.Close()
		if err != nil {
			return nil, err
		}
	}
}

// Replace puts a folder in the place of another one, which it removes, or where there is
// none yet. Where the file system can do it there is never none.
func Replace(path, by string) error {
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		return os.Rename(by, path)
	}
	if exchange(by, path) == nil {
		return os.RemoveAll(by)
	}
	old := path + ".replaced"
	if err := os.RemoveAll(old); err != nil {
		return err
	}
	if err := os.Rename(path, old); err != nil {
		return err
	}
	if err := os.Rename(by, path); err != nil {
		return errors.Join(err, os.Rename(old, path))
	}
	return os.RemoveAll(old)
}

// Hash is the SHA-256 of a file, in hexadecimal digits; of a folder, that of the names,
// lengths and contents of all files in it, in the order of their names. It is empty for
// what can be read once only, such as a pipe. Of a file in a ZIP archive it is that of the
// archive.
func Hash(path string) (string, error) {
	if archive, _, in := InZip(path); in {
		path = archive
	}
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() && !info.IsDir() {
		return "", err
	}
	sum := sha256.New()
	add := func(path string) error {
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		defer f.Close()
		_, err = io.Copy(sum, f)
		return err
	}
	if !info.IsDir() {
		err = add(path)
	} else {
		err = filepath.WalkDir(path, func(name string, d fs.DirEntry, err error) error {
			if err != nil || !d.Type().IsRegular() {
				return err
			}
			info, err := d.Info()
			if err != nil {
				return err
			}
			inside, _ := filepath.Rel(path, name)
			io.WriteString(sum, filepath.ToSlash(inside)+"\x00"+strconv.FormatInt(info.Size(), 10)+"\x00")
			return add(name)
		})
	}
	if err != nil {
		return "", err
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}
