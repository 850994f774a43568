package report

import (
	"embed"
	"encoding/json"
	"fmt"
	"html/template"
	"io"
	"strings"
	"time"
)

// Meta says what the page is about. Every field may be empty.
type Meta struct {
	Title   string // of the page
	Trace   string // the workload
	Cluster string // the machines
	Seed    string // of the run, as text; empty: none

	Estimates  string // what the policies knew of run times
	Conditions string // where the world differed from the usual one, such as cost=restore=30s

	Begins time.Time // what zero of the runs is by the calendar, in UTC; zero: it is not known

	Comparison *Comparison // the same runs in the same order, beside a baseline; nil: it is not shown
}

//go:embed assets
var assets embed.FS

// scripts are the parts of the page's program in the order in which they
// depend on each other.
var scripts = []string{
	"assets/vendor/uplot/uPlot.iife.min.js",
	"assets/base.js", "assets/pack.js", "assets/charts.js", "assets/download.js",
	"assets/gantt.js", "assets/gantt_draw.js", "assets/gantt_input.js",
	"assets/tables.js", "assets/main.js",
}

var styles = []string{"assets/vendor/uplot/uPlot.min.css", "assets/page.css"}

// WriteHTML writes one page about all runs: a single file that needs nothing
// from anywhere else. Charts over time and distributions are there for results
// made with Options.Series, the chart of GPUs by time for those made with
// Options.Intervals. Equal inputs give equal pages, byte by byte.
func WriteHTML(w io.Writer, m Meta, runs []Named) error {
	t, err := template.New("page.html").Funcs(pageFuncs()).ParseFS(assets, "assets/page.html")
	if err != nil {
		return fmt.Errorf("the page's template: %w", err)
	}
	v, err := newPageView(m, runs)
	if err != nil {
		return err
	}
	return t.Execute(w, v)
}

// concat joins embedded files. None of them may end the element that it is put
// into.
func concat(names []string, element string) (string, error) {
	var b strings.Builder
	for _, name := range names {
		text, err := assets.ReadFile(name)
		if err != nil {
			return "", err
		}
		if strings.Contains(strings.ToLower(string(text)), "</"+element) {
			return "", fmt.Errorf("%s contains </%s", name, element)
		}
		b.Write(text)
		b.WriteByte('\n')
	}
	return b.String(), nil
}

// pageData is what the page's program reads.
type pageData struct {
	Tick    float64     `json:"tick"` // seconds: what packed moments count
	Runs    []runData   `json:"runs"`
	Origin  *float64    `json:"origin,omitempty"` // zero in seconds since 1970; nil: it is not known
	Seconds []float64   `json:"seconds"`          // points of the distributions of times
	Rhos    []float64   `json:"rhos"`             // points of the distributions of rho
	GPUs    []int       `json:"gpus,omitempty"`   // of the clusters of several sizes, in order
	Jobs    packedJobs  `json:"jobs"`
	Racks   [][]rackRow `json:"racks"`
	Endings []string    `json:"endings"`
}

type runData struct {
	Name   string       `json:"name"`
	JCT    []float64    `json:"jct,omitempty"`   // shares at the points
	Wait   []float64    `json:"wait,omitempty"`  // shares at the points
	Rho    []float64    `json:"rho,omitempty"`   // shares at the points
	Grown  []*float64   `json:"grown,omitempty"` // mean wait in seconds on clusters of several sizes
	Series *seriesData  `json:"series,omitempty"`
	Chart  *packedChart `json:"chart,omitempty"`
}

// seriesData is a series with one entry for each bucket.
type seriesData struct {
	Start float64  `json:"start"` // seconds
	Width float64  `json:"width"` // seconds
	Used  bandData `json:"used"`
	Queue bandData `json:"queue"`
}

type bandData struct {
	Mean []float64 `json:"mean"`
	Min  []float64 `json:"min"`
	Max  []float64 `json:"max"`
}

