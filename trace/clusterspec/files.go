package clusterspec

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/norn-scheduler/norn/internal/kubelist"
)

// maxFile is the largest file that is read.
const maxFile = 64 << 20

// Load reads what a user wrote on a command line: the name of a preset, the path
// of a file, or a shorthand, tried in this order.
func Load(arg string) (*Spec, error) {
	if _, ok := presetNamed(arg); ok {
		return Parse(arg)
	}
	info, missing := os.Stat(arg)
	if missing == nil && !info.IsDir() {
		return ReadFile(arg)
	}
	s, err := Parse(arg)
	switch {
	case err == nil:
		return s, nil
	case missing == nil:
		return nil, fmt.Errorf("%s is a folder; a cluster is a file, a preset or a shorthand\n%s", arg, forms())
	case hasShape(arg):
		return nil, err
	case strings.ContainsAny(arg, `/\`) || hasAnySuffix(arg, ".yaml", ".yml", ".csv", ".ini", ".gz"):
		return nil, fmt.Errorf("there is no file %s\n%s", arg, forms())
	}
	return nil, err
}

func hasAnySuffix(s string, suffixes ...string) bool {
	for _, suffix := range suffixes {
		if strings.HasSuffix(s, suffix) {
			return true
		}
	}
	return false
}

// ReadFile reads a description in YAML or in one of the formats of others that
// docs/clusters.md lists; the format is told from the content. A file may be
// compressed with gzip, and the only csv file of a tar archive is read.
func ReadFile(path string) (*Spec, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	text, err := readAll(file)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return ReadText(path, text)
}

// ReadText is ReadFile for text that is already read and not compressed.
func ReadText(name string, text []byte) (*Spec, error) {
	text = bytes.TrimPrefix(text, []byte("\ufeff"))
	for _, f := range formats {
		if !f.is(text) {
			continue
		}
		s := &Spec{}
		err := f.read(s, text)
		if err == nil {
			err = s.finish()
		}
		if err != nil {
			return nil, fmt.Errorf("%s (%s): %w", name, f.name, err)
		}
		return s, nil
	}
	if _, ok := kubelist.Head(text[:min(len(text), 1<<16)]); ok {
		return nil, fmt.Errorf("%s: holds objects of Kubernetes; norn cluster import makes a cluster file of them", name)
	}
	return ParseYAML(name, text)
}

// readAll reads a file, uncompressed and unpacked, up to maxFile.
func readAll(r io.Reader) ([]byte, error) {
	in := bufio.NewReader(r)
	if head, _ := in.Peek(2); len(head) == 2 && head[0] == 0x1f && head[1] == 0x8b {
		z, err := gzip.NewReader(in)
		if err != nil {
			return nil, err
		}
		in = bufio.NewReader(z)
	}
	if head, _ := in.Peek(262); len(head) == 262 && string(head[257:262]) == "ustar" {
		return readTar(tar.NewReader(in))
	}
	return readMost(in)
}

// readMost reads up to maxFile.
func readMost(in io.Reader) ([]byte, error) {
	text, err := io.ReadAll(io.LimitReader(in, maxFile+1))
	if err == nil && len(text) > maxFile {
		err = errors.New("more than 64 MiB are not read")
	}
	return text, err
}

// readTar reads the first csv file of an archive.
func readTar(archive *tar.Reader) ([]byte, error) {
	for {
		head, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return nil, errors.New("the archive holds no csv file")
		}
		if err != nil {
			return nil, err
		}
		base := filepath.Base(head.Name)
		if head.Typeflag == tar.TypeReg && strings.HasSuffix(base, ".csv") && !strings.HasPrefix(base, "._") {
			return readMost(archive)
		}
	}
}
