// Package learner predicts run times for policies from the jobs that have ended: from similar jobs of
// the same user, and by trees over what is known of a job when it is submitted.
//
// Nouns:
//   - The rolling estimate looks at similar jobs of the same user (predict.History).
//   - The learnt estimate comes from a regressor over all jobs, such as boosted trees
//     (predict/boost) or a random forest (predict/forest).
//   - A refresh is a moment, a multiple of the refresh time, at which the regressor may be made anew.
//
// Source: Hu et al., "Characterization and Prediction of Deep Learning Workloads in Large-Scale GPU
// Datacenters", SC 2021, section 4.2; the features are theirs.
package learner

import (
	"math"
	"time"

	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf/predict"
	"github.com/norn-scheduler/norn/sched"
)

// Config is how run times are learnt.
type Config struct {
	Lambda  float64         // weight of the rolling estimate, the regressor has the rest
	Rolling predict.Rolling // the rolling estimate
	Smooth  float64         // jobs by which a category's mean is drawn to that of all
	Rows    int             // jobs from which a regressor is made, the last to end
	Least   int             // jobs that must have ended before one is made
	Growth  float64         // one is made anew when so much of that is new
	Refresh time.Duration
	Prior   time.Duration // run time that is believed while no job has ended

	Grow func(x, y []float64) (Regressor, error) // of rows that follow each other in x
}

// Regressor predicts the logarithm of 1 + a run time in seconds from a row of features.
type Regressor interface{ Predict(row []float64) float64 }

// Learner is what is known of run times. It is a function of the jobs that have
// ended, in the order in which they left, and of the time: a new one that reads
// the same list says the same.
type Learner struct {
	cfg     Config
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

// New is a learner that has seen nothing.
func New(c Config) *Learner {
	return &Learner{cfg: c, rolling: predict.NewHistory(c.Rolling), users: numbers{}, tenants: numbers{}, names: numbers{}}
}

// Follow takes in the jobs that have left since it was last called.
func (l *Learner) Follow(v *sched.View) {
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
func (l *Learner) refresh(now time.Duration) {
	epoch := now / l.cfg.Refresh
	if epoch == l.epoch {
		return
	}
	l.epoch = epoch
	enough := max(l.cfg.Growth*float64(min(l.grown, l.cfg.Rows)), 1)
	if l.ended < l.cfg.Least || float64(l.ended-l.grown) < enough {
		return
	}
	if extra := len(l.rows) - l.cfg.Rows; extra > l.cfg.Rows {
		l.rows = append(l.rows[:0], l.rows[extra:]...)
	}
	l.grown, l.cut, l.due = l.ended, len(l.rows), true
}

func (l *Learner) features(j *job.Job) features {
	return features{
		user: l.users.of(j.User), tenant: l.tenants.of(j.Tenant), name: l.names.of(predict.Name(j)),
		gpus: float64(j.Demand.Milli(j.Demand.Roles[0].Tasks)) / 1000, cpus: float64(j.Demand.CPU()) / 1000, submit: j.Submit,
	}
}

// Rolling is the rolling estimate of a job's run time; known is false while no job has ended.
func (l *Learner) Rolling(j *job.Job) (d time.Duration, known bool) { return l.rolling.Estimate(j) }

// Predict is the run time of a job in seconds: the rolling estimate and that of
// the regressor, weighted. Where one of them has nothing to say the other counts.
func (l *Learner) Predict(j *job.Job) (seconds float64, err error) {
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
		seconds = Blend(l.cfg.Lambda, seconds, learnt)
	}
	return seconds, nil
}

// Blend weighs the rolling estimate against that of the regressor.
func Blend(lambda, rolling, learnt float64) float64 { return lambda*rolling + (1-lambda)*learnt }

// model is a regressor, and what is known of users, tenants and names.
type model struct {
	trees                 Regressor
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
func (l *Learner) grow(rows []row) (*model, error) {
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
	m.trees, err = l.cfg.Grow(x, y)
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
