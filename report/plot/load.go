package plot

import (
	"bytes"
	"cmp"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/norn-scheduler/norn/eventlog"
	"github.com/norn-scheduler/norn/eventlog/replay"
	"github.com/norn-scheduler/norn/report"
)

// Run is what came of one policy.
type Run struct {
	Name string
	Jobs []Job
	Part []Part    // over time; nil: it is not known
	Held []Held    // who had GPUs over time; nil: it is not known
	Took []float64 // how long each decision took, in milliseconds; nil: it was not measured

	log   string        // path of its event log; empty: there is none
	gantt *report.Gantt // nil: the log has not been read for it
}

// Job is a line of jobs.csv. What is not known is NaN or empty.
type Job struct {
	Key, Tenant, User, Name, Model, Type, State string

	GPUs, Submit, Start, End, JCT, Wait, Length, Rho float64 // seconds but for GPUs and rho; Length as in the trace
}

// ended tells whether a job counts in figures about completion: it has left after it had devices.
func (j *Job) ended() bool { return !math.IsNaN(j.JCT) && !math.IsNaN(j.Start) }

// Part is a line of series.csv: a part of a run with means over it.
type Part struct {
	From, To                                                 float64 // seconds
	Used, Queue, GPUs, Asked, Idle, Beside, Scattered, Unfit float64
	Lacked                                                   []float64 // jobs by cause, as report.CauseColumns; nil: it is not known
}

// Held is a line of held.csv: the GPUs that jobs of a class had in a part of a run.
type Held struct {
	By             By // BySize or ByTenant
	Class          string
	From, To, GPUs float64
}

// Names of files in the folder of a run.
const (
	jobsName   = "jobs.csv"
	seriesName = "series.csv"
	heldName   = "held.csv"
	sweepName  = "results.csv" // in the folder of a sweep

	decisionsName = "decisions.csv"
)

// Read adds what lies at a path: the folder of norn sim --out or that of one run in it, an event
// log, or the folder of a sweep or its table. A run of a name that is there already has the name
// of the folder or file in front of its own.
func (in *Input) Read(path string) error {
	before := names(in.Runs)
	err := in.read(path)
	for i := len(before); i < len(in.Runs); i++ {
		if r := &in.Runs[i]; slices.Contains(before, r.Name) {
			r.Name = filepath.Base(path) + "/" + r.Name
		}
	}
	return err
}

func (in *Input) read(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if info.IsDir() {
		return in.folder(path)
	}
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	head := make([]byte, 4096)
	n, err := io.ReadFull(file, head)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF) {
		return err
	}
	first, _, _ := strings.Cut(string(head[:n]), "\n")
	switch columns := strings.Split(strings.TrimSpace(strings.TrimPrefix(first, "\ufeff")), ","); {
	case slices.Contains(columns, "metric") && slices.Contains(columns, "value"):
		if _, err := file.Seek(0, io.SeekStart); err != nil {
			return err
		}
		return in.sweep(path, file)
	case slices.Contains(columns, "submit_s"):
		return fmt.Errorf("%s: name its folder, %s, which has the name of the run", path, filepath.Dir(path))
	}
	return in.events(path)
}

// folder adds the runs in a folder, in the order in which they were compared.
func (in *Input) folder(dir string) error {
	if _, err := os.Stat(filepath.Join(dir, jobsName)); err == nil {
		return in.run(dir)
	}
	all, err := filepath.Glob(filepath.Join(escape(dir), "*", jobsName))
	if err != nil {
		return err
	}
	if len(all) == 0 {
		if table, err := os.Open(filepath.Join(dir, sweepName)); err == nil {
			defer table.Close()
			return in.sweep(table.Name(), table)
		}
		if log, err := eventlog.OpenState(dir); err == nil && log != nil {
			return in.fold(log)
		}
		return fmt.Errorf("%s has no results of norn sim --out: no %s lies in it or in a folder in it, and no %s of a sweep", dir, jobsName, sweepName)
	}
	first := len(in.Runs)
	for _, path := range all {
		if err := in.run(filepath.Dir(path)); err != nil {
			return err
		}
	}
	order := compared(dir)
	at := func(r Run) int {
		if i := slices.Index(order, r.Name); i >= 0 {
			return i
		}
		return len(order)
	}
	slices.SortStableFunc(in.Runs[first:], func(a, b Run) int { return at(a) - at(b) })
	return nil
}

