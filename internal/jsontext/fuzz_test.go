package jsontext

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/norn-scheduler/norn/cluster/unit"
)

// value reads any value the way callers do, into what encoding/json makes.
func value(r *Reader) (any, error) {
	switch r.Peek() {
	case '{':
		m := map[string]any{}
		return m, r.Object(func(key []byte) error {
			name := text(key)
			v, err := value(r)
			m[name] = v
			return err
		})
	case '[':
		list := []any{}
		err := r.Array(func() error {
			v, err := value(r)
			list = append(list, v)
			return err
		})
		return list, err
	case '"':
		s, err := r.Text()
		return text(s), err
	case 't', 'f':
		return r.Bool()
	case 'n':
		return nil, r.Skip()
	}
	return r.Float()
}

// read reads a text that is one value and nothing else.
func read(b []byte) (any, error) {
	r := NewReader(b)
	v, err := value(r)
	if err == nil {
		err = r.End()
	}
	return v, err
}

// text is a string with every byte that is not UTF-8 replaced, as encoding/json
// does.
func text(b []byte) string { return string([]rune(string(b))) }

func depth(b []byte) int {
	deepest, d := 0, 0
	for _, c := range b {
		switch c {
		case '{', '[':
			d++
			deepest = max(deepest, d)
		case '}', ']':
			d--
		}
	}
	return deepest
}

// FuzzReader compares with encoding/json: the same texts are accepted, with the
// same values, and Skip passes over exactly what can be read.
func FuzzReader(f *testing.F) {
	for _, s := range []string{
		`{}`, `[]`, `{"a":1,"b":[true,false,null],"c":{"d":"e"}}`, `"\u00e9\ud83d\ude00\ud800\n"`, `"\ud800\u0041"`, `-0`, `1e5`, `1E-2`,
		`01`, `+1`, `.5`, `5.`, `--1`, `1e`, `1e999`, `[1,]`, `{"a":}`, `{"a" 1}`, `tru`, `truefalse`, ` 1 2 `, `"\x"`, "\"\x01\"", "\"\xff\"",
		`{"a":1,"a":2}`, `nul`, `null`, "\x00", `[[[[]]]]`, strings.Repeat("[", 40) + strings.Repeat("]", 40), `"\u12"`, `"unclosed`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if depth(b) > maxDepth {
			t.Skip("Skip refuses what nests more deeply, on purpose")
		}
		var want any
		wantErr := json.Unmarshal(b, &want)
		got, err := read(b)
		if (err == nil) != (wantErr == nil) {
			t.Fatalf("%q: %v, encoding/json says %v", b, err, wantErr)
		}
		if err == nil && !reflect.DeepEqual(got, want) {
			t.Fatalf("%q is read as %#v, encoding/json reads %#v", b, got, want)
		}
		r := NewReader(b)
		skipErr := r.Skip()
		if skipErr == nil {
			skipErr = r.End()
		}
		if valid := json.Valid(b); (skipErr == nil) != valid {
			t.Fatalf("Skip over %q: %v, encoding/json finds it valid: %v", b, skipErr, valid)
		}
		var e *Error
		if err != nil && errors.As(err, &e) && (e.At < 0 || e.At > len(b)) {
			t.Fatalf("%q: the error is at byte %d of %d", b, e.At, len(b))
		}
	})
}

// FuzzWriter: what is written is JSON, and is read back.
func FuzzWriter(f *testing.F) {
	f.Add("plain", 1.5, int64(3), int64(250))
	f.Add("quote\" \\ \n \x00 \xff \u2028", math.Inf(1), int64(math.MinInt64), int64(-1))
	f.Add("", 0.0, int64(0), int64(0))
	f.Add("é😀", 1e300, int64(1), int64(1<<60))
	f.Fuzz(func(t *testing.T, s string, x float64, n, m int64) {
		w := Writer{B: []byte("{")}
		w.Text("text", s)
		w.Float("float", x)
		w.Int("int", n)
		w.Time("time", time.Duration(n))
		w.Milli("milli", unit.Milli(m))
		w.Bool("bool", n%2 == 0)
		w.Times("times", []time.Duration{0, time.Duration(n)})
		w.B = append(w.B, '}')
		if bad := math.IsNaN(x) || math.IsInf(x, 0); bad != (w.Err != nil) {
			t.Fatalf("%v: %v", x, w.Err)
		}
		var got map[string]any
		d := json.NewDecoder(bytes.NewReader(w.B))
		d.UseNumber()
		if err := d.Decode(&got); err != nil {
			t.Fatalf("%s: %v", w.B, err)
		}
		if v, _ := got["text"].(string); v != text([]byte(s)) {
			t.Fatalf("%q is written %q", s, v)
		}
		if v, ok := got["int"].(json.Number); ok != (n != 0) || ok && string(v) != strconv.FormatInt(n, 10) {
			t.Fatalf("%d is written %v", n, v)
		}
		if v, ok := got["float"].(json.Number); ok && w.Err == nil {
			if back, err := v.Float64(); err != nil || back != x {
				t.Fatalf("%v is written %v", x, v)
			}
		}
		if v, ok := got["time"].(json.Number); ok && string(v) != unit.FormatSeconds(time.Duration(n)) {
			t.Fatalf("%d ns is written %v", n, v)
		}
	})
}

// TestReaderErrors: an error says what was expected, and where.
func TestReaderErrors(t *testing.T) {
	cases := []struct {
		text string
		read func(r *Reader) error
		want string
	}{
		{`[1]`, func(r *Reader) error { return r.Object(nil) }, "expected an object at byte 1"},
		{`{"a"}`, func(r *Reader) error { return r.Object(func([]byte) error { return nil }) }, "expected a colon at byte 5"},
		{`{"a":1`, func(r *Reader) error { return r.Object(func([]byte) error { return r.Skip() }) }, "expected a comma or the end of the object at byte 7"},
		{`[1 2]`, func(r *Reader) error { return r.Array(r.Skip) }, "expected a comma or the end of the array at byte 4"},
		{`  7.5`, func(r *Reader) error { _, err := r.Int(0, 9); return err }, "expected a whole number from 0 to 9 at byte 3"},
		{`10`, func(r *Reader) error { _, err := r.Int(0, 9); return err }, "expected a whole number from 0 to 9 at byte 1"},
		{`-1`, func(r *Reader) error { _, err := r.Scaled(1000); return err }, "expected a number, 0 or more at byte 1"},
		{`x`, func(r *Reader) error { _, err := r.Float(); return err }, "expected a number at byte 1"},
		{`yes`, func(r *Reader) error { _, err := r.Bool(); return err }, "expected true or false at byte 1"},
		{`1 1`, func(r *Reader) error { _, _ = r.Float(); return r.End() }, "expected the end of the line at byte 3"},
		{`"a`, func(r *Reader) error { _, err := r.Text(); return err }, "expected a closing quote at byte 3"},
	}
	for _, c := range cases {
		if err := c.read(NewReader([]byte(c.text))); err == nil || err.Error() != c.want {
			t.Errorf("%s: %v, want %s", c.text, err, c.want)
		}
	}
	if err := NewReader([]byte(strings.Repeat("[", 100))).Skip(); !errors.Is(err, errDeep) {
		t.Errorf("a hundred brackets: %v", err)
	}
	r := NewReader([]byte("1"))
	r.Reset([]byte("0.25"))
	if v, err := r.Scaled(1000); err != nil || v != 250 || r.At() != 4 {
		t.Errorf("0.25 times 1000 is %d at byte %d, %v", v, r.At(), err)
	}
}
