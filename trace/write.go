package trace

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// Written says what came of writing a trace.
type Written struct {
	Jobs int
	Lost []Loss // what the format could not carry, in a fixed order
}

// Loss is something that a format could not carry.
type Loss struct {
	What string // such as "roles beside the first"
	Jobs int    // of how many jobs
}

// WriteFile writes a trace to a new file, or over the one that is there: as
// Norn's CSV when the name ends in .csv, as JSON Lines when it ends in .jsonl,
// packed when .gz or .zst follows. The file appears when it is complete.
func WriteFile(path string, src Source) (Written, error) {
	name, packed := strings.CutSuffix(path, ".gz")
	pack := packNone
	if packed {
		pack = packGzip
	} else if name, packed = strings.CutSuffix(path, ".zst"); packed {
		pack = packZstd
	}
	write := WriteJSON
	switch filepath.Ext(name) {
	case ".csv":
		write = WriteCSV
	case ".jsonl", ".json", ".ndjson":
	default:
		return Written{}, fmt.Errorf("%s: the name should end in .csv or .jsonl, and perhaps .gz or .zst", path)
	}
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*")
	if err != nil {
		return Written{}, err
	}
	defer os.Remove(f.Name())
	w, err := writePacked(f, pack, src, write)
	if err = errors.Join(err, f.Chmod(0o644), f.Close()); err != nil {
		return w, fmt.Errorf("%s: %w", path, err)
	}
	return w, os.Rename(f.Name(), path)
}

type packing uint8

const (
	packNone packing = iota
	packGzip
	packZstd
)

func writePacked(f io.Writer, pack packing, src Source, write func(io.Writer, Source) (Written, error)) (Written, error) {
	var z io.WriteCloser
	var err error
	switch pack {
	case packNone:
		return write(f, src)
	case packGzip:
		z = gzip.NewWriter(f)
	case packZstd:
		z, err = zstd.NewWriter(f, zstd.WithEncoderConcurrency(1))
	}
	if err != nil {
		return Written{}, err
	}
	w, err := write(z, src)
	return w, errors.Join(err, z.Close())
}

// originOf is the time of day at the zero of a source, if it tells.
func originOf(src Source) time.Time {
	if r, ok := src.(interface{ Info() Info }); ok {
		return r.Info().Origin
	}
	return time.Time{}
}
