package whatif

import (
	"fmt"
	"strings"
	"time"

	"github.com/norn-scheduler/norn/cluster/unit"
)

// Assumptions are what the figures of a plan rest on, a sentence each.
func (p *Plan) Assumptions() []string {
	h := p.h
	out := []string{
		"Users would have submitted the same jobs at the same moments.",
		"Each job does the work that it did, in the time that it took here: what the jobs beside it cost it then is part of that.",
		p.transitions(), p.knowledge(),
	}
	add := func(n int, text string) {
		if n > 0 {
			out = append(out, fmt.Sprintf(text, unit.CountOrNo(n, "job")))
		}
	}
	add(h.State.Jobs()-len(h.State.Ended())-h.Unknown, "Not compared: %s that had not ended. As much of their work is played again as was done, or estimated.")
	add(h.Already, "Already there: %s, which count from the beginning of this time, with what was left to do.")
	add(h.Waived, "Left out: %s that came on hold and were never released.")
	add(h.Unknown, "Left out: %s that never ran and had no estimate.")
	if len(h.Script) > 0 {
		out = append(out, "What people did is repeated at the same moments: holding, releasing and cancelling jobs that wait, and draining.")
	}
	out = append(out, "A job that came on hold, or had to wait for others, counts from its release. Failed attempts fail again, and are tried again at once; nothing else goes wrong.")
	if h.Torn {
		out = append(out, "The log breaks off: jobs are taken as they stood then.")
	}
	for i := range h.Parts {
		if h.Parts[i].Torn != nil {
			out = append(out, "A log breaks off before the next one goes on: what was told in between is missing.")
			break
		}
	}
	if len(p.q.Machines) == 0 {
		return out
	}
	switch m := p.q.Machines[0]; {
	case m.nodes != nil:
		out = append(out, "Added nodes are like earlier ones with the same GPUs, in places of their own. Nothing else is known of others.")
	case m.Resized && m.Sleep == nil && m.Defrag == nil:
		out = append(out, "With another number of GPUs, the machine has the CPUs and the memory that it has.")
	}
	return out
}

// transitions says what transitions take.
func (p *Plan) transitions() string {
	m, c := &p.h.Costs, &p.costs.Base
	var took, free []string
	for _, x := range []struct {
		what         string
		was, is      time.Duration
		measurements int
	}{
		{"a start", m.Start, c.Start, m.Starts}, {"a stop", m.Checkpoint, c.Checkpoint, m.Checkpoints},
		{"a start after a stop", m.Restore, c.Restore, m.Restores}, {"a move", m.Migrate, c.Migrate, m.Migrations}, {"a resize", m.Resize, c.Resize, m.Resizes},
	} {
		switch {
		case x.measurements > 0 && x.was == x.is:
			took = append(took, fmt.Sprintf("%s %s (mean of %d)", x.what, unit.Human(x.is), x.measurements))
		case x.is > 0 && p.q.Costs == nil:
			took = append(took, fmt.Sprintf("%s %s (as a first start: none was measured)", x.what, unit.Human(x.is)))
		case x.is > 0:
			took = append(took, fmt.Sprintf("%s %s (--cost)", x.what, unit.Human(x.is)))
		default:
			free = append(free, x.what)
		}
	}
	if len(took) == 0 {
		return "Transitions cost nothing, for none was measured here (--cost says otherwise)."
	}
	text := "Transitions take what they took here: " + strings.Join(took, ", ")
	if len(free) > 0 {
		text += "; " + strings.Join(free, ", ") + " nothing, for none was measured (--cost says otherwise)"
	}
	return text + "."
}

// knowledge says what policies know of run times.
func (p *Plan) knowledge() string {
	if p.q.Estimates.String() == Believed {
		unknown := 0
		for _, d := range p.h.Believed {
			if d < 0 {
				unknown++
			}
		}
		if unknown > 0 {
			return fmt.Sprintf("Policies know of run times what the scheduler believed then; nothing of %d of %d jobs.", unknown, len(p.jobs))
		}
		return "Policies know of run times what the scheduler believed then."
	}
	return fmt.Sprintf("Policies know of run times: %s (--estimates).", p.q.Estimates.String())
}
