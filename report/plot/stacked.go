package plot

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/norn-scheduler/norn/internal/palette"
	"github.com/norn-scheduler/norn/report"
	"github.com/norn-scheduler/norn/report/plot/draw"
)

// layer is a class of a stack, from below.
type layer struct{ name, colour string }

// stack draws values of classes over time on top of each other, a panel for each run. values has
// for each run the parts, and for each part the values of layers.
func stack(runs []Run, y string, layers []layer, parts [][]Part, values [][][]float64) draw.Chart {
	axis, unit, _ := timeAxis(runs)
	var c draw.Chart
	for _, l := range layers {
		c.Keys = append(c.Keys, draw.Key{Name: l.name, Fill: palette.Light(l.colour), Area: true})
	}
	highest := 0.0
	for _, run := range values {
		for _, part := range run {
			sum := 0.0
			for _, v := range part {
				sum += v
			}
			highest = max(highest, sum)
		}
	}
	for i := range runs {
		panel := draw.Panel{Title: runs[i].Name, X: axis, Y: draw.Axis{Title: y, From: 0, To: max(1.05*highest, 1e-9)}}
		areas := make([]draw.Area, len(layers))
		for k := range parts[i] {
			low := 0.0
			for a, v := range values[i][k] {
				grow(&areas[a], &parts[i][k], unit, low, low+v)
				low += v
			}
		}
		for a := range areas {
			areas[a].Fill = palette.Light(layers[a].colour)
		}
		panel.Areas = areas
		c.Panels = append(c.Panels, panel)
	}
	return c
}

// whyWaiting is the figure of why jobs wait over time.
func whyWaiting(in *Input, _ Options) (*Picture, error) {
	var runs []Run
	for _, r := range in.Runs {
		if len(r.Part) > 0 && r.Part[0].Lacked != nil {
			runs = append(runs, r)
		}
	}
	if len(runs) == 0 {
		return nil, noData("no run has a %s that tells causes: those of earlier versions do not", seriesName)
	}
	columns := report.CauseColumns()
	p := &Picture{Data: Table{Header: append([]string{"run", "from_s", "to_s"}, columns...)}}
	seen := make([]bool, len(columns))
	parts, values := make([][]Part, len(runs)), make([][][]float64, len(runs))
	for i := range runs {
		parts[i] = coarse(runs[i].Part)
		for k := range parts[i] {
			part := &parts[i][k]
			row := []any{runs[i].Name, part.From, part.To}
			for c, jobs := range part.Lacked {
				row = append(row, jobs)
				seen[c] = seen[c] || jobs > 0
			}
			p.Data.add(row...)
		}
	}
	var layers []layer
	for c := range columns {
		if cause := report.Cause(c); seen[c] {
			layers = append(layers, layer{cause.String(), cause.Colour()})
		}
	}
	if len(layers) == 0 {
		return nil, noData("no job waited")
	}
	for i := range runs {
		for k := range parts[i] {
			var v []float64
			for c, jobs := range parts[i][k].Lacked {
				if seen[c] {
					v = append(v, jobs)
				}
			}
			values[i] = append(values[i], v)
		}
	}
	p.Chart = stack(runs, "Waiting jobs", layers, parts, values)
	return p, nil
}

// whoHeld is the figure of which jobs, by size or by tenant, had the GPUs over time.
func whoHeld(in *Input, o Options) (*Picture, error) {
	by := cmp.Or(o.By, BySize)
	if by != BySize && by != ByTenant {
		return nil, noData("who had GPUs is told by gpus and by tenant, not by %s", by)
	}
	var runs []Run
	for _, r := range in.Runs {
		if slices.ContainsFunc(r.Held, func(h Held) bool { return h.By == by }) && len(r.Part) > 0 {
			runs = append(runs, r)
		}
	}
	if len(runs) == 0 {
		return nil, noData("no run has a %s with lines by %s", heldName, by)
	}
	layers := heldLayers(runs, by)
	p := &Picture{Data: Table{Header: []string{"run", string(by), "from_s", "to_s", "held_gpus"}}}
	parts, values := make([][]Part, len(runs)), make([][][]float64, len(runs))
	for i := range runs {
		parts[i] = coarse(runs[i].Part)
		values[i] = spread(runs[i].Held, by, layers, parts[i])
		for a, l := range layers {
			for k, part := range parts[i] {
				p.Data.add(runs[i].Name, l.name, part.From, part.To, values[i][k][a])
			}
		}
	}
	named := slices.Clone(layers)
	if by == BySize {
		for a := range named {
			named[a].name = sized(named[a].name)
		}
	}
	p.Chart = stack(runs, "GPUs held", named, parts, values)
	return p, nil
}

// heldLayers are the classes that had GPUs: sizes from small to large, or the tenants that had
// most, and the others as one.
func heldLayers(runs []Run, by By) []layer {
	time := map[string]float64{}
	for i := range runs {
		for _, h := range runs[i].Held {
			if h.By == by {
				time[h.Class] += h.GPUs * (h.To - h.From)
			}
		}
	}
	return layersOf(by, time)
}

// layersOf are the classes of GPU time with their colours.
func layersOf(by By, time map[string]float64) []layer {
	names := slices.SortedFunc(maps.Keys(time), func(a, b string) int {
		if by == BySize {
			return cmp.Compare(report.BySize.Rank(a), report.BySize.Rank(b))
		}
		return cmp.Or(cmp.Compare(time[b], time[a]), strings.Compare(a, b))
	})
	var out []layer
	for i, name := range names {
		switch {
		case by == BySize:
			out = append(out, layer{name, shades[min(max(report.BySize.Rank(name), 0), len(shades)-1)]})
		case i == most && len(names) > most+1:
			return append(out, layer{others, "k2"})
		default:
			out = append(out, layer{name, tints[i]})
		}
	}
	return out
}

// tints are the names of colours of classes that have no order.
var tints = []string{"c0", "c1", "c2", "c3", "c4", "c5", "c6", "c7", "c8"}

// spread divides lines of held.csv among the parts of a run in which they lie: the means of layers in
// each part.
func spread(held []Held, by By, layers []layer, parts []Part) [][]float64 {
	out := make([][]float64, len(parts))
	for k := range out {
		out[k] = make([]float64, len(layers))
	}
	last := slices.IndexFunc(layers, func(l layer) bool { return l.name == others })
	for _, h := range held {
		if h.By != by {
			continue
		}
		a := slices.IndexFunc(layers, func(l layer) bool { return l.name == h.Class })
		if a < 0 {
			a = last
		}
		k, _ := slices.BinarySearchFunc(parts, h.From, func(p Part, at float64) int {
			if p.To <= at {
				return -1
			}
			return 1
		})
		for ; a >= 0 && k < len(parts) && parts[k].From < h.To; k++ {
			common := math.Min(parts[k].To, h.To) - math.Max(parts[k].From, h.From)
			out[k][a] += h.GPUs * max(0, common) / (parts[k].To - parts[k].From)
		}
	}
	return out
}
