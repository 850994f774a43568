package trace_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/norn-scheduler/norn/trace"
)

// week is a job an hour for a week, of two tenants in turn.
func week(byDay bool) string {
	var s strings.Builder
	s.WriteString("job,submit,gpus,duration,tenant,deadline,attempts\n")
	start := time.Date(2024, 3, 4, 0, 0, 0, 0, time.UTC)
	for h := range 7 * 24 {
		submit, deadline := fmt.Sprint(1000+h*3600), fmt.Sprint(1000+h*3600+7200)
		if byDay {
			submit = start.Add(time.Duration(h) * time.Hour).Format(time.DateTime)
			deadline = "+2h"
		}
		fmt.Fprintf(&s, "%d,%s,1,600,%s,%s,60|30\n", h, submit, []string{"red", "blue"}[h%2], deadline)
	}
	return s.String()
}

// span says which jobs were read, from when to when.
func span(entries []trace.Entry) string {
	if len(entries) == 0 {
		return "none"
	}
	first, last := &entries[0].Job, &entries[len(entries)-1].Job
	return fmt.Sprintf("%d jobs, %s at %v to %s at %v", len(entries), first.Key, first.Submit, last.Key, last.Submit)
}

func TestSelection(t *testing.T) {
	day := func(d, h int) time.Time { return time.Date(2024, 3, d, h, 0, 0, 0, time.UTC) }
	for _, test := range []struct {
		name  string
		byDay bool
		opt   trace.Options
		want  string
	}{
		{"all, own zero", false, trace.Options{}, "168 jobs, 0 at 16m40s to 167 at 167h16m40s"},
		{"all, by day", true, trace.Options{}, "168 jobs, 0 at 0s to 167 at 167h0m0s"},
		{"rebased", false, trace.Options{Rebase: true}, "168 jobs, 0 at 0s to 167 at 167h0m0s"},
		{"window, own zero", false, trace.Options{From: time.Hour, To: 3 * time.Hour}, "2 jobs, 1 at 1h16m40s to 2 at 2h16m40s"},
		{"window, rebased", false, trace.Options{From: time.Hour, To: 3 * time.Hour, Rebase: true}, "2 jobs, 1 at 0s to 2 at 1h0m0s"},
		{"window, by day", true, trace.Options{From: 24 * time.Hour, To: 48 * time.Hour}, "24 jobs, 24 at 0s to 47 at 23h0m0s"},
		{"window, times of day", true, trace.Options{FromTime: day(5, 6), ToTime: day(5, 9)}, "3 jobs, 30 at 0s to 32 at 2h0m0s"},
		{"from, times of day", true, trace.Options{FromTime: day(10, 22)}, "2 jobs, 166 at 0s to 167 at 1h0m0s"},
		{"to, times of day", true, trace.Options{ToTime: day(4, 2)}, "2 jobs, 0 at 0s to 1 at 1h0m0s"},
		{"tenant", true, trace.Options{Tenants: []string{"blue"}}, "84 jobs, 1 at 0s to 167 at 166h0m0s"},
		{"no tenant", true, trace.Options{Tenants: []string{"green"}}, "none"},
		{"limit", true, trace.Options{Limit: 5}, "5 jobs, 0 at 0s to 4 at 4h0m0s"},
		{"limit in window", true, trace.Options{Limit: 5, From: 10 * time.Hour, Tenants: []string{"red"}}, "5 jobs, 10 at 0s to 18 at 8h0m0s"},
		{"load", true, trace.Options{Load: 2, Limit: 3}, "3 jobs, 0 at 0s to 2 at 1h0m0s"},
		{"load, own zero", false, trace.Options{Load: 0.5, Limit: 2}, "2 jobs, 0 at 33m20s to 1 at 2h33m20s"},
	} {
		t.Run(test.name, func(t *testing.T) {
			entries, info := readText(t, week(test.byDay), test.opt)
			if got := span(entries); got != test.want {
				t.Errorf("have %s\nwant %s", got, test.want)
			}
			for i := range entries {
				j := &entries[i].Job
				if int(j.ID) != i || j.Deadline-j.Submit != 2*time.Hour {
					t.Errorf("job %s has number %d of %d, deadline %v after its submission", j.Key, j.ID, i, j.Deadline-j.Submit)
				}
			}
			if test.byDay && len(entries) > 0 {
				hour := 0
				fmt.Sscan(entries[0].Job.Key, &hour)
				if want := day(4, 0).Add(time.Duration(hour) * time.Hour); !info.Origin.Equal(want) {
					t.Errorf("zero is %v, want %v", info.Origin, want)
				}
			}
			if !test.byDay && !info.Origin.IsZero() {
				t.Errorf("zero is %v, which the trace does not tell", info.Origin)
			}
		})
	}
}

