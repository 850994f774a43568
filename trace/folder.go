package trace

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// tarMagic stands tarMagicAt bytes from the beginning of an archive.
const (
	tarMagic   = "ustar"
	tarMagicAt = 257
)

// isTar tells whether a file that begins like this is an archive.
func isTar(head []byte) bool {
	return len(head) >= tarMagicAt+len(tarMagic) && string(head[tarMagicAt:][:len(tarMagic)]) == tarMagic
}

// nextFile finds the next file of an archive that is no folder, link or note of
// the system that made it.
func nextFile(t *tar.Reader) (name string, err error) {
	for {
		h, err := t.Next()
		if err != nil {
			return "", err
		}
		if h.Typeflag == tar.TypeReg && !strings.HasPrefix(path.Base(h.Name), "._") {
			return path.Clean(h.Name), nil
		}
	}
}

// onlyFile is the content of an archive that holds one file.
type onlyFile struct {
	archive *tar.Reader
	name    string
}

func newOnlyFile(in io.Reader) (*onlyFile, error) {
	f := &onlyFile{archive: tar.NewReader(in)}
	var err error
	if f.name, err = nextFile(f.archive); errors.Is(err, io.EOF) {
		err = errors.New("an archive without a file in it")
	}
	return f, err
}

// Read implements io.Reader. At the end of the file another one is an error.
func (f *onlyFile) Read(b []byte) (int, error) {
	n, err := f.archive.Read(b)
	if !errors.Is(err, io.EOF) {
		return n, err
	}
	other, next := nextFile(f.archive)
	if next == nil {
		return n, fmt.Errorf("an archive of several files, %q and %q among them: take out the one that is meant", f.name, other)
	}
	return n, next
}

// folder is a folder of files, on disk or in an archive, which may be packed.
type folder struct {
	path  string
	files map[string][]byte // of an archive, by their path in it; nil: on disk
}

// mostArchived bounds what is held of an archive.
const mostArchived = 1 << 30

// openFolder opens a folder, or an archive of one. A folder that encloses all
// files of an archive is left out of their paths.
func openFolder(where string) (*folder, error) {
	info, err := os.Stat(where)
	if err != nil || info.IsDir() {
		return &folder{path: where}, err
	}
	in, err := os.Open(where)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	body, err := unpackArchive(in)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", where, err)
	}
	defer body.close()
	if head, _ := body.Peek(headSize); !isTar(head) { // a file that is too short is none either
		return nil, fmt.Errorf("%s: is neither a folder nor an archive (tar) of one", where)
	}
	f := &folder{path: where, files: map[string][]byte{}}
	if err := f.read(tar.NewReader(body)); err != nil {
		return nil, fmt.Errorf("%s: %w", where, brokenOff(err))
	}
	return f, nil
}

func (f *folder) read(archive *tar.Reader) error {
	size := int64(0)
	for {
		name, err := nextFile(archive)
		if errors.Is(err, io.EOF) {
			f.strip()
			return nil
		}
		if err != nil {
			return err
		}
		content, err := io.ReadAll(io.LimitReader(archive, mostArchived+1-size))
		if err != nil {
			return err
		}
		if size += int64(len(content)); size > mostArchived {
			return fmt.Errorf("an archive of more than %d MiB: unpack it", mostArchived>>20)
		}
		f.files[name] = content
	}
}

// strip leaves out of all paths the folders in which all files are.
func (f *folder) strip() {
	for len(f.files) > 0 {
		common := ""
		for name := range f.files {
			first, _, inside := strings.Cut(name, "/")
			if !inside || common != "" && common != first {
				return
			}
			common = first
		}
		inner := make(map[string][]byte, len(f.files))
		for name, content := range f.files {
			inner[strings.TrimPrefix(name, common+"/")] = content
		}
		f.files = inner
	}
}

// open opens a file by its path in the folder.
func (f *folder) open(name string) (io.ReadCloser, error) {
	if f.files == nil {
		return os.Open(filepath.Join(f.path, filepath.FromSlash(name)))
	}
	content, ok := f.files[name]
	if !ok {
		return nil, &fs.PathError{Op: "open", Path: f.name(name), Err: fs.ErrNotExist}
	}
	return io.NopCloser(bytes.NewReader(content)), nil
}

// name is what a file of the folder is called in messages.
func (f *folder) name(file string) string { return filepath.Join(f.path, filepath.FromSlash(file)) }

// under lists the files right in a folder within this one, in order of their
// names; a folder that is not there has none.
func (f *folder) under(dir string) []string {
	var names []string
	if f.files == nil {
		entries, err := os.ReadDir(f.name(dir))
		if err != nil {
			return nil
		}
		for _, e := range entries {
			names = append(names, path.Join(dir, e.Name()))
		}
		return names
	}
	for name := range f.files {
		if path.Dir(name) == path.Clean(dir) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}
