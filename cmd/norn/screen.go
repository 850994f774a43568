package main

import (
	"os"
	"strings"

	"golang.org/x/term"

	"github.com/norn-scheduler/norn/internal/grid"
)

// screen is a terminal that a program has for itself. Closing it restores the
// former contents.
type screen struct {
	in, out *os.File
	before  *term.State
	color   bool
	drawn   string // what is on it
}

const (
	screenBegin = "\x1b[?1049h\x1b[?25l" // the other screen, without a cursor
	screenEnd   = "\x1b[0m\x1b[?25h\x1b[?1049l"
)

// openScreen takes over a terminal: keys come as they are pressed.
func openScreen(in, out *os.File, color bool) (*screen, error) {
	before, err := term.MakeRaw(int(in.Fd()))
	if err != nil {
		return nil, err
	}
	if _, err := out.WriteString(screenBegin); err != nil {
		term.Restore(int(in.Fd()), before)
		return nil, err
	}
	return &screen{in: in, out: out, before: before, color: color}, nil
}

// close gives the terminal back.
func (s *screen) close() {
	s.out.WriteString(screenEnd)
	term.Restore(int(s.in.Fd()), s.before)
}

// size is the size in cells; 80 by 24 where the terminal does not tell.
func (s *screen) size() (width, height int) {
	width, height, err := term.GetSize(int(s.out.Fd()))
	if err != nil || width <= 0 || height <= 0 {
		return 80, 24
	}
	return width, height
}

// forget makes the next draw write everything.
func (s *screen) forget() { s.drawn = "" }

// looks are the attributes of lines: headings bold, the selected job reversed.
var looks = map[look]string{strong: "\x1b[1m", faint: "\x1b[2m", alarm: "\x1b[1;31m", picked: "\x1b[7m"}

// draw shows lines on a screen of some width, if they are not there yet.
func (s *screen) draw(lines []topLine, width int) error {
	var b strings.Builder
	for i, l := range lines {
		if i > 0 {
			b.WriteString("\r\n")
		}
		on := looks[l.look]
		if l.look == alarm && !s.color {
			on = looks[strong]
		}
		b.WriteString(on + l.text)
		if on != "" {
			b.WriteString("\x1b[0m")
		}
		if grid.Cells(l.text) < width { // behind the last cell it would erase that
			b.WriteString("\x1b[K")
		}
	}
	text := b.String()
	if text == s.drawn {
		return nil
	}
	first := "\x1b[H"
	if s.drawn == "" {
		first = "\x1b[2J\x1b[H"
	}
	s.drawn = text
	_, err := s.out.WriteString(first + text + "\x1b[J")
	return err
}
