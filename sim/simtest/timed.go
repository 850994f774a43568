package simtest

import (
	"testing"
	"time"

	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/sched"
)

// Timed is a policy in a benchmark. Its decision at a moment is what is timed:
// it is made over and over, and not carried out. Later events are of no
// interest, since nothing is decided any more.
type Timed struct {
	sched.Policy
	B    *testing.B
	At   time.Duration
	done bool
}

// Decide implements sched.Policy.
func (m *Timed) Decide(v *sched.View, p *sched.Plan) {
	for !m.done && v.Now == m.At && m.B.Loop() {
		p.Try(func() bool {
			m.Policy.Decide(v, p)
			return false
		})
	}
	if m.done = m.done || v.Now == m.At; !m.done {
		m.Policy.Decide(v, p)
	}
}

// NextWake implements sched.Waker.
func (m *Timed) NextWake(v *sched.View) time.Duration {
	if w, ok := m.Policy.(sched.Waker); ok && !m.done {
		return w.NextWake(v)
	}
	return unit.Never
}
