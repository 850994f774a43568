package main

import (
	"cmp"
	"encoding/csv"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/report"
	"github.com/norn-scheduler/norn/run"
	"github.com/norn-scheduler/norn/trace"
	"github.com/norn-scheduler/norn/unit"
)

// write writes the plan as it was asked for, and the page.
func (w *whatIf) write() error {
	if w.f.out != "" {
		if err := w.page(); err != nil {
			return err
		}
	}
	if !w.f.quiet {
		tell(w.cmd.ErrOrStderr(), w.told)
	}
	out := w.cmd.OutOrStdout()
	switch w.f.name {
	case "json":
		return writeJSON(out, w.json())
	case "csv":
		if !w.f.quiet {
			for _, text := range w.assumptions() {
				remark(w.cmd, "%s", text)
			}
		}
		return w.csv(out)
	}
	return w.text(out, widthOf(w.cmd))
}

// text writes the plan for a reader.
func (w *whatIf) text(out io.Writer, width int) error {
	fmt.Fprintln(out, w.subject())
	fmt.Fprintln(out)
	if err := w.table().write(out, width); err != nil {
		return err
	}
	if text := w.trust(); text != "" {
		fmt.Fprintf(out, "\n%s\n", text)
	}
	for _, by := range groupsOf {
		groups := w.groups(by)
		if len(groups) < 2 {
			continue
		}
		fmt.Fprintln(out)
		if err := w.groupTable(by.name, groups).write(out, width); err != nil {
			return err
		}
	}
	if g := w.jobTable(); len(g.rows) > 0 {
		fmt.Fprintln(out)
		if err := g.write(out, width); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(out, "\nWhat is assumed:\n- %s\n", strings.Join(w.assumptions(), "\n- "))
	return err
}

// subject says what the plan is about.
func (w *whatIf) subject() string {
	text := fmt.Sprintf("%s, %s; %s compared", strings.ToUpper(w.f.when(w.past)[:1])+w.f.when(w.past)[1:], count(w.past.State.Jobs(), "job"), is(len(w.set)))
	if left := w.past.State.Jobs() - w.past.State.Over(); left > 0 {
		text += fmt.Sprintf(", %d had not ended", left)
	}
	return text + "; in force: " + w.policies()
}

func is(n int) string {
	if n == 1 {
		return "1 is"
	}
	return fmt.Sprintf("%d are", n)
}

// policies are those that were in force, one after the other.
func (w *whatIf) policies() string {
	var parts []string
	last := ""
	for i := range w.past.Parts {
		p := &w.past.Parts[i]
		name := run.ChoiceOf(&p.Header).String()
		if name == last {
			continue
		}
		if last != "" {
			name += " from " + w.moment(p.From) + " on"
		}
		last = run.ChoiceOf(&p.Header).String()
		parts = append(parts, name)
	}
	return strings.Join(parts, ", ")
}

// moment is a moment of the past for a reader.
func (w *whatIf) moment(d time.Duration) string {
	if origin := w.past.Parts[0].Header.Origin; !origin.IsZero() {
		return clock(origin.Add(d), w.f.now())
	}
	return unit.Human(d)
}

// trust says how far the simulation is from what happened.
func (w *whatIf) trust() string {
	r := w.checked()
	if r == nil || r.jct.N == 0 {
		return ""
	}
	text := fmt.Sprintf("The simulation of what was in force is off by %s in mean JCT; in it, half of the jobs end within %s of when they did.",
		signedPercent(r.change), unit.Human(w.halfWithin(r)))
	switch last := w.changed(); {
	case last > 0:
		text += " The policy was changed meanwhile, and the simulation has the last one all the time: --since " + w.since(last) + " looks at that one alone."
	case math.Abs(r.change) > 0.05:
		text += " Changes that are no larger mean nothing."
	}
	return text
}

// since is a moment as --since takes it.
func (w *whatIf) since(d time.Duration) string {
	origin := w.past.Parts[0].Header.Origin
	if origin.IsZero() {
		return unit.FormatSeconds(d)
	}
	return strconv.Quote(origin.Add(d).In(w.f.now().Location()).Format(time.DateTime))
}

// changed is when the policy was changed last; 0: it was not.
func (w *whatIf) changed() (last time.Duration) {
	for i := range w.past.Parts[1:] {
		if run.ChoiceOf(&w.past.Parts[i].Header).String() != run.ChoiceOf(&w.past.Parts[i+1].Header).String() {
			last = w.past.Parts[i+1].From
		}
	}
	return last
}

// halfWithin is the median of how far the ends of jobs are from where they were.
func (w *whatIf) halfWithin(r *planRow) time.Duration {
	var off []time.Duration
	for k, f := range r.fates {
		if f.ended {
			off = append(off, (f.end - w.rows[0].fates[k].end).Abs())
		}
	}
	return report.Describe(off).Median
}

func signedPercent(v float64) string { return signed(v*100, 1) + "%" }

func signedHours(h float64) string {
	if math.Abs(h) < 0.1 {
		return signed(h, 4)
	}
	return signed(h, 2)
}

// signed writes a number with its sign, none where it reads as zero.
func signed(v float64, digits int) string {
	text := strconv.FormatFloat(v, 'f', digits, 64)
	switch zero := strings.Trim(text, "-0.") == ""; {
	case zero:
		return strings.TrimPrefix(text, "-")
	case v > 0:
		return "+" + text
	}
	return text
}

// table compares the runs.
func (w *whatIf) table() *grid {
	g := &grid{cols: []gridColumn{
		{title: "", least: 12}, {title: "MEAN JCT", right: true}, {title: "P50", right: true, rank: 5}, {title: "P90", right: true, rank: 4},
		{title: "MEAN WAIT", right: true}, {title: "P50", right: true, rank: 1}, {title: "P90", right: true, rank: 2},
		{title: "MAKESPAN", right: true, rank: 3}, {title: "PREEMPTED", right: true, rank: 6}, {title: "GPUS USED", right: true, rank: 7},
		{title: "JCT CHANGE", right: true}, {title: "JOB-HOURS", right: true}, {title: "LEFT", right: true, bare: true},
	}}
	for _, r := range w.rows {
		change, hours, left := "", "", ""
		if r.kind != reality {
			change, hours = signedPercent(r.change), signedHours(r.hours)
		}
		if r.left > 0 {
			left = strconv.Itoa(r.left)
		}
		cells := []string{r.name}
		for _, s := range []report.Stats{r.jct, r.wait} {
			cells = append(cells, human(s, s.Mean), human(s, s.Median), human(s, s.P90))
		}
		g.add(append(cells, human(r.jct, r.makespan), strconv.Itoa(r.preemptions), fmt.Sprintf("%.1f%%", 100*r.result.Utilisation), change, hours, left)...)
	}
	return g
}

// human is one of the figures of a run; none where no job has ended.
func human(s report.Stats, d time.Duration) string {
	if s.N == 0 {
		return "-"
	}
	return unit.Human(d)
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
func (w *whatIf) groups(by grouping) []group {
	at := map[string]int{}
	var out []group
	for k, i := range w.set {
		name := by.of(&w.jobs[i].Job)
		g, known := at[name]
		if !known {
			g = len(out)
			at[name] = g
			out = append(out, newGroup(name, len(w.rows)))
		}
		out[g].jobs++
		for n, r := range w.rows {
			if r.fates[k].ended {
				out[g].jct[n] += r.fates[k].jct.Seconds()
				out[g].ended[n]++
			}
		}
	}
	slices.SortFunc(out, func(a, b group) int { return trace.CompareKeys(a.name, b.name) })
	return out
}

// mostGroups is how many tenants or users are told of.
const mostGroups = 10

// groupTable says which tenants or users gain and lose: those with most jobs.
func (w *whatIf) groupTable(by string, groups []group) *grid {
	g := &grid{cols: []gridColumn{{title: strings.ToUpper(by), least: 8}, {title: "JOBS", right: true}}}
	for n, r := range w.rows {
		if r.kind != check {
			g.cols = append(g.cols, gridColumn{title: r.name, right: true, rank: (len(w.rows) - n) * min(1, n)})
		}
	}
	if len(groups) > mostGroups {
		groups = slices.Clone(groups)
		slices.SortStableFunc(groups, func(a, b group) int { return cmp.Compare(b.jobs, a.jobs) })
		rest := newGroup(fmt.Sprintf("%d more", len(groups)-mostGroups), len(w.rows))
		for i := range groups[mostGroups:] {
			rest.join(&groups[mostGroups+i])
		}
		groups = append(groups[:mostGroups:mostGroups], rest)
	}
	for _, x := range groups {
		cells := []string{cmp.Or(x.name, "-"), strconv.Itoa(x.jobs)}
		for n, r := range w.rows {
			if r.kind != check {
				cells = append(cells, x.cell(n))
			}
		}
		g.add(cells...)
	}
	return g
}

// cell is the mean JCT of a group in a run, and how it compares with what happened.
func (x *group) cell(run int) string {
	is, was := x.mean(run), x.mean(0)
	if x.ended[run] == 0 {
		return "-"
	}
	text := unit.Human(time.Duration(is * 1e9))
	if run > 0 && was > 0 {
		text += " " + signedPercent((is-was)/was)
	}
	return text
}

// most is how many of the jobs that gain and lose most are told.
const most = 5

// extremes are the jobs, by their place among those that are compared, that gain
// most and lose most in a run.
func (w *whatIf) extremes(r *planRow) (gain, loss []int) {
	change := func(k int) time.Duration { return r.fates[k].jct - w.rows[0].fates[k].jct }
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

// jobTable tells of the jobs that would have gained and lost most.
func (w *whatIf) jobTable() *grid {
	g := &grid{cols: []gridColumn{
		{title: "JOBS THAT CHANGE MOST", least: 10}, {title: "JOB"}, {title: "NAME", least: 8, rank: 2}, {title: "USER", least: 4, rank: 1}, {title: "GPUS", right: true, rank: 3},
		{title: "JCT", right: true}, {title: "WOULD BE", right: true}, {title: "CHANGE", right: true},
	}}
	for _, r := range w.rows {
		if r.kind != planned {
			continue
		}
		gain, loss := w.extremes(r)
		for _, k := range append(gain, loss...) {
			j, was, is := &w.jobs[w.set[k]].Job, w.rows[0].fates[k].jct, r.fates[k].jct
			change := unit.Human(is - was)
			if is > was {
				change = "+" + change
			}
			g.add(r.name, j.Key, j.Name, j.User, j.Demand.Milli(j.Demand.Roles[0].Tasks).String(), unit.Human(was), unit.Human(is), change)
		}
	}
	return g
}

// csv writes the figures of each run, exactly.
func (w *whatIf) csv(out io.Writer) error {
	c := csv.NewWriter(out)
	c.Write([]string{"run", "kind", "jct_mean_s", "jct_median_s", "jct_p90_s", "wait_mean_s", "wait_median_s", "wait_p90_s", "makespan_s", "preemptions", "gpu_utilisation", "jct_change", "job_hours_change", "jobs_left"})
	number := func(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }
	for _, r := range w.rows {
		cells := []string{r.name, string(r.kind)}
		for _, s := range []report.Stats{r.jct, r.wait} {
			cells = append(cells, unit.FormatSeconds(s.Mean), unit.FormatSeconds(s.Median), unit.FormatSeconds(s.P90))
		}
		c.Write(append(cells, unit.FormatSeconds(r.makespan), strconv.Itoa(r.preemptions), number(r.result.Utilisation), number(r.change), number(r.hours), strconv.Itoa(r.left)))
	}
	c.Flush()
	return c.Error() // of any of the writes
}
