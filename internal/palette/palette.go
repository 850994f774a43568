// Package palette has the colours of the pages that Norn makes, the report of runs and the
// page of a running Norn, so that they look alike by day and by night.
//
// Source: the first series are colours of Okabe and Ito, and the kinds are near those of Tol,
// which people with any colour vision tell apart.
package palette

import _ "embed"

//go:embed palette.css
var css string

// CSS is a style sheet that sets the colours as custom properties of the root, such as
// --ink, for light and dark screens.
func CSS() string { return css }
