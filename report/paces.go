package report

import (
	"time"

	"github.com/norn-scheduler/norn/job"
)

// paces are the paces of a job in order of the work done; none: its first one, always.
type paces []pace

// pace is that from some work done on, the speed of a job alone is so many times that
// with the batch that its user asked for.
type pace struct {
	from  time.Duration
	times float64
}

// pace notes the pace that a job has reported.
func (c *Collector) pace(r *job.Record, now time.Duration) {
	all := c.paces[r.Job.ID].reported(r.ProgressAt(now), r.Config.Reported.Times())
	if len(all) == 0 {
		return
	}
	if c.paces == nil {
		c.paces = map[job.ID]paces{}
	}
	c.paces[r.Job.ID] = all
}

// reported appends a pace that was reported when so much work was done. Reports about
// work that was lost are forgotten.
func (p paces) reported(done time.Duration, times float64) paces {
	for len(p) > 0 && p[len(p)-1].from >= done {
		p = p[:len(p)-1]
	}
	if len(p) == 0 && times == 1 {
		return p
	}
	return append(p, pace{done, times})
}

// alone is how long a job takes by itself for the work that it has done.
func (p paces) alone(done time.Duration) time.Duration {
	if len(p) == 0 {
		return done
	}
	sum, last := 0.0, pace{times: 1}
	for _, next := range p {
		if next.from >= done {
			break
		}
		sum += float64(next.from-last.from) / last.times
		last = next
	}
	return time.Duration(sum + float64(done-last.from)/last.times)
}
