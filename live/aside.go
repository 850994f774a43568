package live

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// A file that can no longer be read is not deleted. It is set aside, in a
// folder of the journal that the daemon does not read.
const asideDir = "aside"

// SetAside moves a file or a folder below the journal's to the folder of what
// is set aside, under its path with dashes for slashes. A file that no longer
// exists is no error.
func (s *Journal) SetAside(name string) error {
	to, err := s.asidePath(name)
	if err != nil {
		return err
	}
	if err := os.Rename(filepath.Join(s.dir, name), to); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return SyncDir(filepath.Dir(to))
}

// asidePath is a path for what is set aside that is still free.
func (s *Journal) asidePath(name string) (string, error) {
	dir := filepath.Join(s.dir, asideDir)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	base := filepath.Join(dir, strings.ReplaceAll(name, string(filepath.Separator), "-"))
	path := base
	for n := 2; ; n++ {
		if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
			return path, nil
		}
		path = fmt.Sprint(base, ".", n)
	}
}

// keepAside writes what was cut out of a file to the folder of what is set aside.
func (s *Journal) keepAside(name string, what []byte) error {
	path, err := s.asidePath(name)
	if err != nil {
		return err
	}
	return os.WriteFile(path, what, 0o600)
}

// CutOff has a log end where it is no longer as it was written, at most at its beginning.
// The whole of it is set aside first, unless it was only torn by a crash.
func (s *Journal) CutOff(n int, good int64, torn bool) error {
	switch {
	case torn:
		return os.Truncate(s.Path(n), good)
	case good == 0:
		return s.setLogAside(n)
	}
	in, err := s.OpenLog(n)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(s.Path(n)+".new", os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer os.Remove(out.Name())
	defer out.Close()
	if _, err := io.CopyN(out, in, good); err != nil {
		return err
	}
	if err := out.Sync(); err != nil {
		return err
	}
	if err := s.setLogAside(n); err != nil { // should it end here, the mark tells that a log is gone
		return err
	}
	return os.Rename(out.Name(), s.Path(n))
}

// setLogAside sets a log aside, packed or not.
func (s *Journal) setLogAside(n int) error {
	name, err := filepath.Rel(s.dir, s.Path(n))
	if err != nil {
		return err
	}
	for _, file := range []string{name, name + ".zst"} {
		if _, err := os.Lstat(filepath.Join(s.dir, file)); err == nil {
			if err := s.SetAside(file); err != nil {
				return err
			}
		}
	}
	return nil
}
