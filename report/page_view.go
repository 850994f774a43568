package report

import (
	"cmp"
	"fmt"
	"html/template"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/internal/palette"
)

// pageView is what the page's template shows.
type pageView struct {
	Meta   Meta
	Style  template.CSS
	Script template.JS
	Data   template.JS

	Columns []columnView
	Rows    []rowView // the comparison
	Notes   []string  // beneath it
	Beside  besideView
	Growth  growthView
	Causes  []barView     // that any run has
	Reasons []meaningView // that any run has
	Runs    []runView
	Sizes   []sizeView
	ByKind  []kindRow
	Across  []acrossView
	Jobs    int // submitted, of the run with most
	Played  int // runs, but for what a trace tells of what happened
	Curves  bool
	Series  bool
	Charts  bool

	MoreAcross int // tenants that are not shown beside each other
}

type columnView struct {
	Title string
	More  bool // a larger figure is the better one
}

type rowView struct {
	Index int
	Name  string
	Marks string // as the notes explain
	Cells []cellView
}

type cellView struct {
	Text  string
	Value string // to sort by
	Best  bool
}

// runView is the part of the page about one run.
type runView struct {
	Index    int
	Name     string
	Summary  *Summary
	Outcomes string
	Told     bool      // it is what really happened
	Kinds    []barView // waiting by cause
	Classes  []waitView
	Reasons  []Wait
	Tenants  []tenantView
	More     int // tenants that are not shown
	Shares   []shareView
	Held     []heldView
	Price    string // of fairness
	Quantile []quantileView
	Times    []timeView
	Largest  []largeView
	Dropped  string
}

// barView is a part of a bar: a share of its full length.
type barView struct {
	Name  string
	Class string
	Share float64
	Text  string
}

type tenantView struct {
	Group
	Name  string
	Share float64 // of the largest tenant's GPU time
}

// sizeView is the jobs of one size, over all runs.
type sizeView struct {
	Name               string
	Jobs               int
	JobShare, GPUShare float64
	Runs               []Group
}

type quantileView struct {
	Name      string
	JCT, Wait string
}

type timeView struct{ From, To, Used, Queue string }

type largeView struct{ Job, Tenant, GPUs, Start, End, Why string }

const (
	shownTenants = 40
	shownBars    = 20
	shownTimes   = 12
)

func newPageView(m Meta, runs []Named) (*pageView, error) {
	if m.Title == "" {
		m.Title = "Report of a run"
	}
	v := &pageView{Meta: Meta{short(m.Title), short(m.Trace), short(m.Cluster), short(m.Seed), short(m.Estimates), short(m.Conditions), m.Begins, m.Comparison}}
	script, err := concat(scripts, "script")
	if err != nil {
		return nil, err
	}
	style, err := concat(styles, "style")
	if err != nil {
		return nil, err
	}
	style = palette.CSS() + style + dashes()
	license, err := assets.ReadFile("assets/vendor/uplot/LICENSE")
	if err != nil {
		return nil, err
	}
	v.Script, v.Style = template.JS("/* uPlot:\n"+string(license)+"*/\n"+script), template.CSS(style)
	data := newPageData(runs)
	data.grown(m.Comparison)
	if !m.Begins.IsZero() {
		data.Origin = new(float64(m.Begins.UnixMilli()) / 1000)
	}
	if v.Data, err = data.encode(); err != nil {
		return nil, err
	}
	v.compare(runs)
	v.Beside, v.Growth = newBesideView(m.Comparison), newGrowthView(m.Comparison)
	v.ByKind = shortKinds(kindRows(runs))
	v.waits(runs)
	most := 0.0
	for _, run := range runs {
		most = max(most, run.Result.Causes.Total())
	}
	for i, run := range runs {
		r := run.Result
		v.Runs = append(v.Runs, newRunView(i, run, most))
		v.Runs[i].Price = price(r, runs)
		if i < shownHeld {
			v.Runs[i].Held = heldViews(r, m.Begins)
		}
		v.Curves = v.Curves || r.curves != nil && r.JCT.N > 0
		v.Series = v.Series || r.series != nil && len(r.series.buckets) > 0
		v.Charts = v.Charts || r.chart != nil && len(r.chart.bars) > 0
	}
	v.sizes(runs)
	v.across(runs)
	for _, run := range runs {
		v.Jobs = max(v.Jobs, run.Result.Jobs.Submitted)
		if !run.Result.Told {
			v.Played++
		}
	}
	return v, nil
}

