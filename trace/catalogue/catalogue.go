// Package catalogue says where published traces and measurements can be had: the place
// of each file in the repository of its authors, its checksum and its licence.
//
// Nouns:
//   - A File is one published file, and where it belongs in a data folder.
//   - A data set is the files below one folder, such as philly or lucid.
//
// Only files that are kept as their authors publish them are here, packed or not. Data
// that was put together or converted from others cannot be fetched.
package catalogue

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	_ "embed" // files.csv
	"encoding/csv"
	"encoding/hex"
	"fmt"
	"io"
	"net/url"
	"path"
	"strconv"
	"strings"
)

//go:embed files.csv
var table string

// File is one published file.
type File struct {
	Path       string // below the folder data, with slashes
	Bytes      int64  // as published
	SHA256     string // of that, in hexadecimal digits
	Repository string // owner/name on GitHub
	Commit     string // the first digits of its hash
	Source     string // path in the repository
	Licence    string // as the repository states it
	Tried      string // when it was last fetched from there; empty: never
}

// columns is the number of columns of files.csv, which are the fields of a File.
const columns = 8

// Files are all files, by path.
func Files() ([]File, error) { return read(table) }

func read(text string) ([]File, error) {
	in := csv.NewReader(strings.NewReader(text))
	in.FieldsPerRecord = columns
	rows, err := in.ReadAll()
	if err != nil {
		return nil, err
	}
	var out []File
	for i, r := range rows {
		if i == 0 {
			continue // names of the columns
		}
		size, err := strconv.ParseInt(r[1], 10, 64)
		if err != nil {
			return nil, fmt.Errorf("line %d: %q is no number of bytes", i+1, r[1])
		}
		out = append(out, File{r[0], size, r[2], r[3], r[4], r[5], r[6], r[7]})
	}
	return out, nil
}

// Set is the data set of a file: the first part of its path.
func (f *File) Set() string {
	set, _, _ := strings.Cut(f.Path, "/")
	return set
}

// Of are the files of a data set, the files below a folder, or the one file of that path.
func Of(all []File, name string) []File {
	var out []File
	name = path.Clean(name)
	for _, f := range all {
		if f.Path == name || strings.HasPrefix(f.Path, name+"/") {
			out = append(out, f)
		}
	}
	return out
}

// URL is where the file is, below a server that serves repositories as GitHub serves
// their raw files.
func (f *File) URL(server string) string {
	in := url.URL{Path: path.Join(f.Repository, f.Commit, f.Source)}
	return strings.TrimSuffix(server, "/") + "/" + in.EscapedPath()
}

// packed tells whether the file is packed where it is kept, and not where it comes from.
func (f *File) packed() bool {
	return strings.HasSuffix(f.Path, ".gz") && !strings.HasSuffix(f.Source, ".gz")
}

// Has tells whether what is kept is the file as published.
func (f *File) Has(kept []byte) bool {
	if !f.packed() {
		return f.is(kept)
	}
	r, err := gzip.NewReader(bytes.NewReader(kept))
	if err != nil {
		return false
	}
	content, err := io.ReadAll(io.LimitReader(r, f.Bytes+1))
	return err == nil && f.is(content)
}

func (f *File) is(published []byte) bool {
	sum := sha256.Sum256(published)
	return hex.EncodeToString(sum[:]) == f.SHA256
}

// Store checks what was fetched, and makes what is kept of it: the same bytes, packed
// where the path ends in .gz and that of the authors does not. It fails where the
// checksum is another.
func (f *File) Store(fetched []byte) ([]byte, error) {
	if !f.is(fetched) {
		return nil, fmt.Errorf("%s: the %d bytes that were fetched have another checksum than the %d that are published", f.Path, len(fetched), f.Bytes)
	}
	if !f.packed() {
		return fetched, nil
	}
	var b bytes.Buffer
	w, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	if _, err := w.Write(fetched); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}
