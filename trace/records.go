package trace

import (
	"bytes"
	"errors"
	"fmt"
	"io"
)

// firstRead is how much of a file is read at first; most files that people write
// by hand are shorter.
const firstRead = 4 << 10

// maxLine bounds the length of a line.
const maxLine = 16 << 20

// records splits a text into lines and the lines into fields. Lines end with a
// line feed, a carriage return or both. A field may stand in double quotes; then
// it may hold commas, doubled quotes and line ends.
type records struct {
	r       io.Reader
	comma   byte
	comment byte // lines that begin with it are passed over; 0: none
	bare    bool // double quotes and carriage returns are text like any other
	width   int  // fields of a record, for telling that a quote is missing; 0: not known

	buf        []byte
	start, end int
	eof        bool
	lines      int // line ends passed
	line       int // number of the record's first line, from 1
	text       []byte
	ended      string // with what the line ended
	back       bool   // the line has been read and belongs to the next record
	fields     [][]byte
	unquoted   []byte
}

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
		if c.back {
			c.back = false
		} else if err := c.readLine(); err != nil {
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
	for {
		rest := c.buf[c.start:c.end]
		if n, ended, ok := c.lineEnd(rest); ok {
			c.text, c.ended = rest[:n], ended
			c.start += n + len(ended)
			c.lines++
			return nil
		}
		if c.eof {
			return io.EOF
		}
		if err := c.fill(); err != nil {
			return err
		}
	}
}

// lineEnd finds the end of the line with which a text begins. It is false where
// more of the text must be read to know it, and at the end of the file.
func (c *records) lineEnd(text []byte) (n int, ended string, ok bool) {
	n = bytes.IndexByte(text, '\n')
	whole := n >= 0
	if !whole {
		n = len(text)
	}
	switch cr := bytes.IndexByte(text[:n], '\r'); {
	case c.bare && cr != n-1 || cr < 0:
	case whole && cr == n-1:
		return cr, "\r\n", true
	case cr < n-1 || c.eof:
		return cr, "\r", true
	}
	if whole {
		return n, "\n", true
	}
	return n, "", c.eof && n > 0
}

// fill reads more behind the unread part of the buffer.
func (c *records) fill() error {
	small := c.end == len(c.buf) && len(c.buf) < headSize
	if c.start > 0 {
		copy(c.buf, c.buf[c.start:c.end])
		c.end -= c.start
		c.start = 0
	}
	if small || c.end == len(c.buf) {
		if len(c.buf) >= maxLine {
			return fmt.Errorf("line %d is longer than %d MiB", c.lines+1, maxLine>>20)
		}
		grown := make([]byte, max(firstRead, 2*len(c.buf)))
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

var (
	errQuote     = errors.New("a closing quote")
	errSwallowed = errors.New("a closing quote on this line: the quoted field goes on into a line that looks like a row of its own")
)

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
// quoted field goes on there. Where it goes on from a line with separators enough
// for a row into another such line, a quote is missing, and the other line is left
// for the next record.
func (c *records) splitQuoted(line []byte) error {
	c.unquoted = c.unquoted[:0]
	row := c.width > 1 && bytes.Count(line, []byte{c.comma}) >= c.width-1
	var ends []int // of the fields in unquoted
	quoted := false
	for i := 0; ; i++ {
		if i == len(line) {
			if !quoted {
				break
			}
			// The rest of the record is in the next line, which may move the buffer:
			// nothing of this line is needed any more.
			ended := c.ended
			if c.r == nil || len(c.unquoted) > maxLine || c.readLine() != nil {
				return errQuote
			}
			if row && bytes.Count(c.text, []byte{c.comma}) == c.width-1 {
				c.back = true
				return errSwallowed
			}
			c.unquoted = append(c.unquoted, ended...)
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
