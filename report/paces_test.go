package report

import (
	"testing"
	"time"
)

// TestAlone: the time alone of a job is that with the paces that it has reported, and work
// that was lost counts at the pace with which it was done again.
func TestAlone(t *testing.T) {
	var p paces
	if got := p.alone(time.Minute); got != time.Minute {
		t.Errorf("a job that never changed takes %v alone", got)
	}
	p = p.reported(40*time.Second, 2).reported(80*time.Second, 0.5)
	if got := p.alone(100 * time.Second); got != 100*time.Second { // 40 + 20 + 40
		t.Errorf("it takes %v alone, want 100s", got)
	}
	if got := p.alone(60 * time.Second); got != 50*time.Second {
		t.Errorf("the first 60 s take %v alone, want 50s", got)
	}
	p = p.reported(60*time.Second, 1) // thrown back to there, and slower now
	if got := p.alone(100 * time.Second); got != 90*time.Second {
		t.Errorf("thrown back it takes %v alone, want 90s", got)
	}
	if p = p.reported(0, 1); len(p) != 0 {
		t.Errorf("a job that begins again has %v", p)
	}
}
