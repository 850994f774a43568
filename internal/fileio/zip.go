package fileio

import (
	"archive/zip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
)

// InZip parts the path of a file in a ZIP archive, such as a.zip/b/c.csv, into that of the
// archive and the name there, which is empty for the archive itself. ok tells whether there is
// such an archive.
func InZip(path string) (archive, name string, ok bool) {
	for at := 0; ; {
		i := strings.Index(strings.ToLower(path[at:]), ".zip")
		if i < 0 {
			return "", "", false
		}
		at += i + len(".zip")
		if at < len(path) && path[at] != '/' {
			continue
		}
		if st, err := os.Stat(path[:at]); err == nil && st.Mode().IsRegular() {
			return path[:at], strings.TrimPrefix(path[at:], "/"), true
		}
	}
}

// Open opens a file, which may be one in a ZIP archive: the one that the path names, or
// the only one. It fails where an archive has several and none of that name, and says one.
func Open(path string) (io.ReadCloser, error) {
	archive, name, ok := InZip(path)
	if !ok {
		return os.Open(path)
	}
	z, err := zip.OpenReader(archive)
	if errors.Is(err, zip.ErrFormat) && name == "" {
		return os.Open(path) // it is only called so
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", archive, err)
	}
	var files []*zip.File
	for _, f := range z.File {
		if !f.FileInfo().IsDir() && (name == "" || f.Name == name) {
			files = append(files, f)
		}
	}
	switch {
	case len(files) > 1:
		err = fmt.Errorf("%s: an archive of %d files: name one of them, such as %s/%s", archive, len(files), archive, files[0].Name)
	case len(files) == 0 && name == "":
		err = fmt.Errorf("%s: an archive without files", archive)
	case len(files) == 0:
		err = &fs.PathError{Op: "open", Path: path, Err: fs.ErrNotExist}
	}
	if err != nil {
		return nil, errors.Join(err, z.Close())
	}
	in, err := files[0].Open()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", path, err), z.Close())
	}
	return &zipped{in, z}, nil
}

// zipped is a file in a ZIP archive.
type zipped struct {
	io.ReadCloser
	archive *zip.ReadCloser
}

// Close implements io.Closer.
func (z *zipped) Close() error { return errors.Join(z.ReadCloser.Close(), z.archive.Close()) }

// Regular tells whether a path is that of a file that can be read again, on disk or in a ZIP
// archive.
func Regular(path string) bool {
	if _, _, in := InZip(path); in {
		return true
	}
	st, err := os.Stat(path)
	return err == nil && st.Mode().IsRegular()
}
