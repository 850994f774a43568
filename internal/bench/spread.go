package main

import (
	"fmt"
	"math"
	"slices"
	"time"
)

// spread is what was measured again and again.
type spread []time.Duration

func (s *spread) add(d time.Duration) { *s = append(*s, d) }

// at is the smallest value that at least this part of the values is not above.
func (s spread) at(part float64) time.Duration {
	if len(s) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(s))
	return sorted[max(0, int(math.Ceil(part*float64(len(s))))-1)]
}

func (s spread) least() time.Duration  { return s.at(0) }
func (s spread) median() time.Duration { return s.at(0.5) }
func (s spread) p95() time.Duration    { return s.at(0.95) }

// cells are the three figures as cells of a table.
func (s spread) cells() string {
	return fmt.Sprintf("%s | %s | %s", millis(s.least()), millis(s.median()), millis(s.p95()))
}

func millis(d time.Duration) string {
	ms := float64(d) / 1e6
	switch {
	case math.Abs(ms) < 10:
		return fmt.Sprintf("%.2f ms", ms)
	case math.Abs(ms) < 1000:
		return fmt.Sprintf("%.1f ms", ms)
	}
	return fmt.Sprintf("%.2f s", ms/1000)
}
