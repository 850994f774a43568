package main

import (
	"io"
	"unicode"
	"unicode/utf8"
)

// harmless writes texts without what a terminal would obey; see grid.Clean.
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
