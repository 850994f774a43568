package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/norn-scheduler/norn/report"
	"github.com/norn-scheduler/norn/run"
	"github.com/norn-scheduler/norn/unit"
)

// assumptions are what the figures of a plan rest on, a sentence each.
func (w *whatIf) assumptions() []string {
	p := w.past
	out := []string{
		"Users would have submitted the same jobs at the same moments.",
		"Each job does the work that it did, in the time that it took here: what the jobs beside it cost it then is part of that.",
		w.transitions(), w.knowledge(),
	}
	add := func(n int, text string) {
		if n > 0 {
			out = append(out, fmt.Sprintf(text, count(n, "job")))
		}
	}
	add(p.State.Jobs()-p.State.Over()-p.Unknown, "Not compared: %s that had not ended. As much of their work is played again as was done, or estimated.")
	add(p.Already, "Already there: %s, which count from the beginning of this time, with what was left to do.")
	add(p.Waived, "Left out: %s that came on hold and were never released.")
	add(p.Unknown, "Left out: %s that never ran and had no estimate.")
	if len(p.Script) > 0 {
		out = append(out, "What people did is repeated at the same moments: holding, releasing and cancelling jobs that wait, and draining.")
	}
	out = append(out, "A job that came on hold, or had to wait for others, counts from its release. Failed attempts fail again, and are tried again at once; nothing else goes wrong.")
	if p.Torn {
		out = append(out, "The log breaks off: jobs are taken as they stood then.")
	}
	for i := range p.Parts {
		if p.Parts[i].Torn != nil {
			out = append(out, "A log breaks off before the next one goes on: what was told in between is missing.")
			break
		}
	}
	if w.other != nil && w.f.cluster == "" {
		out = append(out, "With another number of GPUs, the machine has the CPUs and the memory that it has.")
	}
	return out
}

