package trace

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
)

// Summary is the statistics of a trace. Durations are over all attempts of a
// job; GPU time is duration times GPUs at the size that the user asked for.
type Summary struct {
	Jobs     int       `json:"jobs"`
	Users    int       `json:"users"`            // that are told
	Span     float64   `json:"span_s"`           // from the first submission to the last
	Origin   string    `json:"origin,omitempty"` // time of day at zero, where it is told
	GPUHours float64   `json:"gpu_hours"`
	Load     float64   `json:"offered_gpus"` // mean GPUs demanded: GPU time / span
	MaxGPUs  float64   `json:"max_gpus"`     // of one job
	Duration Quantiles `json:"duration_s"`
	Wait     Quantiles `json:"wait_s"` // of the jobs that tell how long they queued

	Sizes      []Share      `json:"sizes"` // by GPUs, in increasing order
	Hours      [24]int      `json:"arrivals_by_hour"`
	ByDay      bool         `json:"hours_are_of_the_day"` // otherwise hours since zero, modulo 24
	Tenants    []Share      `json:"tenants"`              // by GPU time, the most first
	Partitions []Share      `json:"partitions,omitempty"` // by GPU time, where any job names one
	Kinds      []Share      `json:"kinds"`
	Outcomes   []Share      `json:"outcomes"`
	Attempts   AttemptStats `json:"attempts"`
	AtLeast    int          `json:"cut_off"` // jobs whose duration is a lower bound

	File *Accounts `json:"file,omitempty"` // where the jobs were read from, if from a file
}

// Accounts is what became of the rows of a file: read = jobs + folded + left out +
// bad + filtered, as Info says.
type Accounts struct {
	Format   string        `json:"format"`
	Read     int           `json:"rows"`
	Folded   int           `json:"folded"`
	LeftOut  int           `json:"left_out"`
	Bad      int           `json:"bad"`
	Filtered int           `json:"filtered"`
	Problems []string      `json:"problems"` // the first rows that were left out or bad
	Reasons  []ReasonCount `json:"reasons"`  // why, by rows
	Notes    []string      `json:"notes"`    // what was assumed or guessed
}

// ReasonCount is a Reason as JSON has it.
type ReasonCount struct {
	Why   string `json:"why"`
	Rows  int    `json:"rows"`
	First string `json:"first"`
}

// Accounts are the accounts of what was read so far.
func (i *Info) Accounts() *Accounts {
	a := &Accounts{
		Format: i.Format, Read: i.Rows, Folded: i.Folded, LeftOut: i.LeftOut, Bad: i.Bad, Filtered: i.Filtered,
		Problems: []string{}, Reasons: []ReasonCount{}, Notes: append([]string{}, i.Notes...),
	}
	for _, err := range i.Problems {
		a.Problems = append(a.Problems, err.Error())
	}
	for _, r := range i.Reasons {
		a.Reasons = append(a.Reasons, ReasonCount{r.Why, r.Rows, r.First.Error()})
	}
	return a
}

// Quantiles are in seconds; between two values they are interpolated.
type Quantiles struct {
	Count int     `json:"count"`
	Mean  float64 `json:"mean"`
	P10   float64 `json:"p10"`
	P25   float64 `json:"p25"`
	P50   float64 `json:"p50"`
	P75   float64 `json:"p75"`
	P90   float64 `json:"p90"`
	P95   float64 `json:"p95"`
	P99   float64 `json:"p99"`
	Max   float64 `json:"max"`
}

// Share is the part of the jobs that have something in common.
type Share struct {
	Name     string  `json:"name"`
	Jobs     int     `json:"jobs"`
	GPUHours float64 `json:"gpu_hours"`
	OfJobs   float64 `json:"share_of_jobs"`
	OfTime   float64 `json:"share_of_gpu_time"`
}

// AttemptStats is about jobs that failed and were started again.
type AttemptStats struct {
	Jobs     int     `json:"jobs"`      // with more than one attempt
	Failed   int     `json:"failed"`    // attempts before the last
	GPUHours float64 `json:"gpu_hours"` // of those
	Most     int     `json:"most"`      // attempts of one job, the last included
}

