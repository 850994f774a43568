package plot

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/norn-scheduler/norn/report"
	"github.com/norn-scheduler/norn/report/plot/draw"
)

// quantity is a figure of a job; NaN where it is not known.
type quantity struct {
	title  string
	column string // of tables
	time   bool   // it is in seconds
	rule   float64
	of     func(*Job) float64

	all func(*Run) []float64 // where it is no figure of jobs; nil: it is
	per string               // what it is a figure of, for the axis
}

var (
	jct  = quantity{title: "JCT", column: "jct_s", time: true, of: func(j *Job) float64 { return j.JCT }, per: "jobs"}
	wait = quantity{title: "Wait", column: "wait_s", time: true, of: func(j *Job) float64 { return j.Wait }, per: "jobs"}
	rho  = quantity{title: "Finish-time fairness (rho)", column: "rho", rule: 1, of: func(j *Job) float64 { return j.Rho }, per: "jobs"}
	took = quantity{title: "Time of a decision (ms)", column: "decision_ms", all: func(r *Run) []float64 { return r.Took }, per: "decisions"}
)

// values are those of the jobs that have ended, or whatever else it is a figure of, from small to
// large.
func (q *quantity) values(r *Run) []float64 {
	if q.all != nil {
		return slices.Sorted(slices.Values(q.all(r)))
	}
	var out []float64
	for i := range r.Jobs {
		if j := &r.Jobs[i]; j.ended() && !math.IsNaN(q.of(j)) {
			out = append(out, q.of(j))
		}
	}
	slices.Sort(out)
	return out
}

// span is a unit of time.
type span struct {
	name    string
	seconds float64
}

// unitOf is the unit in which readers take in times up to so many seconds.
func unitOf(most float64) span {
	switch {
	case most < 10*60:
		return span{"s", 1}
	case most < 6*3600:
		return span{"min", 60}
	case most < 10*86400:
		return span{"h", 3600}
	}
	return span{"days", 86400}
}

// distribution is the figure of a quantity over the jobs that have ended: the share of jobs up
// to each value, or above it.
func distribution(q quantity, tail bool) func(*Input, Options) (*Picture, error) {
	return func(in *Input, _ Options) (*Picture, error) {
		all, most := make([][]float64, len(in.Runs)), 0.0
		for i := range in.Runs {
			if all[i] = q.values(&in.Runs[i]); len(all[i]) > 0 {
				most = max(most, all[i][(len(all[i])-1)*9/10])
			}
		}
		if most == 0 && (tail || !slices.ContainsFunc(all, func(v []float64) bool { return len(v) > 0 })) {
			return nil, noData("no run has %s of which %s is known", q.per, q.column)
		}
		unit := span{"", 1}
		if q.time {
			unit = unitOf(most)
		}
		share := "share"
		if tail {
			share = "share_above"
		}
		p := &Picture{Data: Table{Header: []string{"run", q.column, share}}}
		panel := draw.Panel{X: draw.Axis{Title: q.title, Log: true}, Y: draw.Axis{Title: "Share of " + q.per, Percent: true, From: 0, To: 1}}
		if q.time {
			panel.X.Title += " (" + unit.name + ")"
		}
		if tail {
			panel.Y = draw.Axis{Title: "Share of " + q.per + " above", Percent: true, Log: true}
		}
		if q.rule > 0 {
			panel.Marks = []float64{q.rule}
		}
		for i, values := range all {
			line := steps(values, tail)
			for k := range line.X {
				p.Data.add(in.Runs[i].Name, line.X[k], line.Y[k])
				line.X[k] = max(line.X[k], floor(&q)) / unit.seconds
			}
			line.Look = i
			panel.Lines = append(panel.Lines, line)
		}
		p.Chart = draw.Chart{Panels: []draw.Panel{panel}, Keys: keys(in.Runs, false)}
		return p, nil
	}
}

// floor is the least value that is drawn on a logarithmic axis; lower ones are drawn there.
func floor(q *quantity) float64 {
	switch {
	case q.time:
		return 1
	case q.all != nil:
		return 1e-4
	}
	return 0.01
}

// steps is the share of sorted values up to each of them, or above it.
func steps(values []float64, tail bool) draw.Line {
	l := draw.Line{Step: true}
	n := float64(len(values))
	for i, v := range values {
		if i+1 < len(values) && values[i+1] == v {
			continue
		}
		l.X = append(l.X, v)
		if tail {
			l.Y = append(l.Y, float64(len(values)-i-1)/n)
		} else {
			l.Y = append(l.Y, float64(i+1)/n)
		}
	}
	return l
}

// By is how jobs are told apart.
type By string

// The ways.
const (
	BySize   By = "gpus"
	ByLength By = "length"
	ByTenant By = "tenant"
	ByUser   By = "user"
	ByModel  By = "model"
	ByType   By = "type"
)

// Bys are all of them.
func Bys() []By { return []By{BySize, ByLength, ByTenant, ByUser, ByModel, ByType} }

