package experiment

import (
	"fmt"
	"slices"

	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/trace"
)

// The models of jobs that share a GPU: Slowdown.By is one of them.
const (
	ByDemands  = "demands"  // by what is short there
	ByParts    = "parts"    // each is kept to the part that it holds
	ByGaps     = "gaps"     // guests run in the gaps of owners
	ByServices = "services" // beside online services
)

// Slowdowns are the models of jobs that share a GPU.
func Slowdowns() []string { return []string{ByDemands, ByParts, ByGaps, ByServices} }

// AboutSlowdown says in a clause what a model of Slowdowns rests on; it is empty for one that
// is not known.
func AboutSlowdown(by string) string {
	switch by {
	case ByDemands:
		return "by the resources that are overloaded, or by turns at the stages of iterations"
	case ByParts:
		return "each job is confined to the part of the GPU that it has"
	case ByGaps:
		return "guests run in the gaps of owners"
	case ByServices:
		return "offline jobs run beside online services"
	}
	return ""
}

// Slowdown is how jobs that share a GPU slow each other down in the simulated world. The
// zero value is ByDemands: jobs take turns at its resources where all of them tell the
// stages of their iterations (perf.Interleave), and otherwise share what each demands
// (perf.Demands).
type Slowdown struct {
	By        string       // one of Slowdowns; empty: ByDemands
	Switching float64      // with ByDemands: part of the time, 0 to 1, that each other job on a GPU costs, besides what is short there
	Pairs     *trace.Pairs // measured speeds of two jobs at a time, which go before By; nil: none
}

// Check fails on a model that is not known, and on a part of the time that is none.
func (s *Slowdown) Check() error {
	if s.By != "" && !slices.Contains(Slowdowns(), s.By) {
		return fmt.Errorf("%s is not a model of jobs that share a GPU: write %s", s.By, oneOf(Slowdowns()))
	}
	if !(s.Switching >= 0 && s.Switching <= 1) {
		return fmt.Errorf("%g is no part of the time: write one from 0 to 1", s.Switching)
	}
	return nil
}

// truth is the model of the world; nil: the zero value.
func (s *Slowdown) truth() perf.Sharing {
	var truth perf.Sharing
	switch s.By {
	case ByParts:
		truth = perf.Calibrated{}
	case ByGaps:
		truth = perf.Paced{}
	case ByServices:
		truth = perf.Served{}
	default:
		switch {
		case s.Switching > 0:
			truth = perf.Demands{Switch: s.Switching}
		case s.Pairs == nil:
			return nil
		default:
			truth = perf.Profiled{Turns: perf.Interleave{Overhead: perf.PublishedOverhead()}, Others: perf.Demands{}}
		}
	}
	if s.Pairs != nil {
		table := s.Pairs.Table
		table.Else = truth
		return table
	}
	return truth
}
