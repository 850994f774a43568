package report

import (
	"math"
	"strconv"
	"time"

	"github.com/norn-scheduler/norn/cluster/unit"
)

// Named is the result of a run under the name by which a reader knows it, most
// often that of its policy.
type Named struct {
	Name   string
	Result *Result
}

// Table compares runs: a row for each, a column for each figure.
type Table struct {
	names []string
	rests []rest   // by row, what runs rest on
	cells [][]cell // by row
	told  []bool   // by row: it tells what really happened

	// With Against.
	base   int       // row of the baseline
	versus []*Versus // by row
	shown  bool      // readers see changes
}

// cell is one figure of one run.
type cell struct {
	value float64
	known bool
	best  bool
}

// column is one figure: how it is called, read off, written and judged.
type column struct {
	field  string // in CSV and JSON, with its unit
	title  string
	rank   int // the larger, the sooner it is left out where space is short
	better int // -1: less is better; 1: more is; 0: neither
	value  func(*Result) (float64, bool)
	human  func(float64) string
	times  func(*Times) time.Duration // where a change of it in per cent is of use; nil: it is not
}

const (
	leftField      = "jobs_left"           // the jobs that are in no mean
	deadlinesField = "deadlines_met_share" // shown to readers where some job has a deadline

	// Shown to readers where some node sleeps.
	energyField  = "energy_kwh"
	asleepField  = "nodes_asleep_mean"
	wakesField   = "wakes_per_day"
	delayedField = "jobs_delayed_by_wakes"
)

func columns() []column {
	return []column{
		timed("jct_mean_s", "mean JCT", 0, func(t *Times) time.Duration { return t.JCT.Mean }),
		timed("jct_median_s", "JCT p50", 8, func(t *Times) time.Duration { return t.JCT.Median }),
		timed("jct_p90_s", "JCT p90", 10, func(t *Times) time.Duration { return t.JCT.P90 }),
		timed("jct_p99_s", "JCT p99", 3, func(t *Times) time.Duration { return t.JCT.P99 }),
		timed("wait_mean_s", "mean wait", 1, func(t *Times) time.Duration { return t.Wait.Mean }),
		timed("wait_p99_s", "wait p99", 11, func(t *Times) time.Duration { return t.Wait.P99 }),
		timed("makespan_s", "makespan", 2, func(t *Times) time.Duration { return t.Makespan }),
		{"gpu_utilisation", "util", 4, 1, always(func(r *Result) float64 { return r.Utilisation }), percent, nil},
		{"preemptions", "preempt", 6, -1, always(func(r *Result) float64 { return float64(r.Preemptions) }), count, nil},
		{"gpu_hours_lost_to_transitions", "lost GPUh", 9, -1, always(func(r *Result) float64 { return r.GPU.Transitions() }), brief, nil},
		{"rho_mean", "rho", 7, -1, rated(func(f *Fairness) float64 { return f.Mean }), brief, nil},
		{"rho_worst", "worst rho", 5, -1, rated(func(f *Fairness) float64 { return f.Worst }), brief, nil},
		{"rho_above_1_share", "rho>1", 12, -1, rated(func(f *Fairness) float64 { return f.Unfair }), percent, nil},
		{leftField, "left", 13, -1, always(func(r *Result) float64 { return float64(r.Jobs.Left()) }), count, nil},
		{deadlinesField, "deadlines", 0, 1, func(r *Result) (float64, bool) { return r.Promises.Share(), r.Promises.Jobs > 0 }, percent, nil},
		{energyField, "kWh", 0, -1, func(r *Result) (float64, bool) {
			if r.Energy == nil || r.Told {
				return 0, false
			}
			return r.Energy.KWh, true
		}, brief, nil},
		slept(asleepField, "asleep", 0, func(s *Slept) float64 { return s.Nodes }),
		slept(wakesField, "wakes/d", -1, func(s *Slept) float64 { return s.Wakes }),
		slept(delayedField, "delayed", -1, func(s *Slept) float64 { return float64(s.Delayed) }),
	}
}

