package report

import (
	"cmp"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/internal/grid"
)

// Growth tells how waits change with the size of the cluster, under one policy.
type Growth struct {
	Policy string
	Points []Point // in order of GPUs; one of them is the cluster that is asked about
}

// Point is one policy on a cluster of some size. Its times are of the jobs that ended on all
// sizes under the policy.
type Point struct {
	Growth string // what the cluster has more or fewer, such as "+4 nodes"; empty: it is as it is
	GPUs   int
	Jobs   int // the times are of these
	Times
	Left  int     // jobs that ended on the cluster as it is, and not here
	Saved float64 // the part of all waiting that is saved beside the cluster as it is; negative: there is more
	Hours float64 // that all these jobs together wait less, in hours
}

// Growths are the policies that were simulated on clusters of several sizes, in order of
// the runs; none where no run tells of a growth.
func (c *Comparison) Growths() []Growth {
	var out []Growth
	for base := range c.Runs {
		runs := []*Run{&c.Runs[base]}
		for i := range c.Grown {
			if c.Grown[i].Policy == runs[0].Policy {
				runs = append(runs, &c.Grown[i])
			}
		}
		if len(runs) > 1 {
			out = append(out, c.growth(runs))
		}
	}
	return out
}

// growth sets one policy on several clusters side by side; the first is as it is.
func (c *Comparison) growth(runs []*Run) Growth {
	jct, wait := make([][]time.Duration, len(runs)), make([][]time.Duration, len(runs))
	points := make([]Point, len(runs))
	ends := make([]time.Duration, len(runs))
	first := time.Duration(-1)
	for k := range c.Jobs {
		all := true
		for i, run := range runs {
			ended := run.fate(k).Ended
			if all = all && ended; !ended && runs[0].fate(k).Ended {
				points[i].Left++
			}
		}
		if !all {
			continue
		}
		came := c.Jobs[k].Submit
		if first < 0 || came < first {
			first = came
		}
		for i, run := range runs {
			f := run.fate(k)
			jct[i], wait[i], ends[i] = append(jct[i], f.JCT), append(wait[i], f.Wait), max(ends[i], came+f.JCT)
		}
	}
	for i, r := range runs {
		p := &points[i]
		p.Growth, p.GPUs, p.Jobs = r.Growth, r.GPUs, len(jct[i])
		p.Times = Times{describe(jct[i]), describe(wait[i]), max(0, ends[i]-first)}
		was := points[0].Wait.Mean
		if p.Growth != "" {
			p.Saved, p.Hours = -relative(was, p.Wait.Mean), (was-p.Wait.Mean).Hours()*float64(p.Jobs)
		}
	}
	slices.SortStableFunc(points, func(a, b Point) int { return cmp.Compare(a.GPUs, b.GPUs) })
	return Growth{runs[0].Policy, points}
}

// asItIs is the point of the cluster that is asked about.
func (g *Growth) asItIs() int {
	return slices.IndexFunc(g.Points, func(p Point) bool { return p.Growth == "" })
}

// Worth of nodes or GPUs that are added.
const (
	enough = 0.05 // of the waiting on the cluster as it is: steps that save less are not worth telling
	ample  = 0.01 // of completion times: where waits are less, no node is needed
)

// Sentence says how many nodes or GPUs are worth their place, of the sizes that were tried.
func (g *Growth) Sentence() string {
	at := g.asItIs()
	is := &g.Points[at]
	name := clean(g.Policy)
	switch {
	case is.Jobs == 0:
		return name + ": no job has ended on clusters of all these sizes, so there is nothing to compare."
	case is.Wait.Mean == 0:
		return name + ": no job waits on the cluster as it is, so more GPUs save nothing." + g.fewer()
	case share(&is.Times) < ample:
		return fmt.Sprintf("%s: waits are %s of completion times on the cluster as it is, so more GPUs save little.%s", name, shareText(share(&is.Times)), g.fewer())
	case at == len(g.Points)-1:
		return name + ": more GPUs were not tried." + g.fewer()
	}
	best := at
	for i := at + 1; i < len(g.Points); i++ {
		if g.Points[i].Saved >= g.Points[best].Saved+enough {
			best = i
		}
	}
	if best == at {
		return fmt.Sprintf("%s: none of the larger clusters saves as much as %s of the waiting.%s", name, shareText(enough), g.fewer())
	}
	p := &g.Points[best]
	what, more := p.Growth, unit.Count(p.GPUs-is.GPUs, "GPU")
	if what != "+"+more {
		what += " (" + more + " more)"
	}
	text := fmt.Sprintf("%s: %s would save %s of the waiting: mean wait %s instead of %s", name, what,
		shareText(p.Saved), unit.Human(p.Wait.Mean), unit.Human(is.Wait.Mean))
	if best < len(g.Points)-1 {
		text += fmt.Sprintf("; more than that saves less than another %s", shareText(enough))
	}
	return text + "." + g.fewer()
}

// fewer says what the smallest of the clusters would cost; empty where none is smaller.
func (g *Growth) fewer() string {
	at := g.asItIs()
	if at == 0 {
		return ""
	}
	p, is := &g.Points[0], &g.Points[at]
	text := fmt.Sprintf(" With %s the mean wait is %s instead of %s", p.Growth, unit.Human(p.Wait.Mean), unit.Human(is.Wait.Mean))
	if p.Left > 0 {
		text += fmt.Sprintf(", and %s", unit.Count(p.Left, "job")+" never "+verb(p.Left, "ends", "end"))
	}
	return text + "."
}

