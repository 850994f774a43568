package perf

import (
	"fmt"
	"strings"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/job"
)

// Pair names two sorts of jobs on one device, in this order: it is the first that
// the figure is about. Type is the GPU type on which that was measured, as the cluster calls it or
// in lower case; empty: any.
type Pair struct {
	Job, Beside, Type string
}

// Pairs is a Sharing measured pair by pair: for each pair the speed of the first
// job beside the second, over its speed alone. Beside several the factors are
// multiplied, which is exact where each takes its part of what the others leave.
type Pairs struct {
	Speed map[Pair]float64 // above 0, at most 1

	// Sort is the name under which a job was measured; nil: its model.
	Sort func(*job.Job) string

	// Else tells of pairs that were not measured; nil: they do not disturb each
	// other.
	Else Sharing
}

// Check says what is wrong with a table, or nil.
func (m Pairs) Check() error {
	for p, s := range m.Speed {
		if !(s > 0 && s <= 1) {
			return fmt.Errorf("%s beside %s on %q runs at %v times its speed alone: it must be above 0 and at most 1", p.Job, p.Beside, p.Type, s)
		}
	}
	return nil
}

// Beside implements Sharing.
func (m Pairs) Beside(j *job.Job, others []*job.Job, t cluster.GPUType) float64 {
	factor := 1.0
	for i, o := range others {
		if s, ok := m.measured(j, o, t.Name); ok {
			factor *= s
		} else if m.Else != nil {
			factor *= m.Else.Beside(j, others[i:i+1], t)
		}
	}
	return factor
}

// measured looks a pair up.
func (m Pairs) measured(j, other *job.Job, typ string) (float64, bool) {
	return m.Of(Pair{m.Name(j), m.Name(other), typ})
}

// Of is what was measured of a pair, on its GPU type first; ok is false where nothing was.
func (m Pairs) Of(p Pair) (factor float64, ok bool) {
	if s, ok := m.Speed[p]; ok {
		return s, true
	}
	if lower := strings.ToLower(p.Type); lower != p.Type {
		p.Type = lower
		if s, ok := m.Speed[p]; ok {
			return s, true
		}
	}
	p.Type = ""
	s, ok := m.Speed[p]
	return s, ok
}

// Name is the name under which a job was measured.
func (m Pairs) Name(j *job.Job) string {
	if m.Sort != nil {
		return m.Sort(j)
	}
	return j.Model
}
