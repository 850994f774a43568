// Package jsontext reads and writes JSON by hand: field by field, without
// reflection, without a tree, and with numbers that stay exact. It serves the
// formats in which Norn keeps traces and event logs, a line an object.
//
// Nouns: a Reader walks over one JSON text; a Writer appends the fields of one
// object, those that are zero left out.
package jsontext

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/norn-scheduler/norn/cluster/unit"
)

// Reader reads one JSON value without making anything of it but what is asked
// for. Its strings are valid until the next one is read.
type Reader struct {
	b       []byte
	i       int
	scratch []byte
}

// NewReader reads text.
func NewReader(text []byte) *Reader { return &Reader{b: text} }

// Reset goes on with another text.
func (t *Reader) Reset(text []byte) { t.ResetAt(text, 0) }

// ResetAt goes on with another text, from byte at on.
func (t *Reader) ResetAt(text []byte, at int) { t.b, t.i = text, at }

// Part has somebody else read the next value: read is given the text and the byte at
// which the value may begin, and returns the byte behind it.
func (t *Reader) Part(read func(text []byte, at int) (end int, err error)) error {
	end, err := read(t.b, t.i)
	t.i = end
	return err
}

// At is the number of bytes that were read.
func (t *Reader) At() int { return t.i }

// maxDepth bounds how deeply values may nest.
const maxDepth = 32

// Error is what was expected and where.
type Error struct {
	At   int    // byte, from zero
	Want string // what was expected there
}

// Error says what was expected and where.
func (e *Error) Error() string { return fmt.Sprintf("expected %s at byte %d", e.Want, e.At+1) }

// Wrong is the error that something else was expected here.
func (t *Reader) Wrong(want string) error { return &Error{At: t.i, Want: want} }

func (t *Reader) space() {
	for t.i < len(t.b) {
		switch t.b[t.i] {
		case ' ', '\t', '\n', '\r':
			t.i++
		default:
			return
		}
	}
}

// Peek is the next byte that is no space; 0 at the end.
func (t *Reader) Peek() byte {
	t.space()
	if t.i == len(t.b) {
		return 0
	}
	return t.b[t.i]
}

// take passes over one byte if it is c.
func (t *Reader) take(c byte) bool {
	if t.Peek() != c {
		return false
	}
	t.i++
	return true
}

// Object reads an object, calling field for each key with the text standing
// before its value.
func (t *Reader) Object(field func(key []byte) error) error {
	if !t.take('{') {
		return t.Wrong("an object")
	}
	if t.take('}') {
		return nil
	}
	for {
		key, err := t.Text()
		if err != nil {
			return err
		}
		if !t.take(':') {
			return t.Wrong("a colon")
		}
		if err := field(key); err != nil {
			return err
		}
		if t.take('}') {
			return nil
		}
		if !t.take(',') {
			return t.Wrong("a comma or the end of the object")
		}
	}
}

// Array reads an array, calling element with the text standing before each.
func (t *Reader) Array(element func() error) error {
	if !t.take('[') {
		return t.Wrong("an array")
	}
	if t.take(']') {
		return nil
	}
	for {
		if err := element(); err != nil {
			return err
		}
		if t.take(']') {
			return nil
		}
		if !t.take(',') {
			return t.Wrong("a comma or the end of the array")
		}
	}
}

// Text reads a string.
func (t *Reader) Text() ([]byte, error) {
	if !t.take('"') {
		return nil, t.Wrong("a string")
	}
	from := t.i
	for t.i < len(t.b) {
		switch c := t.b[t.i]; {
		case c == '"':
			s := t.b[from:t.i]
			t.i++
			return s, nil
		case c == '\\':
			return t.escaped(from)
		case c < ' ':
			return nil, t.Wrong("no control character in a string")
		}
		t.i++
	}
	return nil, t.Wrong("a closing quote")
}

