// Package palette has the colours of the pages that Norn makes, the report of runs and the
// page of a running Norn, so that they look alike by day and by night.
//
// Source: the first series are colours of Okabe and Ito, and the kinds are near those of Tol,
// which people with any colour vision tell apart.
package palette

import (
	_ "embed"
	"strings"
)

//go:embed palette.css
var css string

// CSS is a style sheet that sets the colours as custom properties of the root, such as
// --ink, for light and dark screens.
func CSS() string { return css }

// Looks is how many colours, and how many dashes, tell series apart.
const Looks = 8

// dashes are lengths of strokes and gaps, as the page of reports has them, too.
var dashes = [Looks][]float64{nil, {7, 3}, {2.5, 2.5}, {9, 3, 2, 3}, {5, 2}, {1.5, 1.5}, {4, 2, 1, 2}, {12, 3}}

// Look is how series i, counted from 0, is told apart from the others: the name of a colour,
// and lengths of strokes and gaps. The first 64 series differ in one of these.
func Look(i int) (colour string, dash []float64) {
	return "s" + string(rune('0'+i%Looks)), dashes[(i+i/Looks)%Looks]
}

// Light is a colour on white by its name in the style sheet, such as #0072b2 for s0; it is
// empty where there is none of that name.
func Light(name string) string {
	_, text, _ := strings.Cut(css, "--"+name+": ")
	text, _, _ = strings.Cut(text, ";")
	return text
}
