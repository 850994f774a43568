package plot

import (
	"github.com/norn-scheduler/norn/report/plot/draw"
)

// course is a figure of a run over time.
type course struct {
	title, column string
	percent       bool
	of            func(*Part) float64
}

var (
	utilisation = course{"GPUs held", "utilisation", true, func(p *Part) float64 { return p.Used }}
	queue       = course{"Waiting jobs", "waiting_jobs", false, func(p *Part) float64 { return p.Queue }}
	demand      = course{"GPUs asked for", "waiting_gpus", false, func(p *Part) float64 { return p.Asked }}
	idle        = course{"Idle while jobs wait", "idle_while_waiting", true, func(p *Part) float64 { return ratio(p.Beside, p.GPUs) }}
)

func ratio(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return a / b
}

// shown is how many parts of a run are told apart in print.
const shown = 96

// coarse joins neighbouring parts until there are few enough to be told apart.
func coarse(parts []Part) []Part {
	group := (len(parts) + shown - 1) / shown
	var out []Part
	for i := 0; i < len(parts); i += max(1, group) {
		some := parts[i:min(i+group, len(parts))]
		sum := Part{From: some[0].From, To: some[len(some)-1].To}
		told := 0.0
		for k := range some {
			p := &some[k]
			dt := p.To - p.From
			told += dt
			sum.Used += p.Used * dt
			sum.Queue += p.Queue * dt
			sum.GPUs += p.GPUs * dt
			sum.Asked += p.Asked * dt
			sum.Idle += p.Idle * dt
			sum.Beside += p.Beside * dt
			sum.Scattered += p.Scattered * dt
			sum.Unfit += p.Unfit * dt
			for c, jobs := range p.Lacked {
				if sum.Lacked == nil {
					sum.Lacked = make([]float64, len(p.Lacked))
				}
				sum.Lacked[c] += jobs * dt
			}
		}
		for c := range sum.Lacked {
			sum.Lacked[c] /= told
		}
		for _, v := range []*float64{&sum.Used, &sum.Queue, &sum.GPUs, &sum.Asked, &sum.Idle, &sum.Beside, &sum.Scattered, &sum.Unfit} {
			*v /= told
		}
		out = append(out, sum)
	}
	return out
}

// timeAxis is an axis for runs over time, and its unit.
func timeAxis(runs []Run) (draw.Axis, span, bool) {
	last, any := 0.0, false
	for i := range runs {
		if n := len(runs[i].Part); n > 0 {
			last, any = max(last, runs[i].Part[n-1].To), true
		}
	}
	unit := unitOf(last)
	return draw.Axis{Title: "Time (" + unit.name + ")", From: 0, To: last / unit.seconds}, unit, any
}

// overTime is the figure of a course of all runs.
func overTime(c course) func(*Input, Options) (*Picture, error) {
	return func(in *Input, _ Options) (*Picture, error) {
		axis, unit, any := timeAxis(in.Runs)
		if !any {
			return nil, noData("no run has a %s", seriesName)
		}
		panel := draw.Panel{X: axis, Y: draw.Axis{Title: c.title, Zero: true, Percent: c.percent}}
		p := &Picture{Data: Table{Header: []string{"run", "from_s", "to_s", c.column}}}
		for i := range in.Runs {
			line := draw.Line{Look: i, Step: true}
			parts := coarse(in.Runs[i].Part)
			for k := range parts {
				p.Data.add(in.Runs[i].Name, parts[k].From, parts[k].To, c.of(&parts[k]))
				line.X, line.Y = append(line.X, parts[k].From/unit.seconds), append(line.Y, c.of(&parts[k]))
			}
			if n := len(parts); n > 0 { // the last part has an end, too
				line.X, line.Y = append(line.X, parts[n-1].To/unit.seconds), append(line.Y, line.Y[n-1])
			}
			panel.Lines = append(panel.Lines, line)
		}
		p.Chart = draw.Chart{Panels: []draw.Panel{panel}, Keys: keys(in.Runs, false)}
		return p, nil
	}
}

// fragmentation is the figure of why GPUs are idle while jobs wait, a panel for each run.
func fragmentation(in *Input, _ Options) (*Picture, error) {
	axis, unit, any := timeAxis(in.Runs)
	if !any {
		return nil, noData("no run has a %s", seriesName)
	}
	p := &Picture{Data: Table{Header: []string{"run", "from_s", "to_s", "unfit", "scattered", "not_started"}}}
	names := []string{"no waiting job fits", "one fits only when spread", "one fits and is not started"}
	for i, name := range names {
		p.Chart.Keys = append(p.Chart.Keys, draw.Key{Name: name, Fill: draw.Tint(causes[i]), Area: true})
	}
	highest := 0.0
	for i := range in.Runs {
		for _, part := range in.Runs[i].Part {
			highest = max(highest, ratio(part.Beside, part.GPUs))
		}
	}
	for i := range in.Runs {
		panel := draw.Panel{Title: in.Runs[i].Name, X: axis, Y: draw.Axis{Title: "Idle GPUs", Percent: true, From: 0, To: max(highest, 0.01)}}
		areas := make([]draw.Area, len(names))
		for a := range areas {
			areas[a].Look = causes[a]
		}
		parts := coarse(in.Runs[i].Part)
		for k := range parts {
			part := &parts[k]
			values := []float64{ratio(part.Unfit, part.GPUs), ratio(part.Scattered, part.GPUs), ratio(max(0, part.Beside-part.Unfit-part.Scattered), part.GPUs)}
			p.Data.add(in.Runs[i].Name, part.From, part.To, values[0], values[1], values[2])
			low := 0.0
			for a, v := range values {
				grow(&areas[a], part, unit, low, low+v)
				low += v
			}
		}
		panel.Areas = areas
		p.Chart.Panels = append(p.Chart.Panels, panel)
	}
	return p, nil
}

// causes are the looks of the reasons why GPUs are idle while jobs wait.
var causes = [3]int{1, 5, 7}

// grow adds a part of a run to an area.
func grow(a *draw.Area, p *Part, unit span, low, high float64) {
	a.X = append(a.X, p.From/unit.seconds, p.To/unit.seconds)
	a.Low, a.High = append(a.Low, low, low), append(a.High, high, high)
}
