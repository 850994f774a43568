//go:build !unix

package main

import "os"

// Elsewhere the size is seen at the next picture. No program is ever told of a
// kill, and no list may be empty: that would be all signals.
var (
	resizes = []os.Signal{os.Kill}
	hangups = []os.Signal{os.Interrupt}
)
