package pai

import (
	"math"
	"time"

	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/sched"
)

// means is the mean run time of the jobs that have ended well, of each user,
// group, and group with a number of GPUs.
type means struct {
	seen   int // of the jobs that have ended
	all    mean
	users  map[string]*mean
	groups map[string]*mean
	sizes  map[groupSize]*mean
}

type groupSize struct {
	group string
	gpus  unit.Milli
}

// mean is a mean of run times.
type mean struct {
	seconds float64
	n       int
}

func newMeans() means {
	return means{users: map[string]*mean{}, groups: map[string]*mean{}, sizes: map[groupSize]*mean{}}
}

// learn takes in the jobs that have ended since it was last called.
func (m *means) learn(v *sched.View) {
	ended := v.Ended()
	for ; m.seen < len(ended); m.seen++ {
		if j := v.Job(ended[m.seen]); j.Phase() == job.Done {
			m.observe(j.Spec(), j.RunTime())
		}
	}
}

// observe takes in how long a job ran.
func (m *means) observe(j *job.Job, ran time.Duration) {
	add := func(e *mean) {
		e.seconds += ran.Seconds()
		e.n++
	}
	add(&m.all)
	if j.User != "" {
		add(entry(m.users, j.User))
	}
	if g := groupOf(j); g != "" {
		add(entry(m.groups, g))
		add(entry(m.sizes, groupSize{g, size(j)}))
	}
}

func entry[K comparable](of map[K]*mean, key K) *mean {
	e := of[key]
	if e == nil {
		e = new(mean)
		of[key] = e
	}
	return e
}

// predict is the mean run time of the jobs most like this one of which there are
// any: of its group and size, its group, its user, all. by says with which to
// begin. ok is false while no job has ended.
func (m *means) predict(j *job.Job, by By) (d time.Duration, ok bool) {
	best := &m.all
	if e := m.users[j.User]; e != nil {
		best = e
	}
	if e := m.groups[groupOf(j)]; e != nil && by <= Group {
		best = e
	}
	if e := m.sizes[groupSize{groupOf(j), size(j)}]; e != nil && by == GroupSize {
		best = e
	}
	if best.n == 0 {
		return 0, false
	}
	ns := best.seconds / float64(best.n) * 1e9
	return time.Duration(min(ns, math.MaxInt64/4)), true
}

// told is what the trace itself predicts, if anything.
func told(j *job.Job, by By) (d time.Duration, ok bool) {
	if j.Hints == nil {
		return 0, false
	}
	switch by {
	case GroupSize:
		d = j.Hints.GroupSizeEstimate
	case Group:
		d = j.Hints.GroupEstimate
	case User:
		d = j.Hints.UserEstimate
	}
	return d, d > 0
}

// groupOf is the group of a job: what the trace calls so, or its name, by which
// users tell what they submit again and again.
func groupOf(j *job.Job) string {
	if j.Hints != nil && j.Hints.Group != "" {
		return j.Hints.Group
	}
	return j.Name
}

func size(j *job.Job) unit.Milli { return j.Demand.Milli(j.Demand.Roles[0].Tasks) }
