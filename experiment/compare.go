package experiment

import (
	"errors"
	"fmt"
	"slices"

	"github.com/norn-scheduler/norn/report"
)

// AsWas is the baseline that means what really happened.
const AsWas = "as-was"

// TellsWaits tells whether any of the jobs that have been read so far says when it ran: whether there is
// a baseline AsWas.
func (p *Prepared) TellsWaits() bool {
	for _, j := range p.told.Slice() {
		if j.Was.Ended {
			return true
		}
	}
	return false
}

// ErrUntold says that there is no baseline AsWas.
var ErrUntold = errors.New("the trace does not tell when jobs started")

// Compared is what came of several choices, side by side.
type Compared struct {
	All []report.Named // what really happened, where the trace tells it of any job, and the outcomes
	*report.Comparison
}

// Compare sets the outcomes that ended beside a baseline: a choice by its name, or AsWas. Where
// it is empty, it is fifo, or else the first outcome. The jobs must have gone through p. It
// fails where the baseline is not there, with ErrUntold where that is AsWas, and where nothing
// has ended.
func (p *Prepared) Compare(outcomes []*Outcome, baseline string, opt report.Options) (*Compared, error) {
	jobs := p.told.Slice()
	c := &Compared{Comparison: &report.Comparison{Jobs: jobs}}
	if was := report.Happened(jobs, opt); was != nil {
		run := report.Run{Name: report.AsItWas, Real: true, Fates: make([]report.Fate, len(jobs))}
		for k := range jobs {
			run.Fates[k] = jobs[k].Was
		}
		c.Runs, c.All = append(c.Runs, run), append(c.All, report.Named{Name: run.Name, Result: was})
	}
	real := len(c.Runs)
	for _, o := range outcomes {
		switch {
		case o == nil:
		case o.Growth != nil:
			c.Grown = append(c.Grown, o.side())
		default:
			c.Runs, c.All = append(c.Runs, o.side()), append(c.All, report.Named{Name: o.Name, Result: o.Result})
		}
	}
	at := func(name string) int {
		return slices.IndexFunc(c.Runs, func(r report.Run) bool { return r.Name == name })
	}
	switch {
	case len(c.Runs) == real:
		return nil, errors.New("no run has ended: there is nothing to compare")
	case baseline == "":
		c.Base = max(real, at("fifo"))
	case baseline == AsWas && real == 0:
		return nil, ErrUntold
	case baseline == AsWas:
		c.Base = 0
	default:
		c.Base = at(baseline)
	}
	if c.Base < 0 {
		return nil, fmt.Errorf("the baseline %s is none of the runs that ended", baseline)
	}
	return c, nil
}

// Waits says why jobs waited in the baseline or, where that is what really happened, in the
// first run; it is empty where none did.
func (c *Compared) Waits() string {
	at := c.Base
	if c.Runs[at].Real {
		at = slices.IndexFunc(c.Runs, func(r report.Run) bool { return !r.Real })
	}
	return c.All[at].Result.Waits(c.All[at].Name)
}

// side is a run as it is compared.
func (o *Outcome) side() report.Run {
	r := report.Run{Name: o.Name, Policy: o.Choice.String(), GPUs: o.GPUs, Informed: o.Result.Informed(), Fates: o.Fates}
	if o.Growth != nil {
		r.Growth = o.Growth.Name
	}
	return r
}
