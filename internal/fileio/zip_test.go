package fileio_test

import (
	"archive/zip"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/norn-scheduler/norn/internal/fileio"
)

// archive writes a ZIP archive of files that have their names in them.
func archive(t *testing.T, path string, names ...string) string {
	t.Helper()
	err := fileio.Create(path, func(w io.Writer) error {
		z := zip.NewWriter(w)
		for _, name := range names {
			f, err := z.Create(name)
			if err != nil {
				return err
			}
			if _, err := io.WriteString(f, "this is "+name); err != nil {
				return err
			}
		}
		return z.Close()
	})
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// TestZip: a file in a ZIP archive is opened by its path there, the only one by that of the
// archive; where there are several, the error names one. The hash is that of the archive.
func TestZip(t *testing.T) {
	dir := t.TempDir()
	two, one := archive(t, filepath.Join(dir, "two.zip"), "a/b.csv", "c.csv"), archive(t, filepath.Join(dir, "one.ZIP"), "a/b.csv")
	for path, want := range map[string]string{two + "/a/b.csv": "a/b.csv", two + "/c.csv": "c.csv", one: "a/b.csv", one + "/a/b.csv": "a/b.csv"} {
		f, err := fileio.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(f)
		if err := errors.Join(err, f.Close()); err != nil || string(text) != "this is "+want || !fileio.Regular(path) {
			t.Errorf("%s: %q, %v", path, text, err)
		}
	}
	if _, err := fileio.Open(two); err == nil || !strings.Contains(err.Error(), "an archive of 2 files: name one of them, such as "+two+"/a/b.csv") {
		t.Errorf("an archive of two: %v", err)
	}
	for _, path := range []string{two + "/a", two + "/d.csv", filepath.Join(dir, "no.zip", "a.csv"), filepath.Join(dir, "no.zip")} {
		if _, err := fileio.Open(path); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v", path, err)
		}
	}
	empty := archive(t, filepath.Join(dir, "empty.zip"))
	if _, err := fileio.Open(empty); err == nil || !strings.Contains(err.Error(), "an archive without files") {
		t.Errorf("an empty archive: %v", err)
	}
	named := filepath.Join(dir, "named.zip") // a file that is only called so
	if err := os.WriteFile(named, []byte("gpus,duration\n1,2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := fileio.Open(named)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := fileio.Open(named + "/a.csv"); !errors.Is(err, zip.ErrFormat) {
		t.Errorf("a file in what is no archive: %v", err)
	}
	whole, err := fileio.Hash(two)
	inside, e := fileio.Hash(two + "/c.csv")
	if err := errors.Join(err, e); err != nil || whole == "" || inside != whole {
		t.Errorf("hashes %s and %s, %v", whole, inside, err)
	}
}
