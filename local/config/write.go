package config

import (
	"bufio"
	"io"
	"strings"
)

// Write prints the whole file, with a comment for every key. Parse reads an equal
// Config from it.
func (c *Config) Write(w io.Writer) error {
	out := printer{Writer: bufio.NewWriter(w), comments: true}
	out.line("", "# Configuration of Norn. Keys that a file leaves out have the default that")
	out.line("", "# norn config show --default prints.")
	out.entries("", c.entries())
	return out.Flush()
}

// WriteValues prints the whole file without comments.
func (c *Config) WriteValues(w io.Writer) error {
	out := printer{Writer: bufio.NewWriter(w)}
	out.entries("", c.entries())
	return out.Flush()
}

// printer writes the file. Errors come out at Flush.
type printer struct {
	*bufio.Writer
	comments bool
}

func (p *printer) line(indent, text string) {
	p.WriteString(indent)
	p.WriteString(text)
	p.WriteByte('\n')
}

func (p *printer) entries(indent string, all []entry) {
	for _, e := range all {
		if p.comments {
			if indent == "" {
				p.line("", "")
			}
			for line := range strings.SplitSeq(e.doc, "\n") {
				p.line(indent, "# "+line)
			}
		}
		p.entry(indent, e)
	}
}

func (p *printer) entry(indent string, e entry) {
	switch {
	case e.inner != nil:
		p.line(indent, e.key+":")
		p.entries(indent+"  ", e.inner)
	case e.items == nil:
		p.line(indent, e.key+": "+e.show())
	default:
		items := e.items()
		if len(items) == 0 {
			p.line(indent, e.key+": []")
			return
		}
		p.line(indent, e.key+":")
		for _, item := range items {
			p.line(indent+"  ", item)
		}
	}
}

// lines are the entries of a list as the file has them.
func lines[T interface{ Line() string }](list []T) []string {
	var all []string
	for _, x := range list {
		all = append(all, x.Line())
	}
	return all
}
