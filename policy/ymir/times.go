package ymir

import (
	"math"
	"time"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/policy/ymir/estimator"
	"github.com/norn-scheduler/norn/sched"
)

// unknown is what a job is taken to need of which nothing is believed.
const unknown = time.Hour

// plain tells whether a job is just a number of whole GPUs, wherever they are.
func plain(j sched.Job) bool { return j.Spec().Demand.Plain() }

// pipeline tells whether a job is laid out as a pipeline, which takes whole nodes.
func pipeline(j sched.Job) bool { return j.Spec().Pipelined() }

// nodeGPUs is the largest number of GPUs of a node of a pool.
func (y *policy) nodeGPUs(v *sched.View, p cluster.PoolID) int {
	c := v.Cluster()
	if len(y.largest) != c.Pools() || y.version != c.Version() {
		y.largest, y.version = make([]int, c.Pools()), c.Version()
	}
	if y.largest[p] == 0 {
		y.largest[p] = 1
		for _, n := range c.PoolNodes(p) {
			y.largest[p] = max(y.largest[p], c.NodeGPUs(n))
		}
	}
	return y.largest[p]
}

// learnt is what is believed from measurements; nil: what is believed was told.
func learnt(v *sched.View) *estimator.Believer {
	b, _ := v.Transfer.(*estimator.Believer)
	return b
}

// believed is how fast a job is believed to run with so many tasks, on nodes of so
// many GPUs: at best over the GPU types that will do.
func believed(v *sched.View, j sched.Job, tasks, node int) float64 {
	best, spread := 0.0, tasks > node
	c := v.Cluster()
	for t := range cluster.TypeID(c.Types()) {
		if c.Type(t).Host {
			continue
		}
		best = max(best, v.TypeSpeed(j, t, tasks, spread))
	}
	return best
}

// left is the work that a job is believed to have left, as seconds in the reference
// configuration, never 0.
func (y *policy) left(j sched.Job) float64 {
	d, known := j.Remaining()
	if !known {
		d = max(0, unknown-j.Progress())
	}
	return max(1, d.Seconds()*y.noise.work.Factor(j.Serial()))
}

// task is a job as a solve sees it.
type task struct {
	j      sched.Job
	left   float64
	speed  []float64 // at each size; 0: it cannot run at it
	rate   float64   // of its work through what it has learnt from the job that it follows
	fair   int       // place of the fair share in the sizes, within its range
	twice  int       // the same of twice the fair share
	one    float64   // time at its smallest size
	number int       // of its task in the table of gains
	amount float64   // samples left
	queued float64
	fresh  bool // nothing is done of it yet, and it does not run
	free   bool // it is not merged yet, and may be
	bans   bool // there are jobs with which it must not be merged
}

// time is how long a job takes at a size, alone.
func (t *task) time(size int) float64 {
	if t.speed[size] <= 0 {
		return math.Inf(1)
	}
	return t.left / (t.speed[size] * t.rate)
}

// tabled is a Transfer that depends on tasks, which need be looked up but once.
type tabled interface {
	Task(j *job.Job) int
	Samples(j *job.Job, d time.Duration) float64
	AfterTask(j, first int) float64
	TogetherTask(a, b int, left, other float64) (fa, fb float64)
}

// after is the believed factor on the speed of b after a.
func (s *solve) after(a, b *task) float64 {
	var f float64
	if s.table != nil {
		f = s.table.AfterTask(b.number, a.number)
	} else {
		f = s.v.Transfer.After(b.j.Spec(), a.j.Spec())
	}
	return s.y.blur(f, a.j.Serial(), b.j.Serial())
}

// together are the believed factors on the speeds of two jobs trained as one.
func (s *solve) together(a, b *task) (fa, fb float64) {
	if s.table != nil {
		fa, fb = s.table.TogetherTask(a.number, b.number, a.amount, b.amount)
	} else {
		fa, fb = s.v.Transfer.Together(a.j.Spec(), b.j.Spec(), [2]time.Duration{time.Duration(a.left * 1e9), time.Duration(b.left * 1e9)})
	}
	if s.y.cfg.NoiseGain > 0 {
		n := s.y.blur(1.5, min(a.j.Serial(), b.j.Serial()), max(a.j.Serial(), b.j.Serial())) / 1.5
		fa, fb = fa*n, fb*n
	}
	return fa, fb
}

// blur makes a believed gain wrong. The factor on the speed is K over K with the
// gain G; where the loss falls as 1/k, K is in proportion to 1/√(1+G), so that G is
// the square of the factor less 1.
func (y *policy) blur(factor float64, a, b int64) float64 {
	if y.cfg.NoiseGain == 0 {
		return factor
	}
	gain := factor*factor - 1
	return math.Sqrt(max(0.01, 1+gain*y.noise.gain.Factor(a, b)))
}

// best is the largest TranWt among the allowed ways to merge at a size, 0 for none, and the
// least that any of them costs.
func (s *solve) best(a, b *entity, size int) (tranWt, cost float64) {
	ta, tb := a.time(size), b.time(size)
	if ta > math.MaxFloat64 || tb > math.MaxFloat64 {
		return 0, 0
	}
	fa, fb := a.time(a.fair), b.time(b.fair)
	least, cost := math.Inf(1), math.Inf(1) // sum of both completion times
	after := func(ta, tb, fa, fb float64) {
		least, cost = min(least, estimator.AfterSum(ta, tb)), min(cost, ta/fa+(ta+tb)/fb)
	}
	bound := a.bound != job.None
	if s.y.cfg.Modes != Spatial || bound {
		if b.fresh && !(bound && a.second) {
			after(ta, tb/s.after(&a.task, &b.task), fa, fb)
		}
		if a.fresh && !(bound && b.second) {
			after(tb, ta/s.after(&b.task, &a.task), fb, fa)
		}
	}
	if s.y.cfg.Modes != Temporal && a.fresh && b.fresh && !bound {
		ga, gb := s.together(&a.task, &b.task)
		both := max(ta/ga, tb/gb)
		least, cost = min(least, estimator.TogetherSum(both)), min(cost, both/fa+both/fb)
	}
	return estimator.TranWt(ta, tb, least), cost
}
