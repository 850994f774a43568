package trace

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

var utf8BOM = []byte("\xef\xbb\xbf")

// bytesReader is an unpacked file; its beginning can be looked at.
type bytesReader struct {
	*bufio.Reader
	closers []func()
}

func (b *bytesReader) close() {
	for _, c := range b.closers {
		c()
	}
	b.closers = nil
}

const (
	headSize    = 64 << 10  // of a file, to tell its format
	zstdMemory  = 256 << 20 // at most for unpacking
	packedDepth = 3         // files packed more often than that are refused
)

// unpack undoes the packing that the first bytes tell of. Of an archive it reads
// the only file.
func unpack(r io.Reader) (*bytesReader, error) {
	return unpackBy(r, func(head []byte, out *bytesReader) (io.Reader, error) {
		if isTar(head) {
			file, err := newOnlyFile(out.Reader)
			return &packed{file}, brokenOff(err)
		}
		return unpackOne(head, out)
	})
}

// unpackArchive undoes the packing, but takes no file out of an archive.
func unpackArchive(r io.Reader) (*bytesReader, error) { return unpackBy(r, unpackOne) }

func unpackBy(r io.Reader, one func(head []byte, out *bytesReader) (io.Reader, error)) (*bytesReader, error) {
	out := &bytesReader{Reader: bufio.NewReaderSize(r, headSize)}
	for depth := 0; ; depth++ {
		head, err := out.Peek(tarMagicAt + len(tarMagic))
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, err
		}
		inner, err := one(head, out)
		if err != nil {
			out.close()
			return nil, err
		}
		if inner == nil {
			return out, nil
		}
		if depth == packedDepth {
			out.close()
			return nil, errors.New("is packed in packed files too deeply")
		}
		out.Reader = bufio.NewReaderSize(inner, headSize)
	}
}

// unpackOne returns a reader of what is packed, or nil when nothing is.
func unpackOne(head []byte, out *bytesReader) (io.Reader, error) {
	switch {
	case bytes.HasPrefix(head, []byte{0x1f, 0x8b}):
		z, err := gzip.NewReader(out.Reader)
		if err != nil {
			return nil, brokenOff(fmt.Errorf("gzip: %w", err))
		}
		return &packed{z}, nil
	case bytes.HasPrefix(head, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		z, err := zstd.NewReader(out.Reader, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(zstdMemory))
		if err != nil {
			return nil, fmt.Errorf("zstd: %w", err)
		}
		out.closers = append(out.closers, z.Close)
		return &packed{z}, nil
	}
	return nil, nil
}

// packed says of a packed file that ends too early what that means.
type packed struct{ io.Reader }

// Read implements io.Reader.
func (p *packed) Read(b []byte) (int, error) {
	n, err := p.Reader.Read(b)
	return n, brokenOff(err)
}

func brokenOff(err error) error {
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("the packed file breaks off before its end, as after a copy that was cut short: %w", err)
	}
	return err
}

// head looks at the beginning of the file.
func (b *bytesReader) head() (*Head, error) {
	text, err := b.Peek(headSize)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	return &Head{Text: text, All: err != nil}, nil
}
