package plot

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/norn-scheduler/norn/report"
	"github.com/norn-scheduler/norn/report/plot/draw"
)

// in is two runs of four jobs and one of them over time.
func in(t *testing.T) *Input {
	t.Helper()
	const header = "job,tenant,gpus,submit_s,first_start_s,end_s,jct_s,wait_s,run_s,preemptions,migrations,state,user,name,model,true_s,type,rho,lost_gpu_s,first_reason\n"
	jobs := map[string]string{
		"fifo": header + `a,x,1,0,0,100,100,0,100,0,0,done,ann,,,100,V100,1,0,
b,y,4,0,100,400,400,100,300,0,0,done,bob,,,300,V100,4,0,need-gpus
c,x,1,0,200,300,300,200,100,0,0,failed,ann,,,100,V100,2,0,behind
d,x,1,0,,,,900,0,0,0,waiting,ann,,,100,,,0,behind
`,
		"srtf(a=1)": header + `a,x,1,0,0,100,100,0,100,0,0,done,ann,,,100,V100,0.5,0,
b,y,4,0,200,500,500,200,300,0,0,done,bob,,,300,V100,5,0,need-gpus
c,x,1,0,0,100,100,0,100,0,0,failed,ann,,,100,V100,1,0,
d,x,1,0,0,200,200,0,200,0,0,done,ann,,,200,V100,1,0,
`,
	}
	dir := t.TempDir()
	for name, text := range jobs {
		write(t, filepath.Join(dir, name, jobsName), text)
	}
	write(t, filepath.Join(dir, "fifo", seriesName), seriesText)
	write(t, filepath.Join(dir, "fifo", heldName), heldText)
	write(t, filepath.Join(dir, "fifo", decisionsName), "t_s,decision_us,waiting_jobs,running_jobs\n0,1500,1,0\n1,500,1,0\n2,1500,0,0\n9,250,0,0\n")
	write(t, filepath.Join(dir, "comparison.json"), `{"runs":[{"name":"srtf(a=1)"},{"name":"fifo"}]}`)
	var got Input
	if err := got.Read(dir); err != nil {
		t.Fatal(err)
	}
	if n := names(got.Runs); len(n) != 2 || n[0] != "srtf(a=1)" {
		t.Fatalf("the runs are %q", n)
	}
	return &got
}

const seriesText = `from_s,to_s,utilisation,utilisation_min,utilisation_max,waiting_jobs,waiting_jobs_min,waiting_jobs_max,gpus,waiting_gpus,idle_gpus,idle_while_waiting_gpus,scattered_gpus,unfit_gpus,waiting_no_gpu_free,waiting_behind_the_head,waiting_policy_order,waiting_fragmentation,waiting_quota,waiting_node_constraints,waiting_handover,waiting_held,waiting_never,waiting_other
0,100,0.5,0,1,2,1,3,8,6,4,4,1,2,1.5,0.5,0,0,0,0,0,0.25,0,0
100,150,1,1,1,3,3,3,8,8,0,0,0,0,0,3,0,0,0,0,0,0,0,0
`

const heldText = `by,class,from_s,to_s,gpus
size,1,0,100,2
size,2-4,50,125,4
size,2-4,125,150,8
tenant,x,0,75,3
tenant,,75,150,6
`

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
}

