package gate

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// mostEvent is the largest piece of a stream, in bytes.
const mostEvent = 4 << 20

// events reads the pieces of a stream (text/event-stream) with what they say.
type events struct {
	r    *bufio.Reader
	raw  []byte // a piece as it was sent, with the empty line behind it
	data []byte // its lines of data, joined
}

func newEvents(r io.Reader) *events { return &events{r: bufio.NewReaderSize(r, 16<<10)} }

var errLargeEvent = fmt.Errorf("a piece of the stream has more than %d bytes", mostEvent)

// next is the next piece. What was begun when the stream ends is one, too; after that comes io.EOF.
func (e *events) next() (raw, data []byte, err error) {
	e.raw, e.data = e.raw[:0], e.data[:0]
	begin, several := 0, false
	for {
		part, err := e.r.ReadSlice('\n')
		e.raw = append(e.raw, part...)
		switch {
		case len(e.raw) > mostEvent:
			return nil, nil, errLargeEvent
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case errors.Is(err, io.EOF) && len(e.raw) > 0:
			part = nil // it is the last line
		case err != nil:
			return nil, nil, err
		}
		line := bytes.TrimRight(e.raw[begin:], "\r\n")
		begin = len(e.raw)
		if text, ok := bytes.CutPrefix(line, []byte("data:")); ok {
			if several {
				e.data = append(e.data, '\n')
			}
			several = true
			e.data = append(e.data, bytes.TrimPrefix(text, []byte(" "))...)
		}
		if part == nil || len(line) == 0 {
			return e.raw, e.data, nil
		}
	}
}

// meter counts the tokens of a stream.
type meter struct {
	counted int
	used    *usage // as the server says
}

// look counts what a piece adds. drop tells that it has nothing but the usage for which the gate has asked.
func (m *meter) look(data []byte, strip bool) (more int, drop bool) {
	if len(data) == 0 || data[0] != '{' {
		return 0, false
	}
	var c chunk
	var other *json.UnmarshalTypeError // something is there, written in another way
	switch err := json.Unmarshal(data, &c); {
	case err == nil:
		more = c.tokens()
	case errors.As(err, &other):
		more = max(len(c.Choices), c.tokens())
	default:
		return 0, false
	}
	if u := c.Usage.sane(); u != nil {
		m.used = u
		more = max(0, u.Completion-m.counted)
		drop = strip && len(c.Choices) == 0
	}
	m.counted += more
	return more, drop
}
