package plot_test

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"

	"github.com/norn-scheduler/norn/experiment"
	"github.com/norn-scheduler/norn/report"
	"github.com/norn-scheduler/norn/report/plot"
	"github.com/norn-scheduler/norn/report/plot/draw"
	"github.com/norn-scheduler/norn/trace"
	"github.com/norn-scheduler/norn/trace/clusterspec"
)

const jobs = `job,tenant,gpus,submit,duration
a,x,4,0,100
b,y,2,10,50
c,x,4,20,100
`

// results are three jobs on four GPUs under fifo, in a folder.
func results(t *testing.T) string {
	t.Helper()
	spec, err := clusterspec.Parse("1x4:V100")
	if err != nil {
		t.Fatal(err)
	}
	f := &experiment.Folder{Path: filepath.Join(t.TempDir(), "out")}
	if err := f.Begin(); err != nil {
		t.Fatal(err)
	}
	src, err := trace.NewReader(strings.NewReader(jobs), "jobs.csv", trace.Options{})
	if err != nil {
		t.Fatal(err)
	}
	x := experiment.Experiment{Spec: spec, Log: f.Log, Report: report.Options{Series: true, Intervals: true}}
	o, err := x.Run(t.Context(), experiment.Choice{Policy: "fifo"}, src)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Write(o.Name, o.State, o.Result, nil); err != nil {
		t.Fatal(err)
	}
	if err := f.Commit(); err != nil {
		t.Fatal(err)
	}
	return f.Path
}

// TestLog: the figures of a log are those of the folder that it lies in, to the last byte.
func TestLog(t *testing.T) {
	dir := results(t)
	var folder, one, log plot.Input
	for path, in := range map[string]*plot.Input{"": &folder, "fifo": &one, "fifo/events.log": &log} {
		if err := in.Read(filepath.Join(dir, path)); err != nil {
			t.Fatal(err)
		}
	}
	drawn := 0
	for _, f := range plot.Figures() {
		var texts []string
		for _, in := range []*plot.Input{&folder, &one, &log} {
			p, err := f.Make(in, plot.Options{})
			if err != nil {
				texts = append(texts, err.Error())
				continue
			}
			drawn++
			var b bytes.Buffer
			if err := p.Data.Write(&b); err != nil {
				t.Fatal(err)
			}
			if err := p.Chart.Write(&b, draw.SVG, draw.Style{}); err != nil {
				t.Fatal(err)
			}
			texts = append(texts, b.String())
		}
		if texts[0] != texts[1] || texts[0] != texts[2] {
			t.Errorf("figure %s of a folder and of its log differ", f.Name)
		}
	}
	if drawn != 3*(len(plot.Figures())-2) { // all but those of loads and decisions
		t.Errorf("%d figures were drawn", drawn)
	}
	f, _ := plot.Find("gantt")
	p, err := f.Make(&log, plot.Options{Run: "fifo"})
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := p.Data.Write(&b); err != nil || b.String() != "run,job,from_s,to_s,low_gpu,high_gpu,gpus,tenant\nfifo,a,0,100,0,4,4,x\nfifo,b,100,150,0,2,2,y\nfifo,c,150,250,0,4,4,x\n" {
		t.Errorf("%v: %s", err, b.String())
	}
}