// rackRow is one node of the chart: its name, its GPUs, and 1 when they are
// only counted.
type rackRow [3]any

func newPageData(runs []Named) pageData {
	d := pageData{Racks: [][]rackRow{}, Endings: endingNames, Runs: []runData{}}
	jobs := newJobTable()
	last := time.Duration(0)
	for _, run := range runs {
		if run.Result.chart != nil {
			last = max(last, run.Result.chart.end)
		}
	}
	tick := tickFor(last)
	d.Tick = tick.Seconds()
	times, rhos := gridRange(runs)
	d.Seconds, d.Rhos = some(times.of(secondsGrid[:])), some(rhos.of(rhoGrid[:]))
	known := map[string]int{}
	for _, run := range runs {
		r := run.Result
		one := runData{Name: short(run.Name)}
		if c := r.curves; c != nil {
			one.JCT, one.Wait, one.Rho = times.shares(&c.jct), times.shares(&c.wait), rhos.shares(&c.rho)
		}
		if r.series != nil && len(r.series.buckets) > 0 {
			one.Series = r.series.data()
		}
		if r.chart != nil {
			chart := r.chart.pack(jobs, tick)
			chart.Racks = rackList(&d, known, r.chart.nodes)
			one.Chart = &chart
		}
		d.Runs = append(d.Runs, one)
	}
	d.Jobs = jobs.pack(tick)
	return d
}

// rackList is the number of a list of nodes, which is there once.
func rackList(d *pageData, known map[string]int, nodes []rack) int {
	list := make([]rackRow, len(nodes))
	for i, n := range nodes {
		counted := 0
		if n.counted {
			counted = 1
		}
		list[i] = rackRow{short(n.name), n.gpus, counted}
	}
	key := fmt.Sprintf("%q", list)
	n, ok := known[key]
	if !ok {
		n = len(d.Racks)
		known[key] = n
		d.Racks = append(d.Racks, list)
	}
	return n
}

// part is a part of a grid.
type part struct {
	first, last int
	known       bool
}

func (p part) of(grid []float64) []float64 {
	if !p.known {
		return nil
	}
	return grid[p.first : p.last+1]
}

func (p part) shares(c *counts) []float64 {
	if !p.known || c.sum() == 0 {
		return nil
	}
	return c.shares(p.first, p.last)
}

func (p *part) widen(c *counts) {
	first, last, ok := c.within()
	if !ok {
		return
	}
	if !p.known {
		*p = part{first, last, true}
	}
	p.first, p.last = min(p.first, first), max(p.last, last)
}

// gridRange is the parts of the two grids in which any run has values.
func gridRange(runs []Named) (times, rhos part) {
	for _, run := range runs {
		if c := run.Result.curves; c != nil {
			times.widen(&c.jct)
			times.widen(&c.wait)
			rhos.widen(&c.rho)
		}
	}
	if second := 3 * perDecade; times.known && times.last > second {
		times.first = max(times.first, second) // what takes less is drawn at one second
	}
	return times, rhos
}

func (s *series) data() *seriesData {
	d := &seriesData{Start: s.start.Seconds(), Width: s.width.Seconds()}
	for _, b := range s.buckets {
		if b.seconds == 0 {
			b.seconds = 1
		}
		d.Used.add(b.used, b.seconds, 1e4)
		d.Queue.add(b.queue, b.seconds, 1e2)
	}
	return d
}

// add appends one bucket, rounded to a part of one.
func (d *bandData) add(b band, seconds, scale float64) {
	d.Mean = append(d.Mean, rounded(b.sum/seconds, scale))
	d.Min = append(d.Min, rounded(b.min, scale))
	d.Max = append(d.Max, rounded(b.max, scale))
}

func (d pageData) encode() (template.JS, error) {
	b, err := json.Marshal(d) // escapes <, > and &, so that nothing in it can end its element
	return template.JS(b), err
}
