package live

import (
	"slices"

	"github.com/norn-scheduler/norn/api"
)

// maxCurve bounds the points of a curve: the first one, the latest, and between them some
// that are about equally far apart.
const maxCurve = 64

// Curve is the losses that a job has reported, by its steps.
type Curve struct {
	points []api.LossPoint
	gap    int64 // steps that lie between two points at least, but for the last one
}

// Add takes in a report. One without a step, or of a loss of 0, which is none, is passed
// over. Of a job that has gone back to a checkpoint, the steps that it does again count.
func (c *Curve) Add(r *api.Report) {
	if r.Loss == 0 || r.Step <= 0 {
		return
	}
	for len(c.points) > 0 && c.points[len(c.points)-1].Step >= r.Step {
		c.points = c.points[:len(c.points)-1]
	}
	p := api.LossPoint{Step: r.Step, Loss: r.Loss}
	if n := len(c.points); n > 1 && c.points[n-1].Step-c.points[n-2].Step < c.gap {
		c.points[n-1] = p // the one before was only there as the latest
		return
	}
	if c.points = append(c.points, p); len(c.points) <= maxCurve {
		return
	}
	c.gap = max(1, 2*(p.Step-c.points[0].Step)/maxCurve)
	last := c.points[0].Step
	kept := c.points[:1]
	for _, q := range c.points[1 : len(c.points)-1] {
		if q.Step-last >= c.gap {
			kept, last = append(kept, q), q.Step
		}
	}
	c.points = append(kept, p)
}

// Points are the points, by their steps.
func (c *Curve) Points() []api.LossPoint { return slices.Clone(c.points) }