// of is the class of a job.
func (b By) of(j *Job) string {
	x := &report.Job{GPUs: int32(math.Ceil(j.GPUs)), Length: seconds(j.Length), Tenant: j.Tenant, User: j.User}
	switch b {
	case ByLength:
		return report.ByLength.Of(x)
	case ByTenant:
		return cmp.Or(j.Tenant, "(none)")
	case ByUser:
		return cmp.Or(j.User, "(none)")
	case ByModel:
		return cmp.Or(j.Model, "(none)")
	case ByType:
		return cmp.Or(j.Type, "(none)")
	}
	return report.BySize.Of(x)
}

// title is what the classes are called on an axis.
func (b By) title() string {
	return map[By]string{BySize: "GPUs of the job", ByLength: "Run time of the job", ByTenant: "Tenant", ByUser: "User", ByModel: "Model", ByType: "GPU type"}[b]
}

// seconds is a time of a table.
func seconds(s float64) time.Duration {
	if math.IsNaN(s) {
		return 0
	}
	return time.Duration(math.Round(s * 1e9))
}

// most is how many classes a figure has; the others are one more.
const most = 8

// others are the classes that are not shown by themselves.
const others = "(others)"

// kinds are the classes of the jobs that have ended: sizes and lengths from small to large,
// others those of most jobs first.
func (b By) kinds(runs []Run) []string {
	count := map[string]int{}
	for i := range runs {
		for k := range runs[i].Jobs {
			if j := &runs[i].Jobs[k]; j.ended() {
				count[b.of(j)]++
			}
		}
	}
	var names []string
	for name := range count {
		names = append(names, name)
	}
	slices.SortFunc(names, func(x, y string) int {
		switch b {
		case BySize:
			return cmp.Compare(report.BySize.Rank(x), report.BySize.Rank(y))
		case ByLength:
			return cmp.Compare(report.ByLength.Rank(x), report.ByLength.Rank(y))
		}
		return cmp.Or(cmp.Compare(count[y], count[x]), cmp.Compare(x, y))
	})
	if len(names) > most+1 {
		names = append(names[:most], others)
	}
	return names
}

// classes is the figure of a time of jobs by class.
func classes(q quantity) func(*Input, Options) (*Picture, error) {
	return func(in *Input, o Options) (*Picture, error) { return q.classes(in, cmp.Or(o.By, BySize)) }
}

func (q *quantity) classes(in *Input, by By) (*Picture, error) {
	if !slices.Contains(Bys(), by) {
		return nil, fmt.Errorf("%q is no class of jobs: write one of %s", by, draw.Words(Bys()))
	}
	names := by.kinds(in.Runs)
	if len(names) == 0 {
		return nil, noData("no job has ended")
	}
	what := strings.TrimSuffix(q.column, "_s")
	p := &Picture{Data: Table{Header: []string{string(by), "run", "jobs", what + "_mean_s", what + "_median_s", what + "_p90_s", what + "_p99_s"}}}
	all, largest := make([][]report.Stats, len(names)), 0.0
	for c, name := range names {
		for i := range in.Runs {
			s := q.stats(&in.Runs[i], func(j *Job) bool { k := by.of(j); return k == name || name == others && !slices.Contains(names, k) })
			all[c] = append(all[c], s)
			largest = max(largest, s.P99.Seconds())
			row := []any{name, in.Runs[i].Name, s.N, math.NaN(), math.NaN(), math.NaN(), math.NaN()}
			if s.N > 0 {
				row = []any{name, in.Runs[i].Name, s.N, s.Mean.Seconds(), s.Median.Seconds(), s.P90.Seconds(), s.P99.Seconds()}
			}
			p.Data.add(row...)
		}
	}
	unit := unitOf(largest)
	panel := draw.Panel{X: draw.Axis{Title: by.title(), Names: names}, Y: draw.Axis{Title: q.title + " (" + unit.name + "): p50, p99", Log: true}}
	least := math.Inf(1)
	for c := range names {
		for i, s := range all[c] {
			b := slot(c, i, len(in.Runs))
			if s.N > 0 {
				b.To, b.Mark = max(s.Median.Seconds(), 1)/unit.seconds, max(s.P99.Seconds(), 1)/unit.seconds
				least = min(least, b.To)
			}
			panel.Bars = append(panel.Bars, b)
		}
	}
	panel.Y.From, panel.Y.To = math.Pow(10, math.Floor(math.Log10(least/1.5))), 1.2*max(largest, 1)/unit.seconds // bars have a foot to stand on
	p.Chart = draw.Chart{Panels: []draw.Panel{panel}, Keys: keys(in.Runs, true)}
	return p, nil
}

// slot is the bar of series i of n in group c, without a value.
func slot(c, i, n int) draw.Bar {
	width := 0.8 / float64(n)
	return draw.Bar{
		Look: i, Width: width * 0.92, At: float64(c) + (float64(i)-float64(n-1)/2)*width, From: math.NaN(),
		To: math.NaN(), Low: math.NaN(), High: math.NaN(), Mark: math.NaN(),
	}
}

// stats describes a time of the jobs of a class that have ended.
func (q *quantity) stats(r *Run, in func(*Job) bool) report.Stats {
	var all []time.Duration
	for i := range r.Jobs {
		if j := &r.Jobs[i]; j.ended() && in(j) {
			all = append(all, seconds(q.of(j)))
		}
	}
	return report.Describe(all)
}