func TestFiltered(t *testing.T) {
	entries, info := readText(t, week(true), trace.Options{Tenants: []string{"blue"}, From: 10 * time.Hour})
	if len(entries) != 79 || info.Filtered != 168-79 || info.Rows != 168 {
		t.Errorf("%d jobs, %+v", len(entries), info)
	}
	_, err := trace.NewReader(strings.NewReader(week(false)), "week", trace.Options{FromTime: time.Now()})
	if err == nil || !strings.Contains(err.Error(), "time of day") {
		t.Errorf("a window by the day in a trace without days: %v", err)
	}
}

func TestMerge(t *testing.T) {
	as, _ := readText(t, week(true), trace.Options{Limit: 1})
	merged, _ := readText(t, week(true), trace.Options{Limit: 1, Merge: true})
	if tr := as[0].Truth; tr.Work != 600*time.Second || !slices.Equal(tr.Attempts, []time.Duration{time.Minute, 30 * time.Second}) {
		t.Errorf("as it is: %+v", tr)
	}
	if tr := merged[0].Truth; tr.Work != 690*time.Second || tr.Attempts != nil {
		t.Errorf("merged: %+v", tr)
	}
}

func TestDemandOptions(t *testing.T) {
	text := "gpus,duration,cpus,mem,gpu_mem,gpu_type\n4,1,16,64GiB,16GiB,V100|P100\n0,1,4,1GiB,,\n"
	all, _ := readText(t, text, trace.Options{})
	equalLines(t, all,
		`{"job":"0","types":"V100|P100","roles":[{"tasks":4,"gpu":1,"gpu_mem":17179869184,"cpu":4,"mem":17179869184}],"work":1}`,
		`{"job":"1","roles":[{"tasks":1,"cpu":4,"mem":1073741824}],"work":1}`)
	gpus, _ := readText(t, text, trace.Options{GPUOnly: true})
	equalLines(t, gpus, `{"job":"0","types":"V100|P100","gpus":4,"work":1}`, `{"job":"1","roles":[{"tasks":1,"cpu":4,"mem":1073741824}],"work":1}`)
	plain, _ := readText(t, text, trace.Options{GPUOnly: true, AnyType: true, Limit: 1})
	equalLines(t, plain, `{"job":"0","gpus":4,"work":1}`)

	theta := ",job,user,project,state,gpu_num,cpu_num,node_num,submit_time,wait_time,run_time,wall_time,node_hour,new_status\n0,10,2.0,3.0,0,2.0,0,2.0,1672529197.0,5.0,2305.5,3600.0,0.6,Pass\n"
	eight, _ := readText(t, theta, trace.Options{NodeGPUs: 8})
	equalLines(t, eight, `{"job":"10","roles":[{"tasks":2,"gpu":8}],"work":2305.5,"wait":5,"user":"2.0","tenant":"3.0","estimate":3600}`)
}

