package gandivafair

import "cmp"

// Member is a gang in a stride scheduler: its pass is its virtual time, which goes
// on by its GPUs over its tickets for each quantum that it runs.
type Member struct {
	Pass, Tickets, GPUs float64
}

// Before is the order in which gangs are served: the least pass first, of equal
// ones the larger gang; 0 where neither comes first.
func (m Member) Before(o Member) int {
	if c := cmp.Compare(m.Pass, o.Pass); c != 0 {
		return c
	}
	return cmp.Compare(o.GPUs, m.GPUs)
}

// Charge lets the pass go on by so many quanta. Nobody is charged for a quantum in
// which it was skipped: its pass stays low, so that soon nobody comes before it.
func (m *Member) Charge(quanta float64) { m.Pass += quanta * m.GPUs / m.Tickets }