// escape writes a path so that a pattern means nothing else.
func escape(path string) string {
	if filepath.Separator == '\\' {
		return path
	}
	return strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`).Replace(path)
}

// compared are the names of runs in the order in which they were compared; nil where that is
// not told.
func compared(dir string) []string {
	var c struct {
		Runs []struct{ Name string }
	}
	text, err := os.ReadFile(filepath.Join(dir, "comparison.json"))
	if err != nil || json.Unmarshal(text, &c) != nil {
		return nil
	}
	var out []string
	for _, r := range c.Runs {
		out = append(out, r.Name)
	}
	return out
}

// run adds the run in a folder.
func (in *Input) run(dir string) error {
	r := Run{Name: named(dir)}
	jobs, err := os.Open(filepath.Join(dir, jobsName))
	if err != nil {
		return err
	}
	defer jobs.Close()
	if r.Jobs, err = readJobs(jobs, jobs.Name()); err != nil {
		return err
	}
	if r.Part, err = optional(filepath.Join(dir, seriesName), readSeries); err != nil {
		return err
	}
	if r.Took, err = optional(filepath.Join(dir, decisionsName), readDecisions); err != nil {
		return err
	}
	if r.Held, err = optional(filepath.Join(dir, heldName), readHeld); err != nil {
		return err
	}
	if logs, _ := filepath.Glob(filepath.Join(escape(dir), "events.log*")); len(logs) == 1 {
		r.log = logs[0]
	}
	in.Runs = append(in.Runs, r)
	return nil
}

// optional reads a file that may not be there.
func optional[T any](path string, read func(io.Reader, string) ([]T, error)) ([]T, error) {
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return read(file, path)
}

// named is what the run in a folder is called: as its summary tells, or as the folder.
func named(dir string) string {
	var s struct{ Made struct{ Policy string } }
	text, err := os.ReadFile(filepath.Join(dir, "summary.json"))
	if err == nil && json.Unmarshal(text, &s) == nil && s.Made.Policy != "" {
		return s.Made.Policy
	}
	return filepath.Base(dir)
}

// events adds the run of an event log.
func (in *Input) events(path string) error {
	log, err := eventlog.Open(path)
	if errors.Is(err, eventlog.ErrNotLog) {
		return fmt.Errorf("%s is no event log, no folder of norn sim --out, and no table of a sweep, which has columns metric and value", path)
	}
	if err != nil {
		return err
	}
	return in.fold(log)
}

// fold adds the run of an open log, and closes it. A log that breaks off is taken as far as it
// goes.
func (in *Input) fold(log *eventlog.File) error {
	defer log.Close()
	name := log.Header.Policy
	if settings := log.Header.Settings; len(settings) > 0 {
		var words []string
		for _, s := range settings {
			words = append(words, s.String())
		}
		name += "(" + strings.Join(words, ",") + ")"
	}
	c := report.NewCollector(report.Options{Series: true, Intervals: true})
	s, err := replay.Fold(log.Reader, c)
	if err != nil && !errors.Is(err, eventlog.ErrTorn) {
		return err
	}
	result := c.Result(s)
	var jobs, series, held bytes.Buffer
	if err := errors.Join(result.WriteJobs(&jobs, s, nil), result.WriteSeries(&series), result.WriteHeld(&held)); err != nil {
		return err
	}
	r := Run{Name: name, gantt: result.Gantt()}
	if r.Jobs, err = readJobs(&jobs, log.Path); err != nil {
		return err
	}
	if r.Part, err = readSeries(&series, log.Path); err != nil {
		return err
	}
	if r.Held, err = readHeld(&held, log.Path); err != nil {
		return err
	}
	in.Runs = append(in.Runs, r)
	return nil
}

// Gantt is who had which GPUs in a run, and when, from its log; nil where there is none.
func (r *Run) Gantt() (*report.Gantt, error) {
	if r.gantt != nil || r.log == "" {
		return r.gantt, nil
	}
	var alone Input
	if err := alone.events(r.log); err != nil {
		return nil, err
	}
	r.gantt = alone.Runs[0].gantt
	return r.gantt, nil
}

// table reads lines of CSV by the names of their columns.
type table struct {
	name    string
	r       *csv.Reader
	columns map[string]int
	row     []string
}

func newTable(in io.Reader, name string, needs ...string) (*table, error) {
	t := &table{name: name, r: csv.NewReader(in), columns: map[string]int{}}
	t.r.ReuseRecord = true
	header, err := t.r.Read()
	if err != nil {
		return nil, fmt.Errorf("%s: its header: %w", name, err)
	}
	for i, c := range header {
		t.columns[strings.TrimPrefix(c, "\ufeff")] = i
	}
	for _, c := range needs {
		if _, ok := t.columns[c]; !ok {
			return nil, fmt.Errorf("%s has no column %s", name, c)
		}
	}
	return t, nil
}

// next reads a line; io.EOF behind the last.
func (t *table) next() (err error) {
	if t.row, err = t.r.Read(); err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("%s: %w", t.name, err)
	}
	return err
}

// text is a field; empty where there is no such column.
func (t *table) text(column string) string {
	if i, ok := t.columns[column]; ok {
		return t.row[i]
	}
	return ""
}

// number is a field, NaN where it is empty.
func (t *table) number(column string) (float64, error) {
	text := t.text(column)
	if text == "" {
		return math.NaN(), nil
	}
	v, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsInf(v, 0) {
		line, _ := t.r.FieldPos(0)
		return 0, fmt.Errorf("%s, line %d, column %s: %q is not a number", t.name, line, column, text)
	}
	return v, nil
}

// numbers reads fields into their places.
func (t *table) numbers(into map[string]*float64) error {
	for column, to := range into {
		v, err := t.number(column)
		if err != nil {
			return err
		}
		*to = v
	}
	return nil
}

func readJobs(in io.Reader, name string) ([]Job, error) {
	t, err := newTable(in, name, "job", "gpus", "submit_s", "first_start_s", "end_s", "jct_s", "wait_s")
	if err != nil {
		return nil, err
	}
	var out []Job
	for {
		if err := t.next(); errors.Is(err, io.EOF) {
			return out, nil
		} else if err != nil {
			return nil, err
		}
		j := Job{Key: t.text("job"), Tenant: t.text("tenant"), User: t.text("user"), Name: t.text("name"), Model: t.text("model"), Type: t.text("type"), State: t.text("state")}
		err := t.numbers(map[string]*float64{
			"gpus": &j.GPUs, "submit_s": &j.Submit, "first_start_s": &j.Start, "end_s": &j.End, "jct_s": &j.JCT, "wait_s": &j.Wait, "true_s": &j.Length, "rho": &j.Rho,
		})
		if err != nil {
			return nil, err
		}
		if math.IsNaN(j.Length) && j.ended() {
			j.Length = j.JCT - j.Wait // with devices
		}
		out = append(out, j)
	}
}

func readSeries(in io.Reader, name string) ([]Part, error) {
	t, err := newTable(in, name, "from_s", "to_s", "utilisation", "waiting_jobs", "gpus", "waiting_gpus", "idle_gpus", "idle_while_waiting_gpus", "scattered_gpus", "unfit_gpus")
	if err != nil {
		return nil, err
	}
	var out []Part
	for {
		if err := t.next(); errors.Is(err, io.EOF) {
			return out, nil
		} else if err != nil {
			return nil, err
		}
		var p Part
		err := t.numbers(map[string]*float64{
			"from_s": &p.From, "to_s": &p.To, "utilisation": &p.Used, "waiting_jobs": &p.Queue, "gpus": &p.GPUs, "waiting_gpus": &p.Asked,
			"idle_gpus": &p.Idle, "idle_while_waiting_gpus": &p.Beside, "scattered_gpus": &p.Scattered, "unfit_gpus": &p.Unfit,
		})
		if err != nil {
			return nil, err
		}
		if math.IsNaN(p.From+p.To+p.Used+p.Queue+p.GPUs+p.Asked+p.Idle+p.Beside+p.Scattered+p.Unfit) || p.To <= p.From {
			line, _ := t.r.FieldPos(0)
			return nil, fmt.Errorf("%s, line %d: a part needs all figures, and an end behind its beginning", name, line)
		}
		if p.Lacked, err = t.lacked(); err != nil {
			return nil, err
		}
		out = append(out, p)
	}
}

// lacked are the jobs without devices by cause; nil where a column is not there or empty, as in
// files of earlier versions.
func (t *table) lacked() ([]float64, error) {
	var out []float64
	for _, column := range report.CauseColumns() {
		v, err := t.number(column)
		if err != nil {
			return nil, err
		}
		if math.IsNaN(v) {
			return nil, nil
		}
		out = append(out, v)
	}
	return out, nil
}

func readHeld(in io.Reader, name string) ([]Held, error) {
	t, err := newTable(in, name, "by", "class", "from_s", "to_s", "gpus")
	if err != nil {
		return nil, err
	}
	var out []Held
	for {
		if err := t.next(); errors.Is(err, io.EOF) {
			return out, nil
		} else if err != nil {
			return nil, err
		}
		h := Held{By: BySize, Class: t.text("class")}
		if t.text("by") == "tenant" {
			h.By, h.Class = ByTenant, cmp.Or(h.Class, "(none)")
		}
		if err := t.numbers(map[string]*float64{"from_s": &h.From, "to_s": &h.To, "gpus": &h.GPUs}); err != nil {
			return nil, err
		}
		if math.IsNaN(h.From+h.To+h.GPUs) || h.To <= h.From {
			line, _ := t.r.FieldPos(0)
			return nil, fmt.Errorf("%s, line %d: a line needs all figures, and an end behind its beginning", name, line)
		}
		out = append(out, h)
	}
}

func readDecisions(in io.Reader, name string) ([]float64, error) {
	t, err := newTable(in, name, "decision_us")
	if err != nil {
		return nil, err
	}
	var out []float64
	for {
		if err := t.next(); errors.Is(err, io.EOF) {
			return out, nil
		} else if err != nil {
			return nil, err
		}
		v, err := t.number("decision_us")
		if err != nil {
			return nil, err
		}
		if !math.IsNaN(v) {
			out = append(out, v/1000)
		}
	}
}
