package jobfile

import (
	"fmt"
	"strings"
	"time"

	"github.com/norn-scheduler/norn/cluster/unit"
)

// Future reads a moment to come: a span from now on such as 6h, or a time as
// pointIn reads it.
func Future(text string, now time.Time) (time.Time, error) {
	if d, err := unit.ParseSeconds(text); err == nil && d >= 0 {
		return now.Add(d), nil
	}
	return pointIn(text, now)
}

// Past reads a moment gone: a span before now such as 2h, or a time as pointIn
// reads it.
func Past(text string, now time.Time) (time.Time, error) {
	if d, err := unit.ParseSeconds(text); err == nil && d >= 0 {
		return now.Add(-d), nil
	}
	return pointIn(text, now)
}

// pointIn reads a moment on the clock of the place where now is told.
func pointIn(text string, now time.Time) (time.Time, error) {
	text = strings.TrimSpace(text)
	midnight := time.Date(now.Year(), now.Month(), now.Day(), 0, 0, 0, 0, now.Location())
	switch text {
	case "now":
		return now, nil
	case "today":
		return midnight, nil
	case "yesterday":
		return midnight.AddDate(0, 0, -1), nil
	case "tomorrow":
		return midnight.AddDate(0, 0, 1), nil
	}
	if t, err := time.Parse(time.RFC3339, text); err == nil {
		return t, nil
	}
	for _, layout := range []string{"2006-01-02", "2006-01-02 15:04", "2006-01-02 15:04:05", "2006-01-02T15:04", "2006-01-02T15:04:05"} {
		if t, err := time.ParseInLocation(layout, text, now.Location()); err == nil {
			return t, nil
		}
	}
	for _, layout := range []string{"15:04", "15:04:05"} {
		if t, err := time.Parse(layout, text); err == nil {
			return time.Date(now.Year(), now.Month(), now.Day(), t.Hour(), t.Minute(), t.Second(), 0, now.Location()), nil
		}
	}
	return time.Time{}, fmt.Errorf("%q is not a moment: write 2h, 2026-03-01, \"2026-03-01 18:00\", 18:00, today or yesterday", text)
}
