package api

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/norn-scheduler/norn/cluster/unit"
)

// Seconds is a span of time, written in JSON as a number of seconds, or read
// from text such as 90, 1h30m or 2d.
type Seconds float64

// Of is a duration in seconds.
func Of(d time.Duration) Seconds { return Seconds(d.Seconds()) }

// Duration is the span as a time.Duration, cut off at the largest there is.
func (s Seconds) Duration() time.Duration {
	if f := float64(s) * 1e9; f < math.MaxInt64 {
		return time.Duration(f)
	}
	return math.MaxInt64
}

// UnmarshalJSON reads a number, or text.
func (s *Seconds) UnmarshalJSON(b []byte) error {
	if isNull(b) {
		return nil
	}
	text, err := scalar(b)
	if err != nil {
		return err
	}
	d, err := unit.ParseSeconds(text)
	if err != nil {
		return err
	}
	*s = Of(d)
	return nil
}

// Bytes is an amount of memory, written in JSON as a number of bytes, or read
// from text such as 512M, 16GB or 16GiB.
type Bytes int64

// UnmarshalJSON reads a number, or text.
func (b *Bytes) UnmarshalJSON(in []byte) error {
	if isNull(in) {
		return nil
	}
	text, err := scalar(in)
	if err != nil {
		return err
	}
	v, err := unit.ParseBytes(text)
	if err != nil {
		return err
	}
	*b = Bytes(v)
	return nil
}

// Range is a number of GPUs: the size asked for, and for a job that can be
// resized the smallest and largest it can run with. In JSON it is a number, or
// text: 2, 0.5, "1-4", or "1-4:2" to ask for 2 of them.
type Range struct {
	Least, Most, Ask float64
}

// Fixed is a range of one size.
func Fixed(n float64) Range { return Range{n, n, n} }

// Elastic tells whether there is more than one size.
func (r Range) Elastic() bool { return r.Least != r.Most }

// ParseRange reads a number of GPUs as users write it. A range asks for its
// largest size unless told otherwise.
func ParseRange(s string) (Range, error) {
	fail := func() (Range, error) {
		return Range{}, fmt.Errorf("%q is not a number of GPUs: write 2, 0.5 or 1-4", s)
	}
	body, ask, asks := strings.Cut(s, ":")
	least, most, isRange := strings.Cut(body, "-")
	var r Range
	var err error
	if r.Least, err = gpus(least); err != nil {
		return fail()
	}
	if r.Most = r.Least; isRange {
		if r.Most, err = gpus(most); err != nil {
			return fail()
		}
	}
	if r.Ask = r.Most; asks {
		if r.Ask, err = gpus(ask); err != nil {
			return fail()
		}
	}
	whole := func(v float64) bool { return v == math.Trunc(v) }
	switch {
	case r.Most < r.Least || r.Ask < r.Least || r.Ask > r.Most:
		return fail()
	case r.Elastic() && (r.Least < 1 || !whole(r.Least) || !whole(r.Most) || !whole(r.Ask)):
		return Range{}, fmt.Errorf("%q: a job that can be resized runs on whole GPUs", s)
	case r.Least > 1 && !whole(r.Least):
		return Range{}, fmt.Errorf("%q: more than one GPU must be a whole number", s)
	}
	return r, nil
}

func gpus(s string) (float64, error) {
	v, err := strconv.ParseFloat(s, 64)
	if err == nil && !(v >= 0 && v <= 1000) {
		err = strconv.ErrRange
	}
	return v, err
}

// String writes the range as ParseRange reads it.
func (r Range) String() string {
	f := func(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }
	switch {
	case !r.Elastic():
		return f(r.Least)
	case r.Ask == r.Most:
		return f(r.Least) + "-" + f(r.Most)
	}
	return f(r.Least) + "-" + f(r.Most) + ":" + f(r.Ask)
}

// MarshalJSON writes a number, or text for a range.
func (r Range) MarshalJSON() ([]byte, error) {
	if !r.Elastic() {
		return json.Marshal(r.Least)
	}
	return json.Marshal(r.String())
}

// UnmarshalJSON reads a number, or text.
func (r *Range) UnmarshalJSON(b []byte) error {
	if isNull(b) {
		return nil
	}
	text, err := scalar(b)
	if err == nil {
		*r, err = ParseRange(text)
	}
	return err
}

// Tasks is how many processes of a job start together: N, or with PerGPU one on
// each GPU. Zero is one process.
type Tasks struct {
	N      int
	PerGPU bool
}

// ParseTasks reads a number of tasks as users write it.
func ParseTasks(s string) (Tasks, error) {
	if s == "per-gpu" {
		return Tasks{PerGPU: true}, nil
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < 1 || n > 10000 {
		return Tasks{}, fmt.Errorf("%q is not a number of tasks: write a number from 1 to 10000, or per-gpu", s)
	}
	return Tasks{N: n}, nil
}

// Of is the number of processes on so many GPUs.
func (t Tasks) Of(gpus int) int {
	if t.PerGPU {
		return max(1, gpus)
	}
	return max(1, t.N)
}

// String writes the number as ParseTasks reads it.
func (t Tasks) String() string {
	if t.PerGPU {
		return "per-gpu"
	}
	return strconv.Itoa(max(1, t.N))
}

// MarshalJSON writes a number, or per-gpu.
func (t Tasks) MarshalJSON() ([]byte, error) {
	if t.PerGPU {
		return []byte(`"per-gpu"`), nil
	}
	return strconv.AppendInt(nil, int64(max(1, t.N)), 10), nil
}

// UnmarshalJSON reads a number, or text.
func (t *Tasks) UnmarshalJSON(b []byte) error {
	if isNull(b) {
		return nil
	}
	text, err := scalar(b)
	if err == nil {
		*t, err = ParseTasks(text)
	}
	return err
}

// isNull tells whether there is no value, which changes nothing, as everywhere
// in package json.
func isNull(b []byte) bool { return string(bytes.TrimSpace(b)) == "null" }

// scalar is the text of a JSON number or string. Values from decoders are whole
// and valid, so a plain one is taken as it stands.
func scalar(b []byte) (string, error) {
	b = bytes.TrimSpace(b)
	if len(b) < 2 || b[0] != '"' {
		return string(b), nil
	}
	if inner := b[1 : len(b)-1]; bytes.IndexByte(inner, '\\') < 0 {
		return string(inner), nil
	}
	var s string
	err := json.Unmarshal(b, &s)
	return s, err
}
