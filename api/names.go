package api

import (
	"strconv"
	"strings"
)

// Packed writes names with those in a row as one: a-1 to a-4, a-7. They must be in order.
func Packed(names []string) string {
	var parts []string
	for i := 0; i < len(names); {
		n := 1
		for i+n < len(names) && follows(names[i+n-1], names[i+n]) {
			n++
		}
		if n > 2 {
			parts = append(parts, names[i]+" to "+names[i+n-1])
		} else {
			parts = append(parts, names[i:i+n]...)
		}
		i += n
	}
	return strings.Join(parts, ", ")
}

// follows tells whether a name is the one behind another: the same but for the number at
// its end, which is one more and written with as many digits if it begins with 0.
func follows(a, b string) bool {
	stem := strings.TrimRight(a, "0123456789")
	if !strings.HasPrefix(b, stem) {
		return false
	}
	from, to := a[len(stem):], b[len(stem):]
	x, err := strconv.ParseUint(from, 10, 62)
	y, err2 := strconv.ParseUint(to, 10, 62)
	padded := strings.HasPrefix(from, "0") || strings.HasPrefix(to, "0")
	return err == nil && err2 == nil && y == x+1 && (!padded || len(from) == len(to))
}
