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

// ownTime is the word for a node whose jobs may take the time that they always have.
const ownTime = "now"

// ParseReclaim reads the annotation names.Reclaimed: the moment as in RFC 3339, or "now" for as soon as the jobs there
// have left in their own time, and behind a space why. It is nil where there is none.
func ParseReclaim(annotations map[string]string) (*Reclaim, error) {
	text, is := annotations[names.Reclaimed]
	if !is {
		return nil, nil
	}
	moment, why, _ := strings.Cut(strings.TrimSpace(text), " ")
	r := &Reclaim{Why: strings.TrimSpace(why)}
	if moment == ownTime {
		return r, nil
	}
	by, err := time.Parse(time.RFC3339, moment)
	if err != nil {
		return nil, fmt.Errorf("annotation %s: %q is neither %q nor a moment such as 2026-03-04T18:00:00Z", names.Reclaimed, moment, ownTime)
	}
	r.By = by
	return r, nil
}

// String is the order as the annotation has it.
func (r *Reclaim) String() string {
	moment := ownTime
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
