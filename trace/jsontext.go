package trace

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// jsonText reads one JSON value without making anything of it but what is asked
// for. Its strings are valid until the next one is read.
type jsonText struct {
	b       []byte
	i       int
	scratch []byte
}

// maxDepth bounds how deeply values may nest.
const maxDepth = 32

// jsonError is what was expected and where.
type jsonError struct {
	at   int
	want string
}

// Error says what was expected and where.
func (e *jsonError) Error() string { return fmt.Sprintf("expected %s at byte %d", e.want, e.at+1) }

func (t *jsonText) wrong(want string) error { return &jsonError{t.i, want} }

func (t *jsonText) space() {
	for t.i < len(t.b) {
		switch t.b[t.i] {
		case ' ', '\t', '\n', '\r':
			t.i++
		default:
			return
		}
	}
}

// peek is the next byte that is no space; 0 at the end.
func (t *jsonText) peek() byte {
	t.space()
	if t.i == len(t.b) {
		return 0
	}
	return t.b[t.i]
}

// take passes over one byte if it is c.
func (t *jsonText) take(c byte) bool {
	if t.peek() != c {
		return false
	}
	t.i++
	return true
}

// object reads an object, calling field for each key with the text standing
// before its value.
func (t *jsonText) object(field func(key []byte) error) error {
	if !t.take('{') {
		return t.wrong("an object")
	}
	if t.take('}') {
		return nil
	}
	for {
		key, err := t.str()
		if err != nil {
			return err
		}
		if !t.take(':') {
			return t.wrong("a colon")
		}
		if err := field(key); err != nil {
			return err
		}
		if t.take('}') {
			return nil
		}
		if !t.take(',') {
			return t.wrong("a comma or the end of the object")
		}
	}
}

// array reads an array, calling element with the text standing before each.
func (t *jsonText) array(element func() error) error {
	if !t.take('[') {
		return t.wrong("an array")
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
			return t.wrong("a comma or the end of the array")
		}
	}
}

// str reads a string.
func (t *jsonText) str() ([]byte, error) {
	if !t.take('"') {
		return nil, t.wrong("a string")
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
			return nil, t.wrong("no control character in a string")
		}
		t.i++
	}
	return nil, t.wrong("a closing quote")
}

var simpleEscapes = [256]byte{'"': '"', '\\': '\\', '/': '/', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t'}

// escaped goes on with a string in which an escape has been met.
func (t *jsonText) escaped(from int) ([]byte, error) {
	t.scratch = append(t.scratch[:0], t.b[from:t.i]...)
	for t.i < len(t.b) {
		c := t.b[t.i]
		t.i++
		switch {
		case c == '"':
			return t.scratch, nil
		case c < ' ':
			return nil, t.wrong("no control character in a string")
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
			return nil, t.wrong("an escape")
		}
	}
	return nil, t.wrong("a closing quote")
}

// unicode reads u1234 and, where it begins a pair, the other half.
func (t *jsonText) unicode() (rune, error) {
	r, ok := t.hex()
	if !ok {
		return 0, t.wrong("four hexadecimal digits")
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

func (t *jsonText) hex() (rune, bool) {
	if len(t.b)-t.i < 5 {
		return 0, false
	}
	n, err := strconv.ParseUint(string(t.b[t.i+1:t.i+5]), 16, 32)
	t.i += 5
	return rune(n), err == nil
}

// number reads the text of a number.
func (t *jsonText) number() ([]byte, error) {
	t.space()
	from := t.i
	for t.i < len(t.b) {
		if c := t.b[t.i]; c-'0' > 9 && c != '-' && c != '+' && c != '.' && c != 'e' && c != 'E' {
			break
		}
		t.i++
	}
	if t.i == from {
		return nil, t.wrong("a number")
	}
	return t.b[from:t.i], nil
}

func (t *jsonText) integer(least, most int64) (int64, error) {
	at := t.i
	v, err := t.number()
	if err != nil {
		return 0, err
	}
	n, ok := ParseInt(v)
	if !ok || n < least || n > most {
		return 0, &jsonError{at, fmt.Sprintf("a whole number from %d to %d", least, most)}
	}
	return n, nil
}

func (t *jsonText) float() (float64, error) {
	at := t.i
	v, err := t.number()
	if err != nil {
		return 0, err
	}
	f, err := strconv.ParseFloat(string(v), 64)
	if err != nil || math.IsInf(f, 0) {
		return 0, &jsonError{at, "a number"}
	}
	return f, nil
}

// scaled reads a decimal number, times scale.
func (t *jsonText) scaled(scale int64) (int64, error) {
	at := t.i
	v, err := t.number()
	if err != nil {
		return 0, err
	}
	n, ok := parseScaled(v, scale)
	if !ok || n < 0 {
		return 0, &jsonError{at, "a number, 0 or more"}
	}
	return n, nil
}

func (t *jsonText) boolean() (bool, error) {
	t.space()
	switch rest := t.b[t.i:]; {
	case bytes.HasPrefix(rest, []byte("true")):
		t.i += 4
		return true, nil
	case bytes.HasPrefix(rest, []byte("false")):
		t.i += 5
		return false, nil
	}
	return false, t.wrong("true or false")
}

// end checks that nothing follows.
func (t *jsonText) end() error {
	if t.peek() != 0 || t.i != len(t.b) {
		return t.wrong("the end of the line")
	}
	return nil
}

var errDeep = errors.New("nests too deeply")

// skip passes over a value.
func (t *jsonText) skip(depth int) error {
	if depth > maxDepth {
		return errDeep
	}
	switch c := t.peek(); c {
	case '{':
		return t.object(func([]byte) error { return t.skip(depth + 1) })
	case '[':
		return t.array(func() error { return t.skip(depth + 1) })
	case '"':
		_, err := t.str()
		return err
	case 't', 'f':
		_, err := t.boolean()
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
