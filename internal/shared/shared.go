// Package shared finds the published data that tests and benchmarks are held
// against. It lies in a folder shared beside the repository and is never part of
// it.
package shared

import (
	"compress/gzip"
	"encoding/csv"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
)

// Path is a file or folder of the published data, such as data/philly. Where it
// is missing the test is skipped with a message, but fails in continuous
// integration (where CI is set).
func Path(t testing.TB, path string) string {
	t.Helper()
	root, err := root()
	full := filepath.Join(root, filepath.FromSlash(path))
	if err == nil {
		_, err = os.Stat(full)
	}
	switch {
	case err == nil:
	case os.Getenv("CI") != "":
		t.Fatalf("the published data is missing: %v", err)
	default:
		t.Skipf("the published data is missing: %v", err)
	}
	return full
}

// Rows are the lines of a CSV file of the published data, which may be compressed (.gz),
// its header first.
func Rows(t testing.TB, path string) [][]string {
	t.Helper()
	f, err := os.Open(Path(t, path))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	in := io.Reader(f)
	if filepath.Ext(path) == ".gz" {
		if in, err = gzip.NewReader(f); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
	}
	rows, err := csv.NewReader(in).ReadAll()
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return rows
}

// root is the folder beside the one that holds go.mod.
func root() (string, error) {
	dir, err := os.Getwd() // of a test: the folder of its package
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return filepath.Join(filepath.Dir(dir), "shared"), nil
		}
		up := filepath.Dir(dir)
		if up == dir {
			return "", errors.New("no go.mod in this folder or above it")
		}
		dir = up
	}
}
