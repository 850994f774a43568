package trace

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/norn-scheduler/norn/cluster/unit"
)

// ParseInt reads a whole number, which may be written with zeros after a
// decimal point (8.0).
func ParseInt(v []byte) (int64, bool) { return unit.ParseInt(v) }

// ParseFloat reads a finite number.
func ParseFloat(v []byte) (float64, bool) {
	if n, ok := ParseInt(v); ok && n != 0 && n < 1<<53 && n > -1<<53 {
		return float64(n), true
	}
	f, err := strconv.ParseFloat(string(v), 64)
	return f, err == nil && !math.IsNaN(f) && !math.IsInf(f, 0)
}

// ParseFlag reads yes or no.
func ParseFlag(v []byte) (yes, ok bool) {
	switch strings.ToLower(string(v)) {
	case "1", "1.0", "true", "yes":
		return true, true
	case "0", "0.0", "false", "no":
		return false, true
	}
	return false, false
}

// ParseTimes reads a decimal number of the given unit, to the nearest
// nanosecond: exactly where it has at most nine decimals and the unit is a
// second or less.
func ParseTimes(v []byte, of time.Duration) (time.Duration, bool) {
	n, ok := unit.ParseScaled(v, int64(of))
	return time.Duration(n), ok
}

// ParseMilli reads a decimal number of devices or cores.
func ParseMilli(v []byte) (unit.Milli, bool) {
	n, ok := unit.ParseScaled(v, 1000)
	return unit.Milli(n), ok
}

// ParseWall reads a time of day: 2006-01-02 15:04:05, with a T for the space, a
// fraction and a zone (Z, +01:00) where it has them, or a date alone. It
// returns the time since 1970 in UTC; without a zone the time is taken as UTC.
func ParseWall(v []byte) (time.Duration, bool) {
	if len(v) < 10 || v[4] != '-' || v[7] != '-' {
		return 0, false
	}
	y1, ok1 := pairOf(v[0:2])
	y2, ok2 := pairOf(v[2:4])
	month, ok3 := pairOf(v[5:7])
	day, ok4 := pairOf(v[8:10])
	if !ok1 || !ok2 || !ok3 || !ok4 {
		return 0, false
	}
	year := y1*100 + y2
	if year < 1970 || year > 2200 || month < 1 || month > 12 || day < 1 || day > daysIn(year, month) {
		return 0, false
	}
	at := time.Duration(daysSince1970(year, month, day)) * 24 * time.Hour
	if len(v) == 10 {
		return at, true
	}
	if len(v) < 19 || v[10] != ' ' && v[10] != 'T' || v[13] != ':' || v[16] != ':' {
		return 0, false
	}
	h, ok1 := pairOf(v[11:13])
	m, ok2 := pairOf(v[14:16])
	s, ok3 := pairOf(v[17:19])
	if !ok1 || !ok2 || !ok3 || h > 23 || m > 59 || s > 60 {
		return 0, false
	}
	at += time.Duration(h*3600+m*60+s) * time.Second
	rest, ok := parseWallRest(v[19:])
	return at + rest, ok && at+rest >= 0
}

// parseWallRest reads a fraction and a zone.
func parseWallRest(v []byte) (time.Duration, bool) {
	var at time.Duration
	if len(v) > 0 && v[0] == '.' {
		end := 1
		for end < len(v) && v[end]-'0' <= 9 {
			end++
		}
		frac, ok := ParseTimes(v[:end], time.Second)
		if end == 1 || !ok {
			return 0, false
		}
		at, v = frac, v[end:]
	}
	switch {
	case len(v) == 0 || len(v) == 1 && v[0] == 'Z':
		return at, true
	case len(v) != 6 && len(v) != 5 || v[0] != '+' && v[0] != '-' || len(v) == 6 && v[3] != ':':
		return 0, false
	}
	h, ok1 := pairOf(v[1:3])
	m, ok2 := pairOf(v[len(v)-2:])
	if !ok1 || !ok2 || h > 23 || m > 59 {
		return 0, false
	}
	zone := time.Duration(h*60+m) * time.Minute
	if v[0] == '-' {
		return at + zone, true
	}
	return at - zone, true
}

// pairOf reads two digits.
func pairOf(v []byte) (int, bool) {
	a, b := v[0]-'0', v[1]-'0'
	return int(a)*10 + int(b), a <= 9 && b <= 9
}

func leap(year int) bool { return year%4 == 0 && (year%100 != 0 || year%400 == 0) }

func daysIn(year, month int) int {
	if month == 2 && leap(year) {
		return 29
	}
	return int("\x1f\x1c\x1f\x1e\x1f\x1e\x1f\x1f\x1e\x1f\x1e\x1f"[month-1])
}

// daysSince1970 counts days of the Gregorian calendar, in years that begin in
// March so that the leap day comes last.
func daysSince1970(year, month, day int) int {
	if month <= 2 {
		year--
		month += 12
	}
	return 365*year + year/4 - year/100 + year/400 + (153*(month-3)+2)/5 + day - 1 - 719468
}

// delimiter passes over one bracket.
func delimiter(d *json.Decoder, want json.Delim, in string) error {
	switch t, err := d.Token(); {
	case err != nil:
		return err
	case t != want:
		return fmt.Errorf("byte %d: expected %v in %s", d.InputOffset(), want, in)
	}
	return nil
}