var simpleEscapes = [256]byte{'"': '"', '\\': '\\', '/': '/', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t'}

// escaped goes on with a string in which an escape has been met.
func (t *Reader) escaped(from int) ([]byte, error) {
	t.scratch = append(t.scratch[:0], t.b[from:t.i]...)
	for t.i < len(t.b) {
		c := t.b[t.i]
		t.i++
		switch {
		case c == '"':
			return t.scratch, nil
		case c < ' ':
			return nil, t.Wrong("no control character in a string")
		case c != '\\':
			t.scratch = append(t.scratch, c)
		case t.i < len(t.b) && t.b[t.i] == 'u':
			r, err := t.unicode()
			if err != nil {
				return nil, err
			}
			t.scratch = utf8.AppendRune(t.scratch, r)
		case t.i < len(t.b) && simpleEscapes[t.b[t.i]] != 0:
			t.scratch = append(t.scratch, simpleEscapes[t.b[t.i]])
			t.i++
		default:
			return nil, t.Wrong("an escape")
		}
	}
	return nil, t.Wrong("a closing quote")
}

// unicode reads u1234 and, where it begins a pair, the other half.
func (t *Reader) unicode() (rune, error) {
	r, ok := t.hex()
	if !ok {
		return 0, t.Wrong("four hexadecimal digits")
	}
	if !utf16.IsSurrogate(r) {
		return r, nil
	}
	if bytes.HasPrefix(t.b[t.i:], []byte(`\u`)) {
		at := t.i
		t.i++
		if low, ok := t.hex(); ok {
			if r = utf16.DecodeRune(r, low); r != utf8.RuneError {
				return r, nil
			}
		}
		t.i = at
	}
	return utf8.RuneError, nil
}

func (t *Reader) hex() (rune, bool) {
	if len(t.b)-t.i < 5 {
		return 0, false
	}
	n, err := strconv.ParseUint(string(t.b[t.i+1:t.i+5]), 16, 32)
	t.i += 5
	return rune(n), err == nil
}

// number reads the text of a number, which must be one by the grammar of JSON.
func (t *Reader) number() ([]byte, error) {
	t.space()
	from := t.i
	for t.i < len(t.b) {
		if c := t.b[t.i]; c-'0' > 9 && c != '-' && c != '+' && c != '.' && c != 'e' && c != 'E' {
			break
		}
		t.i++
	}
	if v := t.b[from:t.i]; grammatical(v) {
		return v, nil
	}
	t.i = from
	return nil, t.Wrong("a number")
}

// grammatical tells whether v is a number: an optional minus, a whole part
// without leading zeros, and perhaps a fraction and an exponent.
func grammatical(v []byte) bool {
	if len(v) > 0 && v[0] == '-' {
		v = v[1:]
	}
	whole := digits(v)
	if whole == 0 || whole > 1 && v[0] == '0' {
		return false
	}
	if v = v[whole:]; len(v) > 0 && v[0] == '.' {
		n := digits(v[1:])
		if n == 0 {
			return false
		}
		v = v[1+n:]
	}
	if len(v) > 0 && v[0]|0x20 == 'e' {
		if v = v[1:]; len(v) > 0 && (v[0] == '+' || v[0] == '-') {
			v = v[1:]
		}
		n := digits(v)
		return n > 0 && n == len(v)
	}
	return len(v) == 0
}

// digits is the number of digits that v begins with.
func digits(v []byte) int {
	n := 0
	for n < len(v) && v[n]-'0' <= 9 {
		n++
	}
	return n
}

// Int reads a whole number between least and most.
func (t *Reader) Int(least, most int64) (int64, error) {
	t.space()
	at := t.i
	v, err := t.number()
	if err != nil {
		return 0, err
	}
	n, ok := unit.ParseInt(v)
	if !ok && v[0] != '+' { // the very largest and smallest
		n, err = strconv.ParseInt(string(v), 10, 64)
		ok = err == nil
	}
	if !ok || n < least || n > most {
		return 0, &Error{At: at, Want: fmt.Sprintf("a whole number from %d to %d", least, most)}
	}
	return n, nil
}

// Float reads a finite number.
func (t *Reader) Float() (float64, error) {
	t.space()
	at := t.i
	v, err := t.number()
	if err != nil {
		return 0, err
	}
	f, err := strconv.ParseFloat(string(v), 64)
	if err != nil || math.IsInf(f, 0) {
		return 0, &Error{At: at, Want: "a number"}
	}
	return f, nil
}

// Scaled reads a decimal number that is not negative, times scale, rounded to
// the nearest.
func (t *Reader) Scaled(scale int64) (int64, error) {
	t.space()
	at := t.i
	v, err := t.number()
	if err != nil {
		return 0, err
	}
	n, ok := unit.ParseScaled(v, scale)
	if !ok || n < 0 {
		return 0, &Error{At: at, Want: "a number, 0 or more"}
	}
	return n, nil
}

// Bool reads true or false.
func (t *Reader) Bool() (bool, error) {
	t.space()
	switch rest := t.b[t.i:]; {
	case bytes.HasPrefix(rest, []byte("true")):
		t.i += 4
		return true, nil
	case bytes.HasPrefix(rest, []byte("false")):
		t.i += 5
		return false, nil
	}
	return false, t.Wrong("true or false")
}

// End checks that nothing follows.
func (t *Reader) End() error {
	if t.Peek() != 0 || t.i != len(t.b) {
		return t.Wrong("the end of the line")
	}
	return nil
}

var errDeep = errors.New("nests too deeply")

// Skip passes over a value.
func (t *Reader) Skip() error { return t.skip(0) }

func (t *Reader) skip(depth int) error {
	if depth > maxDepth {
		return errDeep
	}
	switch c := t.Peek(); c {
	case '{':
		return t.Object(func([]byte) error { return t.skip(depth + 1) })
	case '[':
		return t.Array(func() error { return t.skip(depth + 1) })
	case '"':
		_, err := t.Text()
		return err
	case 't', 'f':
		_, err := t.Bool()
		return err
	case 'n':
		if bytes.HasPrefix(t.b[t.i:], []byte("null")) {
			t.i += 4
			return nil
		}
	}
	_, err := t.number()
	return err
}

// Raw passes over a value and returns its text, which is valid as long as the
// text that is read.
func (t *Reader) Raw() ([]byte, error) {
	t.space()
	from := t.i
	err := t.Skip()
	return t.b[from:t.i], err
}
