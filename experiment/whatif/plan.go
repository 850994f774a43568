package whatif

import (
	"cmp"
	"slices"
	"time"

	"github.com/norn-scheduler/norn/experiment"
	"github.com/norn-scheduler/norn/job"
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
}

// Row is one line of a plan: what happened, or what would have. Its figures are about
// the jobs that are compared: those that ended in Real, after they ran.
type Row struct {
	Name    string
	Kind    Kind
	Result  *report.Result // of all jobs
	Remarks []string       // what a user should know before believing the figures, beside Result.Lacks

	JCT, Wait   report.Stats  // of the jobs that ended
	Makespan    time.Duration // from the first submission to the last end of these
	Preemptions int           // of these
	Left        int           // jobs that never ended
	Change      float64       // of the mean JCT against what happened, 0.1 is a tenth more
	Hours       float64       // the sum of all changes of JCTs, in hours

	fates []fate // of the jobs that are compared, in the order of Plan.set
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
const AsItWas = "as it was"

// fate is what became of a job in a run.
type fate struct {
	ended       bool
	jct, wait   time.Duration
	end         time.Duration
	preemptions int
}

func fateOf(r *job.Record) fate {
	if !r.Phase.Over() {
		return fate{}
	}
	return fate{true, r.End - r.Job.Submit, r.WaitAt(r.End), r.End, int(r.Preemptions)}
}

// add adds a line with its figures: those of the jobs that have ended in it, and
// how they compare with what happened to the same jobs.
func (p *Plan) add(row *Row) {
	var jct, wait []time.Duration
	var first, last time.Duration
	var sum, was float64 // s
	for k, i := range p.set {
		f := row.fates[k]
		if !f.ended {
			row.Left++
			continue
		}
		came := p.jobs[i].Job.Submit
		if len(jct) == 0 || came < first {
			first = came
		}
		last = max(last, f.end)
		jct, wait = append(jct, f.jct), append(wait, f.wait)
		row.Preemptions += f.preemptions
		if len(p.Rows) > 0 {
			sum, was = sum+f.jct.Seconds(), was+p.Rows[0].fates[k].jct.Seconds()
		}
	}
	row.JCT, row.Wait, row.Makespan = report.Describe(jct), report.Describe(wait), last-first
	row.Hours = (sum - was) / 3600
	if was > 0 {
		row.Change = (sum - was) / was
	}
	p.Rows = append(p.Rows, row)
}

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
	for k, f := range r.fates {
		if f.ended {
			off = append(off, (f.end - p.Rows[0].fates[k].end).Abs())
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

// grouping is what jobs are told apart by.
type grouping struct {
	name string
	of   func(*job.Job) string
}

var groupsOf = []grouping{
	{"tenant", func(j *job.Job) string { return j.Tenant }},
	{"user", func(j *job.Job) string { return j.User }},
}

// group is the jobs of one tenant or user: in each run, the sum of the JCTs of those
// that ended, in seconds, and how many these are.
type group struct {
	name  string
	jobs  int
	jct   []float64
	ended []int
}

func newGroup(name string, runs int) group {
	return group{name: name, jct: make([]float64, runs), ended: make([]int, runs)}
}

// mean is the mean JCT in a run, in seconds; 0: none ended.
func (x *group) mean(run int) float64 {
	if x.ended[run] == 0 {
		return 0
	}
	return x.jct[run] / float64(x.ended[run])
}

// join adds another group.
func (x *group) join(y *group) {
	x.jobs += y.jobs
	for run := range y.jct {
		x.jct[run] += y.jct[run]
		x.ended[run] += y.ended[run]
	}
}

// groups are the groups of jobs that are compared, by name.
func (p *Plan) groups(by grouping) []group {
	at := map[string]int{}
	var out []group
	for k, i := range p.set {
		name := by.of(&p.jobs[i].Job)
		g, known := at[name]
		if !known {
			g = len(out)
			at[name] = g
			out = append(out, newGroup(name, len(p.Rows)))
		}
		out[g].jobs++
		for n, r := range p.Rows {
			if r.fates[k].ended {
				out[g].jct[n] += r.fates[k].jct.Seconds()
				out[g].ended[n]++
			}
		}
	}
	slices.SortFunc(out, func(a, b group) int { return trace.CompareKeys(a.name, b.name) })
	return out
}

// most is how many of the jobs that gain and lose most are told.
const most = 5

// extremes are the jobs, by their place among those that are compared, that gain
// most and lose most in a run.
func (p *Plan) extremes(r *Row) (gain, loss []int) {
	change := func(k int) time.Duration { return r.fates[k].jct - p.Rows[0].fates[k].jct }
	var all []int
	for k, f := range r.fates {
		if f.ended && change(k).Abs() >= 100*time.Millisecond {
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
