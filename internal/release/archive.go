package main

import (
	"archive/tar"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// A file is one file of an archive or package.
type file struct {
	path string      // in the archive, with slashes
	from string      // where it is on this machine; "" if data has it
	data []byte      // what is in it
	mode os.FileMode // 0 is 0644
}

// read is what is in the file.
func (f file) read() ([]byte, error) {
	if f.from == "" {
		return f.data, nil
	}
	return os.ReadFile(f.from)
}

func (f file) perm() os.FileMode {
	if f.mode == 0 {
		return 0o644
	}
	return f.mode
}

// writeArchive writes a tar.gz of files, all in the folder top.
func writeArchive(path, top string, files []file, at time.Time) error {
	return create(path, func(w io.Writer) error {
		z, err := gzip.NewWriterLevel(w, gzip.BestCompression)
		if err != nil {
			return err
		}
		if err := writeTar(z, top, files, at); err != nil {
			return err
		}
		return z.Close()
	})
}

// writeTar writes files in the order of their paths, with folders before what is in them.
func writeTar(w io.Writer, top string, files []file, at time.Time) error {
	t := tar.NewWriter(w)
	sorted := slices.SortedFunc(slices.Values(files), func(a, b file) int { return strings.Compare(a.path, b.path) })
	seen := make(map[string]bool)
	for _, f := range sorted {
		path := strings.TrimPrefix(top+"/"+f.path, "/")
		for i, c := range path {
			if dir := path[:i]; c == '/' && !seen[dir] {
				seen[dir] = true
				if err := t.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: dir + "/", Mode: 0o755, ModTime: at}); err != nil {
					return err
				}
			}
		}
		data, err := f.read()
		if err != nil {
			return err
		}
		h := &tar.Header{Typeflag: tar.TypeReg, Name: path, Mode: int64(f.perm()), Size: int64(len(data)), ModTime: at}
		if err := t.WriteHeader(h); err != nil {
			return err
		}
		if _, err := t.Write(data); err != nil {
			return err
		}
	}
	return t.Close()
}

// writeSums writes SHA256SUMS, as sha256sum --check reads it, of all files of a folder.
func writeSums(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	var sums strings.Builder
	for _, e := range entries {
		sum, err := sumOf(filepath.Join(dir, e.Name()))
		if err != nil {
			return err
		}
		fmt.Fprintf(&sums, "%s  %s\n", sum, e.Name())
	}
	return os.WriteFile(filepath.Join(dir, "SHA256SUMS"), []byte(sums.String()), 0o644)
}

// sumOf is the SHA-256 of a file, in hexadecimal digits.
func sumOf(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// create writes a file with what write gives it.
func create(path string, write func(io.Writer) error) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	if err := write(f); err != nil {
		_ = f.Close()
		return fmt.Errorf("%s: %w", filepath.Base(path), err)
	}
	return f.Close()
}
