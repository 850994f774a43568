package parallel

import (
	"cmp"
	"fmt"
	"slices"
)

// Choice is a plan and its estimate.
type Choice struct {
	Plan Plan
	Estimate
}

// Space is the plans among which is searched. Of a number that is 0 all values are tried.
type Space struct {
	GPUs, GlobalBatch                  int
	Tensor, Data, Pipeline, MicroBatch int
	Recompute                          []bool // empty: with and without
	Overlap                            bool
	Schedule                           Schedule
}

// mostMicro is the largest micro-batch that a search tries by itself.
const mostMicro = 64

// Search estimates all plans of a space. Tensor ranks stay within a node. Choices that fit
// into the memory come first, and among them the fastest; ties go to less memory, and then
// to fewer pipeline ranks. An error says that there is no plan, and why if there is one
// reason.
func (p *Profile) Search(m Model, s Space) ([]Choice, error) {
	if err := m.Check(); err != nil {
		return nil, err
	}
	if s.GPUs < 1 || s.GlobalBatch < 1 || s.GPUs > most || s.GlobalBatch > most {
		return nil, fmt.Errorf("%d GPUs and a global batch of %d: write numbers from 1 to %d", s.GPUs, s.GlobalBatch, most)
	}
	again := s.Recompute
	if len(again) == 0 {
		again = []bool{false, true}
	}
	var out []Choice
	var refused error
	plans := 0
	for _, t := range values(s.Tensor, min(s.GPUs, p.Network.NodeGPUs)) {
		for _, d := range values(s.Data, s.GPUs/t) {
			if s.GPUs%(t*d) != 0 || s.Pipeline > 0 && t*d*s.Pipeline != s.GPUs {
				continue
			}
			for _, micro := range values(s.MicroBatch, min(mostMicro, max(1, s.GlobalBatch/d))) {
				for _, r := range again {
					plan := Plan{Tensor: t, Data: d, Pipeline: s.GPUs / (t * d), GlobalBatch: s.GlobalBatch, MicroBatch: micro, Recompute: r, Overlap: s.Overlap, Schedule: s.Schedule}
					plans++
					e, err := p.Estimate(m, plan)
					if err != nil {
						refused = err
						continue
					}
					out = append(out, Choice{plan, e})
				}
			}
		}
	}
	switch {
	case len(out) > 0:
	case plans == 1 || plans == len(again) && refused != nil:
		return nil, refused
	default:
		return nil, fmt.Errorf("no plan splits %d layers, %d heads and a global batch of %d evenly over %d GPUs", m.Layers, m.Heads, s.GlobalBatch, s.GPUs)
	}
	slices.SortStableFunc(out, compare)
	return out, nil
}

// compare orders choices, the better one first.
func compare(a, b Choice) int {
	if a.Fits != b.Fits {
		if a.Fits {
			return -1
		}
		return 1
	}
	return cmp.Or(cmp.Compare(a.Iteration, b.Iteration), cmp.Compare(a.Memory, b.Memory), cmp.Compare(a.Plan.Pipeline, b.Plan.Pipeline))
}

// values is the one that is asked for, or all from 1 to the largest.
func values(asked, largest int) []int {
	if asked > 0 {
		return []int{asked}
	}
	out := make([]int, 0, largest)
	for n := 1; n <= largest; n++ {
		out = append(out, n)
	}
	return out
}
