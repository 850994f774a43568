package draw

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"io"
	"strconv"
)

// svg writes SVG.
type svg struct {
	b     bytes.Buffer
	clips int
}

func newSVG(width, height float64, f *font) *svg {
	s := &svg{}
	fmt.Fprintf(&s.b, `<svg xmlns="http://www.w3.org/2000/svg" width="%spt" height="%spt" viewBox="0 0 %s %s" font-family="%s">`+"\n",
		short(width), short(height), short(width), short(height), f.family)
	fmt.Fprintf(&s.b, `<rect width="%s" height="%s" fill="%s"/>`+"\n", short(width), short(height), white)
	return s
}

// short writes a length to a hundredth of a point.
func short(v float64) string {
	return strconv.FormatFloat(float64(int64(v*100+sign(v)*0.5))/100, 'f', -1, 64)
}

func sign(v float64) float64 {
	if v < 0 {
		return -1
	}
	return 1
}

func (s *svg) path(points []point) {
	for i, p := range points {
		s.b.WriteString(map[bool]string{true: "M", false: "L"}[i == 0])
		s.b.WriteString(short(p.x) + " " + short(p.y))
	}
}

func (s *svg) line(points []point, p pen) {
	s.b.WriteString(`<path d="`)
	s.path(points)
	fmt.Fprintf(&s.b, `" fill="none" stroke="%s" stroke-width="%s" stroke-linejoin="round"`, p.colour, short(p.width))
	if len(p.dash) > 0 {
		s.b.WriteString(` stroke-dasharray="`)
		for i, d := range p.dash {
			if i > 0 {
				s.b.WriteByte(' ')
			}
			s.b.WriteString(short(d))
		}
		s.b.WriteByte('"')
	}
	s.b.WriteString("/>\n")
}

func (s *svg) fill(x, y, width, height float64, colour string) {
	fmt.Fprintf(&s.b, `<rect x="%s" y="%s" width="%s" height="%s" fill="%s"/>`+"\n", short(x), short(y), short(width), short(height), colour)
}

func (s *svg) polygon(points []point, colour string) {
	s.b.WriteString(`<path d="`)
	s.path(points)
	fmt.Fprintf(&s.b, `Z" fill="%s"/>`+"\n", colour)
}

func (s *svg) text(at point, text string, size, degrees float64, colour string) {
	fmt.Fprintf(&s.b, `<text x="%s" y="%s" font-size="%s" fill="%s"`, short(at.x), short(at.y), short(size), colour)
	if degrees != 0 {
		fmt.Fprintf(&s.b, ` transform="rotate(%s %s %s)"`, short(-degrees), short(at.x), short(at.y))
	}
	s.b.WriteByte('>')
	xml.EscapeText(&s.b, []byte(text)) // a bytes.Buffer takes everything
	s.b.WriteString("</text>\n")
}

func (s *svg) clip(x, y, width, height float64) {
	s.clips++
	fmt.Fprintf(&s.b, `<clipPath id="c%d"><rect x="%s" y="%s" width="%s" height="%s"/></clipPath><g clip-path="url(#c%d)">`+"\n",
		s.clips, short(x), short(y), short(width), short(height), s.clips)
}

func (s *svg) unclip() { s.b.WriteString("</g>\n") }

func (s *svg) end(w io.Writer) error {
	s.b.WriteString("</svg>\n")
	_, err := w.Write(s.b.Bytes())
	return err
}
