// Package grid writes tables of text that fit a terminal: columns are cut down or left
// out where it is too narrow. Widths are in cells; a wide character takes two. It also has
// what cells of all tables show alike: names that are safe, and moments.
package grid

import (
	"io"
	"strings"
	"time"
	"unicode"
)

// Table is a table that is cut to the width of a terminal.
type Table struct {
	Cols []Column
	Rows [][]string
}

// Column is one column of a table. Where the table is too wide, columns with a
// least width are cut down to it, the widest first, and then columns are left out
// in the order of their rank.
type Column struct {
	Title string
	Right bool
	Least int  // it may be cut to so many cells; 0: it is never cut
	Rank  int  // 1 is left out first; 0: it is never left out
	Bare  bool // it is left out when all its cells are empty
}

func (g *Table) Add(cells ...string) {
	for i := range cells {
		cells[i] = Clean(cells[i])
	}
	g.Rows = append(g.Rows, cells)
}

// Write writes titles and rows; width 0 is unbounded.
func (g *Table) Write(out io.Writer, width int) error {
	_, err := io.WriteString(out, strings.Join(g.Lines(width), "\n")+"\n")
	return err
}

// gap is between two columns.
const gap = 2

// Lines are the titles and the rows, each at most so wide.
func (g *Table) Lines(width int) []string {
	shown, wide := g.fit(width)
	line := func(cells func(int) string) string {
		var b strings.Builder
		for n, i := range shown {
			text := Cut(cells(i), wide[i])
			space := wide[i] - Cells(text)
			if n > 0 {
				pad(&b, gap)
			}
			if g.Cols[i].Right {
				pad(&b, space)
				space = 0
			}
			b.WriteString(text)
			pad(&b, space)
		}
		return strings.TrimRight(b.String(), " ")
	}
	out := []string{line(func(i int) string { return g.Cols[i].Title })}
	for _, r := range g.Rows {
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
func (g *Table) fit(width int) (shown, wide []int) {
	wide = make([]int, len(g.Cols))
	last := 0
	for i, c := range g.Cols {
		filled := false
		wide[i] = Cells(c.Title)
		for _, r := range g.Rows {
			wide[i] = max(wide[i], Cells(r[i]))
			filled = filled || r[i] != ""
		}
		if filled || !c.Bare {
			shown = append(shown, i)
		}
		last = max(last, c.Rank)
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
			if g.Cols[i].Rank != rank {
				kept = append(kept, i)
			}
		}
		shown = kept
	}
	g.shrink(shown, wide, width)
	return shown, wide
}

func (g *Table) leastOf(i int, wide []int) int {
	if l := g.Cols[i].Least; l > 0 {
		return min(l, wide[i])
	}
	return wide[i]
}

// shrink takes cells from the columns that may be cut, always from the widest,
// until the grid fits.
func (g *Table) shrink(shown, wide []int, width int) {
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

// Cells is how many cells of a terminal a text takes.
func Cells(s string) int {
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

// Cut shortens a text to so many cells, with a mark where something is missing.
func Cut(s string, width int) string {
	if Cells(s) <= width {
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

// Clean takes everything out of a text that a terminal would obey: a job may have
// any name.
func Clean(s string) string {
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

// Clock is a moment for a reader in the place where now is told: the time of
// day, and the date where that is another.
func Clock(t, now time.Time) string {
	if t.IsZero() {
		return ""
	}
	t = t.In(now.Location())
	switch days := dayOf(t) - dayOf(now); {
	case days == 0:
		return t.Format("15:04")
	case days > -7 && days < 7:
		return t.Format("Mon 15:04")
	case t.Year() == now.Year():
		return t.Format("Jan 2 15:04")
	}
	return t.Format("2006-01-02 15:04")
}

func dayOf(t time.Time) int64 {
	return time.Date(t.Year(), t.Month(), t.Day(), 0, 0, 0, 0, time.UTC).Unix() / 86400
}
