package gen

import (
	"bytes"
	"flag"
	"fmt"
	"math"
	"os"
	"sort"
	"strings"
	"testing"

	"github.com/norn-scheduler/norn/internal/longtest"
	"github.com/norn-scheduler/norn/internal/shared"
	"github.com/norn-scheduler/norn/trace"
	"github.com/norn-scheduler/norn/trace/gen/internal/logs"
)

var update = flag.Bool("update", false, "write the tables of docs/generators.md")

// nearJobs is how many jobs of each generator are held against its log: enough
// that chance moves no figure by more than a third of what is tolerated.
const nearJobs = 1_000_000

// figures is what is compared between a log and a generated trace.
type figures struct {
	jobs     int
	sizes    map[int]float64 // share of jobs, per cent
	run      [len(marks)]float64
	mean     float64    // run time, seconds
	hours    float64    // GPU hours of a job
	retried  float64    // jobs with several attempts, per cent
	attempts float64    // of a job
	ends     [3]float64 // passed, failed, killed, per cent
}

// marks are the quantiles that are compared.
var marks = [...]float64{.1, .25, .5, .75, .9, .95, .99}

// counter counts jobs in the terms of the logs.
type counter struct {
	figures
	runs []float64
	seen [logs.NotPassed + 1]float64
}

func (c *counter) add(j *logs.Job) {
	if c.sizes == nil {
		c.sizes = map[int]float64{}
	}
	c.runs = append(c.runs, j.Run)
	c.sizes[j.GPUs]++
	c.mean += j.Run
	c.hours += j.Run * float64(j.GPUs) / 3600
	c.attempts += float64(max(1, len(j.Attempts)))
	if len(j.Attempts) > 1 {
		c.retried++
	}
	c.seen[j.Outcome]++
}

// done turns sums into means and shares.
func (c *counter) done() figures {
	n := float64(len(c.runs))
	c.jobs = len(c.runs)
	for s := range c.sizes {
		c.sizes[s] *= 100 / n
	}
	c.mean /= n
	c.hours /= n
	c.attempts /= n
	c.retried *= 100 / n
	c.ends = shares(c.seen)
	sort.Float64s(c.runs)
	for i, p := range marks {
		c.run[i] = c.runs[int(p*(n-1))]
	}
	return c.figures
}

// shares of jobs that passed, failed and were killed; those that are only known
// not to have passed are split as the others are.
func shares(ends [logs.NotPassed + 1]float64) (out [3]float64) {
	split := ends[logs.Failed] + ends[logs.Killed]
	rest := split + ends[logs.NotPassed]
	told := ends[logs.Passed] + rest
	if told > 0 {
		out[0] = 100 * ends[logs.Passed] / told
	}
	if split > 0 {
		out[1] = 100 * rest / told * ends[logs.Failed] / split
		out[2] = 100 * rest / told * ends[logs.Killed] / split
	}
	return out
}

// generate visits the jobs of a trace in the terms of the logs. Parts of a GPU
// count as one, as in the PAI sample.
func generate(t testing.TB, o Options, visit func(*logs.Job)) {
	t.Helper()
	each(t, o, func(e *trace.Entry) {
		j := logs.Job{
			Submit: e.Job.Submit.Seconds(), GPUs: int(e.Job.Demand.Roles[0].Tasks), Run: e.Truth.Total().Seconds(), User: e.Job.User,
			Outcome: [...]logs.Outcome{logs.Passed, logs.Failed, logs.Killed}[e.Truth.Outcome], Attempts: noAttempts[:1+len(e.Truth.Attempts)],
		}
		visit(&j)
	})
}

// noAttempts stands for attempts of which only the number counts.
var noAttempts [8]float64

// readers read the log that each generator imitates.
var readers = [likes]func(string) ([]logs.Job, error){logs.Philly, logs.Venus, logs.ITP, logs.PAI, logs.Pollux}

// published are the shares of ends of Venus for all jobs (Helios, SC 21); its
// log tells them for a tenth only.
var published = map[Like][3]float64{Venus: {52.6, 20.2, 27.2}}

