package report

import (
	"time"

	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
)

// Gantt is who had which GPUs and when.
type Gantt struct {
	Start, End time.Duration
	GPUs       float64 // of all nodes, one above the other
	Bars       []GanttBar
	Dropped    int // bars of little GPU time that are left out
}

// GanttBar is a time during which a job had the GPUs from Low to High.
type GanttBar struct {
	Job        *job.Job
	Start, End time.Duration
	Low, High  float64
}

// Gantt is the intervals of a run in order of their starts, a bar for each piece of adjacent
// GPUs; nil for a result that was made without Options.Intervals.
func (r *Result) Gantt() *Gantt {
	if r.chart == nil {
		return nil
	}
	t := r.chart
	g := &Gantt{Start: t.start, End: t.end, GPUs: float64(t.height) / float64(unit.One), Dropped: t.dropped}
	for i := range t.bars {
		b := &t.bars[i]
		for _, x := range t.boxes[b.box : b.box+b.n] {
			if x.height > 0 {
				g.Bars = append(g.Bars, GanttBar{b.job, b.start, b.end, float64(x.top) / float64(unit.One), float64(x.top+x.height) / float64(unit.One)})
			}
		}
	}
	return g
}
