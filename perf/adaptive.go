package perf

import (
	"math"
	"strings"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/job"
)

// Adaptive is the speed of jobs that choose the best batch size for their
// allocation, as an agent in their training does. It is their goodput there,
// relative to that with what their user asked for, on one node. A job is known
// by what it trains (job.Job.Model). One that is not known runs as Otherwise
// says. On several GPU types, a gang is as slow as on the slowest of them.
//
// An Adaptive can be used by several runs at once.
type Adaptive struct {
	Otherwise Typed // nil: Analytic with no penalty

	curves map[string]*curve
}

// curve is what a job reaches on each number of GPUs up to most.
type curve struct {
	Goodput
	best [2][]reached // together, spread
}

type reached struct {
	batch Batch
	value float64
}

// tabled is up to how many GPUs goodputs are kept.
const tabled = 64

// NewAdaptive makes the model of jobs that train the given ones, named in lower case.
func NewAdaptive(models map[string]Goodput) *Adaptive {
	m := &Adaptive{curves: map[string]*curve{}}
	for name, g := range models {
		c := &curve{Goodput: g}
		for k := range tabled + 1 {
			for i := range c.best {
				b, value := g.Best(k, i == 1)
				c.best[i] = append(c.best[i], reached{b, value})
			}
		}
		m.curves[name] = c
	}
	return m
}

// Knows tells whether a job trains something that the model knows.
func (m *Adaptive) Knows(j *job.Job) bool { return m.curve(j) != nil }

func (m *Adaptive) curve(j *job.Job) *curve { return m.curves[strings.ToLower(j.Model)] }

func (c *curve) at(replicas int, spread bool) reached {
	i := 0
	if spread {
		i = 1
	}
	if replicas <= tabled {
		return c.best[i][max(0, replicas)]
	}
	b, value := c.Best(replicas, spread)
	return reached{b, value}
}

// On implements Typed.
func (m *Adaptive) On(j *job.Job, c *cluster.Cluster, t cluster.TypeID, tasks int, spread bool) float64 {
	known := m.curve(j)
	if known == nil {
		return m.otherwise().On(j, c, t, tasks, spread)
	}
	asked := known.at(replicas(j, int(j.Demand.Roles[0].Tasks)), false).value
	if asked == 0 {
		return m.otherwise().On(j, c, t, tasks, spread)
	}
	speed := known.at(replicas(j, tasks), spread).value / asked
	if s := c.Type(t).Speed; s > 0 {
		speed *= s
	}
	return speed
}

// Speed implements Model.
func (m *Adaptive) Speed(j *job.Job, c *cluster.Cluster, a *cluster.Alloc) float64 {
	if m.curve(j) == nil || len(a.Shares) == 0 {
		return m.otherwise().Speed(j, c, a)
	}
	slowest := math.Inf(1)
	var seen cluster.TypeMask
	for i := range a.Shares {
		if t := c.TypeOf(a.Shares[i].Device); seen>>t&1 == 0 {
			seen |= 1 << t
			slowest = min(slowest, m.On(j, c, t, a.Tasks(0), a.Nodes() > 1))
		}
	}
	return slowest
}

// Report implements Reporter: a job measures itself with the batch size that is best
// where it runs.
func (m *Adaptive) Report(j *job.Job, tasks int, spread bool) (Report, bool) {
	known := m.curve(j)
	if known == nil {
		return Report{}, false
	}
	k := replicas(j, tasks)
	at := known.at(k, spread)
	if at.value == 0 {
		return Report{}, false
	}
	return Report{
		Measurement: Measurement{k, spread, at.batch.Local, known.Time.Pass(at.batch.Local), known.Time.Step(k, spread, at.batch.Local)},
		Noise:       known.Noise, Batches: known.Batches,
	}, true
}

func (m *Adaptive) otherwise() Typed {
	if m.Otherwise != nil {
		return m.Otherwise
	}
	return Analytic{Scaling: 1, Spread: 1}
}

// replicas is the number of GPUs of a job with so many tasks.
func replicas(j *job.Job, tasks int) int {
	return int((j.Demand.Milli(int32(tasks)) + 999) / 1000)
}

var _ Reporter = (*Adaptive)(nil)