// compare fills in the comparison.
func (v *pageView) compare(runs []Named) {
	t := Compare(runs)
	cols := columns()
	for _, c := range cols {
		v.Columns = append(v.Columns, columnView{c.title, c.better > 0})
	}
	for r, row := range t.cells {
		view := rowView{Index: r, Name: short(t.names[r]), Marks: t.rests[r].marks()}
		for i, c := range cols {
			cell := cellView{Text: t.text(r, c, row[i]), Best: row[i].best}
			if row[i].known {
				cell.Value = strconv.FormatFloat(row[i].value, 'g', -1, 64)
			}
			view.Cells = append(view.Cells, cell)
		}
		v.Rows = append(v.Rows, view)
	}
	v.Notes = t.Notes()
}

func newRunView(i int, run Named, most float64) runView {
	r := run.Result
	v := runView{Index: i, Name: short(run.Name), Summary: &r.Summary, Reasons: r.Reasons, Outcomes: outcomes(&r.Jobs)}
	for i, spent := range r.Causes {
		if spent > 0 {
			v.Kinds = append(v.Kinds, barView{Cause(i).String(), "w" + strconv.Itoa(i), safeShare(spent, most), hours(spent)})
		}
	}
	v.Told = r.Told
	v.waits(r)
	v.tenants(r)
	v.Shares = shareViews(r.Dues)
	if r.JCT.N > 0 {
		v.Quantile = []quantileView{
			{"mean", unit.Human(r.JCT.Mean), unit.Human(r.Wait.Mean)},
			{"median", unit.Human(r.JCT.Median), unit.Human(r.Wait.Median)},
			{"90 %", unit.Human(r.JCT.P90), unit.Human(r.Wait.P90)},
			{"99 %", unit.Human(r.JCT.P99), unit.Human(r.Wait.P99)},
			{"largest", unit.Human(r.JCT.Max), unit.Human(r.Wait.Max)},
		}
	}
	if r.series != nil {
		v.Times = r.series.coarse()
	}
	if r.chart != nil {
		v.Largest = r.chart.largest()
		if r.chart.dropped > 0 {
			v.Dropped = number(r.chart.dropped) + " shorter intervals with " + hours(r.chart.lost) + " GPU-hours in all"
		}
	}
	return v
}

// tenants lists those of the most GPU time first.
func (v *runView) tenants(r *Result) {
	groups := slices.Clone(r.Tenants)
	slices.SortStableFunc(groups, func(a, b Group) int { return cmp.Compare(b.GPUHours, a.GPUHours) })
	if len(groups) > shownTenants {
		v.More = len(groups) - shownTenants
		groups = groups[:shownTenants]
	}
	for _, g := range groups {
		v.Tenants = append(v.Tenants, tenantView{g, tenantName(g.Name), safeShare(g.GPUHours, groups[0].GPUHours)})
	}
}

// tenantName is what a reader calls a tenant; jobs of none have the empty name.
func tenantName(name string) string { return cmp.Or(short(name), "(no tenant)") }

// sizes fills in the jobs by size. The shares are those of the first run with most jobs.
func (v *pageView) sizes(runs []Named) {
	for _, name := range sizeNames {
		s := sizeView{Name: name}
		for _, run := range runs {
			at := slices.IndexFunc(run.Result.Sizes, func(g Group) bool { return g.Name == name })
			if at < 0 {
				s.Runs = append(s.Runs, Group{})
				continue
			}
			g := run.Result.Sizes[at]
			s.Runs = append(s.Runs, g)
			if g.Jobs > s.Jobs {
				s.Jobs = g.Jobs
				s.JobShare = safeShare(float64(g.Jobs), float64(run.Result.Jobs.Submitted))
				s.GPUShare = safeShare(g.GPUHours, gpuHours(run.Result.Sizes))
			}
		}
		if s.Jobs > 0 {
			v.Sizes = append(v.Sizes, s)
		}
	}
}

// gpuHours is the GPU time of groups.
func gpuHours(groups []Group) float64 {
	sum := 0.0
	for i := range groups {
		sum += groups[i].GPUHours
	}
	return sum
}

