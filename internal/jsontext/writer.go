package jsontext

import (
	"fmt"
	"math"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/norn-scheduler/norn/cluster/unit"
)

// Writer appends the fields of an object, those that are zero left out.
type Writer struct {
	B   []byte // what was written so far; it must begin with an opening brace
	Err error  // the first thing that could not be written
}

// Key begins a field; its value is to be appended to B.
func (f *Writer) Key(name string) {
	if last := f.B[len(f.B)-1]; last != '{' {
		f.B = append(f.B, ',')
	}
	f.B = append(f.B, '"')
	f.B = append(f.B, name...)
	f.B = append(f.B, `":`...)
}

// Text appends a string.
func (f *Writer) Text(name, v string) {
	if v != "" {
		f.Key(name)
		f.B = AppendText(f.B, v)
	}
}

// Time appends a duration in seconds, exactly.
func (f *Writer) Time(name string, v time.Duration) {
	if v != 0 {
		f.Key(name)
		f.B = unit.AppendSeconds(f.B, v)
	}
}

// Int appends a whole number.
func (f *Writer) Int(name string, v int64) {
	if v != 0 {
		f.Key(name)
		f.B = strconv.AppendInt(f.B, v, 10)
	}
}

// Milli appends devices or cores as a decimal number.
func (f *Writer) Milli(name string, v unit.Milli) {
	if v != 0 {
		f.Key(name)
		f.B = AppendMilli(f.B, v)
	}
}

// Float appends a number.
func (f *Writer) Float(name string, v float64) {
	if math.Float64bits(v) != 0 {
		f.Key(name)
		f.Number(v)
	}
}

// Number appends the value of a field that was begun with Key. A number that
// JSON cannot carry is noted in Err.
func (f *Writer) Number(v float64) {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		f.Err = fmt.Errorf("%v cannot be written as a number", v)
		v = 0
	}
	f.B = AppendNumber(f.B, v)
}

// Bool appends true.
func (f *Writer) Bool(name string, v bool) {
	if v {
		f.Key(name)
		f.B = append(f.B, "true"...)
	}
}

// Times appends an array of durations in seconds.
func (f *Writer) Times(name string, v []time.Duration) {
	f.Key(name)
	f.B = append(f.B, '[')
	for i, d := range v {
		if i > 0 {
			f.B = append(f.B, ',')
		}
		f.B = unit.AppendSeconds(f.B, d)
	}
	f.B = append(f.B, ']')
}

// AppendNumber writes a number exactly, without an exponent where it needs none.
func AppendNumber(b []byte, v float64) []byte {
	if a := math.Abs(v); a < 1e21 && a >= 1e-6 {
		return strconv.AppendFloat(b, v, 'f', -1, 64)
	}
	return strconv.AppendFloat(b, v, 'g', -1, 64)
}

// AppendMilli appends devices or cores as a decimal number.
func AppendMilli(b []byte, m unit.Milli) []byte {
	return strconv.AppendFloat(b, float64(m)/1000, 'f', -1, 64)
}

const hexDigits = "0123456789abcdef"

// AppendText writes a JSON string. Bytes that are not UTF-8 are replaced.
func AppendText(b []byte, s string) []byte {
	b = append(b, '"')
	for i, r := range s {
		switch {
		case r == '"' || r == '\\':
			b = append(b, '\\', byte(r))
		case r < ' ':
			b = append(b, `\u00`...)
			b = append(b, hexDigits[r>>4], hexDigits[r&15])
		case r < utf8.RuneSelf:
			b = append(b, s[i])
		default:
			b = utf8.AppendRune(b, r)
		}
	}
	return append(b, '"')
}