func TestSkipBad(t *testing.T) {
	text := "job,gpus,duration\na,1,5\nb,x,5\nc,1\nd,1.5,5\ne,0,5\nf,1,-1\ng,2,7\n"
	_, err := trace.NewReader(strings.NewReader(text), "jobs.csv", trace.Options{})
	if err == nil || !strings.Contains(err.Error(), "jobs.csv, line 3, column 2 (gpus)") {
		t.Errorf("without it: %v", err)
	}
	entries, info := readText(t, text, trace.Options{SkipBad: true})
	if span(entries) != "2 jobs, a at 0s to g at 0s" || info.Bad != 5 || info.Rows != 7 {
		t.Errorf("%s, %+v", span(entries), info)
	}
	var problems []string
	for _, p := range info.Problems {
		problems = append(problems, p.Error())
	}
	want := []string{
		`test, line 3, column 2 (gpus): found "x", expected a number from 0 to 1e9`,
		`test, line 4: found 2 fields, expected 3, as many as the first line has`,
		`test, line 5: found a job that asks for 1.5 GPUs: more than one must be a whole number unless the tasks are told, expected a demand that can be met`,
		`test, line 6: found a job that asks for no GPU, CPU or memory, expected a demand that can be met`,
		`test, line 7, column 3 (duration): found "-1", expected a time from 0 to 100 years`,
	}
	if !slices.Equal(problems, want) {
		t.Errorf("have\n%s\nwant\n%s", strings.Join(problems, "\n"), strings.Join(want, "\n"))
	}

	many, info := readText(t, "gpus,duration\n"+strings.Repeat("x,1\n", 100)+"1,1\n", trace.Options{SkipBad: true})
	if len(many) != 1 || info.Bad != 100 || len(info.Problems) != 20 {
		t.Errorf("%d jobs, %d bad, %d listed", len(many), info.Bad, len(info.Problems))
	}
}

