package themis

import (
	"cmp"
	"slices"
	"time"

	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/sched"
)

// crowd counts the jobs that there are, over time. It is a function of when jobs
// came and left, so that one that starts anew says the same.
type crowd struct {
	n     int
	at    time.Duration
	sum   float64   // of n over time, in job-seconds
	came  []float64 // by job: what sum was when it came
	known int
	left  int // of View.Ended, those that were looked at
	news  []change
}

type change struct {
	at time.Duration
	id job.ID
	by int
}

// follow takes in who came and who left.
func (c *crowd) follow(v *sched.View) {
	if v.First {
		*c = crowd{news: c.news}
	}
	c.news = c.news[:0]
	for ; c.known < v.Jobs(); c.known++ {
		c.came = append(c.came, 0)
		if j := v.Job(job.ID(c.known)); v.Covers(j) {
			c.news = append(c.news, change{j.Submit(), j.ID, 1})
		}
	}
	for ended := v.Ended(); c.left < len(ended); c.left++ {
		if j := v.Job(ended[c.left]); v.Covers(j) {
			c.news = append(c.news, change{j.Since(), j.ID, -1})
		}
	}
	slices.SortStableFunc(c.news, func(x, y change) int { return cmp.Compare(x.at, y.at) })
	for _, e := range c.news {
		if dt := e.at - c.at; dt > 0 {
			c.sum += float64(c.n) * dt.Seconds()
			c.at = e.at
		}
		c.n += e.by
		if e.by > 0 {
			c.came[e.id] = c.sum
		}
	}
}

// mean is the average number of jobs that there were since one came.
func (c *crowd) mean(j sched.Job, now time.Duration) float64 {
	age := (now - j.Submit()).Seconds()
	if age <= 0 {
		return float64(max(1, c.n))
	}
	return max(1, (c.sum+float64(c.n)*(now-c.at).Seconds()-c.came[j.ID])/age)
}