// TestNear holds what is generated against the logs, and docs/generators.md
// against both.
func TestNear(t *testing.T) {
	longtest.Skip(t)
	data := shared.Path(t, "data")
	var real, made [likes]figures
	for l := range likes {
		jobs, err := readers[l](data)
		if err != nil {
			t.Fatal(err)
		}
		var inLog, inTrace counter
		for i := range jobs {
			inLog.add(&jobs[i])
		}
		real[l] = inLog.done()
		if ends, ok := published[l]; ok {
			real[l].ends = ends
		}
		generate(t, Options{Like: l, Jobs: nearJobs, Seed: 1, MaxGPUs: 1 << 20}, inTrace.add)
		made[l] = inTrace.done()
		t.Run(l.String(), func(t *testing.T) { compare(t, real[l], made[l]) })
	}
	document(t, "near", tables(real, made))
}

// compare asserts nearness within the tolerances that docs/generators.md
// states.
func compare(t *testing.T, want, got figures) {
	within := func(what string, got, want, relative, absolute float64) {
		t.Helper()
		if math.Abs(got-want) > math.Max(relative*want, absolute) {
			t.Errorf("%s: %.4g, the log has %.4g", what, got, want)
		}
	}
	for s := range want.sizes {
		within(fmt.Sprintf("share of %d GPUs", s), got.sizes[s], want.sizes[s], 0, 1)
	}
	for s := range got.sizes {
		if want.sizes[s] == 0 {
			t.Errorf("jobs of %d GPUs, the log has none", s)
		}
	}
	for i, p := range marks {
		tolerance := .1
		if p > .95 {
			tolerance = .15
		}
		within(fmt.Sprintf("p%.0f of the run time", 100*p), got.run[i], want.run[i], tolerance, 5)
	}
	within("mean run time", got.mean, want.mean, .1, 0)
	within("GPU hours of a job", got.hours, want.hours, .1, 0)
	within("jobs with several attempts", got.retried, want.retried, 0, .5)
	within("attempts", got.attempts, want.attempts, .02, 0)
	if want.ends[0]+want.ends[1]+want.ends[2] > 0 {
		for i := range want.ends {
			within("jobs that "+trace.Outcome(i).String(), got.ends[i], want.ends[i], 0, 1)
		}
	}
}

// ranges are the gang sizes that the document sums up.
var ranges = [...][2]int{{1, 1}, {2, 2}, {3, 4}, {5, 8}, {9, 16}, {17, 32}, {33, 1 << 20}}

// tables are those of the document.
func tables(real, made [likes]figures) string {
	var w bytes.Buffer
	rows := func(head string, row func(f *figures) string) {
		fmt.Fprintf(&w, "| log | | %s |\n|---|---|%s\n", head, strings.Repeat("--:|", strings.Count(head, "|")+1))
		for l := range likes {
			fmt.Fprintf(&w, "| %v | log | %s |\n| | generated | %s |\n", l, row(&real[l]), row(&made[l]))
		}
		fmt.Fprintln(&w)
	}
	fmt.Fprint(&w, "Gang sizes, per cent of the jobs:\n\n")
	rows("jobs | 1 | 2 | 3-4 | 5-8 | 9-16 | 17-32 | more", func(f *figures) string {
		cells := []string{fmt.Sprint(f.jobs)}
		for _, r := range ranges {
			sum := 0.0
			for s, share := range f.sizes {
				if s >= r[0] && s <= r[1] {
					sum += share
				}
			}
			cells = append(cells, fmt.Sprintf("%.2f", sum))
		}
		return strings.Join(cells, " | ")
	})
	fmt.Fprint(&w, "Run times over all attempts, seconds, and GPU hours of a job:\n\n")
	rows("p10 | p25 | p50 | p75 | p90 | p95 | p99 | mean | GPU hours", func(f *figures) string {
		var cells []string
		for _, q := range append(f.run[:], f.mean) {
			cells = append(cells, fmt.Sprintf("%.0f", q))
		}
		return strings.Join(append(cells, fmt.Sprintf("%.2f", f.hours)), " | ")
	})
	fmt.Fprint(&w, "Attempts of a job, and per cent of the jobs that have several, pass, fail and are killed (- where the log does not tell):\n\n")
	rows("attempts | several | passed | failed | killed", func(f *figures) string {
		cells := []string{fmt.Sprintf("%.3f", f.attempts), fmt.Sprintf("%.2f", f.retried)}
		for _, share := range f.ends {
			if f.ends == [3]float64{} {
				cells = append(cells, "-")
			} else {
				cells = append(cells, fmt.Sprintf("%.2f", share))
			}
		}
		return strings.Join(cells, " | ")
	})
	return w.String()
}