func TestErrorFields(t *testing.T) {
	text := "job_id,submission_time,duration,num_gpu\na,10,1,1\nb,11,soon,1\n"
	r, err := trace.NewReader(strings.NewReader(text), "jobs.csv", trace.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var e trace.Entry
	if err := r.Next(&e); err != nil {
		t.Fatal(err)
	}
	var bad *trace.Error
	if err := r.Next(&e); !errors.As(err, &bad) {
		t.Fatalf("%v is no *trace.Error", err)
	}
	if bad.File != "jobs.csv" || bad.Line != 3 || bad.Column != "duration" || bad.Number != 3 || bad.Found != `"soon"` || bad.Want == "" {
		t.Errorf("%+v", bad)
	}
	if err := r.Next(&e); err != io.EOF {
		t.Errorf("after an error: %v", err)
	}
}

// TestOrder checks that jobs come in order of submission, ties in the order of
// the file, also when there are more than a reader looks ahead.
func TestOrder(t *testing.T) {
	const n = 1<<15 + 5000
	sorted := func(i int) int { return i / 3 }
	late := func(i int) int { // out of order only far behind
		if i == n-10 {
			return 5
		}
		return i / 3
	}
	shuffled := func(i int) int { return (i * 7919) % 1000 }
	for _, test := range []struct {
		name         string
		submit       func(i int) int
		sorted, held bool // as Info says when the file can be read twice
	}{
		{"sorted", sorted, false, false}, {"late", late, true, true}, {"shuffled", shuffled, true, true},
	} {
		var text strings.Builder
		text.WriteString("submit,gpus,duration\n")
		for i := range n {
			fmt.Fprintf(&text, "%d,1,1\n", test.submit(i))
		}
		path := filepath.Join(t.TempDir(), "jobs.csv")
		if err := os.WriteFile(path, []byte(text.String()), 0o600); err != nil {
			t.Fatal(err)
		}
		file, info := readAll(t, path, trace.Options{})
		checkOrder(t, test.name, file, test.submit, n)
		if info.Sorted != test.sorted || info.Held != test.held {
			t.Errorf("%s: sorted %v, held %v", test.name, info.Sorted, info.Held)
		}
		pipe, info := readText(t, text.String(), trace.Options{})
		checkOrder(t, test.name+" from a pipe", pipe, test.submit, n)
		if info.Sorted != test.sorted || !info.Held {
			t.Errorf("%s from a pipe: sorted %v, held %v", test.name, info.Sorted, info.Held)
		}
	}
}

func checkOrder(t *testing.T, name string, entries []trace.Entry, submit func(i int) int, n int) {
	t.Helper()
	want := make([]int, n)
	for i := range want {
		want[i] = i
	}
	slices.SortStableFunc(want, func(a, b int) int { return submit(a) - submit(b) })
	if len(entries) != n {
		t.Fatalf("%s: %d entries, want %d", name, len(entries), n)
	}
	for i := range entries {
		j := &entries[i].Job
		if j.Key != fmt.Sprint(want[i]) || int(j.ID) != i || j.Submit != time.Duration(submit(want[i]))*time.Second {
			t.Fatalf("%s: entry %d is job %s at %v, want %d at %d s", name, i, j.Key, j.Submit, want[i], submit(want[i]))
		}
	}
}

// TestWrongOrder checks what is said of a file that is not in the order that
// its format promises, and that sorting helps.
func TestWrongOrder(t *testing.T) {
	text := "job_id,submission_time,duration,num_gpu\na,10,1,1\nb,5,1,1\n"
	r, err := trace.NewReader(strings.NewReader(text), "itp.csv", trace.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var e trace.Entry
	_ = r.Next(&e)
	if err := r.Next(&e); err == nil || !strings.Contains(err.Error(), "itp.csv, line 3, job b: found a submission before") {
		t.Errorf("out of order: %v", err)
	}
	entries, info := readText(t, text, trace.Options{Sort: true})
	if span(entries) != "2 jobs, b at 5s to a at 10s" || !info.Sorted {
		t.Errorf("%s, %+v", span(entries), info)
	}
}

func pack(t *testing.T, text string, how string) []byte {
	t.Helper()
	var b bytes.Buffer
	var w io.WriteCloser
	switch how {
	case "gz":
		w = gzip.NewWriter(&b)
	case "zst":
		z, err := zstd.NewWriter(&b)
		if err != nil {
			t.Fatal(err)
		}
		w = z
	}
	if _, err := io.WriteString(w, text); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestPacked(t *testing.T) {
	plain := week(true)
	for _, how := range []string{"gz", "zst"} {
		packed := pack(t, plain, how)
		twice := pack(t, string(packed), "gz")
		for _, b := range [][]byte{packed, twice} {
			r, err := trace.NewReader(bytes.NewReader(b), "week", trace.Options{})
			if err != nil {
				t.Fatal(err)
			}
			if entries, _ := drain(t, r); span(entries) != "168 jobs, 0 at 0s to 167 at 167h0m0s" {
				t.Errorf("%s: %s", how, span(entries))
			}
		}
		// A file that is cut off is an error and never a shorter trace.
		r, err := trace.NewReader(bytes.NewReader(packed[:len(packed)-9]), "week", trace.Options{})
		for err == nil {
			var e trace.Entry
			err = r.Next(&e)
		}
		if errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) || !strings.Contains(err.Error(), "week") {
			t.Errorf("%s cut off: %v", how, err)
		}
	}
	deep := []byte(plain)
	for range 6 {
		deep = pack(t, string(deep), "gz")
	}
	if _, err := trace.NewReader(bytes.NewReader(deep), "week", trace.Options{}); err == nil {
		t.Error("a file packed six times is no error")
	}
}

func TestOpenErrors(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"empty.csv": "", "blank.csv": "\n \n", "unknown.csv": "a,b,c\n1,2,3\n", "binary": "\x00\x01\x02",
		"header.csv": "gpus\n1\n", "zero.gz": "\x1f\x8b", "list.json": "[1,2]", "object.json": "{}",
	} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := trace.Open(path, trace.Options{}); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := trace.Open(filepath.Join(dir, "nothing"), trace.Options{}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a file that is not there: %v", err)
	}
	if _, err := trace.Open(dir, trace.Options{}); err == nil {
		t.Error("a folder is no error")
	}
	for _, opt := range []trace.Options{{Load: -1}, {Limit: -1}, {NodeGPUs: -1}} {
		if _, err := trace.NewReader(strings.NewReader("gpus,duration\n"), "x", opt); err == nil {
			t.Errorf("%+v is no error", opt)
		}
	}
}

// TestNoJobs reads files that hold a header and nothing else.
func TestNoJobs(t *testing.T) {
	for _, text := range []string{"gpus,duration\n", "job_id,submission_time,duration,num_gpu\n", `{"norn":"trace","version":1}` + "\n"} {
		entries, info := readText(t, text, trace.Options{})
		if len(entries) != 0 || info.Rows != 0 {
			t.Errorf("%q: %d jobs of %d rows", text, len(entries), info.Rows)
		}
	}
}

// TestClosed checks that a closed reader is at its end.
func TestClosed(t *testing.T) {
	r, err := trace.NewReader(strings.NewReader(week(true)), "week", trace.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(r.Close(), r.Close()); err != nil {
		t.Fatal(err)
	}
	var e trace.Entry
	if err := r.Next(&e); err != io.EOF {
		t.Error(err)
	}
}

// TestOptionsOutOfRange checks that each is named.
func TestOptionsOutOfRange(t *testing.T) {
	for want, opt := range map[string]trace.Options{
		"a load of -1":              {Load: -1},
		"a load of NaN":             {Load: math.NaN()},
		"a limit of -2 jobs":        {Limit: -2},
		"1001 GPUs of a node":       {NodeGPUs: 1001},
		"ends before it begins: no": {From: time.Hour, To: time.Minute},
		"a window that ends before": {FromTime: time.Unix(2e9, 0), ToTime: time.Unix(1e9, 0)},
	} {
		if _, err := trace.NewReader(strings.NewReader(week(true)), "week.csv", opt); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v; it should say %q", err, want)
		}
	}
}

// TestGPUJobs leaves out the jobs that ask for none.
func TestGPUJobs(t *testing.T) {
	const text = "job,duration,gpus,cpus\na,1,0,4\nb,1,0.5,4\nc,1,2,\n"
	entries, info := readText(t, text, trace.Options{GPUJobs: true})
	if got := span(entries); got != "2 jobs, b at 0s to c at 0s" || info.Filtered != 1 {
		t.Errorf("%s, %+v", got, info)
	}
}

// TestHeaders reads headers as people write them.
func TestHeaders(t *testing.T) {
	if entries, _ := readText(t, "Job,GPUs,Duration,Tenant\na,1,60,red\n", trace.Options{}); len(entries) != 1 || entries[0].Job.Tenant != "red" {
		t.Errorf("%+v", entries)
	}
	for text, want := range map[string]string{
		"job,gpus,duration,GPUS\na,1,60,2\n": `line 1: found the column "gpus" twice, expected it once`,
		"job;gpus;duration\na;1;60\n":        "put commas between the fields",
		"gpus\tduration\n1\t60\n":            "put commas between the fields",
	} {
		if _, err := trace.NewReader(strings.NewReader(text), "jobs.csv", trace.Options{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v; it should say %q", text, err, want)
		}
	}
}

// TestCutShort reads packed files that end too early.
func TestCutShort(t *testing.T) {
	text := []byte(week(true))
	var g bytes.Buffer
	gz := gzip.NewWriter(&g)
	z, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := gz.Write(text); err != nil || gz.Close() != nil {
		t.Fatal(err)
	}
	for name, whole := range map[string][]byte{"gzip": g.Bytes(), "zstd": z.EncodeAll(text, nil)} {
		r, err := trace.NewReader(bytes.NewReader(whole[:len(whole)*2/3]), "week", trace.Options{SkipBad: true})
		for e := (trace.Entry{}); err == nil; err = r.Next(&e) {
		}
		if want := "week: the packed file breaks off before its end"; errors.Is(err, io.EOF) || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %v; it should begin with %q", name, err, want)
		}
	}
}
