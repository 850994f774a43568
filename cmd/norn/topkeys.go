package main

import "unicode/utf8"

// key is a key of the keyboard: its letter, or one of the names below.
type key rune

const (
	keyInterrupt key = -iota - 1 // ctrl-c, or the end of the input
	keyRedraw                    // ctrl-l
	keyEscape
	keyEnter
	keyUp
	keyDown
	keyPageUp
	keyPageDown
	keyHome
	keyEnd
)

// sequences are what terminals send for keys that are no letters.
var sequences = map[string]key{
	"\x1b[A": keyUp, "\x1bOA": keyUp, "\x1b[B": keyDown, "\x1bOB": keyDown, "\x1b[5~": keyPageUp, "\x1b[6~": keyPageDown,
	"\x1b[H": keyHome, "\x1bOH": keyHome, "\x1b[1~": keyHome, "\x1b[F": keyEnd, "\x1bOF": keyEnd, "\x1b[4~": keyEnd,
}

// readKeys turns what a terminal sends at once into keys. Unknown sequences are
// left out.
func readKeys(in []byte) []key {
	var out []key
	for len(in) > 0 {
		n := 1
		switch c := in[0]; {
		case c == 3 || c == 4:
			out = append(out, keyInterrupt)
		case c == 12:
			out = append(out, keyRedraw)
		case c == '\r' || c == '\n':
			out = append(out, keyEnter)
		case c == 0x1b:
			n = sequence(in)
			if k, known := sequences[string(in[:n])]; known {
				out = append(out, k)
			} else if n == 1 {
				out = append(out, keyEscape)
			}
		case c >= ' ' && c != 0x7f:
			r, size := utf8.DecodeRune(in)
			if n = size; r != utf8.RuneError {
				out = append(out, key(r))
			}
		}
		in = in[n:]
	}
	return out
}

// sequence is how long the sequence is that begins with an escape.
func sequence(in []byte) int {
	if len(in) < 2 || in[1] != '[' && in[1] != 'O' {
		return 1
	}
	for i := 2; i < len(in); i++ {
		if in[i] >= '@' && in[i] <= '~' {
			return i + 1
		}
	}
	return len(in)
}