// document compares a part of docs/generators.md with what it should be, or
// writes it with -update.
func document(t *testing.T, part, want string) {
	t.Helper()
	const path = "../../docs/generators.md"
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	begin, end := fmt.Sprintf("<!-- %s: written by the test -->\n\n", part), fmt.Sprintf("<!-- end of %s -->", part)
	before, rest, ok := strings.Cut(string(text), begin)
	have, after, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatalf("%s has no part %q", path, part)
	}
	if have == want {
		return
	}
	if !*update {
		t.Errorf("%s: part %q is out of date; run go test ./trace/gen -update", path, part)
		return
	}
	if err := os.WriteFile(path, []byte(before+begin+want+end+after), 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestRows holds the similarity of jobs that follow each other against the logs
// that tell users, on as many jobs.
func TestRows(t *testing.T) {
	data := shared.Path(t, "data")
	var w bytes.Buffer
	fmt.Fprintln(&w, "| log | | jobs | users | most active 5 | follow another | rank correlation | as long as an earlier one |\n|---|---|--:|--:|--:|--:|--:|--:|")
	for _, l := range []Like{Philly, Venus} {
		jobs, err := readers[l](data)
		if err != nil {
			t.Fatal(err)
		}
		var named []logs.Job
		for _, j := range jobs {
			if j.User != "" {
				named = append(named, j)
			}
		}
		var made []logs.Job
		generate(t, Options{Like: l, Jobs: len(named), Seed: 3, MaxGPUs: 1 << 20}, func(j *logs.Job) { made = append(made, *j) })
		want, got := rowsOf(named), rowsOf(made)
		if math.Abs(got.follow-want.follow) > 10 || math.Abs(got.rank-want.rank) > .15 || math.Abs(got.top-want.top) > 15 || math.Abs(got.again-want.again) > 15 {
			t.Errorf("%v: %+v, the log has %+v", l, got, want)
		}
		fmt.Fprintf(&w, "| %v | log | %v |\n| | generated | %v |\n", l, want, got)
	}
	fmt.Fprintln(&w)
	document(t, "rows", w.String())
}

// rows is how similar the jobs of one user are.
type rows struct {
	jobs, users int
	top         float64 // per cent of the jobs that the five most active users submit
	follow      float64 // per cent within ten minutes of one of the same user and size
	rank        float64 // correlation of their run times
	again       float64 // per cent with one of the same user and size before, run time within 20 %
}

func (r rows) String() string {
	return fmt.Sprintf("%d | %d | %.1f %% | %.1f %% | %.2f | %.1f %%", r.jobs, r.users, r.top, r.follow, r.rank, r.again)
}

func rowsOf(jobs []logs.Job) rows {
	m := logs.RowsOf(jobs, 600, func(j *logs.Job) string { return j.User }, func(*logs.Job) string { return "" })
	r := rows{jobs: len(jobs), follow: 100 * m.Follow, rank: m.Rank}
	type key struct {
		user string
		gpus int
	}
	count, before := map[string]int{}, map[key][]float64{}
	for _, j := range jobs {
		count[j.User]++
		k := key{j.User, j.GPUs}
		earlier := before[k]
		for _, run := range earlier[max(0, len(earlier)-50):] {
			if math.Abs(math.Log((run+1)/(j.Run+1))) < math.Log(1.2) {
				r.again += 100 / float64(len(jobs))
				break
			}
		}
		before[k] = append(before[k], j.Run)
	}
	var counts []int
	for _, n := range count {
		counts = append(counts, n)
	}
	sort.Sort(sort.Reverse(sort.IntSlice(counts)))
	for _, n := range counts[:5] {
		r.top += 100 * float64(n) / float64(len(jobs))
	}
	r.users = len(counts)
	return r
}
