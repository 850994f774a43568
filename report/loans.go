package report

import (
	"time"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/eventlog"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/state"
)

// Borrowed is what came of nodes that others lend: those with the label of a lender, and those
// that an owner has ever taken back.
type Borrowed struct {
	GPUHours    float64 `json:"gpu_hours"`   // for which their GPUs were there
	Returns     int     `json:"returns"`     // nodes that went back
	Preemptions int     `json:"preemptions"` // because an owner took a node back, by the policy or the world
}

// loans counts what is borrowed.
type loans struct {
	of     map[cluster.NodeID]unit.Milli // of borrowed nodes: what is there of each
	nodes  int                           // looked at so far
	there  unit.Milli
	hours  float64 // up to since
	since  time.Duration
	counts Borrowed
}

// event takes in an event that the state has folded in.
func (l *loans) event(ev *eventlog.Event, s *state.State) {
	for ; l.nodes < s.Cluster.Nodes(); l.nodes++ {
		if id := cluster.NodeID(l.nodes); s.Cluster.Node(id).Lender() != "" {
			l.node(id, s)
		}
	}
	ours := ev.Reason.Code == job.TakenBack
	switch ev.Kind {
	case eventlog.NodeSet:
		if _, known := l.of[ev.Node]; known || ours {
			l.node(ev.Node, s)
		}
		if ours && ev.Health == cluster.Down && ev.Time > 0 {
			l.counts.Returns++
		}
	case eventlog.Evict, eventlog.Preempt:
		if ours {
			l.counts.Preemptions++
		}
	}
}

// node counts a borrowed node anew.
func (l *loans) node(id cluster.NodeID, s *state.State) {
	if l.of == nil {
		l.of = map[cluster.NodeID]unit.Milli{}
	}
	l.upTo(s.Now)
	was := l.of[id]
	l.of[id] = 0
	if s.Cluster.Health(id) != cluster.Down && s.Cluster.Power(id) == cluster.Awake {
		l.of[id] = unit.Milli(s.Cluster.NodeGPUs(id)) * unit.One
	}
	l.there += l.of[id] - was
}

func (l *loans) upTo(now time.Duration) {
	l.hours += float64(l.there) / 1000 * (now - l.since).Hours()
	l.since = now
}

// result is what was borrowed up to a moment; nil: nothing ever.
func (l loans) result(now time.Duration) *Borrowed {
	if len(l.of) == 0 {
		return nil
	}
	l.upTo(max(now, l.since))
	l.counts.GPUHours = l.hours
	return &l.counts
}