// Summarize reads a source to its end.
func Summarize(src Source) (Summary, error) {
	c := counter{
		sizes: map[unit.Milli]*Share{}, tenants: map[string]*Share{}, partitions: map[string]*Share{}, users: map[string]bool{},
		kinds: map[job.Kind]*Share{}, outcomes: map[Outcome]*Share{},
	}
	var e Entry
	for {
		err := src.Next(&e)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return Summary{}, err
		}
		if c.s.Jobs == 0 {
			c.first = e.Job.Submit
			c.origin = originOf(src)
		}
		c.add(&e)
	}
	return c.done(), nil
}

// counter gathers what a Summary needs.
type counter struct {
	s           Summary
	first, last time.Duration
	origin      time.Time
	durations   []float64
	waits       []float64
	sizes       map[unit.Milli]*Share
	tenants     map[string]*Share
	partitions  map[string]*Share
	users       map[string]bool
	kinds       map[job.Kind]*Share
	outcomes    map[Outcome]*Share
}

func (c *counter) add(e *Entry) {
	j, t := &e.Job, &e.Truth
	milli := j.Demand.Milli(j.Demand.Roles[0].Tasks)
	gpus := float64(milli) / 1000
	duration := t.Total().Seconds()
	hours := gpus * duration / 3600

	c.s.Jobs++
	c.s.GPUHours += hours
	c.last = j.Submit
	c.durations = append(c.durations, duration)
	if t.HasWait {
		c.waits = append(c.waits, t.Wait.Seconds())
	}
	if t.AtLeast {
		c.s.AtLeast++
	}
	c.s.Hours[c.hour(j.Submit)]++
	c.s.MaxGPUs = max(c.s.MaxGPUs, gpus)
	if j.User != "" && !c.users[j.User] {
		c.users[j.User] = true
	}
	count(c.sizes, milli, hours)
	count(c.tenants, j.Tenant, hours)
	count(c.partitions, j.Partition, hours)
	count(c.kinds, j.Kind, hours)
	count(c.outcomes, t.Outcome, hours)
	if n := len(t.Attempts); n > 0 {
		a := &c.s.Attempts
		a.Jobs++
		a.Failed += n
		a.Most = max(a.Most, n+1)
		a.GPUHours += gpus * (duration - t.Work.Seconds()) / 3600
	}
}

func (c *counter) hour(submit time.Duration) int {
	if c.origin.IsZero() {
		return int(submit / time.Hour % 24)
	}
	return c.origin.Add(submit).Hour()
}

func count[K comparable](in map[K]*Share, key K, hours float64) {
	s := in[key]
	if s == nil {
		s = &Share{}
		in[key] = s
	}
	s.Jobs++
	s.GPUHours += hours
}

func (c *counter) done() Summary {
	s := &c.s
	s.Users = len(c.users)
	s.Span = (c.last - c.first).Seconds()
	if s.Span > 0 {
		s.Load = s.GPUHours * 3600 / s.Span
	}
	if s.ByDay = !c.origin.IsZero(); s.ByDay {
		s.Origin = c.origin.Format(time.RFC3339Nano)
	}
	s.Duration = quantiles(c.durations)
	s.Wait = quantiles(c.waits)
	s.Attempts.Most = max(s.Attempts.Most, min(s.Jobs, 1))
	s.Sizes = shares(c, c.sizes, unit.Milli.String)
	s.Kinds = shares(c, c.kinds, job.Kind.String)
	s.Outcomes = shares(c, c.outcomes, Outcome.String)
	s.Tenants = shares(c, c.tenants, func(t string) string { return t })
	most := func(a, b Share) int { return cmp.Compare(b.GPUHours, a.GPUHours) }
	slices.SortStableFunc(s.Tenants, most)
	if c.partitions[""] == nil || len(c.partitions) > 1 {
		s.Partitions = shares(c, c.partitions, func(p string) string { return p })
		slices.SortStableFunc(s.Partitions, most)
	}
	return *s
}

// shares lists what was counted in order of the keys.
func shares[K cmp.Ordered](c *counter, in map[K]*Share, name func(K) string) []Share {
	out := make([]Share, 0, len(in))
	for _, key := range slices.Sorted(maps.Keys(in)) {
		s := *in[key]
		s.Name = name(key)
		s.OfJobs = float64(s.Jobs) / float64(c.s.Jobs)
		if c.s.GPUHours > 0 {
			s.OfTime = s.GPUHours / c.s.GPUHours
		}
		out = append(out, s)
	}
	return out
}

