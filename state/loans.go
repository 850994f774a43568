package state

import (
	"time"

	"github.com/norn-scheduler/norn/job"
)

// Loans is what the owners of borrowed nodes (cluster.Lender) have asked for. The zero value
// is nothing.
type Loans struct{ recalls []Recall }

// Recall is a lender that wants nodes back. Which ones does not matter to it, so a policy may
// vacate whichever it likes; the world takes empty ones first.
type Recall struct {
	Lender string
	Nodes  int           // above 0
	By     time.Duration // the moment at which the world takes them, with what is there by then
}

// Recalls are those who want nodes back, in the order in which they asked. It must not be
// changed.
func (l *Loans) Recalls() []Recall { return l.recalls }

// Recall notes what a lender wants back from now on, as an event tells it.
func (l *Loans) Recall(why job.Reason) {
	now := Recall{Lender: why.Text, Nodes: int(why.Need), By: why.At}
	for i := range l.recalls {
		if l.recalls[i].Lender != now.Lender {
			continue
		}
		if l.recalls[i] = now; now.Nodes == 0 {
			l.recalls = append(l.recalls[:i:i], l.recalls[i+1:]...)
		}
		return
	}
	if now.Nodes > 0 {
		l.recalls = append(l.recalls, now)
	}
}
