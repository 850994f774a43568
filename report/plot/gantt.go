package plot

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/norn-scheduler/norn/internal/palette"
	"github.com/norn-scheduler/norn/report"
	"github.com/norn-scheduler/norn/report/plot/draw"
)

// shades are the names of colours of sizes of jobs, from small to large.
var shades = []string{"z0", "z1", "z2", "z3", "z4", "z5"}

// gantt is the figure of which job had which GPUs, and when.
func gantt(in *Input, o Options) (*Picture, error) {
	if len(in.Runs) == 0 {
		return nil, noData("there is no run")
	}
	at := 0
	if o.Run != "" {
		if at = slices.IndexFunc(in.Runs, func(r Run) bool { return r.Name == o.Run }); at < 0 {
			return nil, noData("no run is called %s: there are %s", o.Run, strings.Join(names(in.Runs), ", "))
		}
	}
	g, err := in.Runs[at].Gantt()
	if err != nil {
		return nil, err
	}
	if g == nil || len(g.Bars) == 0 {
		return nil, noData("%s has no event log in which a job has GPUs", in.Runs[at].Name)
	}
	unit := unitOf(g.End.Seconds())
	p := &Picture{Data: Table{Header: []string{"run", "job", "from_s", "to_s", "low_gpu", "high_gpu", "gpus", "tenant"}}}
	panel := draw.Panel{
		Title: in.Runs[at].Name, X: draw.Axis{Title: "Time (" + unit.name + ")", From: g.Start.Seconds() / unit.seconds, To: g.End.Seconds() / unit.seconds},
		Y: draw.Axis{Title: "GPU", From: 0, To: g.GPUs, Down: true},
	}
	by := BySize // what else the log tells of a job when it starts
	if o.By == ByTenant || o.By == ByUser || o.By == ByModel {
		by = o.By
	}
	time, class := map[string]float64{}, make([]string, len(g.Bars))
	for i := range g.Bars {
		b := &g.Bars[i]
		class[i] = by.of(jobOf(b))
		time[class[i]] += (b.End - b.Start).Seconds() * (b.High - b.Low)
	}
	fills := map[string]string{}
	for _, l := range layersOf(by, time) {
		key := draw.Key{Name: l.name, Area: true, Fill: palette.Light(l.colour)}
		if fills[l.name] = key.Fill; by == BySize {
			key.Name = sized(l.name)
		}
		p.Chart.Keys = append(p.Chart.Keys, key)
	}
	for i, b := range g.Bars {
		p.Data.add(in.Runs[at].Name, cmp.Or(b.Job.Key, strconv.Itoa(int(b.Job.ID))), b.Start.Seconds(), b.End.Seconds(), b.Low, b.High, jobOf(&b).GPUs, b.Job.Tenant)
		panel.Boxes = append(panel.Boxes, draw.Box{
			X0: b.Start.Seconds() / unit.seconds, X1: b.End.Seconds() / unit.seconds, Y0: b.Low, Y1: b.High, Fill: cmp.Or(fills[class[i]], fills[others]),
		})
	}
	p.Chart.Panels = []draw.Panel{panel}
	return p, nil
}

// jobOf is what a bar tells of its job.
func jobOf(b *report.GanttBar) *Job {
	return &Job{GPUs: float64(b.Job.Demand.Milli(b.Job.Demand.Roles[0].Tasks)) / 1000, Tenant: b.Job.Tenant, User: b.Job.User, Model: b.Job.Model}
}

// sized is the name of a size with its unit.
func sized(size string) string {
	if size == "1" {
		return "1 GPU"
	}
	return size + " GPUs"
}

// names are those of runs.
func names(runs []Run) []string {
	var out []string
	for i := range runs {
		out = append(out, runs[i].Name)
	}
	return out
}