// TestData holds the data of each figure against numbers that can be checked by hand.
func TestData(t *testing.T) {
	x := in(t)
	for _, c := range []struct {
		figure string
		o      Options
		want   string
	}{
		{"jct", Options{}, `run,jct_s,share
srtf(a=1),100,0.5
srtf(a=1),200,0.75
srtf(a=1),500,1
fifo,100,0.3333333333333333
fifo,300,0.6666666666666666
fifo,400,1
`},
		{"wait-tail", Options{}, `run,wait_s,share_above
srtf(a=1),0,0.25
srtf(a=1),200,0
fifo,0,0.6666666666666666
fifo,100,0.3333333333333333
fifo,200,0
`},
		{"fairness", Options{}, `run,rho,share
srtf(a=1),0.5,0.25
srtf(a=1),1,0.75
srtf(a=1),5,1
fifo,1,0.3333333333333333
fifo,2,0.6666666666666666
fifo,4,1
`},
		{"jct-class", Options{}, `gpus,run,jobs,jct_mean_s,jct_median_s,jct_p90_s,jct_p99_s
1,srtf(a=1),3,133.333333333,100,180,198
1,fifo,2,200,200,280,298
2-4,srtf(a=1),1,500,500,500,500
2-4,fifo,1,400,400,400,400
`},
		{"jct-class", Options{By: ByUser}, `user,run,jobs,jct_mean_s,jct_median_s,jct_p90_s,jct_p99_s
ann,srtf(a=1),3,133.333333333,100,180,198
ann,fifo,2,200,200,280,298
bob,srtf(a=1),1,500,500,500,500
bob,fifo,1,400,400,400,400
`},
		{"jct-class", Options{By: ByLength}, `length,run,jobs,jct_mean_s,jct_median_s,jct_p90_s,jct_p99_s
1m-10m,srtf(a=1),4,225,150,410,491
1m-10m,fifo,3,266.666666667,300,380,398
`},
		{"bars", Options{Metrics: []string{"jct_mean_s", "wait_mean_s", "makespan_s", "rho_mean"}}, `trace,cluster,load,varied,metric,policy,baseline,seeds,ratio,low,high
,,,,jct_mean_s,srtf(a=1),fifo,1,0.8437499999989453,,
,,,,jct_mean_s,fifo,fifo,1,1,,
,,,,wait_mean_s,srtf(a=1),fifo,1,0.5,,
,,,,wait_mean_s,fifo,fifo,1,1,,
,,,,makespan_s,srtf(a=1),fifo,1,1.25,,
,,,,makespan_s,fifo,fifo,1,1,,
,,,,rho_mean,srtf(a=1),fifo,1,0.8035714285714285,,
,,,,rho_mean,fifo,fifo,1,1,,
`},
		{"decisions", Options{}, "run,decision_ms,share_above\nfifo,0.25,0.75\nfifo,0.5,0.5\nfifo,1.5,0\n"},
		{"utilisation", Options{}, "run,from_s,to_s,utilisation\nfifo,0,100,0.5\nfifo,100,150,1\n"},
		{"queue", Options{}, "run,from_s,to_s,waiting_jobs\nfifo,0,100,2\nfifo,100,150,3\n"},
		{"demand", Options{}, "run,from_s,to_s,waiting_gpus\nfifo,0,100,6\nfifo,100,150,8\n"},
		{"idle", Options{}, "run,from_s,to_s,idle_while_waiting\nfifo,0,100,0.5\nfifo,100,150,0\n"},
		{"wait-class", Options{By: ByTenant}, `tenant,run,jobs,wait_mean_s,wait_median_s,wait_p90_s,wait_p99_s
x,srtf(a=1),3,0,0,0,0
x,fifo,2,100,100,180,198
y,srtf(a=1),1,200,200,200,200
y,fifo,1,100,100,100,100
`},
		{"causes", Options{}, "run,from_s,to_s," + strings.Join(report.CauseColumns(), ",") + "\nfifo,0,100,1.5,0.5,0,0,0,0,0,0.25,0,0\nfifo,100,150,0,3,0,0,0,0,0,0,0,0\n"},
		{"held", Options{}, "run,gpus,from_s,to_s,held_gpus\nfifo,1,0,100,2\nfifo,1,100,150,0\nfifo,2-4,0,100,2\nfifo,2-4,100,150,6\n"},
		{"held", Options{By: ByTenant}, "run,tenant,from_s,to_s,held_gpus\nfifo,(none),0,100,1.5\nfifo,(none),100,150,6\nfifo,x,0,100,2.25\nfifo,x,100,150,0\n"},
		{"fragmentation", Options{}, "run,from_s,to_s,unfit,scattered,not_started\nfifo,0,100,0.25,0.125,0.125\nfifo,100,150,0,0,0\n"},
	} {
		f, ok := Find(c.figure)
		if !ok {
			t.Fatal(c.figure)
		}
		p, err := f.Make(x, c.o)
		if err != nil {
			t.Errorf("%s: %v", c.figure, err)
			continue
		}
		var b bytes.Buffer
		if err := p.Data.Write(&b); err != nil || b.String() != c.want {
			t.Errorf("%s, %v: %v\n%s", c.figure, c.o, err, b.String())
		}
		for _, format := range draw.Formats() {
			b.Reset()
			if err := p.Chart.Write(&b, format, draw.Style{}); err != nil || b.Len() < 1000 {
				t.Errorf("%s as %s: %d bytes, %v", c.figure, format, b.Len(), err)
			}
		}
	}
	if p, err := distribution(jct, false)(x, Options{}); err != nil || p.Chart.Panels[0].Lines[0].X[0] != 100 || p.Chart.Panels[0].X.Title != "JCT (s)" {
		t.Errorf("%v", err)
	}
}

