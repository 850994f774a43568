package unit

import (
	"math"
	"strconv"
)

// ParseInt reads a whole number, which may be written with zeros after a
// decimal point (8.0).
func ParseInt(v []byte) (int64, bool) {
	neg := len(v) > 0 && v[0] == '-'
	digits := v
	if neg {
		digits = v[1:]
	}
	if len(digits) == 0 || len(digits) > 40 {
		return 0, false
	}
	var n int64
	for i, c := range digits {
		if c == '.' && i > 0 {
			for _, z := range digits[i+1:] {
				if z != '0' {
					return 0, false
				}
			}
			break
		}
		if c -= '0'; c > 9 || n > (math.MaxInt64-9)/10 {
			return 0, false
		}
		n = n*10 + int64(c)
	}
	if neg {
		n = -n
	}
	return n, true
}

// MaxScaled bounds what is read, so that sums of many cannot overflow.
const MaxScaled = math.MaxInt64 / 2

// ParseScaled reads a decimal number and multiplies it by scale, rounding to
// the nearest.
func ParseScaled(v []byte, scale int64) (int64, bool) {
	neg := len(v) > 0 && v[0] == '-'
	digits := v
	if neg {
		digits = v[1:]
	}
	var whole, frac int64
	fracDigits, seen, point := 0, 0, false
	for _, c := range digits {
		if c == '.' && !point {
			point = true
			continue
		}
		if c -= '0'; c > 9 || fracDigits == 9 || !point && seen == 18 {
			return parseScaledFloat(v, scale)
		}
		seen++
		if point {
			frac = frac*10 + int64(c)
			fracDigits++
		} else {
			whole = whole*10 + int64(c)
		}
	}
	if seen == 0 || whole > MaxScaled/scale {
		return 0, false
	}
	n := whole*scale + scaleFraction(frac, fracDigits, scale)
	if neg {
		n = -n
	}
	return n, true
}

var powersOfTen = [...]int64{1, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9}

func scaleFraction(frac int64, digits int, scale int64) int64 {
	if frac == 0 {
		return 0
	}
	unit := powersOfTen[digits]
	if scale <= 1e9 {
		return (frac*scale + unit/2) / unit
	}
	return int64(math.Round(float64(frac) / float64(unit) * float64(scale)))
}

func parseScaledFloat(v []byte, scale int64) (int64, bool) {
	f, err := strconv.ParseFloat(string(v), 64)
	f = math.Round(f * float64(scale))
	if err != nil || math.IsNaN(f) || math.Abs(f) > MaxScaled {
		return 0, false
	}
	return int64(f), true
}
