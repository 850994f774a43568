package themis

import (
	"cmp"
	"slices"
	"time"

	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/sched"
)

// crowd counts the apps that there are, over time. It is a function of when jobs
// came and left, so that one that starts anew says the same.
type crowd struct {
	n      int
	at     time.Duration
	sum    float64   // of n over time, in app-seconds
	came   []float64 // by job that is an app by itself: what sum was when it came
	search []*search // by job: the app that it is one of the jobs of; nil: it is one by itself
	byName map[called]*search
	known  int
	left   int // of View.Ended, those that were looked at
	news   []change
}

// called is what an app is known by.
type called struct{ user, app string }

// search is an app of several jobs.
type search struct {
	since  time.Duration // its first job came
	came   float64       // what crowd.sum was then
	jobs   []job.ID      // that have not ended
	ended  []job.ID
	served bool // scratch: it is among the apps of the present pass
}

type change struct {
	at time.Duration
	id job.ID
	by int
}

// follow takes in who came and who left.
func (c *crowd) follow(v *sched.View) {
	if v.First {
		*c = crowd{news: c.news, byName: map[called]*search{}}
	}
	c.news = c.news[:0]
	for ; c.known < v.Jobs(); c.known++ {
		c.came, c.search = append(c.came, 0), append(c.search, nil)
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
		switch app := v.Job(e.id).Spec().App; {
		case app != "":
			c.change(called{v.Job(e.id).Spec().User, app}, e)
		case e.by > 0:
			c.came[e.id] = c.sum
			c.n++
		default:
			c.n--
		}
	}
}

// change takes in a job of an app. The app comes with its first job and leaves when none is
// left; under the same name another one may come then.
func (c *crowd) change(name called, e change) {
	a := c.byName[name]
	if e.by < 0 {
		a.jobs = slices.DeleteFunc(a.jobs, func(id job.ID) bool { return id == e.id })
		a.ended = append(a.ended, e.id)
		if len(a.jobs) == 0 {
			c.n--
		}
		return
	}
	if a == nil || len(a.jobs) == 0 {
		a = &search{since: e.at, came: c.sum}
		c.byName[name] = a
		c.n++
	}
	a.jobs = append(a.jobs, e.id)
	c.search[e.id] = a
}

// mean is the average number of apps that there were since one came, at which moment the
// sum was that.
func (c *crowd) mean(since time.Duration, came float64, now time.Duration) float64 {
	age := (now - since).Seconds()
	if age <= 0 {
		return float64(max(1, c.n))
	}
	return max(1, (c.sum+float64(c.n)*(now-c.at).Seconds()-came)/age)
}
