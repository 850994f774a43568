package harness

import (
	"bytes"
	"compress/gzip"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/trace"
)

// cells reads a whole table as "a|b; c|d".
func cells(t *testing.T, table *Table) string {
	t.Helper()
	var rows []string
	for {
		more, err := table.Next()
		if err != nil {
			t.Fatal(err)
		}
		if !more {
			return strings.Join(rows, "; ")
		}
		var row []string
		for i := range table.Columns {
			row = append(row, table.Field(i))
		}
		rows = append(rows, strings.Join(row, "|"))
	}
}

func TestTable(t *testing.T) {
	for _, c := range []struct{ name, file, text, want string }{
		{"plain", "t.csv", "a,b\n1,2\n3,4\n", "1|2; 3|4"},
		{"no newline at the end", "t.csv", "a,b\n1,2", "1|2"},
		{"carriage returns and blank lines", "t.csv", "\r\na,b\r\n\r\n1,2\r\n\n3,4\n", "1|2; 3|4"},
		{"short and long rows", "t.csv", "a,b\n1\n1,2,3\n", "1|; 1|2"},
		{"quotes", "t.csv", "a,b\n\"1,5\",\"x\"\"y\"\n\n3,4\n", "1,5|x\"y; 3|4"},
		{"a mark at the beginning", "t.csv", "\xef\xbb\xbfa,b\n1,2\n", "1|2"},
		{"blanks separate in .txt", "t.txt", "a b\n1 2\n", "1|2"},
		{"blanks separate in .txt.gz", "t.txt.gz", "a b\n1 2\n", "1|2"},
		{"no rows", "t.csv", "a,b\n", ""},
	} {
		table, err := NewTable(c.file, c.text)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if got := strings.Join(table.Columns, "|"); got != "a|b" {
			t.Errorf("%s: columns %s", c.name, got)
		}
		if got := cells(t, table); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
	if _, err := NewTable("t.csv", "\n\n"); err == nil || !strings.Contains(err.Error(), "t.csv") {
		t.Errorf("an empty file: error %v", err)
	}
}

func TestTableNeed(t *testing.T) {
	table, err := NewTable("t.csv", "a,b,a\n1,2,3\n")
	if err != nil {
		t.Fatal(err)
	}
	if at, err := table.Need("b", "a"); err != nil || at[0] != 1 || at[1] != 0 {
		t.Errorf("columns at %v, %v", at, err)
	}
	if _, err := table.Need("a", "c"); err == nil || !strings.Contains(err.Error(), `"c"`) || !strings.Contains(err.Error(), "a, b") {
		t.Errorf("error %v", err)
	}
	if table.Column("c") != -1 || table.Field(-1) != "" || table.Field(9) != "" {
		t.Error("a column that is not there has something in it")
	}
}

func TestTableNumbers(t *testing.T) {
	table, err := NewTable("t.csv", "a\n7\n007\n-7\n7.5\n1e3\n\" 8 \"\ninf\n1000000000000000\n9999999999999999\n")
	if err != nil {
		t.Fatal(err)
	}
	type number struct {
		i  int64
		f  float64
		ok [2]bool
	}
	for _, want := range []number{
		{7, 7, [2]bool{true, true}}, {7, 7, [2]bool{true, true}}, {0, -7, [2]bool{false, true}}, {0, 7.5, [2]bool{false, true}},
		{0, 1000, [2]bool{false, true}}, {0, 8, [2]bool{false, true}}, {0, 0, [2]bool{}},
		{1e15, 1e15, [2]bool{true, true}}, {0, 9999999999999999, [2]bool{false, true}},
	} {
		if _, err := table.Next(); err != nil {
			t.Fatal(err)
		}
		i, errI := table.Int(0)
		f, errF := table.Float(0)
		if got := (number{i, f, [2]bool{errI == nil, errF == nil}}); got != want {
			t.Errorf("%q: %+v, want %+v (%v, %v)", table.Field(0), got, want, errI, errF)
		}
	}
}

func TestOpenTable(t *testing.T) {
	folder := t.TempDir()
	write := func(name string, data []byte) string {
		path := filepath.Join(folder, name)
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	var zipped bytes.Buffer
	zip := gzip.NewWriter(&zipped)
	zip.Write([]byte("a,b\n1,2\n"))
	zip.Close()
	for _, path := range []string{write("t.csv", []byte("a,b\n1,2\n")), write("t.csv.gz", zipped.Bytes())} {
		table, err := OpenTable(path)
		if err != nil {
			t.Fatal(err)
		}
		if got := cells(t, table); got != "1|2" || table.Name != filepath.Base(path) {
			t.Errorf("%s: %s", table.Name, got)
		}
	}
	for _, path := range []string{
		filepath.Join(folder, "none.csv"), write("bad.csv.gz", []byte("not compressed")), write("short.csv.gz", []byte("x")),
		write("cut.csv.gz", zipped.Bytes()[:zipped.Len()-9]),
	} {
		if _, err := OpenTable(path); err == nil || !strings.Contains(err.Error(), filepath.Base(path)) {
			t.Errorf("%s: error %v", path, err)
		}
	}
}

func FuzzTable(f *testing.F) {
	f.Add("a,b\n1,2\n")
	f.Add("a,\"b\n\",c\n\"\n")
	f.Add("\r\n,\n")
	f.Fuzz(func(t *testing.T, text string) {
		table, err := NewTable("t.csv", text)
		if err != nil {
			return
		}
		for rows := 0; ; rows++ {
			more, err := table.Next()
			if err != nil || !more {
				return
			}
			for i := range table.Columns {
				v, err := table.Int(i)
				if f, errF := table.Float(i); err == nil && (errF != nil || f != float64(v) || v < 0) {
					t.Errorf("%q is %d and %v, %v", table.Field(i), v, f, errF)
				}
			}
			if rows > len(text) {
				t.Fatal("more rows than there are characters")
			}
		}
	})
}

func resultFrom(t *testing.T, text string) *Result {
	t.Helper()
	table, err := NewTable("r.csv", text)
	if err != nil {
		t.Fatal(err)
	}
	r, err := resultOf(table)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// A start that is not told, as Python writes it, is not compared.
func TestStartNone(t *testing.T) {
	r := resultFrom(t, "job_id,submit,start,end\na,1,None,3\nb,1,2,3\n")
	if !math.IsNaN(r.Rows[0].Start) || r.Rows[1].Start != 2 {
		t.Errorf("starts %v and %v", r.Rows[0].Start, r.Rows[1].Start)
	}
}

func TestCompare(t *testing.T) {
	const head = "job_id,submit,start,end,preempt\n"
	want := resultFrom(t, head+"a,100,100,110,0\nb,100,110,2000100,1\nc,100,100,101,\n")
	for _, c := range []struct {
		name, text              string
		equal, preempt, missing int
		extra                   int
		largest                 float64
		exact                   bool
		first                   string
	}{
		{"equal", "c,100,100,101,5\na,100,100,110,0\nb,100,110,2000100,1\n", 3, 0, 0, 0, 0, true, ""},
		{"within the tolerance", "c,100,100,101,\na,100,100,110,0\nb,100,110,2000101,1\n", 3, 0, 0, 0, 1, true, ""},
		{"beyond it", "c,100,100,101,\na,100,100,110.001,0\nb,100,110,2000100,1\n", 2, 0, 0, 0, 0.001, false, "job a runs"},
		{"another preemption", "c,100,100,101,\na,100,100,110,0\nb,100,110,2000100,2\n", 3, 1, 0, 0, 0, true, "job b is preempted 2 times, there 1"},
		{"a job less", "c,100,100,101,\nb,100,110,2000100,1\n", 2, 0, 1, 0, 0, false, "job a ends there"},
		{"a job more", "c,100,100,101,\na,100,100,110,0\nb,100,110,2000100,1\nd,1,1,1,1\n", 3, 0, 0, 1, 0, false, "job d ends here"},
	} {
		got := Compare(resultFrom(t, head+c.text), want)
		if got.Jobs != 3 || got.Equal != c.equal || got.Preempt != c.preempt || got.Missing != c.missing || got.Extra != c.extra ||
			math.Abs(got.Largest-c.largest) > 1e-9 || got.Exact() != c.exact || !strings.HasPrefix(got.First, c.first) || (c.first == "") != (got.First == "") {
			t.Errorf("%s: %+v", c.name, got)
		}
	}
}

func TestCompareMeans(t *testing.T) {
	const head = "job_id,submit,start,end\n"
	a, b := resultFrom(t, head+"1,0,0,102\n2,0,0,204\n"), resultFrom(t, head+"1,0,0,100\n2,0,0,200\n")
	c := Compare(a, b)
	if math.Abs(c.MeanJCT-0.02) > 1e-12 || math.Abs(c.Makespan-0.02) > 1e-12 || !c.Within(2.001) || c.Within(1.999) {
		t.Errorf("%+v", c)
	}
	if c := Compare(resultFrom(t, head), resultFrom(t, head)); c.MeanJCT != 0 || !c.Exact() {
		t.Errorf("nothing against nothing: %+v", c)
	}
	if c := Compare(resultFrom(t, head), b); c.Within(50) || c.Missing != 2 {
		t.Errorf("nothing against something: %+v", c)
	}
}

// Means of scores are compared where both tell them, and a result without submissions is of jobs that
// are all there at the start.
func TestCompareScores(t *testing.T) {
	const head = "job_id,end,last_score,pred_bw\n"
	a, b := resultFrom(t, head+"1,10,100,50\n2,20,100,60\n"), resultFrom(t, head+"1,10,100,50\n2,20,98,50\n")
	if c := Compare(a, b); !c.Exact() || math.Abs(c.Score-0.1) > 1e-12 || c.Within(9) || !c.Within(11) || c.First != "the mean last_score is 100, there 99" {
		t.Errorf("%+v", c)
	}
	if c := Compare(a, resultFrom(t, "job_id,submit,end\n1,0,10\n2,0,20\n")); c.Score != 0 || !c.Within(0) {
		t.Errorf("%+v", c)
	}
}

// Gangs have a row for each instance.
func TestCompareEqualKeys(t *testing.T) {
	const head = "job_id,submit,start,end\n"
	a := resultFrom(t, head+"1,0,5,20\n1,0,0,10\n")
	if c := Compare(a, resultFrom(t, head+"1,0,0,10\n1,0,5,20\n")); !c.Exact() {
		t.Errorf("%+v", c)
	}
	if c := Compare(a, resultFrom(t, head+"1,0,0,10\n1,0,5,20\n1,0,5,20\n")); c.Missing != 1 || c.Equal != 2 {
		t.Errorf("%+v", c)
	}
}

func TestReadResultErrors(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"job_id,submit,start\n1,2,3\n", `"end"`},
		{"job_id,submit,start,end\n1,2,x,3\n", `r.csv, line 2, column 3 (start): found "x", expected a number`},
		{"job_id,submit,start,end\n1,2\n", `r.csv, line 2, column 3 (start): found nothing, expected a number`},
	} {
		table, err := NewTable("r.csv", c.text)
		if err == nil {
			_, err = resultOf(table)
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: error %v, want %s", c.text, err, c.want)
		}
	}
}

func TestWriteFile(t *testing.T) {
	r := &Result{
		Columns: []string{"job_id", "submit", "start", "end"},
		Rows:    []Row{{Key: "a", Submit: 1, Start: 2.5, End: 1e7}, {Key: "b", Submit: 0, Start: 0.1, End: 1234567.123456789}},
		Append: func(dst []byte, row *Row) []byte {
			dst = append(dst, row.Key...)
			for _, v := range []float64{row.Submit, row.Start, row.End} {
				dst = AppendFloat(append(dst, ','), v)
			}
			return dst
		},
	}
	for _, name := range []string{"r.csv", "r.csv.gz"} {
		path := filepath.Join(t.TempDir(), name)
		if err := r.WriteFile(path); err != nil {
			t.Fatal(err)
		}
		back, err := ReadResult(path)
		if err != nil {
			t.Fatal(err)
		}
		if c := Compare(back, r); !c.Exact() || c.Largest != 0 {
			t.Errorf("%s: %+v", name, c)
		}
	}
	if err := r.WriteFile(filepath.Join(t.TempDir(), "none", "r.csv")); err == nil {
		t.Error("wrote into a folder that is not there")
	}
}

func FuzzReadResult(f *testing.F) {
	f.Add("job_id,submit,start,end,preempt\n1,2,3,4,5\n")
	f.Add("end,start,submit,job_id\n1e308,-1,0,\n")
	f.Fuzz(func(t *testing.T, text string) {
		table, err := NewTable("r.csv", text)
		if err != nil {
			return
		}
		r, err := resultOf(table)
		if err != nil {
			return
		}
		if c := Compare(r, r); !c.Exact() && !math.IsInf(c.Largest, 1) && c.Largest == c.Largest {
			t.Errorf("differs from itself: %+v", c)
		}
	})
}

func TestSort(t *testing.T) {
	var jobs Jobs
	for _, at := range []time.Duration{5, 3, 5, 1, 3} {
		jobs = append(jobs, trace.Entry{Job: job.Job{Submit: at}})
	}
	lines := jobs.Sort()
	for i, want := range []int32{3, 1, 4, 0, 2} {
		if lines[i] != want || jobs[i].Job.ID != job.ID(i) || i > 0 && jobs[i].Job.Submit < jobs[i-1].Job.Submit {
			t.Fatalf("lines %v, jobs %+v", lines, jobs)
		}
	}
}