// timed is the column of a time of the jobs that ended.
func timed(field, title string, rank int, of func(*Times) time.Duration) column {
	value := func(r *Result) (float64, bool) {
		return of(&Times{r.JCT, r.Wait, r.Makespan}).Seconds(), r.JCT.N > 0
	}
	return column{field, title, rank, -1, value, humanTime, of}
}

// slept is a column about nodes that sleep.
func slept(field, title string, better int, of func(*Slept) float64) column {
	return column{field, title, 0, better, func(r *Result) (float64, bool) {
		if r.Energy == nil || r.Energy.Slept == nil {
			return 0, false
		}
		return of(r.Energy.Slept), true
	}, brief, nil}
}

func always(f func(*Result) float64) func(*Result) (float64, bool) {
	return func(r *Result) (float64, bool) { return f(r), !r.Told }
}

func rated(f func(*Fairness) float64) func(*Result) (float64, bool) {
	return func(r *Result) (float64, bool) { return f(&r.Fairness), r.Fairness.Rated > 0 }
}

func humanTime(v float64) string { return unit.Human(time.Duration(math.Round(v * 1e9))) }
func percent(v float64) string   { return strconv.FormatFloat(v*100, 'f', 1, 64) + "%" }
func count(v float64) string     { return strconv.FormatFloat(v, 'f', 0, 64) }
func decimal(v float64) string   { return strconv.FormatFloat(v, 'f', 2, 64) }

// brief writes a number with as many decimals as a reader needs.
func brief(v float64) string {
	switch {
	case v < 100:
		return strconv.FormatFloat(v, 'f', 2, 64)
	case v < 1000:
		return strconv.FormatFloat(v, 'f', 1, 64)
	}
	return strconv.FormatFloat(v, 'f', 0, 64)
}

// Compare makes the table of several runs, in the order given.
func Compare(runs []Named) *Table {
	t := &Table{}
	cols := columns()
	for _, run := range runs {
		row := make([]cell, len(cols))
		for i, c := range cols {
			row[i].value, row[i].known = c.value(run.Result)
		}
		t.names = append(t.names, run.Name)
		t.rests = append(t.rests, rest{run.Result.Estimates, run.Result.ToldBeliefs, run.Result.Lacks})
		t.cells, t.told = append(t.cells, row), append(t.told, run.Result.Told)
	}
	for i, c := range cols {
		t.judge(i, c)
	}
	return t
}

// Against adds how each run compares with the baseline of a comparison, which must have the
// same runs in the same order. With show, readers see times as changes in per cent from the
// baseline, of the jobs that ended in both.
func (t *Table) Against(c *Comparison, show bool) {
	t.base, t.shown, t.versus = c.Base, show, nil
	for run := range c.Runs {
		t.versus = append(t.versus, c.Versus(run))
	}
}

// judge marks the best figures of a column: those that read the same as the
// best one. Nothing is marked where all read the same.
func (t *Table) judge(i int, c column) {
	best, known := 0.0, 0
	for r, row := range t.cells {
		if v := row[i]; v.known && !t.told[r] {
			if known == 0 || float64(c.better)*(v.value-best) > 0 {
				best = v.value
			}
			known++
		}
	}
	same := 0
	for r := range t.cells {
		v := &t.cells[r][i]
		v.best = v.known && !t.told[r] && c.better != 0 && c.human(v.value) == c.human(best)
		if v.best {
			same++
		}
	}
	if same == known {
		for r := range t.cells {
			t.cells[r][i].best = false
		}
	}
}

// text is a cell as it is read.
func (t *Table) text(row int, c column, v cell) string {
	if !v.known {
		return "-"
	}
	if !t.shown || c.times == nil || row == t.base {
		return c.human(v.value)
	}
	vs := t.versus[row]
	was, is := c.times(&vs.Base), c.times(&vs.Here)
	if vs.Jobs == 0 || was == 0 && is > 0 { // there is no such part
		return c.human(v.value)
	}
	return signedShare(relative(was, is))
}
