// Package draw draws charts for print, as SVG or PDF: lines, steps, areas, bars with
// intervals, and boxes over axes with titles.
//
// Nouns: a Chart is one file. It has Panels, one below the other, each with two axes and what
// is drawn over them. A look is the number of a series: its colour, its dashes and its
// hatching, by which readers tell it apart in grey, too. A key is an entry of the legend.
//
// Units: lengths are points (1/72 inch). Equal charts give equal files, byte by byte; there
// is no date in them.
//
// Sources: the colours are those of package palette. The fonts are Liberation Sans and Serif,
// which are as wide as Arial and Times. A PDF has the letters in it that it uses; an SVG
// names the fonts, and texts stand in it as text.
package draw

import (
	"fmt"
	"io"
	"strings"

	"github.com/norn-scheduler/norn/internal/palette"
)

// Style is what a chart looks like, whatever is in it. The zero value is for one column of a
// paper.
type Style struct {
	Width  float64 // 0: SingleColumn
	Height float64 // 0: as the panels need it
	Serif  bool    // letters like Times instead of Arial
	Size   float64 // of letters; 0: 8
}

// Widths of figures in papers of two columns.
const (
	SingleColumn = 3.33 * 72
	DoubleColumn = 7 * 72
)

// Format is a kind of file.
type Format string

// The formats.
const (
	SVG Format = "svg"
	PDF Format = "pdf"
)

// Formats are all of them.
func Formats() []Format { return []Format{SVG, PDF} }

// Chart is a picture. Without a legend, Keys is empty.
type Chart struct {
	Panels []Panel
	Keys   []Key
}

// Key is an entry of the legend.
type Key struct {
	Name string
	Look int
	Area bool   // a piece of the area is shown, and not of the line
	Fill string // of the area, where it is no look: #rrggbb
}

// Panel is a pair of axes with what is drawn over them, in this order: areas, boxes, bars,
// lines, rules.
type Panel struct {
	Title string // small, above the axes; may be empty
	X, Y  Axis
	Areas []Area
	Boxes []Box
	Bars  []Bar
	Lines []Line
	Rules []float64 // values of Y at which a thin line goes across
	Marks []float64 // values of X at which a thin line goes from top to bottom
}

// Axis is a scale.
type Axis struct {
	Title    string // with the unit
	Log      bool
	From, To float64  // equal: as the data need it
	Zero     bool     // it begins at 0 where the data decide
	Names    []string // of places 0, 1, 2 ...; nil: it has numbers
	Down     bool     // of Y: it grows downwards
	Percent  bool     // parts of one are written per cent
}

// Line is a line through points; NaN interrupts it.
type Line struct {
	Look   int
	X, Y   []float64
	Low    []float64 // of intervals at the points, with High; nil: there are none
	High   []float64
	Step   bool // Y holds from its X to the next
	Points bool // points are marked
}

// Area lies between two curves that hold from their X to the next.
type Area struct {
	Look         int
	Fill         string // its colour, where it is no look: #rrggbb
	X, Low, High []float64
}

// Bar is a bar from the foot of the axis, or from From, with an interval around its end.
type Bar struct {
	Look      int
	At, Width float64 // middle and width, in places of X
	From, To  float64 // From NaN: the foot of the axis
	Low, High float64 // of the interval; NaN: there is none
	Mark      float64 // a value that is marked above the bar; NaN: there is none
}

// Box is a rectangle.
type Box struct {
	X0, X1, Y0, Y1 float64
	Fill           string // #rrggbb
}

// Write draws the chart. It fails on a chart without panels, one that is too small for its
// axes, and where w fails.
func (c *Chart) Write(w io.Writer, f Format, s Style) error {
	if len(c.Panels) == 0 {
		return fmt.Errorf("a chart needs something to draw")
	}
	l, err := c.layout(s)
	if err != nil {
		return err
	}
	var on canvas
	switch f {
	case SVG:
		on = newSVG(l.width, l.height, l.font)
	case PDF:
		on = newPDF(l.width, l.height, l.font)
	default:
		return fmt.Errorf("%q is no format of charts: write one of %s", f, Words(Formats()))
	}
	l.draw(on)
	return on.end(w)
}

// Words lists names for readers.
func Words[T ~string](all []T) string {
	words := make([]string, len(all))
	for i, w := range all {
		words[i] = string(w)
	}
	return strings.Join(words, ", ")
}

// Tint is the colour of a look, as #rrggbb.
func Tint(look int) string {
	name, _ := palette.Look(look)
	return palette.Light(name)
}

// point is a place on the paper, from the upper left corner.
type point struct{ x, y float64 }

// pen is how a line is drawn.
type pen struct {
	colour string
	width  float64
	dash   []float64 // lengths of strokes and gaps
}

// canvas is paper of some format.
type canvas interface {
	line(points []point, p pen)
	fill(x, y, width, height float64, colour string)
	polygon(points []point, colour string)
	// text writes with the left end of its base line at a point, turned counter-clockwise.
	text(at point, s string, size, degrees float64, colour string)
	clip(x, y, width, height float64) // until unclip
	unclip()
	end(w io.Writer) error
}

// Colours of what is no data.
const (
	black = "#17202b"
	grey  = "#576170"
	faint = "#dfe3e8"
	white = "#ffffff"
)

// Known tells whether there is such a format.
func (f Format) Known() bool { return f == SVG || f == PDF }
