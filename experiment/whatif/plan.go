package whatif

import (
	"cmp"
	"slices"
	"time"

	"github.com/norn-scheduler/norn/experiment"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/report"
	"github.com/norn-scheduler/norn/trace"
)

// Plan is the answer to a question.
type Plan struct {
	Rows []*Row // what happened, first; then what would have, in the order of the question

	// Unchecked says why what was in force could not be simulated here; nil: it was, and is
	// the second row.
	Unchecked error

	q     *Question
	h     *History
	jobs  []trace.Entry     // with the estimates that policies know
	costs perf.Costs        // that transitions are taken to have
	force experiment.Choice // what was in force last
	set   []int             // of the jobs, those that are compared
	sides report.Comparison // of those, with a run for each row
}

// Row is one line of a plan: what happened, or what would have. Its figures are about
// the jobs that are compared: those that ended in Real, after they ran.
type Row struct {
	Name   string
	Kind   Kind
	Result *report.Result // of all jobs

	policy, growth string // simulated, and what the cluster has more or fewer
	gpus           int    // of the cluster

	Remarks []string // what a user should know before believing the figures, beside Result.Lacks

	JCT, Wait   report.Stats  // of the jobs that ended
	Makespan    time.Duration // from the first submission to the last end of these
	Preemptions int           // of these
	Left        int           // jobs that never ended
	Change      float64       // of the mean JCT against what happened, 0.1 is a tenth more
	Hours       float64       // the sum of all changes of JCTs, in hours
}

// Kind is what a row tells of.
type Kind string

// The kinds of rows.
const (
	Real    Kind = "real"  // what happened
	Checked Kind = "check" // the simulation of what was in force
	Tried   Kind = "plan"  // what would have been
)

// AsItWas is the name of the row that tells what happened.
const AsItWas = report.AsItWas

// add adds a line with its figures: those of the jobs that have ended in it, and
// how they compare with what happened to the same jobs.
func (p *Plan) add(row *Row, fates []report.Fate) {
	n := len(p.Rows)
	run := report.Run{
		Name: row.Name, Policy: row.policy, Growth: row.growth, GPUs: row.gpus, Real: row.Kind == Real, Check: row.Kind == Checked, Informed: row.Result.Informed(), Fates: fates,
	}
	if row.growth != "" {
		p.sides.Grown = append(p.sides.Grown, run)
		return
	}
	p.Rows, p.sides.Runs = append(p.Rows, row), append(p.sides.Runs, run)
	v := p.sides.Versus(n)
	row.JCT, row.Wait, row.Makespan = v.Here.JCT, v.Here.Wait, v.Here.Makespan
	row.Preemptions, row.Left, row.Change, row.Hours = v.Preemptions, v.Left, v.Change(), v.Hours
}

// fate is what became of a job that is compared, by its place among them, in a row.
func (p *Plan) fate(row, k int) report.Fate { return p.sides.Runs[row].Fates[k] }

// Instead says which policy on the machine that was there does what another one needs more GPUs
// for; empty where none does.
func (p *Plan) Instead() string { return report.Instead(p.sides.Growths()) }

// row is the place of a row.
func (p *Plan) row(r *Row) int { return slices.Index(p.Rows, r) }

// checked is the line of the simulation of what was in force, nil where there is
// none.
func (p *Plan) checked() *Row {
	for _, r := range p.Rows {
		if r.Kind == Checked {
			return r
		}
	}
	return nil
}

// halfWithin is the median of how far the ends of jobs are from where they were.
func (p *Plan) halfWithin(r *Row) time.Duration {
	var off []time.Duration
	for k, f := range p.sides.Runs[p.row(r)].Fates {
		if f.Ended {
			off = append(off, (f.JCT - p.fate(0, k).JCT).Abs())
		}
	}
	return report.Describe(off).Median
}

// changed is when the policy was changed last; 0: it was not.
func (p *Plan) changed() (last time.Duration) {
	for i := range p.h.Parts[1:] {
		if experiment.ChoiceOf(&p.h.Parts[i].Header).String() != experiment.ChoiceOf(&p.h.Parts[i+1].Header).String() {
			last = p.h.Parts[i+1].From
		}
	}
	return last
}

// most is how many of the jobs that gain and lose most are told.
const most = 5

// extremes are the jobs, by their place among those that are compared, that gain
// most and lose most in a run.
func (p *Plan) extremes(r *Row) (gain, loss []int) {
	row := p.row(r)
	change := func(k int) time.Duration { return p.fate(row, k).JCT - p.fate(0, k).JCT }
	var all []int
	for k, f := range p.sides.Runs[row].Fates {
		if f.Ended && change(k).Abs() >= 100*time.Millisecond {
			all = append(all, k)
		}
	}
	slices.SortStableFunc(all, func(a, b int) int { return cmp.Compare(change(a), change(b)) })
	for _, k := range all[:min(most, len(all))] {
		if change(k) < 0 {
			gain = append(gain, k)
		}
	}
	for _, k := range slices.Backward(all[max(0, len(all)-most):]) {
		if change(k) > 0 {
			loss = append(loss, k)
		}
	}
	return gain, loss
}
