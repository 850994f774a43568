package harness

import (
	"bufio"
	"encoding/binary"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/klauspost/compress/gzip"

	"github.com/norn-scheduler/norn/trace"
)

// maxFile bounds what is read, after decompression.
const maxFile = 1 << 31

// readFile returns what is in a file, decompressed when its name ends in .gz.
func readFile(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return "", err
	}
	if strings.HasSuffix(path, ".gz") {
		return unpack(f, size)
	}
	return read(f, io.NewSectionReader(f, 0, size), size)
}

// ReadFile returns what is in a file that is no table, decompressed when its name
// ends in .gz.
func ReadFile(path string) (string, error) { return readFile(path) }

// unpack decompresses a file into one buffer of the size that its last four
// bytes tell, where that is believable.
func unpack(f *os.File, size int64) (string, error) {
	var last [4]byte
	if _, err := f.ReadAt(last[:], max(0, size-4)); err != nil {
		return "", fmt.Errorf("%s: %w", f.Name(), err)
	}
	zip, err := gzip.NewReader(bufio.NewReaderSize(io.NewSectionReader(f, 0, size), 1<<16))
	if err != nil {
		return "", fmt.Errorf("%s: %w", f.Name(), err)
	}
	return read(f, zip, min(int64(binary.LittleEndian.Uint32(last[:])), 1100*size))
}

func read(f *os.File, from io.Reader, size int64) (string, error) {
	var out strings.Builder
	out.Grow(int(min(size, maxFile)))
	n, err := io.Copy(&out, io.LimitReader(from, maxFile))
	if err == nil && n == maxFile {
		err = errors.New("is larger than 2 GiB")
	}
	if err != nil {
		return "", fmt.Errorf("%s: %w", f.Name(), err)
	}
	return out.String(), nil
}

// Table is a CSV file with a header line, read row by row. Names of columns are
// matched exactly. Blank lines are skipped, as Python's csv.DictReader does.
type Table struct {
	Name    string // for errors
	Columns []string

	sep    byte
	rest   string // what is left, unless quoted
	quoted *csv.Reader
	fields []string
	line   int
}

// OpenTable opens a CSV file, which may be compressed with gzip. The separator
// is a comma, or a blank when the name ends in .txt.
func OpenTable(path string) (*Table, error) {
	text, err := readFile(path)
	if err != nil {
		return nil, err
	}
	return NewTable(filepath.Base(path), text)
}

// NewTable reads a CSV file from memory.
func NewTable(name, text string) (*Table, error) {
	t := &Table{Name: name, sep: ','}
	if strings.HasSuffix(strings.TrimSuffix(name, ".gz"), ".txt") {
		t.sep = ' '
	}
	text = strings.TrimPrefix(text, "\xef\xbb\xbf")
	if strings.IndexByte(text, '"') >= 0 {
		t.quoted = csv.NewReader(strings.NewReader(text))
		t.quoted.Comma = rune(t.sep)
		t.quoted.FieldsPerRecord = -1
		t.quoted.LazyQuotes = true
	} else {
		t.rest = text
	}
	more, err := t.Next()
	if err != nil {
		return nil, err
	}
	if !more {
		return nil, fmt.Errorf("%s: is empty, a header line is needed", name)
	}
	t.Columns = append(t.Columns, t.fields...)
	return t, nil
}

// Rows is the number of rows that are left, or more; a guess where fields are
// quoted.
func (t *Table) Rows() int { return strings.Count(t.rest, "\n") + 1 }

// Next goes on to the next row; false at the end.
func (t *Table) Next() (bool, error) {
	if t.quoted != nil {
		return t.nextQuoted()
	}
	for t.rest != "" {
		line := t.rest
		if i := strings.IndexByte(line, '\n'); i >= 0 {
			line, t.rest = line[:i], line[i+1:]
		} else {
			t.rest = ""
		}
		t.line++
		if line = strings.TrimSuffix(line, "\r"); line != "" {
			t.split(line)
			return true, nil
		}
	}
	return false, nil
}

func (t *Table) split(line string) {
	t.fields = t.fields[:0]
	for {
		i := strings.IndexByte(line, t.sep)
		if i < 0 {
			t.fields = append(t.fields, line)
			return
		}
		t.fields = append(t.fields, line[:i])
		line = line[i+1:]
	}
}

func (t *Table) nextQuoted() (bool, error) {
	fields, err := t.quoted.Read()
	if errors.Is(err, io.EOF) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("%s: %w", t.Name, err)
	}
	t.fields = append(t.fields[:0], fields...)
	t.line, _ = t.quoted.FieldPos(0)
	return true, nil
}

// Column is the place of a column, or -1.
func (t *Table) Column(name string) int {
	for i, c := range t.Columns {
		if c == name {
			return i
		}
	}
	return -1
}

// Need finds columns that must be there.
func (t *Table) Need(names ...string) ([]int, error) {
	at := make([]int, len(names))
	for i, name := range names {
		if at[i] = t.Column(name); at[i] < 0 {
			return nil, fmt.Errorf("%s: has no column %q; it has %s", t.Name, name, strings.Join(t.Columns, ", "))
		}
	}
	return at, nil
}

// Field is a field of the row; empty when the row is too short or the place is
// -1.
func (t *Table) Field(i int) string {
	if i < 0 || i >= len(t.fields) {
		return ""
	}
	return t.fields[i]
}

// Int is a field that must be a whole number written with digits alone: what
// Python's isdigit accepts, and nothing else. Numbers above 10^15 are refused.
func (t *Table) Int(i int) (int64, error) {
	s := t.Field(i)
	v, ok := Digits(s)
	if !ok {
		return 0, t.Bad(i, "a whole number, digits alone")
	}
	return v, nil
}

// Float is a field that must be a finite number.
func (t *Table) Float(i int) (float64, error) {
	s := t.Field(i)
	if v, ok := Digits(s); ok {
		return float64(v), nil
	}
	v, err := strconv.ParseFloat(strings.TrimSpace(s), 64)
	if err != nil || v-v != 0 {
		return 0, t.Bad(i, "a number")
	}
	return v, nil
}

// Digits reads a whole number written with digits alone, up to 10^15.
func Digits(s string) (int64, bool) {
	if s == "" {
		return 0, false
	}
	var v int64
	for i := range len(s) {
		d := s[i] - '0'
		if d > 9 || v > 1e14 {
			return 0, false
		}
		v = v*10 + int64(d)
	}
	return v, true
}

// Bad is an error about a field of the row: its line, its column, what was found
// there and what was expected.
func (t *Table) Bad(i int, want string) error {
	e := &trace.Error{File: t.Name, Line: t.line, Number: i + 1, Found: "nothing", Want: want}
	if i >= 0 && i < len(t.Columns) {
		e.Column = t.Columns[i]
	}
	if s := t.Field(i); s != "" {
		e.Found = strconv.Quote(shorten(s))
	}
	return e
}

// shorten cuts what would not fit a message.
func shorten(s string) string {
	const most = 60
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "..."
}

// Errorf is an error about the row.
func (t *Table) Errorf(format string, args ...any) error {
	return fmt.Errorf("%s, line %d: %s", t.Name, t.line, fmt.Sprintf(format, args...))
}
