package report

import (
	"math"
	"strconv"
	"time"
)

// Measure is a figure of a run, by which runs can be compared: one of the columns of tables, or another that
// tables have no space for.
type Measure struct {
	Field  string // its name for programs, with its unit: _s are seconds; shares are parts of one
	Title  string // its name for readers
	Better int    // -1: less is better; 1: more is; 0: neither

	value func(*Result) (float64, bool)
	human func(float64) string
}

// Human writes a value of it for a reader.
func (m Measure) Human(v float64) string { return m.human(v) }

// Measures are all of them: first the columns of tables, in their order.
func Measures() []Measure {
	var out []Measure
	for _, c := range columns() {
		out = append(out, Measure{c.field, c.title, c.better, c.value, c.human})
	}
	number := func(field, title string, better int, of func(*Result) float64, human func(float64) string) {
		out = append(out, Measure{field, title, better, always(of), human})
	}
	lasting := func(field, title string, of func(*Times) time.Duration) {
		c := timed(field, title, 0, of)
		out = append(out, Measure{c.field, c.title, c.better, c.value, c.human})
	}
	lasting("wait_median_s", "wait p50", func(t *Times) time.Duration { return t.Wait.Median })
	lasting("wait_p90_s", "wait p90", func(t *Times) time.Duration { return t.Wait.P90 })
	number("gpu_hours_held", "held GPUh", 0, func(r *Result) float64 { return r.GPU.Held }, brief)
	number("gpu_hours_lost_to_failures", "failed GPUh", -1, func(r *Result) float64 { return r.GPU.Failed }, brief)
	number("starts", "starts", 0, func(r *Result) float64 { return float64(r.Starts) }, count)
	number("migrations", "migrations", -1, func(r *Result) float64 { return float64(r.Migrations) }, count)
	number("resizes", "resizes", 0, func(r *Result) float64 { return float64(r.Resizes) }, count)
	number("failed_attempts", "failed", -1, func(r *Result) float64 { return float64(r.Failures) }, count)
	number("jobs_submitted", "jobs", 0, func(r *Result) float64 { return float64(r.Jobs.Submitted) }, count)
	number("jobs_finished", "finished", 1, func(r *Result) float64 { return float64(r.Jobs.Finished) }, count)
	return out
}

// Figures are those measures of the run that are known, by Field.
func (r *Result) Figures() map[string]float64 {
	out := map[string]float64{}
	for _, m := range Measures() {
		if v, known := m.value(r); known && !math.IsInf(v, 0) && !math.IsNaN(v) {
			out[m.Field] = v
		}
	}
	return out
}

// Exact writes a figure for programs, as tables in CSV do.
func Exact(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }
