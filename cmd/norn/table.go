package main

import (
	"io"
	"os"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"golang.org/x/term"
)

// grid is a table that is cut to the width of a terminal.
type grid struct {
	cols []gridColumn
	rows [][]string
}

// gridColumn is one column of a grid. Where the grid is too wide, columns with a
// least width are cut down to it, the widest first, and then columns are left out
// in the order of their rank.
type gridColumn struct {
	title string
	right bool
	least int  // it may be cut to so many cells; 0: it is never cut
	rank  int  // 1 is left out first; 0: it is never left out
	bare  bool // it is left out when all its cells are empty
}

func (g *grid) add(cells ...string) {
	for i := range cells {
		cells[i] = clean(cells[i])
	}
	g.rows = append(g.rows, cells)
}

// write writes title and rows; width 0 is unbounded.
func (g *grid) write(out io.Writer, width int) error {
	_, err := io.WriteString(out, strings.Join(g.lines(width), "\n")+"\n")
	return err
}

// gap is between two columns.
const gap = 2

// lines are the title and the rows, each at most so wide.
func (g *grid) lines(width int) []string {
	shown, wide := g.fit(width)
	line := func(cells func(int) string) string {
		var b strings.Builder
		for n, i := range shown {
			text := cut(cells(i), wide[i])
			space := wide[i] - cellsOf(text)
			if n > 0 {
				pad(&b, gap)
			}
			if g.cols[i].right {
				pad(&b, space)
				space = 0
			}
			b.WriteString(text)
			pad(&b, space)
		}
		return strings.TrimRight(b.String(), " ")
	}
	out := []string{line(func(i int) string { return g.cols[i].title })}
	for _, r := range g.rows {
		out = append(out, line(func(i int) string { return r[i] }))
	}
	return out
}

func pad(b *strings.Builder, n int) {
	for range n {
		b.WriteByte(' ')
	}
}

// fit says which columns are shown, and how wide each is.
func (g *grid) fit(width int) (shown, wide []int) {
	wide = make([]int, len(g.cols))
	last := 0
	for i, c := range g.cols {
		filled := false
		wide[i] = cellsOf(c.title)
		for _, r := range g.rows {
			wide[i] = max(wide[i], cellsOf(r[i]))
			filled = filled || r[i] != ""
		}
		if filled || !c.bare {
			shown = append(shown, i)
		}
		last = max(last, c.rank)
	}
	if width <= 0 {
		return shown, wide
	}
	least := func() int {
		sum := gap * (len(shown) - 1)
		for _, i := range shown {
			sum += g.leastOf(i, wide)
		}
		return sum
	}
	for rank := 1; rank <= last && least() > width; rank++ {
		kept := shown[:0:0]
		for _, i := range shown {
			if g.cols[i].rank != rank {
				kept = append(kept, i)
			}
		}
		shown = kept
	}
	g.shrink(shown, wide, width)
	return shown, wide
}

func (g *grid) leastOf(i int, wide []int) int {
	if l := g.cols[i].least; l > 0 {
		return min(l, wide[i])
	}
	return wide[i]
}

// shrink takes cells from the columns that may be cut, always from the widest,
// until the grid fits.
func (g *grid) shrink(shown, wide []int, width int) {
	over := gap*(len(shown)-1) - width
	for _, i := range shown {
		over += wide[i]
	}
	for ; over > 0; over-- {
		widest := -1
		for _, i := range shown {
			if wide[i] > g.leastOf(i, wide) && (widest < 0 || wide[i] >= wide[widest]) {
				widest = i
			}
		}
		if widest < 0 {
			return
		}
		wide[widest]--
	}
}

// cellsOf is how many cells of a terminal a text takes.
func cellsOf(s string) int {
	n := 0
	for _, r := range s {
		n += runeCells(r)
	}
	return n
}

// wideRunes take two cells each on a terminal.
var wideRunes = []*unicode.RangeTable{unicode.Han, unicode.Hangul, unicode.Hiragana, unicode.Katakana, {
	R16: []unicode.Range16{{Lo: 0x3000, Hi: 0x303e, Stride: 1}, {Lo: 0xff01, Hi: 0xff60, Stride: 1}},
	R32: []unicode.Range32{{Lo: 0x1f300, Hi: 0x1f64f, Stride: 1}, {Lo: 0x1f680, Hi: 0x1f6ff, Stride: 1}, {Lo: 0x1f900, Hi: 0x1faff, Stride: 1}},
}}

func runeCells(r rune) int {
	switch {
	case r < 0x300:
		return 1
	case unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf):
		return 0
	case unicode.In(r, wideRunes...):
		return 2
	}
	return 1
}

// cut shortens a text to so many cells, with a mark where something is missing.
func cut(s string, width int) string {
	if cellsOf(s) <= width {
		return s
	}
	n := 0
	for i, r := range s {
		if n += runeCells(r); n > width-1 {
			return s[:i] + strings.Repeat("…", min(1, width))
		}
	}
	return s
}

// clean takes everything out of a text that a terminal would obey: a job may have
// any name.
func clean(s string) string {
	ascii := true
	for i := range len(s) {
		ascii = ascii && s[i] >= ' ' && s[i] <= '~'
	}
	if ascii {
		return s
	}
	s = strings.ToValidUTF8(s, "?")
	plain := func(r rune) bool { return r == ' ' || unicode.IsPrint(r) }
	if strings.IndexFunc(s, func(r rune) bool { return !plain(r) }) < 0 {
		return s
	}
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return ' '
		case plain(r):
			return r
		}
		return '?'
	}, strings.TrimRight(s, "\n"))
}

// harmless writes texts without what a terminal would obey; see clean.
type harmless struct {
	w    io.Writer
	rest []byte // the beginning of a rune
}

// Write implements io.Writer.
func (h *harmless) Write(p []byte) (int, error) {
	text := append(h.rest, p...)
	out := make([]byte, 0, len(text))
	for len(text) > 0 && utf8.FullRune(text) {
		r, size := utf8.DecodeRune(text)
		if r != '\n' && r != '\t' && !unicode.IsPrint(r) || r == utf8.RuneError && size == 1 {
			out = append(out, '?')
		} else {
			out = append(out, text[:size]...)
		}
		text = text[size:]
	}
	h.rest = text
	if _, err := h.w.Write(out); err != nil {
		return 0, err
	}
	return len(p), nil
}

// widthOf is how wide the terminal is that a verb writes to; 0: it writes to none.
func widthOf(cmd *cobra.Command) int {
	file, ok := cmd.OutOrStdout().(*os.File)
	if !ok || !term.IsTerminal(int(file.Fd())) {
		return 0
	}
	if w, _, err := term.GetSize(int(file.Fd())); err == nil && w > 0 {
		return w
	}
	return 80
}
