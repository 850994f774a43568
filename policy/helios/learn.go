package helios

import (
	"math"
	"time"

	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf/predict"
	"github.com/norn-scheduler/norn/perf/predict/boost"
	"github.com/norn-scheduler/norn/sched"
)

// learner is what is known of run times. It is a function of the jobs that have
// ended, in the order in which they left, and of the time: a new one that reads
// the same list says the same.
type learner struct {
	cfg     *Config
	rolling *predict.History
	seen    int // of sched.View.Ended

	users, tenants, names numbers
	rows                  []row // the last to end, and some before
	ended                 int   // jobs that are or were in rows; none while nothing is grown
	epoch                 time.Duration
	grown                 int // ended, when trees were last to be grown
	cut                   int // rows from which they are to be grown: those before it
	due                   bool
	model                 *model
}

// row is what is known of a job that has ended.
type row struct {
	features
	y float64 // logarithm of 1 + its run time in seconds
}

// features is what is known of a job when it is submitted.
type features struct {
	user, tenant, name int32
	gpus, cpus         float64
	submit             time.Duration
}

// numbers gives words numbers, from 1 on; 0 is the empty word.
type numbers map[string]int32

func (n numbers) of(word string) int32 {
	if word == "" {
		return 0
	}
	i, ok := n[word]
	if !ok {
		i = int32(len(n)) + 1
		n[word] = i
	}
	return i
}

func newLearner(c *Config) *learner {
	own := *c
	return &learner{cfg: &own, rolling: predict.NewHistory(own.Rolling), users: numbers{}, tenants: numbers{}, names: numbers{}}
}

// follow takes in the jobs that have left since it was last called.
func (l *learner) follow(v *sched.View) {
	ended := v.Ended()
	for ; l.seen < len(ended); l.seen++ {
		j := v.Job(ended[l.seen])
		l.refresh(j.Since())
		if _, ran := j.FirstStart(); !ran {
			continue // it was cancelled before it began
		}
		l.rolling.Observe(j.Spec(), j.RunTime())
		if l.cfg.Lambda < 1 {
			l.rows = append(l.rows, row{l.features(j.Spec()), math.Log1p(j.RunTime().Seconds())})
			l.ended++
		}
	}
	l.refresh(v.Now)
}

// refresh notes, when a refresh lies between the last call and now, that trees
// are to be grown from the jobs that ended before it, if enough of them are new.
func (l *learner) refresh(now time.Duration) {
	epoch := now / l.cfg.Refresh
	if epoch == l.epoch {
		return
	}
	l.epoch = epoch
	enough := max(l.cfg.Growth*float64(min(l.grown, l.cfg.Rows)), 1)
	if l.ended < 2*l.cfg.Trees.Leaf || float64(l.ended-l.grown) < enough {
		return
	}
	if extra := len(l.rows) - l.cfg.Rows; extra > l.cfg.Rows {
		l.rows = append(l.rows[:0], l.rows[extra:]...)
	}
	l.grown, l.cut, l.due = l.ended, len(l.rows), true
}

func (l *learner) features(j *job.Job) features {
	return features{
		user: l.users.of(j.User), tenant: l.tenants.of(j.Tenant), name: l.names.of(predict.Name(j)),
		gpus: float64(j.Demand.Milli(j.Demand.Roles[0].Tasks)) / 1000, cpus: float64(j.Demand.CPU()) / 1000, submit: j.Submit,
	}
}

// predict is the run time of a job in seconds: the rolling estimate and that of
// the trees, weighted. Where one of them has nothing to say the other counts.
func (l *learner) predict(j *job.Job) (seconds float64, err error) {
	d, known := l.rolling.Estimate(j)
	if !known {
		return l.cfg.Prior.Seconds(), nil
	}
	seconds = d.Seconds()
	if l.cfg.Lambda == 1 {
		return seconds, nil
	}
	if l.due {
		l.due = false
		if l.model, err = l.grow(l.rows[max(0, l.cut-l.cfg.Rows):l.cut]); err != nil {
			return 0, err
		}
	}
	if l.model == nil {
		return seconds, nil
	}
	if learnt := l.model.predict(l.features(j)); learnt > 0 {
		seconds = blend(l.cfg.Lambda, seconds, learnt)
	}
	return seconds, nil
}

// blend weighs the rolling estimate against that of the trees.
func blend(lambda, rolling, learnt float64) float64 { return lambda*rolling + (1-lambda)*learnt }

// model is trees, and what they know of users, tenants and names.
type model struct {
	trees                 *boost.Model
	users, tenants, names encoding
}

// encoding is, for each number, the mean of y over the rows that have it, drawn
// to the mean of all by as many rows as Smooth says.
type encoding struct {
	of  []float64
	all float64
}

func encode(rows []row, number func(*features) int32, smooth float64) encoding {
	var e encoding
	var n []float64
	for i := range rows {
		e.all += rows[i].y / float64(len(rows))
	}
	for i := range rows {
		k := number(&rows[i].features)
		for int(k) >= len(n) {
			n, e.of = append(n, 0), append(e.of, 0)
		}
		n[k]++
		e.of[k] += rows[i].y
	}
	for k := range e.of {
		if n[k] == 0 {
			e.of[k] = e.all
			continue
		}
		e.of[k] = (e.of[k] + smooth*e.all) / (n[k] + smooth)
	}
	return e
}

func (e *encoding) at(k int32) float64 {
	if int(k) < len(e.of) {
		return e.of[k]
	}
	return e.all
}

// grow learns from rows.
func (l *learner) grow(rows []row) (*model, error) {
	m := &model{
		users:   encode(rows, func(f *features) int32 { return f.user }, l.cfg.Smooth),
		tenants: encode(rows, func(f *features) int32 { return f.tenant }, l.cfg.Smooth),
		names:   encode(rows, func(f *features) int32 { return f.name }, l.cfg.Smooth),
	}
	x := make([]float64, 0, len(rows)*columns)
	y := make([]float64, len(rows))
	for i := range rows {
		x = m.appendRow(x, &rows[i].features)
		y[i] = rows[i].y
	}
	var err error
	m.trees, err = boost.Train(l.cfg.Trees, x, y)
	return m, err
}

// columns is the number of features that trees see.
const columns = 9

// appendRow writes the features as the trees see them. The hour and the weekday
// are counted from the start of the run, which is as good as from midnight and
// from Monday: trees split where they like.
func (m *model) appendRow(x []float64, f *features) []float64 {
	const day = 24 * time.Hour
	return append(x, m.users.at(f.user), m.tenants.at(f.tenant), m.names.at(f.name), f.gpus, f.cpus,
		float64(f.submit/(30*day)), float64(f.submit/day%7), float64(f.submit%day/time.Hour), float64(f.submit%time.Hour/time.Minute))
}

func (m *model) predict(f features) float64 {
	var row [columns]float64
	return math.Expm1(m.trees.Predict(m.appendRow(row[:0], &f)))
}