// coarse is the series in a few lines, for readers of the table.
func (s *series) coarse() []timeView {
	var out []timeView
	s.parts(shownTimes, func(i, end int, sum *bucket) {
		if sum.seconds == 0 {
			return
		}
		out = append(out, timeView{
			unit.Human(s.start + time.Duration(i)*s.width), unit.Human(s.start + time.Duration(end)*s.width),
			percent(sum.used.sum / sum.seconds), number(int(math.Round(sum.queue.sum / sum.seconds))),
		})
	})
	return out
}

// parts visits the series in at most so many parts: the buckets from i up to end, joined.
func (s *series) parts(most int, visit func(i, end int, sum *bucket)) {
	step := (len(s.buckets) + most - 1) / most
	for i := 0; i < len(s.buckets); i += step {
		end := min(i+step, len(s.buckets))
		var sum bucket
		for _, b := range s.buckets[i:end] {
			sum.join(&b)
		}
		visit(i, end, &sum)
	}
}

// largest is the intervals of the most GPU time, in order of their start.
func (t *timeline) largest() []largeView {
	order := make([]int, len(t.bars))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(t.bars[b].weight(), t.bars[a].weight()) })
	order = order[:min(len(order), shownBars)]
	slices.Sort(order)
	var out []largeView
	for _, i := range order {
		b := &t.bars[i]
		_, why := b.ended()
		if b.other != nil {
			why = strings.Replace(why, otherJob, short(jobKey(b.other)), 1)
		}
		out = append(out, largeView{
			short(jobKey(b.job)), short(b.job.Tenant), b.milli.String(), unit.Human(b.start), unit.Human(b.end), short(why),
		})
	}
	return out
}

func (b *bar) weight() float64 { return float64(b.milli) * (b.end - b.start).Seconds() }

func pageFuncs() template.FuncMap {
	return template.FuncMap{"human": unit.Human, "hours": hours, "number": number, "percent": percent, "decimal": decimal, "dict": dict, "tone": tone, "dash": dash}
}

// tone and dash are the numbers of the colour and of the dashes of a run, as palette.Look has
// them.
func tone(run int) int { return run % palette.Looks }

func dash(run int) int { return (run + run/palette.Looks) % palette.Looks }

// dashes is a style sheet for the dashes of runs.
func dashes() string {
	var b strings.Builder
	for i := range palette.Looks {
		if _, lengths := palette.Look(i); lengths != nil {
			fmt.Fprintf(&b, ".d%d { stroke-dasharray: %s; }\n", dash(i), strings.Trim(fmt.Sprint(lengths), "[]"))
		}
	}
	return b.String()
}

// dict makes a map of pairs, for a template with several arguments.
func dict(pairs ...string) map[string]string {
	m := map[string]string{}
	for i := 0; i+1 < len(pairs); i += 2 {
		m[pairs[i]] = pairs[i+1]
	}
	return m
}

// number writes a count with its thousands apart.
func number(n int) string {
	s := strconv.Itoa(n)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// hours writes an amount of hours for a reader.
func hours(h float64) string {
	if h < 100 {
		return strconv.FormatFloat(h, 'f', 1, 64)
	}
	return number(int(math.Round(h)))
}

// safeShare is a part of a whole, 0 where there is no whole.
func safeShare(a, whole float64) float64 {
	if whole <= 0 {
		return 0
	}
	return a / whole
}

func rounded(x, scale float64) float64 { return math.Round(x*scale) / scale }

// outcomes says in one line what became of the jobs.
func outcomes(c *Counts) string {
	var parts []string
	for _, p := range []struct {
		n    int
		what string
	}{
		{c.Finished, "finished"}, {c.Failed, "failed"}, {c.Cancelled, "cancelled"},
		{c.Running, "still running"}, {c.Waiting, "still waiting"}, {c.Held, "on hold"},
	} {
		if p.n > 0 {
			parts = append(parts, number(p.n)+" "+p.what)
		}
	}
	if c.Impossible > 0 {
		parts = append(parts, number(c.Impossible)+" of the waiting jobs can never run here")
	}
	if c.Refused > 0 {
		parts = append(parts, number(c.Refused)+" of the waiting jobs were refused")
	}
	return strings.Join(parts, ", ")
}
