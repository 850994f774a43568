package harness

import (
	"bufio"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
)

// Row is one job of a Result. Simulators that start the instances of a gang as
// jobs of their own print one row for each.
type Row struct {
	Key                string  // the job's own name or number
	Submit, Start, End float64 // seconds
	Preempt            int32   // how often it was preempted; -1 not told
	Job                int32   // its number in the run; -1 for rows read from a file
	Part               int32   // which instance of it

	Scores []float64 // by which its allocation is judged; nil: none
}

// JCT is the job completion time in seconds.
func (r *Row) JCT() float64 { return r.End - r.Submit }

// Result is what a simulator prints.
type Result struct {
	Columns []string
	Rows    []Row
	Scores  []string // the columns that the scores of rows are in
	// Append appends the row as a line in these columns, without the newline. It
	// is nil for a Result that was read from a file.
	Append func(dst []byte, r *Row) []byte
}

// Write writes the Result as CSV.
func (r *Result) Write(w io.Writer) error {
	b := bufio.NewWriterSize(w, 1<<16)
	b.WriteString(strings.Join(r.Columns, ","))
	b.WriteByte('\n')
	var line []byte
	for i := range r.Rows {
		line = append(r.Append(line[:0], &r.Rows[i]), '\n')
		b.Write(line)
	}
	return b.Flush()
}

// WriteFile writes the Result as CSV, compressed when the name ends in .gz.
func (r *Result) WriteFile(path string) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	var w io.Writer = f
	var zip *gzip.Writer
	if strings.HasSuffix(path, ".gz") {
		zip = gzip.NewWriter(f)
		w = zip
	}
	err = r.Write(w)
	if zip != nil {
		err = errors.Join(err, zip.Close())
	}
	return errors.Join(err, f.Close())
}

// Makespan is the time from the first submission to the last end, in seconds.
func (r *Result) Makespan() float64 {
	first, last := math.Inf(1), math.Inf(-1)
	for i := range r.Rows {
		first, last = min(first, r.Rows[i].Submit), max(last, r.Rows[i].End)
	}
	if len(r.Rows) == 0 {
		return 0
	}
	return last - first
}

// meanScore is the mean of a score over the jobs that have it, by its column.
func (r *Result) meanScore(name string) (mean float64, ok bool) {
	at, n := slices.Index(r.Scores, name), 0
	for i := range r.Rows {
		if at >= 0 && at < len(r.Rows[i].Scores) {
			mean += r.Rows[i].Scores[at]
			n++
		}
	}
	return mean / max(1, float64(n)), n > 0
}

// MeanJCT is the mean job completion time in seconds, 0 without jobs.
func (r *Result) MeanJCT() float64 {
	sum := 0.0
	for i := range r.Rows {
		sum += r.Rows[i].JCT()
	}
	return sum / max(1, float64(len(r.Rows)))
}

// ReadResult reads a per-job result: CSV with the columns job_id, submit and end in
// seconds, and start, preempt and scores of allocations where the simulator tells them. A
// start that it does not tell is NaN. Without submit all jobs are there at 0.
func ReadResult(path string) (*Result, error) {
	t, err := OpenTable(path)
	if err != nil {
		return nil, err
	}
	return resultOf(t)
}

func resultOf(t *Table) (*Result, error) {
	at, err := t.Need("job_id", "end")
	if err != nil {
		return nil, err
	}
	submit, start, preempt := t.Column("submit"), t.Column("start"), t.Column("preempt")
	r := &Result{Columns: t.Columns, Rows: make([]Row, 0, t.Rows())}
	var scores []int
	for _, name := range []string{"last_score", "norm_last_score", "pred_bw"} {
		if i := t.Column(name); i >= 0 {
			r.Scores, scores = append(r.Scores, name), append(scores, i)
		}
	}
	for {
		more, err := t.Next()
		if err != nil {
			return nil, err
		}
		if !more {
			return r, nil
		}
		row := Row{Key: t.Field(at[0]), Start: math.NaN(), Preempt: -1, Job: -1}
		for _, f := range []struct {
			to *float64
			at int
		}{{&row.Submit, submit}, {&row.Start, start}, {&row.End, at[1]}} {
			if f.at < 0 || f.at == start && t.Field(start) == "None" {
				continue
			}
			if *f.to, err = t.Float(f.at); err != nil {
				return nil, err
			}
		}
		for _, i := range scores {
			v, err := t.Float(i)
			if err != nil {
				return nil, err
			}
			row.Scores = append(row.Scores, v)
		}
		if n, ok := Digits(t.Field(preempt)); ok && n < math.MaxInt32 {
			row.Preempt = int32(n)
		}
		r.Rows = append(r.Rows, row)
	}
}

// AppendFloat appends a number as Python prints a float that need not be one:
// the shortest digits that read back as the same number, and none behind the
// point where there are none.
func AppendFloat(dst []byte, v float64) []byte {
	if v == math.Trunc(v) && math.Abs(v) < 1e15 {
		return strconv.AppendInt(dst, int64(v), 10)
	}
	return strconv.AppendFloat(dst, v, 'f', -1, 64)
}

// AppendInts appends whole numbers, each behind a comma.
func AppendInts(dst []byte, values ...int64) []byte {
	for _, v := range values {
		dst = strconv.AppendInt(append(dst, ','), v, 10)
	}
	return dst
}

// Find finds an entry of a table by its name; an unknown name is an error that
// lists the known ones.
func Find[T any](what, want string, all []T, name func(*T) string) (found T, err error) {
	var names []string
	for i := range all {
		if name(&all[i]) == want {
			return all[i], nil
		}
		names = append(names, name(&all[i]))
	}
	return found, Unknown(what, want, names)
}

// Unknown is the error for a name that is not in a table.
func Unknown(what, name string, known []string) error {
	return fmt.Errorf("unknown %s %q; known are: %s", what, name, strings.Join(known, ", "))
}