// TestTwice: runs of one name are told apart by where they come from.
func TestTwice(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"before/fifo", "after/fifo", "after/srtf"} {
		write(t, filepath.Join(dir, name, jobsName), "job,gpus,submit_s,first_start_s,end_s,jct_s,wait_s\na,1,0,0,1,1,0\n")
	}
	var x Input
	for _, name := range []string{"before", "after"} {
		if err := x.Read(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	if got := strings.Join(names(x.Runs), " "); got != "fifo after/fifo srtf" {
		t.Errorf("%s", got)
	}
}

// TestCoarse: parts are joined to means over their times.
func TestCoarse(t *testing.T) {
	var parts []Part
	for i := range shown + 1 {
		parts = append(parts, Part{From: float64(i), To: float64(i + 1), Used: float64(i % 2), GPUs: 8, Unfit: float64(i)})
	}
	parts[1].To, parts[2].From = 1.5, 1.5 // half as long as the others, and the next longer
	out := coarse(parts)
	if len(out) != (shown+2)/2 || out[0].To != 1.5 || math.Abs(out[0].Used-0.5/1.5) > 1e-12 || out[0].GPUs != 8 || out[0].Unfit != 0.5/1.5 || out[len(out)-1].Unfit != shown {
		t.Errorf("%d parts, %+v", len(out), out[0])
	}
	if out := coarse(parts[:3]); len(out) != 3 || !reflect.DeepEqual(out[1], parts[1]) {
		t.Errorf("%+v", out)
	}
	if coarse(nil) != nil {
		t.Error("there are parts of nothing")
	}
}

// sweep is three seeds of two policies at two loads.
const sweepText = `trace,cluster,load,seed,policy,params,metric,value
philly,2x8,1,1,fifo,,jct_mean_s,100
philly,2x8,1,2,fifo,,jct_mean_s,200
philly,2x8,1,3,fifo,,jct_mean_s,400
philly,2x8,1,1,srtf,a=1,jct_mean_s,50
philly,2x8,1,2,srtf,a=1,jct_mean_s,120
philly,2x8,1,3,srtf,a=1,jct_mean_s,280
philly,2x8,1,4,srtf,a=1,jct_mean_s,99
philly,2x8,0.5,1,fifo,,jct_mean_s,10
philly,2x8,0.5,1,srtf,a=1,jct_mean_s,
philly,2x8,1,1,fifo,,gpu_utilisation,0.5
`

// TestSweep: ratios are between runs of one seed. Of 0.5, 0.6 and 0.7 the mean is 0.6 and the
// standard deviation 0.1, so that the interval reaches 4.302653 * 0.1 / sqrt(3) to each side.
func TestSweep(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sweep.csv")
	write(t, path, sweepText)
	var x Input
	if err := x.Read(path); err != nil || len(x.Measures) != 9 {
		t.Fatalf("%d measures, %v", len(x.Measures), err)
	}
	e := estimate(relative(x.Measures, setting{"philly", "2x8", "1", ""}, "jct_mean_s", "srtf(a=1)", "fifo"))
	if half := 4.302652729911275 * 0.1 / math.Sqrt(3); e.N != 3 || math.Abs(e.Mean-0.6) > 1e-12 || math.Abs(e.High-0.6-half) > 1e-9 || math.Abs(0.6-e.Low-half) > 1e-9 {
		t.Errorf("%+v", e)
	}
	p, err := bars(&x, Options{Metrics: []string{"jct_mean_s"}})
	if err != nil || len(p.Data.Rows) != 4 || strings.Join(p.Data.Rows[0], ",") != "philly,2x8,1,,jct_mean_s,fifo,fifo,3,1,," || strings.Join(p.Data.Rows[3], ",") != "philly,2x8,0.5,,jct_mean_s,srtf(a=1),fifo,0,,," {
		t.Errorf("%v, %q", err, p.Data.Rows)
	}
	if n := p.Chart.Panels[0].X.Names; strings.Join(n, "|") != "load 1|load 0.5" {
		t.Errorf("%q", n)
	}
	p, err = load(&x, Options{Metrics: []string{"jct_mean_s"}})
	if err != nil || len(p.Data.Rows) != 4 || strings.Join(p.Data.Rows[0], ",") != "philly,2x8,,jct_mean_s,fifo,0.5,1,10,," || strings.Join(p.Data.Rows[1][:8], ",") != "philly,2x8,,jct_mean_s,fifo,1,3,233.33333333333334" {
		t.Errorf("%v, %q", err, p.Data.Rows)
	}
	if err := x.Keep([]string{"srtf(a=1)"}); err != nil || len(x.Measures) != 4 {
		t.Errorf("%d measures, %v", len(x.Measures), err)
	}
	if _, err := bars(&x, Options{Baseline: "fifo"}); !errors.Is(err, ErrNoData) || !strings.Contains(err.Error(), "there are srtf(a=1)") {
		t.Error(err)
	}
}

// TestVaried: further columns of a sweep keep measures apart. A folder of a sweep is read, too.
func TestVaried(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, sweepName), `trace,cluster,load,estimates,seed,policy,params,metric,value
philly,2x8,1,oracle,1,fifo,,jct_mean_s,100
philly,2x8,1,oracle,1,srtf,"a=1,b=2",jct_mean_s,50
philly,2x8,1,user,1,fifo,,jct_mean_s,100
philly,2x8,1,user,1,srtf,"a=1,b=2",jct_mean_s,75
`)
	var x Input
	if err := x.Read(dir); err != nil {
		t.Fatal(err)
	}
	p, err := bars(&x, Options{})
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := p.Data.Write(&b); err != nil || b.String() != `trace,cluster,load,varied,metric,policy,baseline,seeds,ratio,low,high
philly,2x8,1,estimates=oracle,jct_mean_s,fifo,fifo,1,1,,
philly,2x8,1,estimates=oracle,jct_mean_s,"srtf(a=1,b=2)",fifo,1,0.5,,
philly,2x8,1,estimates=user,jct_mean_s,fifo,fifo,1,1,,
philly,2x8,1,estimates=user,jct_mean_s,"srtf(a=1,b=2)",fifo,1,0.75,,
` {
		t.Errorf("%v: %s", err, b.String())
	}
	if n := p.Chart.Panels[0].X.Names; strings.Join(n, "|") != "estimates=oracle|estimates=user" {
		t.Errorf("%q", n)
	}
}