// transitions says what transitions take.
func (w *whatIf) transitions() string {
	m, c := &w.past.Costs, &w.costs.Base
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
		case x.is > 0 && len(w.f.cost) == 0:
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
func (w *whatIf) knowledge() string {
	if w.f.estimates == believed {
		unknown := 0
		for _, d := range w.past.Believed {
			if d < 0 {
				unknown++
			}
		}
		if unknown > 0 {
			return fmt.Sprintf("Policies know of run times what the scheduler believed then; nothing of %d of %d jobs.", unknown, len(w.jobs))
		}
		return "Policies know of run times what the scheduler believed then."
	}
	return fmt.Sprintf("Policies know of run times: %s (--estimates).", w.f.estimates)
}

// planJSON is a plan for other programs; spans are in seconds.
type planJSON struct {
	From        *time.Time  `json:"from,omitempty"`
	To          *time.Time  `json:"to,omitempty"`
	FromS       float64     `json:"from_s"`
	ToS         float64     `json:"to_s"`
	Jobs        planJobs    `json:"jobs"`
	InForce     []string    `json:"in_force"`
	Check       *planCheck  `json:"check"` // null: it could not be simulated
	Runs        []planRun   `json:"runs"`
	Tenants     []planGroup `json:"tenants"`
	Users       []planGroup `json:"users"`
	Costs       planCosts   `json:"costs_s"`
	Estimates   string      `json:"estimates"`
	Assumptions []string    `json:"assumptions"`
}

type planJobs struct {
	Submitted int `json:"submitted"`
	Compared  int `json:"compared"`
	NotEnded  int `json:"not_ended"`
	Already   int `json:"already_there"`
	OnHold    int `json:"on_hold"`
	Unknown   int `json:"unknown"`
}

type planCheck struct {
	Change     float64 `json:"jct_change"`
	HalfWithin float64 `json:"half_of_ends_within_s"`
}

type planRun struct {
	Name        string       `json:"name"`
	Kind        rowKind      `json:"kind"` // real, check (what was in force, simulated) or plan
	JCT         report.Stats `json:"jct_s"`
	Wait        report.Stats `json:"wait_s"`
	Makespan    float64      `json:"makespan_s"`
	Preemptions int          `json:"preemptions"`
	Utilisation float64      `json:"gpu_utilisation"`
	Change      float64      `json:"jct_change"`
	Hours       float64      `json:"job_hours_change"`
	Left        int          `json:"jobs_left"`
	Gain        []planJob    `json:"gain_most"`
	Lose        []planJob    `json:"lose_most"`
}

type planJob struct {
	Job    string  `json:"job"`
	Name   string  `json:"name,omitempty"`
	User   string  `json:"user,omitempty"`
	Tenant string  `json:"tenant,omitempty"`
	GPUs   float64 `json:"gpus"`
	Was    float64 `json:"jct_s"`
	Would  float64 `json:"would_be_s"`
}

type planGroup struct {
	Name string     `json:"name"`
	Jobs int        `json:"jobs"`
	JCT  []*float64 `json:"jct_mean_s"` // in the order of the runs; null: none ended
}

type planCosts struct {
	Start      float64 `json:"start"`
	Checkpoint float64 `json:"checkpoint"`
	Restore    float64 `json:"restore"`
	Migrate    float64 `json:"migrate"`
	Resize     float64 `json:"resize"`
}

func (w *whatIf) json() planJSON {
	p, c := w.past, &w.costs.Base
	out := planJSON{
		FromS: p.From.Seconds(), ToS: p.To.Seconds(), Estimates: w.f.estimates, Assumptions: w.assumptions(),
		Jobs: planJobs{
			Submitted: p.State.Jobs(), Compared: len(w.set), NotEnded: p.State.Jobs() - p.State.Over(), Already: p.Already, OnHold: p.Waived, Unknown: p.Unknown,
		},
		Costs:   planCosts{c.Start.Seconds(), c.Checkpoint.Seconds(), c.Restore.Seconds(), c.Migrate.Seconds(), c.Resize.Seconds()},
		Tenants: w.groupsJSON(groupsOf[0]), Users: w.groupsJSON(groupsOf[1]),
	}
	if origin := p.Parts[0].Header.Origin; !origin.IsZero() {
		from, to := origin.Add(p.From), origin.Add(p.To)
		out.From, out.To = &from, &to
	}
	for i := range p.Parts {
		if name := run.ChoiceOf(&p.Parts[i].Header).String(); len(out.InForce) == 0 || out.InForce[len(out.InForce)-1] != name {
			out.InForce = append(out.InForce, name)
		}
	}
	if r := w.checked(); r != nil {
		out.Check = &planCheck{r.change, w.halfWithin(r).Seconds()}
	}
	for _, r := range w.rows {
		run := planRun{
			Name: r.name, Kind: r.kind, JCT: r.jct, Wait: r.wait, Makespan: r.makespan.Seconds(), Preemptions: r.preemptions,
			Utilisation: r.result.Utilisation, Change: r.change, Hours: r.hours, Left: r.left,
		}
		gain, lose := w.extremes(r)
		run.Gain, run.Lose = w.jobsJSON(r, gain), w.jobsJSON(r, lose)
		out.Runs = append(out.Runs, run)
	}
	return out
}

func (w *whatIf) jobsJSON(r *planRow, of []int) []planJob {
	out := []planJob{}
	for _, k := range of {
		j := &w.jobs[w.set[k]].Job
		out = append(out, planJob{
			j.Key, j.Name, j.User, j.Tenant, float64(j.Demand.Milli(j.Demand.Roles[0].Tasks)) / 1000, w.rows[0].fates[k].jct.Seconds(), r.fates[k].jct.Seconds(),
		})
	}
	return out
}

func (w *whatIf) groupsJSON(by grouping) []planGroup {
	out := []planGroup{}
	for _, g := range w.groups(by) {
		x := planGroup{Name: g.name, Jobs: g.jobs}
		for run := range w.rows {
			var mean *float64
			if s := g.mean(run); g.ended[run] > 0 {
				mean = &s
			}
			x.JCT = append(x.JCT, mean)
		}
		out = append(out, x)
	}
	return out
}
