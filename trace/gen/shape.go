package gen

import (
	"fmt"
	"math"
	"sort"
	"time"

	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/trace/gen/internal/quant"
)

// shape is a gang size, and where the log has fractions of GPUs, one of them.
type shape struct {
	size
	fraction  fraction
	cum       float64 // share of this shape and those before it
	cells     []draw
	ends      []float64  // of the templates' parts of the interval from 0 to 1
	templates []template // as many
}

// draw is a cell ready for drawing from.
type draw struct {
	*cell
	cum   float64 // share of this cell and those before it
	curve quant.Curve
	top   float64 // probability level of the longest run that is wanted
	mean  float64 // of the runs up to it, seconds
}

// cut makes the shapes of up to so many GPUs whose jobs run no longer than
// longest (0: no limit), and the mean work of a job. It fails when nothing is
// left.
func (g *Generator) cut(gpus int, longest time.Duration) error {
	if longest == 0 {
		longest = math.MaxInt64
	}
	groups := make([][]draw, len(g.from.groups))
	for i := range g.from.groups {
		groups[i] = cutGroup(&g.from.groups[i], longest.Seconds())
	}
	fractions := g.from.fractions
	if len(fractions) == 0 {
		fractions = []fraction{{gpu: unit.One, share: 1}}
	}
	sum := 0.0
	for _, s := range g.from.sizes {
		if s.gpus > gpus || len(groups[s.group]) == 0 {
			continue
		}
		for _, f := range fractions {
			sum += s.share * f.share
			g.shapes = append(g.shapes, shape{size: s, fraction: f, cum: sum, cells: groups[s.group]})
		}
	}
	if len(g.shapes) == 0 {
		return fmt.Errorf("generator: no job like those of %s has at most %d GPUs and runs for at most %s", g.from.name, gpus, unit.Human(longest))
	}
	before := 0.0
	for i := range g.shapes {
		s := &g.shapes[i]
		s.cum /= sum
		mean, last := 0.0, 0.0
		for c := range s.cells {
			mean += (s.cells[c].cum - last) * s.cells[c].mean
			last = s.cells[c].cum
		}
		g.work += (s.cum - before) * float64(s.gpus) * float64(s.fraction.gpu) / 1000 * mean
		before = s.cum
	}
	g.shapes[len(g.shapes)-1].cum = 1
	return nil
}

// cutGroup makes the cells of a group whose runs last no longer than so many
// seconds; cells that have no such run are left out.
func cutGroup(g *group, longest float64) []draw {
	var out []draw
	sum := 0.0
	for i := range g.cells {
		d := draw{cell: &g.cells[i], curve: g.cells[i].run.Curve()}
		if d.top = d.curve.Below(longest); d.top == 0 {
			continue
		}
		sum += d.share * d.top
		d.cum, d.mean = sum, d.curve.Mean(d.top)
		out = append(out, d)
	}
	for i := range out {
		out[i].cum /= sum
	}
	if len(out) > 0 {
		out[len(out)-1].cum = 1
	}
	return out
}

// pick is the first of n cumulated shares that exceeds v.
func pick(n int, v float64, cum func(int) float64) int {
	return min(n-1, sort.Search(n, func(i int) bool { return cum(i) > v }))
}

// demand is what a job of the shape asks for, one task for each GPU or part of
// one.
func (s *shape) demand(cpu unit.Milli) job.Demand {
	d := job.GPUs(s.gpus)
	r := &d.Roles[0]
	r.GPU, r.CPU, r.Memory = s.fraction.gpu, s.fraction.cpu, s.fraction.memory
	if cpu > 0 {
		r.CPU = cpu
	}
	return d
}

// between interpolates in equally spaced quantiles.
func between(quantiles []float64, p float64) float64 {
	x := p * float64(len(quantiles)-1)
	i := min(int(x), len(quantiles)-2)
	return quantiles[i] + (x-float64(i))*(quantiles[i+1]-quantiles[i])
}
