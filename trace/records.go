package trace

import (
	"bytes"
	"errors"
	"io"
)

// maxLine bounds the length of a line.
const maxLine = 16 << 20

// records splits a text into lines and the lines into fields. A field may stand
// in double quotes; then it may hold commas, doubled quotes and line ends.
type records struct {
	r       io.Reader
	comma   byte
	comment byte // lines that begin with it are passed over; 0: none
	bare    bool // double quotes are text like any other

	buf        []byte
	start, end int
	eof        bool
	lines      int // line ends passed
	line       int // number of the record's first line, from 1
	text       []byte
	cut        bool // a carriage return was cut off its end
	fields     [][]byte
	unquoted   []byte
}

var errLongLine = errors.New("a line is longer than 16 MiB")

// next reads the next record that is not empty; io.EOF at the end. The fields
// are valid until the next call.
func (c *records) next() error {
	for {
		if err := c.nextLine(); err != nil {
			return err
		}
		if c.comment != 0 && c.text[0] == c.comment {
			continue
		}
		return c.split(c.text)
	}
}

// nextLine sets text to the next line that is not empty.
func (c *records) nextLine() error {
	for {
		if err := c.readLine(); err != nil {
			return err
		}
		c.line = c.lines
		if c.line == 1 {
			c.text = bytes.TrimPrefix(c.text, utf8BOM)
		}
		if len(c.text) > 0 && (c.text[0] > ' ' || len(bytes.TrimSpace(c.text)) > 0) {
			return nil
		}
	}
}

// readLine sets text to the next line without its end.
func (c *records) readLine() error {
	scanned := 0
	for {
		if i := bytes.IndexByte(c.buf[c.start+scanned:c.end], '\n'); i >= 0 {
			c.setText(c.buf[c.start : c.start+scanned+i])
			c.start += scanned + i + 1
			c.lines++
			return nil
		}
		scanned = c.end - c.start
		if c.eof {
			if scanned == 0 {
				return io.EOF
			}
			c.setText(c.buf[c.start:c.end])
			c.start = c.end
			c.lines++
			return nil
		}
		if err := c.fill(); err != nil {
			return err
		}
	}
}

// fill reads more behind the unread part of the buffer.
func (c *records) fill() error {
	if c.start > 0 {
		copy(c.buf, c.buf[c.start:c.end])
		c.end -= c.start
		c.start = 0
	}
	if c.end == len(c.buf) {
		if len(c.buf) >= maxLine {
			return errLongLine
		}
		grown := make([]byte, max(headSize, 2*len(c.buf)))
		copy(grown, c.buf[:c.end])
		c.buf = grown
	}
	for range 100 {
		n, err := c.r.Read(c.buf[c.end:])
		c.end += n
		if errors.Is(err, io.EOF) {
			c.eof = true
			return nil
		}
		if n > 0 || err != nil {
			return err
		}
	}
	return io.ErrNoProgress
}

// setText sets text to a line without the carriage return of its end.
func (c *records) setText(line []byte) {
	n := len(line)
	if c.cut = n > 0 && line[n-1] == '\r'; c.cut {
		line = line[:n-1]
	}
	c.text = line
}

var errQuote = errors.New("a closing quote")

// split sets the fields of a line.
func (c *records) split(line []byte) error {
	c.fields = c.fields[:0]
	if !c.bare && bytes.IndexByte(line, '"') >= 0 {
		return c.splitQuoted(line)
	}
	from := 0
	for i, b := range line {
		if b == c.comma {
			c.fields = append(c.fields, line[from:i])
			from = i + 1
		}
	}
	c.fields = append(c.fields, line[from:])
	return nil
}

// splitQuoted is split for a line with quotes; it reads further lines when a
// quoted field goes on there.
func (c *records) splitQuoted(line []byte) error {
	c.unquoted = c.unquoted[:0]
	var ends []int // of the fields in unquoted
	quoted := false
	for i := 0; ; i++ {
		if i == len(line) {
			if !quoted {
				break
			}
			// The rest of the record is in the next line, which may move the buffer:
			// nothing of this line is needed any more.
			cut := c.cut
			if c.r == nil || len(c.unquoted) > maxLine || c.readLine() != nil {
				return errQuote
			}
			if cut {
				c.unquoted = append(c.unquoted, '\r')
			}
			c.unquoted = append(c.unquoted, '\n')
			line, i = c.text, -1
			continue
		}
		switch b := line[i]; {
		case quoted && b == '"' && i+1 < len(line) && line[i+1] == '"':
			c.unquoted = append(c.unquoted, '"')
			i++
		case b == '"' && (quoted || c.fieldEmpty(ends)):
			quoted = !quoted
		case b == c.comma && !quoted:
			ends = append(ends, len(c.unquoted))
		default:
			c.unquoted = append(c.unquoted, b)
		}
	}
	ends = append(ends, len(c.unquoted))
	from := 0
	for _, end := range ends {
		c.fields = append(c.fields, c.unquoted[from:end])
		from = end
	}
	return nil
}

// fieldEmpty tells whether nothing of the current field has been read yet: a
// quote elsewhere is part of the text.
func (c *records) fieldEmpty(ends []int) bool {
	if len(ends) == 0 {
		return len(c.unquoted) == 0
	}
	return ends[len(ends)-1] == len(c.unquoted)
}
