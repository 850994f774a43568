package whatif

import (
	"encoding/csv"
	"io"
	"strconv"
	"time"

	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/experiment"
	"github.com/norn-scheduler/norn/report"
)

// WriteCSV writes the figures of each run, exactly.
func (p *Plan) WriteCSV(out io.Writer) error {
	c := csv.NewWriter(out)
	c.Write([]string{"run", "kind", "jct_mean_s", "jct_median_s", "jct_p90_s", "wait_mean_s", "wait_median_s", "wait_p90_s", "makespan_s", "preemptions", "gpu_utilisation", "jct_change", "job_hours_change", "jobs_left", "estimates", "lacks"})
	number := func(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }
	for _, r := range p.Rows {
		cells := []string{r.Name, string(r.Kind)}
		for _, s := range []report.Stats{r.JCT, r.Wait} {
			cells = append(cells, unit.FormatSeconds(s.Mean), unit.FormatSeconds(s.Median), unit.FormatSeconds(s.P90))
		}
		c.Write(append(cells, unit.FormatSeconds(r.Makespan), strconv.Itoa(r.Preemptions), number(r.Result.Utilisation), number(r.Change), number(r.Hours), strconv.Itoa(r.Left), r.Result.Estimates, report.LacksText(r.Result.Lacks)))
	}
	c.Flush()
	return c.Error() // of any of the writes
}

// JSON is a plan for other programs. Times are in seconds.
type JSON struct {
	From    *time.Time  `json:"from,omitempty"`
	To      *time.Time  `json:"to,omitempty"`
	FromS   float64     `json:"from_s"`
	ToS     float64     `json:"to_s"`
	Jobs    JobsJSON    `json:"jobs"`
	InForce []string    `json:"in_force"`
	Check   *CheckJSON  `json:"check"` // null: it could not be simulated
	Verdict string      `json:"verdict"`
	Runs    []RowJSON   `json:"runs"`
	Tenants []GroupJSON `json:"tenants"`
	Users   []GroupJSON `json:"users"`
	Sizes   []GroupJSON `json:"sizes"`
	Lengths []GroupJSON `json:"lengths"`

	Growths     []report.GrowthJSON `json:"growths"` // how waits change with the number of nodes
	Costs       CostsJSON           `json:"costs_s"`
	Estimates   string              `json:"estimates"`
	Assumptions []string            `json:"assumptions"`
}

// JobsJSON counts the jobs of a history.
type JobsJSON struct {
	Submitted int `json:"submitted"`
	Compared  int `json:"compared"`
	NotEnded  int `json:"not_ended"`
	Already   int `json:"already_there"`
	OnHold    int `json:"on_hold"`
	Unknown   int `json:"unknown"`
}

// CheckJSON is how far the simulation of what was in force is from what happened.
type CheckJSON struct {
	Change     float64 `json:"jct_change"`
	HalfWithin float64 `json:"half_of_ends_within_s"`
}

// RowJSON is a row of a plan.
type RowJSON struct {
	Name        string       `json:"name"`
	Kind        Kind         `json:"kind"` // real, check (what was in force, simulated) or plan
	JCT         report.Stats `json:"jct_s"`
	Wait        report.Stats `json:"wait_s"`
	Makespan    float64      `json:"makespan_s"`
	Preemptions int          `json:"preemptions"`
	Utilisation float64      `json:"gpu_utilisation"`
	Change      float64      `json:"jct_change"`
	Hours       float64      `json:"job_hours_change"`
	Left        int          `json:"jobs_left"`
	Gain        []JobJSON    `json:"gain_most"`
	Lose        []JobJSON    `json:"lose_most"`
	Estimates   string       `json:"estimates,omitempty"` // by which the policy went; none where it goes by none
	Lacks       []string     `json:"lacks,omitempty"`     // what the policy lives on and the run does not have
}

// JobJSON is a job that gains or loses.
type JobJSON struct {
	Job    string  `json:"job"`
	Name   string  `json:"name,omitempty"`
	User   string  `json:"user,omitempty"`
	Tenant string  `json:"tenant,omitempty"`
	GPUs   float64 `json:"gpus"`
	Was    float64 `json:"jct_s"`
	Would  float64 `json:"would_be_s"`
}

