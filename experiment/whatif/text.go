package whatif

import (
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/experiment"
	"github.com/norn-scheduler/norn/internal/grid"
	"github.com/norn-scheduler/norn/report"
)

// TextOptions say how a plan is written for a reader.
type TextOptions struct {
	Width int       // cells of the terminal; 0: unbounded
	Now   time.Time // moments are told as near to it; its clock is that of the reader
}

// WriteText writes the plan for a reader: what it is about, the table of its rows, how
// far to believe it, who gains and loses, and what is assumed.
func (p *Plan) WriteText(out io.Writer, opt TextOptions) error {
	width := opt.Width
	fmt.Fprintln(out, p.subject(opt.Now))
	report.WriteLines(out, []string{p.sides.Verdict()}, width)
	fmt.Fprintln(out)
	if err := p.table().Write(out, width); err != nil {
		return err
	}
	if notes := p.notes(); len(notes) > 0 {
		fmt.Fprintf(out, "\n%s\n", strings.Join(notes, "\n"))
	}
	if text := p.Trust(); text != "" {
		fmt.Fprintf(out, "\n%s\n", text)
	}
	if err := p.sides.WriteGrowths(out, width); err != nil {
		return err
	}
	if err := p.sides.WriteClasses(out, width); err != nil {
		return err
	}
	if g := p.jobTable(); len(g.Rows) > 0 {
		fmt.Fprintln(out)
		if err := g.Write(out, width); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(out, "\nWhat is assumed:\n- %s\n", strings.Join(p.Assumptions(), "\n- "))
	return err
}

// notes explain the marks behind the names of rows.
func (p *Plan) notes() []string {
	var all []report.Named
	for _, r := range p.Rows {
		all = append(all, report.Named{Name: r.Name, Result: r.Result})
	}
	return report.Compare(all).Notes()
}

// subject says what the plan is about.
func (p *Plan) subject(now time.Time) string {
	when := p.h.When(p.q.clock())
	text := fmt.Sprintf("%s, %s; %s compared", strings.ToUpper(when[:1])+when[1:], unit.CountOrNo(p.h.State.Jobs(), "job"), is(len(p.set)))
	if left := p.h.State.Jobs() - len(p.h.State.Ended()); left > 0 {
		text += fmt.Sprintf(", %d had not ended", left)
	}
	return text + "; in force: " + p.policies(now)
}

func is(n int) string {
	if n == 1 {
		return "1 is"
	}
	return fmt.Sprintf("%d are", n)
}

// policies are those that were in force, one after the other.
func (p *Plan) policies(now time.Time) string {
	var parts []string
	last := ""
	for i := range p.h.Parts {
		part := &p.h.Parts[i]
		name := experiment.ChoiceOf(&part.Header).String()
		if name == last {
			continue
		}
		if last != "" {
			name += " from " + p.moment(part.From, now) + " on"
		}
		last = experiment.ChoiceOf(&part.Header).String()
		parts = append(parts, name)
	}
	return strings.Join(parts, ", ")
}

// moment is a moment of the past for a reader.
func (p *Plan) moment(d time.Duration, now time.Time) string {
	if origin := p.h.Parts[0].Header.Origin; !origin.IsZero() {
		return grid.Clock(origin.Add(d), now)
	}
	return unit.Human(d)
}

// Trust says how far the simulation is from what happened.
func (p *Plan) Trust() string {
	r := p.checked()
	if r == nil || r.JCT.N == 0 {
		return ""
	}
	text := fmt.Sprintf("The simulation of what was in force is off by %s in mean JCT; in it, half of the jobs end within %s of when they did.",
		signedPercent(r.Change), unit.Human(p.halfWithin(r)))
	switch last := p.changed(); {
	case last > 0:
		text += " The policy was changed meanwhile, and the simulation has the last one all the time: --since " + p.since(last) + " looks at that one alone."
	case math.Abs(r.Change) > 0.05:
		text += " Changes that are no larger mean nothing."
	}
	return text
}

// since is a moment as --since takes it.
func (p *Plan) since(d time.Duration) string {
	origin := p.h.Parts[0].Header.Origin
	if origin.IsZero() {
		return unit.FormatSeconds(d)
	}
	return strconv.Quote(origin.Add(d).In(p.q.clock()).Format(time.DateTime))
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
func (p *Plan) table() *grid.Table {
	g := &grid.Table{Cols: []grid.Column{
		{Title: "", Least: 12}, {Title: "MEAN JCT", Right: true}, {Title: "P50", Right: true, Rank: 5}, {Title: "P90", Right: true, Rank: 4},
		{Title: "MEAN WAIT", Right: true}, {Title: "P50", Right: true, Rank: 1}, {Title: "P90", Right: true, Rank: 2},
		{Title: "MAKESPAN", Right: true, Rank: 3}, {Title: "PREEMPTED", Right: true, Rank: 6}, {Title: "GPUS USED", Right: true, Rank: 7},
		{Title: "JCT CHANGE", Right: true}, {Title: "JOB-HOURS", Right: true}, {Title: "LEFT", Right: true, Bare: true},
	}}
	for _, r := range p.Rows {
		change, hours, left := "", "", ""
		if r.Kind != Real {
			change, hours = signedPercent(r.Change), signedHours(r.Hours)
		}
		if r.Left > 0 {
			left = strconv.Itoa(r.Left)
		}
		cells := []string{strings.TrimSpace(r.Name + " " + r.Result.Marks())}
		for _, s := range []report.Stats{r.JCT, r.Wait} {
			cells = append(cells, human(s, s.Mean), human(s, s.Median), human(s, s.P90))
		}
		g.Add(append(cells, human(r.JCT, r.Makespan), strconv.Itoa(r.Preemptions), fmt.Sprintf("%.1f%%", 100*r.Result.Utilisation), change, hours, left)...)
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

// jobTable tells of the jobs that would have gained and lost most.
func (p *Plan) jobTable() *grid.Table {
	g := &grid.Table{Cols: []grid.Column{
		{Title: "JOBS THAT CHANGE MOST", Least: 10}, {Title: "JOB"}, {Title: "NAME", Least: 8, Rank: 2}, {Title: "USER", Least: 4, Rank: 1}, {Title: "GPUS", Right: true, Rank: 3},
		{Title: "JCT", Right: true}, {Title: "WOULD BE", Right: true}, {Title: "CHANGE", Right: true},
	}}
	for _, r := range p.Rows {
		if r.Kind != Tried {
			continue
		}
		gain, loss := p.extremes(r)
		row := p.row(r)
		for _, k := range append(gain, loss...) {
			j, was, is := &p.jobs[p.set[k]].Job, p.fate(0, k).JCT, p.fate(row, k).JCT
			change := unit.Human(is - was)
			if is > was {
				change = "+" + change
			}
			g.Add(r.Name, j.Key, j.Name, j.User, j.Demand.Milli(j.Demand.Roles[0].Tasks).String(), unit.Human(was), unit.Human(is), change)
		}
	}
	return g
}