// TestStudent compares with a table (NIST/SEMATECH e-Handbook of Statistical Methods, 1.3.6.7.2).
func TestStudent(t *testing.T) {
	for freedom, want := range map[int]float64{1: 12.706, 2: 4.303, 10: 2.228, 30: 2.042, 31: 2.040, 40: 2.021, 60: 2.000, 100: 1.984, 1000000: 1.960} {
		if got := student(freedom); math.Abs(got-want) > 6e-4 {
			t.Errorf("with %d degrees of freedom %v, want %v", freedom, got, want)
		}
	}
}

// TestRefused: what cannot be read names the file and the line.
func TestRefused(t *testing.T) {
	dir := t.TempDir()
	head := "job,gpus,submit_s,first_start_s,end_s,jct_s,wait_s\n"
	for i, c := range []struct{ name, text, want string }{
		{"jobs.csv", head + "a,1,0,0,1,1,0\nb,one,0,0,1,1,0\n", `jobs.csv, line 3, column gpus: "one" is not a number`},
		{"jobs.csv", head + "a,1,0\n", "wrong number of fields"},
		{"jobs.csv", "job,gpus\n", "jobs.csv has no column submit_s"},
		{"jobs.csv", "", "jobs.csv: its header: EOF"},
		{"series.csv", "from_s\n", "series.csv has no column to_s"},
		{"series.csv", strings.Replace(seriesText, "100,150", "100,100", 1), "series.csv, line 3: a part needs all figures"},
		{"series.csv", strings.Replace(seriesText, "100,150,1,", "100,150,,", 1), "series.csv, line 3: a part needs all figures"},
		{"sweep.csv", "policy,metric,value\n", "has no column seed"},
		{"sweep.csv", sweepText + "a,b,1,1,fifo,,x,NaN?\n", `line 12, column value: "NaN?" is not a number`},
		{"notes.txt", "hello", "is no event log, no folder of norn sim --out, and no table of a sweep"},
		{"other/readme", "hello", "has no results of norn sim --out"},
	} {
		at := filepath.Join(dir, fmt.Sprint(i))
		path := filepath.Join(at, c.name)
		write(t, path, c.text)
		if c.name == "series.csv" {
			write(t, filepath.Join(at, jobsName), head)
		}
		if c.name != "sweep.csv" && c.name != "notes.txt" {
			path = at
		}
		if err := new(Input).Read(path); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %s", c.name, err, c.want)
		}
	}
	if err := new(Input).Read(filepath.Join(dir, "0", jobsName)); err == nil || !strings.Contains(err.Error(), "name its folder") {
		t.Error(err)
	}
	if err := new(Input).Read(filepath.Join(dir, "none")); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}

