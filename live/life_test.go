package live

import (
	"slices"
	"testing"
	"time"
)

// Of what happens again and again while a job runs, the last is remembered, and another batch is
// remembered by itself.
func TestLifeOfRoutine(t *testing.T) {
	var l Life
	at := time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)
	for _, text := range []string{
		"starts on slot0", "has saved its state, with 1s of work done", "trains with a gradient noise of 5", "has saved its state, with 2s of work done",
		"trains with a gradient noise of 6, after 1 epoch", "trains with a batch of 8, a gradient noise of 6", "has saved its state, with 3s of work done",
		"trains with a batch of 8, a gradient noise of 7", "is resized to 2 tasks, on slot0 and slot1", "has saved its state, with 4s of work done",
	} {
		at = at.Add(time.Second)
		l.Remember(at, text)
	}
	want := Life{
		"2026-01-02 03:00:01 starts on slot0", "2026-01-02 03:00:05 trains with a gradient noise of 6, after 1 epoch", "2026-01-02 03:00:07 has saved its state, with 3s of work done",
		"2026-01-02 03:00:08 trains with a batch of 8, a gradient noise of 7", "2026-01-02 03:00:09 is resized to 2 tasks, on slot0 and slot1", "2026-01-02 03:00:10 has saved its state, with 4s of work done",
	}
	if !slices.Equal(l, want) {
		t.Errorf("%q", l)
	}
}
