package report

import (
	"bytes"
	"encoding/csv"
	"math"
	"strconv"
	"strings"
	"testing"

	"github.com/norn-scheduler/norn/policy/fifo"
)

// columnsOf are numbers of a table of CSV by the names of their columns.
func columnsOf(t *testing.T, text string) map[string][]float64 {
	t.Helper()
	rows, err := csv.NewReader(strings.NewReader(text)).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string][]float64{}
	for _, row := range rows[1:] {
		for i, field := range row {
			v, err := strconv.ParseFloat(field, 64)
			if err != nil {
				v = math.NaN()
			}
			out[rows[0][i]] = append(out[rows[0][i]], v)
		}
	}
	return out
}

// runsOverTime are runs in which jobs wait for many causes: with users that hold and cancel,
// tenants that are capped, queues that are blocked, and one that is cut while jobs wait.
func runsOverTime(t *testing.T) map[string]setup {
	opt := Options{Series: true}
	return map[string]setup{
		"churn": {jobs: 300, seed: 3, opt: opt}, "strict": {jobs: 300, seed: 5, opt: opt, policy: first(t, fifo.Strict)},
		"easy": {jobs: 200, seed: 8, opt: opt, policy: first(t, fifo.EASY)},
	}
}

// TestCausesOverTime: the time that jobs waited for each cause, added up over the parts of the
// series, is that of the totals, to the microsecond, also in the file and while a run goes on.
func TestCausesOverTime(t *testing.T) {
	seen := Causes{}
	for name, u := range runsOverTime(t) {
		c, s := play(t, u)
		r := c.Result(s)
		var told stints
		for _, b := range r.series.buckets {
			told.add(&b.lacked, 1)
		}
		var want stints
		for m := waiting; int(m) < modes; m++ {
			for i := range c.waits {
				w := c.waits[i][m]
				want[causeOfMode[m]] += w.micros + w.jobs*micros(s.Now)
			}
		}
		if told != want {
			t.Errorf("%s: %v microseconds over time, want %v", name, told, want)
		}
		var b bytes.Buffer
		if err := r.WriteSeries(&b); err != nil {
			t.Fatal(err)
		}
		cols := columnsOf(t, b.String())
		for i, column := range CauseColumns() {
			sum := 0.0
			for k, jobs := range cols[column] {
				sum += jobs * (cols["to_s"][k] - cols["from_s"][k]) / 3600
			}
			if math.Abs(sum-r.Causes[i]) > 1e-9*max(1, sum) {
				t.Errorf("%s: %s is %v job-hours in the file and %v in the table", name, column, sum, r.Causes[i])
			}
			seen[i] += sum
		}
		for k, queue := range cols["waiting_jobs"] {
			sum := 0.0
			for i, column := range CauseColumns() {
				if Cause(i) != ByPeople && Cause(i) != Handover {
					sum += cols[column][k]
				}
			}
			if held := cols["waiting_held"][k]; sum > queue+1e-6 || sum+held < queue-1e-6 {
				t.Fatalf("%s, part %d: %v jobs wait for causes, and %v in all, %v of them held", name, k, sum, queue, held)
			}
		}
	}
	for _, c := range []Cause{NoGPU, BehindHead, Order, ByQuota, Handover, ByPeople, ForEver} {
		if seen[c] == 0 {
			t.Errorf("no job of these runs waited for %s: they prove nothing about it", c)
		}
	}
}

// TestHeldOverTime: what jobs of all sizes held, and what all tenants did, is what was held.
func TestHeldOverTime(t *testing.T) {
	for name, u := range runsOverTime(t) {
		c, s := play(t, u)
		r := c.Result(s)
		all, of := 0.0, [sizes]float64{}
		for i, b := range r.series.buckets {
			sum := 0.0
			for size, held := range b.held {
				sum += held
				of[size] += held / 3600
			}
			if held := b.there - b.idle; b.used.max <= 1 && math.Abs(sum-held) > 1e-6*max(1, held) { // who moves may have more than there is
				t.Fatalf("%s, part %d: jobs of all sizes held %v GPU-seconds of %v", name, i, sum, held)
			}
			all += sum / 3600
		}
		for _, g := range r.Sizes {
			if at := sizeOf(int32(sizeRank(g.Name))); math.Abs(of[at]-g.GPUHours) > 1e-6*max(1, g.GPUHours) {
				t.Errorf("%s: jobs of %s GPUs held %v GPU-hours over time and %v in the table", name, g.Name, of[at], g.GPUHours)
			}
		}
		var b bytes.Buffer
		if err := r.WriteHeld(&b); err != nil {
			t.Fatal(err)
		}
		sums := map[string]float64{}
		rows, err := csv.NewReader(&b).ReadAll()
		if err != nil {
			t.Fatal(err)
		}
		for _, row := range rows[1:] {
			var v [3]float64
			for i := range v {
				if v[i], err = strconv.ParseFloat(row[2+i], 64); err != nil {
					t.Fatal(err)
				}
			}
			sums[row[0]] += v[2] * (v[1] - v[0]) / 3600
		}
		for by, sum := range sums {
			if math.Abs(sum-all) > 1e-5*all {
				t.Errorf("%s: by %s, %v GPU-hours are in the file, want %v", name, by, sum, all)
			}
		}
		if len(sums) != 2 || all <= 0 {
			t.Errorf("%s: the file has %v, want sizes and tenants", name, sums)
		}
	}
}

// sizeRank is the least number of GPUs of a size.
func sizeRank(name string) int {
	n, err := strconv.Atoi(strings.Split(strings.TrimPrefix(name, ">"), "-")[0])
	if err != nil {
		return 0
	}
	if strings.HasPrefix(name, ">") {
		n++
	}
	return n
}