// GroupJSON is the jobs of a tenant, user, size or length.
type GroupJSON struct {
	Name string     `json:"name"`
	Jobs int        `json:"jobs"`
	JCT  []*float64 `json:"jct_mean_s"` // in the order of the runs; null: none ended
}

// CostsJSON is what transitions are taken to cost.
type CostsJSON struct {
	Start      float64 `json:"start"`
	Checkpoint float64 `json:"checkpoint"`
	Restore    float64 `json:"restore"`
	Migrate    float64 `json:"migrate"`
	Resize     float64 `json:"resize"`
}

// JSON is the plan for other programs.
func (p *Plan) JSON() JSON {
	h, c := p.h, &p.costs.Base
	out := JSON{
		FromS: h.From.Seconds(), ToS: h.To.Seconds(), Estimates: p.q.Estimates.String(), Assumptions: p.Assumptions(),
		Jobs: JobsJSON{
			Submitted: h.State.Jobs(), Compared: len(p.set), NotEnded: h.State.Jobs() - len(h.State.Ended()), Already: h.Already, OnHold: h.Waived, Unknown: h.Unknown,
		},
		Costs:   CostsJSON{c.Start.Seconds(), c.Checkpoint.Seconds(), c.Restore.Seconds(), c.Migrate.Seconds(), c.Resize.Seconds()},
		Tenants: p.groupsJSON(report.ByTenant), Users: p.groupsJSON(report.ByUser),
		Sizes: p.groupsJSON(report.BySize), Lengths: p.groupsJSON(report.ByLength), Verdict: p.sides.Verdict(), Growths: p.sides.GrowthsJSON(),
	}
	if origin := h.Parts[0].Header.Origin; !origin.IsZero() {
		from, to := origin.Add(h.From), origin.Add(h.To)
		out.From, out.To = &from, &to
	}
	for i := range h.Parts {
		if name := experiment.ChoiceOf(&h.Parts[i].Header).String(); len(out.InForce) == 0 || out.InForce[len(out.InForce)-1] != name {
			out.InForce = append(out.InForce, name)
		}
	}
	if r := p.checked(); r != nil {
		out.Check = &CheckJSON{r.Change, p.halfWithin(r).Seconds()}
	}
	for _, r := range p.Rows {
		run := RowJSON{
			Name: r.Name, Kind: r.Kind, JCT: r.JCT, Wait: r.Wait, Makespan: r.Makespan.Seconds(), Preemptions: r.Preemptions,
			Utilisation: r.Result.Utilisation, Change: r.Change, Hours: r.Hours, Left: r.Left,
			Estimates: r.Result.Estimates, Lacks: r.Result.Lacks,
		}
		gain, lose := p.extremes(r)
		run.Gain, run.Lose = p.jobsJSON(r, gain), p.jobsJSON(r, lose)
		out.Runs = append(out.Runs, run)
	}
	return out
}

func (p *Plan) jobsJSON(r *Row, of []int) []JobJSON {
	out := []JobJSON{}
	for _, k := range of {
		j := &p.jobs[p.set[k]].Job
		out = append(out, JobJSON{
			j.Key, j.Name, j.User, j.Tenant, float64(j.Demand.Milli(j.Demand.Roles[0].Tasks)) / 1000, p.fate(0, k).JCT.Seconds(), p.fate(p.row(r), k).JCT.Seconds(),
		})
	}
	return out
}

func (p *Plan) groupsJSON(by report.Grouping) []GroupJSON {
	out := []GroupJSON{}
	for _, g := range p.sides.Classes(by) {
		x := GroupJSON{Name: g.Name, Jobs: g.Jobs}
		for i := range g.Runs {
			var mean *float64
			if s := g.Runs[i].JCT.Seconds(); g.Runs[i].Ended > 0 {
				mean = &s
			}
			x.JCT = append(x.JCT, mean)
		}
		out = append(out, x)
	}
	return out
}