// TestNothing: a figure without data says so, and none panics.
func TestNothing(t *testing.T) {
	for _, x := range []*Input{{}, {Runs: []Run{{Name: "empty"}}}} {
		for _, f := range Figures() {
			if _, err := f.Make(x, Options{}); !errors.Is(err, ErrNoData) {
				t.Errorf("%s: %v", f.Name, err)
			}
		}
	}
	x := in(t)
	for text, err := range map[string]error{
		"no run is called x":    func() error { _, err := bars(x, Options{Baseline: "x"}); return err }(),
		"no metric is called x": func() error { _, err := bars(x, Options{Metrics: []string{"x"}}); return err }(),
		"no class of jobs":      func() error { _, err := classes(jct)(x, Options{By: "x"}); return err }(),
		"has no event log":      func() error { _, err := gantt(x, Options{Run: "fifo"}); return err }(),
		"no run is called that: there are srtf(a=1), fifo": errors.Join(x.Keep([]string{"x"}), x.Rename("x", "y")),
	} {
		if err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%v, want %s", err, text)
		}
	}
	if err := x.Rename("fifo", "FIFO"); err != nil || x.Runs[1].Name != "FIFO" {
		t.Error(err)
	}
}

// FuzzRead: whatever stands in tables, it is read or refused, and what was read can be drawn.
func FuzzRead(f *testing.F) {
	f.Add([]byte("job,gpus,submit_s,first_start_s,end_s,jct_s,wait_s,rho\na,1,0,0,1,1,0,1\n"), []byte(seriesText), []byte(sweepText))
	f.Fuzz(func(t *testing.T, jobs, series, sweep []byte) {
		r := Run{Name: "run"}
		var err error
		if r.Jobs, err = readJobs(bytes.NewReader(jobs), "jobs"); err != nil {
			r.Jobs = nil
		}
		if r.Held, err = readHeld(bytes.NewReader(series), "held"); err != nil {
			r.Held = nil
		}
		if r.Part, err = readSeries(bytes.NewReader(series), "series"); err != nil {
			r.Part = nil
		}
		x := &Input{Runs: []Run{r}}
		if err := x.sweep("sweep", bytes.NewReader(sweep)); err != nil {
			x.Measures = nil
		}
		for _, f := range Figures() {
			p, err := f.Make(x, Options{})
			if err != nil {
				continue
			}
			var b bytes.Buffer
			p.Chart.Write(&b, draw.SVG, draw.Style{}) // with more panels or names than there is room for it may fail
			if strings.Contains(b.String(), "NaN") && !bytes.Contains(append(append(jobs, series...), sweep...), []byte("NaN")) {
				t.Errorf("%s: NaN is drawn", f.Name)
			}
		}
	})
}
