package catalogue

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/norn-scheduler/norn/internal/shared"
)

// TestFiles: every file of the list has a place, a checksum and a licence, and the ones
// that are at hand are what the list says.
func TestFiles(t *testing.T) {
	all, err := Files()
	if err != nil || len(all) < 600 {
		t.Fatalf("%d files, %v", len(all), err)
	}
	for i := range all {
		f := &all[i]
		if i > 0 && all[i-1].Path >= f.Path || len(f.SHA256) != 64 || strings.Count(f.Repository, "/") != 1 || f.Commit == "" || f.Source == "" || f.Licence == "" || f.Bytes <= 0 || !filepath.IsLocal(filepath.FromSlash(f.Path)) {
			t.Errorf("line %d: %+v", i+2, f)
		}
	}
	root := shared.Path(t, "data")
	for i := range all {
		kept, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(all[i].Path)))
		if err != nil || !all[i].Has(kept) {
			t.Errorf("%s: %v, or another content", all[i].Path, err)
		}
	}
}

// TestStore: what is fetched is checked and packed where it is to be.
func TestStore(t *testing.T) {
	text := []byte("a,b\n1,2\n")
	sum := sha256.Sum256(text)
	for _, c := range []struct {
		path, source string
		packed       bool
	}{{"x/a.csv", "a.csv", false}, {"x/a.csv.gz", "data/a.csv", true}, {"x/a.csv.gz", "a.csv.gz", false}} {
		f := File{Path: c.path, Source: c.source, SHA256: hex.EncodeToString(sum[:]), Bytes: int64(len(text))}
		kept, err := f.Store(text)
		if err != nil || bytes.Equal(kept, text) == c.packed || !f.Has(kept) {
			t.Errorf("%+v: %q, %v", c, kept, err)
		}
		if f.Has(text[1:]) {
			t.Errorf("%+v: another content is taken for it", c)
		}
		if _, err := f.Store(text[1:]); err == nil || !strings.HasPrefix(err.Error(), c.path+": ") {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// TestOf selects by data set, folder and file, and URLs are escaped.
func TestOf(t *testing.T) {
	all := []File{{Path: "a/b/c"}, {Path: "a/d"}, {Path: "ab/c"}}
	for name, want := range map[string]int{"a": 2, "a/": 2, "a/b": 1, "a/d": 1, "ab": 1, "b": 0, "": 0} {
		if got := Of(all, name); len(got) != want {
			t.Errorf("%q: %v", name, got)
		}
	}
	f := File{Repository: "o/r", Commit: "c0", Source: "a b/120+x#1.csv"}
	if got := f.URL("http://h/"); got != "http://h/o/r/c0/a%20b/120+x%231.csv" {
		t.Error(got)
	}
}

// TestRead refuses a list with an error.
func TestRead(t *testing.T) {
	for _, text := range []string{"path,bytes\na,1\n", "1,2,3,4,5,6,7,8\na,many,c,d,e,f,g,h\n"} {
		if _, err := read(text); err == nil {
			t.Errorf("%q was read", text)
		}
	}
}
