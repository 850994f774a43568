package convert

import (
	"fmt"
	"strings"
	"time"

	"github.com/norn-scheduler/norn/kube/names"
)

// Reclaim is an order of the owner of a node, who takes it back.
type Reclaim struct {
	By  time.Time // when the jobs of Norn there are to have left; zero: when they have in their own time
	Why string    // for a reader; empty: nobody says
}

// The words for moments: at once, and when the jobs have left with the grace that they always have.
const (
	atOnce     = "now"
	gracefully = "gracefully"
)

// ParseReclaim reads the annotation names.Reclaimed: the moment as in RFC 3339, "now", or "gracefully", which sets none,
// and behind a space why. It is nil where there is none.
func ParseReclaim(annotations map[string]string) (*Reclaim, error) {
	text, is := annotations[names.Reclaimed]
	if !is {
		return nil, nil
	}
	moment, why, _ := strings.Cut(strings.TrimSpace(text), " ")
	r := &Reclaim{Why: strings.TrimSpace(why)}
	var err error
	switch moment {
	case gracefully:
	case atOnce:
		r.By = time.Unix(0, 0) // long ago
	default:
		if r.By, err = time.Parse(time.RFC3339, moment); err != nil {
			return nil, fmt.Errorf("annotation %s: %q is none of %s, %s and a moment such as 2026-03-04T18:00:00Z", names.Reclaimed, moment, atOnce, gracefully)
		}
	}
	return r, nil
}

// String is the order as the annotation has it.
func (r *Reclaim) String() string {
	moment := gracefully
	if !r.By.IsZero() {
		moment = r.By.UTC().Format(time.RFC3339)
	}
	return strings.TrimSpace(moment + " " + r.Why)
}

// Note says that a node is taken back, and until when jobs may be there.
func (r *Reclaim) Note() string {
	note := "taken back"
	if r.Why != "" {
		note += ": " + r.Why
	}
	if time.Now().Before(r.By) {
		note += ", to be free by " + r.By.Local().Format(time.TimeOnly)
	}
	return note
}
