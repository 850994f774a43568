// Package plot makes the figures of papers from results: what norn plot does, as a library.
//
// Nouns: an Input is what was read: Runs, which come from folders of norn sim --out or from
// event logs, and Measures, the lines of a sweep. A Figure turns an Input into a Picture: a
// chart, and the data that are drawn, as a table. Figures lists all figures.
//
// Errors: those of files name the file, and the line where there is one. A figure for which
// an input has no data says so with ErrNoData.
//
// Times are seconds in tables; charts have the unit that suits, in the titles of their axes.
// Quantiles are those of package report. Equal inputs give equal files, byte by byte.
package plot

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/norn-scheduler/norn/report/plot/draw"
)

// ErrNoData says that an input has nothing for a figure.
var ErrNoData = errors.New("there are no data for it")

// noData is ErrNoData with what is missing.
func noData(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrNoData, fmt.Sprintf(format, args...))
}

// Input is what figures are made of.
type Input struct {
	Runs     []Run
	Measures []Measure
}

// Options say what figures show. The zero value will do.
type Options struct {
	By       By       // classes of jobs; empty: BySize
	Baseline string   // a run by its name; empty: fifo, or else the first
	Run      string   // that a figure of one run shows; empty: the first
	Metrics  []string // of bars and load, by their names; nil: those that are usual
}

// Picture is a figure with its data.
type Picture struct {
	Chart draw.Chart
	Data  Table
}

// Figure is a kind of picture.
type Figure struct {
	Name  string // for users
	About string // one line
	Make  func(*Input, Options) (*Picture, error)
}

// Figures are all of them.
func Figures() []Figure {
	return []Figure{
		{"jct", "distribution of job completion times", distribution(jct, false)},
		{"jct-tail", "its tail: the share of jobs that take longer, on logarithmic axes", distribution(jct, true)},
		{"wait", "distribution of waits", distribution(wait, false)},
		{"wait-tail", "its tail", distribution(wait, true)},
		{"jct-class", "median and 99 % quantile of completion times by class of job (--by)", classes(jct)},
		{"wait-class", "the same of waits", classes(wait)},
		{"bars", "metrics relative to a baseline; of a sweep with 95 % intervals over seeds", bars},
		{"load", "metrics of a sweep by load, with the same intervals", load},
		{"fairness", "distribution of finish-time fairness, rho", distribution(rho, false)},
		{"decisions", "how long decisions took, as norn sim --decisions measures it: the share above each time", distribution(took, true)},
		{"utilisation", "GPUs held over time", overTime(utilisation)},
		{"queue", "waiting jobs over time", overTime(queue)},
		{"demand", "GPUs asked for by waiting jobs over time", overTime(demand)},
		{"idle", "GPUs that are idle while jobs wait over time", overTime(idle)},
		{"causes", "why jobs wait over time: jobs by cause, a panel for each run", whyWaiting},
		{"held", "who had the GPUs over time: by size of jobs or by tenant (--by), a panel for each run", whoHeld},
		{"fragmentation", "why these are idle: a job fits and is not started, fits only when spread, or none fits", fragmentation},
		{"gantt", "which job had which GPUs, and when, of one run (--run), by size, tenant, user or model (--by)", gantt},
	}
}

// Find is a figure by its name.
func Find(name string) (Figure, bool) {
	for _, f := range Figures() {
		if f.Name == name {
			return f, true
		}
	}
	return Figure{}, false
}

// Table is the data of a figure.
type Table struct {
	Header []string
	Rows   [][]string
}

// add appends a row. Numbers are written with as many digits as they need; what is not known
// is empty.
func (t *Table) add(values ...any) {
	row := make([]string, len(values))
	for i, v := range values {
		switch v := v.(type) {
		case string:
			row[i] = v
		case int:
			row[i] = strconv.Itoa(v)
		case float64:
			if !math.IsNaN(v) && !math.IsInf(v, 0) {
				row[i] = strconv.FormatFloat(v, 'f', -1, 64)
			}
		}
	}
	t.Rows = append(t.Rows, row)
}

// Write writes CSV.
func (t *Table) Write(w io.Writer) error {
	out := csv.NewWriter(w)
	if err := out.Write(t.Header); err != nil {
		return err
	}
	return out.WriteAll(t.Rows)
}

// keys are those of runs.
func keys(runs []Run, area bool) []draw.Key {
	var out []draw.Key
	for i := range runs {
		out = append(out, draw.Key{Name: runs[i].Name, Look: i, Area: area})
	}
	return out
}

// Keep keeps the runs of some names, in that order, of sweeps too. It fails on a name that
// there is not.
func (in *Input) Keep(names []string) error {
	var runs []Run
	var measures []Measure
	for _, name := range names {
		before := len(runs) + len(measures)
		for _, r := range in.Runs {
			if r.Name == name {
				runs = append(runs, r)
			}
		}
		for _, m := range in.Measures {
			if m.Policy == name {
				measures = append(measures, m)
			}
		}
		if len(runs)+len(measures) == before {
			return in.unknown(name)
		}
	}
	in.Runs, in.Measures = runs, measures
	return nil
}

// Rename gives a run another name in figures. It fails on a name that there is not.
func (in *Input) Rename(name, label string) error {
	known := false
	for i := range in.Runs {
		if in.Runs[i].Name == name {
			in.Runs[i].Name, known = label, true
		}
	}
	for i := range in.Measures {
		if in.Measures[i].Policy == name {
			in.Measures[i].Policy, known = label, true
		}
	}
	if !known {
		return in.unknown(name)
	}
	return nil
}

// unknown is the error of a name that no run has.
func (in *Input) unknown(name string) error {
	all := names(in.Runs)
	for _, policy := range distinct(in.Measures, func(m *Measure) string { return m.Policy }) {
		if !slices.Contains(all, policy) {
			all = append(all, policy)
		}
	}
	return fmt.Errorf("%s: no run is called that: there are %s", name, strings.Join(all, ", "))
}