func quantiles(v []float64) Quantiles {
	n := len(v)
	if n == 0 {
		return Quantiles{}
	}
	slices.Sort(v)
	sum := 0.0
	for _, x := range v {
		sum += x
	}
	at := func(q float64) float64 {
		h := q * float64(n-1)
		i := int(h)
		if i+1 >= n {
			return v[n-1]
		}
		return v[i] + (h-float64(i))*(v[i+1]-v[i])
	}
	return Quantiles{
		Count: n, Mean: sum / float64(n), Max: v[n-1],
		P10: at(.10), P25: at(.25), P50: at(.50), P75: at(.75), P90: at(.90), P95: at(.95), P99: at(.99),
	}
}

// WriteJSON writes the summary as indented JSON.
func (s *Summary) WriteJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(s)
}

// maxListed bounds the lines about tenants and sizes in a table.
const maxListed = 20

// WriteTable writes the summary for a person to read.
func (s *Summary) WriteTable(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	line := func(cells ...string) { fmt.Fprintln(t, strings.Join(cells, "\t")) }
	line("jobs", group(float64(s.Jobs)))
	if s.Origin != "" {
		line("from", s.Origin)
	}
	line("span", unit.Human(time.Duration(s.Span*float64(time.Second))))
	line("GPU hours", amount(s.GPUHours))
	line("offered load", amount(s.Load)+" GPUs")
	line("largest job", fixed(s.MaxGPUs, -1)+" GPUs")
	line("users told", group(float64(s.Users)))
	if s.Attempts.Jobs > 0 {
		line("tried again", plural(s.Attempts.Jobs, "job")+", "+plural(s.Attempts.Failed, "failed attempt")+" ("+amount(s.Attempts.GPUHours)+" GPU hours)")
	}
	if s.AtLeast > 0 {
		line("cut off", plural(s.AtLeast, "job")+" ran longer than told")
	}
	line()
	line("seconds", "mean", "p10", "p25", "p50", "p75", "p90", "p95", "p99", "max")
	line(append([]string{"duration"}, s.Duration.cells()...)...)
	if s.Wait.Count > 0 {
		line(append([]string{"wait"}, s.Wait.cells()...)...)
	}
	table := func(title string, rows []Share) {
		line()
		line(title, "jobs", "share", "GPU hours", "share")
		for i, r := range rows {
			if i == maxListed {
				line(fmt.Sprintf("and %d more", len(rows)-maxListed))
				break
			}
			line(cmp.Or(harmless(r.Name), "(none)"), group(float64(r.Jobs)), percentOf(r.OfJobs), amount(r.GPUHours), percentOf(r.OfTime))
		}
	}
	table("GPUs", s.Sizes)
	table("outcome", s.Outcomes)
	table("kind", s.Kinds)
	table("tenant", s.Tenants)
	if len(s.Partitions) > 0 {
		table("partition", s.Partitions)
	}
	line()
	line(hoursTitle(s.ByDay), s.hours())
	return t.Flush()
}

func hoursTitle(byDay bool) string {
	if byDay {
		return "arrivals by hour of the day"
	}
	return "arrivals by hour since zero, modulo 24"
}

func (s *Summary) hours() string {
	cells := make([]string, len(s.Hours))
	for i, n := range s.Hours {
		cells[i] = strconv.Itoa(n)
	}
	return strings.Join(cells, " ")
}

func (q *Quantiles) cells() []string {
	var out []string
	for _, v := range []float64{q.Mean, q.P10, q.P25, q.P50, q.P75, q.P90, q.P95, q.P99, q.Max} {
		out = append(out, amount(v))
	}
	return out
}

func fixed(v float64, decimals int) string { return strconv.FormatFloat(v, 'f', decimals, 64) }

func percentOf(v float64) string { return fixed(100*v, 1) + "%" }

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return group(float64(n)) + " " + noun + "s"
}

// amount writes a quantity: grouped from 100 on, with up to two decimals below.
func amount(v float64) string {
	if v >= 100 {
		return group(v)
	}
	text := fixed(v, 2)
	return strings.TrimRight(strings.TrimRight(text, "0"), ".")
}

// group writes a number rounded to a whole one, halves to the even one, with
// commas between thousands.
func group(v float64) string {
	digits := fixed(v, 0)
	sign := ""
	if digits[0] == '-' {
		sign, digits = "-", digits[1:]
	}
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return sign + digits
}