// Instead says which policy on the cluster as it is does what another one needs more GPUs
// for; empty where none does.
func Instead(all []Growth) string {
	for _, g := range all {
		for _, o := range slices.Backward(g.Points) {
			if o.Growth == "" || o.GPUs <= g.Points[g.asItIs()].GPUs || o.Saved < enough {
				continue
			}
			for _, h := range all {
				is := &h.Points[h.asItIs()]
				if h.Policy != g.Policy && is.Jobs > 0 && is.Jobs >= o.Jobs && is.Wait.Mean <= o.Wait.Mean && is.Left == 0 {
					return fmt.Sprintf("On the cluster as it is, jobs wait no longer under %s (%s) than under %s with %s (%s).",
						clean(h.Policy), unit.Human(is.Wait.Mean), clean(g.Policy), o.Growth, unit.Human(o.Wait.Mean))
				}
			}
		}
	}
	return ""
}

// WriteGrowths writes how waits change with the size of the cluster, for a terminal of so many
// columns: what it comes to, and a table. It writes nothing where no run tells of it.
func (c *Comparison) WriteGrowths(w io.Writer, width int) error {
	all := c.Growths()
	if len(all) == 0 {
		return nil
	}
	t := &grid.Table{Cols: []grid.Column{
		{Title: "POLICY", Least: 8}, {Title: "SIZE"}, {Title: "GPUS", Right: true}, {Title: "MEAN WAIT", Right: true}, {Title: "P90", Right: true, Rank: 2},
		{Title: "P99", Right: true, Rank: 3}, {Title: "MEAN JCT", Right: true, Rank: 1}, {Title: "WAITING SAVED", Right: true}, {Title: "HOURS PER GPU", Right: true, Rank: 4}, {Title: "LEFT", Right: true, Bare: true},
	}}
	lines := []string{"How many GPUs are enough (times of the jobs that end on clusters of all these sizes):"}
	for i := range all {
		lines = append(lines, all[i].Sentence())
		all[i].rows(t)
	}
	if text := Instead(all); text != "" {
		lines = append(lines, text)
	}
	if _, err := fmt.Fprintln(w); err != nil {
		return err
	}
	if err := WriteLines(w, lines, width); err != nil {
		return err
	}
	if _, err := fmt.Fprintln(w); err != nil {
		return err
	}
	return t.Write(w, width)
}

// rows adds the points to a table for readers.
func (g *Growth) rows(t *grid.Table) {
	is := &g.Points[g.asItIs()]
	for i := range g.Points {
		p := &g.Points[i]
		saved, each, left := "", "", ""
		if p.Growth != "" && p.Jobs > 0 {
			saved = strconv.FormatFloat(100*p.Saved, 'f', 1, 64) + "%"
			if more := p.GPUs - is.GPUs; more > 0 {
				each = brief(p.Hours / float64(more))
			}
		}
		if p.Left > 0 {
			left = strconv.Itoa(p.Left)
		}
		times := []string{"-", "-", "-", "-"}
		if p.Jobs > 0 {
			times = []string{unit.Human(p.Wait.Mean), unit.Human(p.Wait.P90), unit.Human(p.Wait.P99), unit.Human(p.JCT.Mean)}
		}
		t.Add(append([]string{clean(g.Policy), cmp.Or(p.Growth, "as it is"), strconv.Itoa(p.GPUs)}, append(times, saved, each, left)...)...)
	}
}

// GrowthJSON is Growth for programs; docs/reports.md names every field.
type GrowthJSON struct {
	Policy   string      `json:"policy"`
	Sentence string      `json:"sentence"`
	Points   []PointJSON `json:"points"`
}

// PointJSON is a Point for programs. Times are in seconds.
type PointJSON struct {
	Growth string  `json:"growth"`
	GPUs   int     `json:"gpus"`
	Jobs   int     `json:"jobs_compared"`
	Left   int     `json:"jobs_left"`
	Wait   Stats   `json:"wait_s"`
	JCT    Stats   `json:"jct_s"`
	Saved  float64 `json:"wait_saved_share"`
	Hours  float64 `json:"job_hours_saved"`
}

// GrowthsJSON are Growths for programs.
func (c *Comparison) GrowthsJSON() []GrowthJSON {
	out := []GrowthJSON{}
	for _, g := range c.Growths() {
		x := GrowthJSON{Policy: g.Policy, Sentence: g.Sentence()}
		for _, p := range g.Points {
			x.Points = append(x.Points, PointJSON{p.Growth, p.GPUs, p.Jobs, p.Left, p.Wait, p.JCT, p.Saved, p.Hours})
		}
		out = append(out, x)
	}
	return out
}

// WriteGrowthsJSON writes Growths as JSON.
func (c *Comparison) WriteGrowthsJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(c.GrowthsJSON())
}

// WriteGrowthsCSV writes Growths as CSV, a line for each policy and size.
func (c *Comparison) WriteGrowthsCSV(w io.Writer) error {
	out := csv.NewWriter(w)
	out.Write(strings.Split("policy,growth,gpus,jobs_compared,jobs_left,wait_mean_s,wait_p90_s,wait_p99_s,jct_mean_s,wait_saved_share,job_hours_saved", ","))
	for _, g := range c.Growths() {
		for _, p := range g.Points {
			row := []string{g.Policy, p.Growth, strconv.Itoa(p.GPUs), strconv.Itoa(p.Jobs), strconv.Itoa(p.Left)}
			for _, d := range []time.Duration{p.Wait.Mean, p.Wait.P90, p.Wait.P99, p.JCT.Mean} {
				row = append(row, strconv.FormatFloat(d.Seconds(), 'f', 3, 64))
			}
			out.Write(append(row, strconv.FormatFloat(p.Saved, 'f', 6, 64), strconv.FormatFloat(p.Hours, 'f', 3, 64)))
		}
	}
	out.Flush()
	return out.Error()
}
