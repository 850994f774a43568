package lucid

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf/predict"
	"github.com/norn-scheduler/norn/perf/predict/boost"
	"github.com/norn-scheduler/norn/sched"
)

// The features of a job that run times are predicted from. Users, tenants and names
// are seen as the mean of what their jobs took.
const (
	byUser = iota
	byTenant
	byName
	gpus
	cpus
	hour
	weekday
	use
	bandwidth
	memory
	features
)

var featureNames = [features]string{"user", "tenant", "name", "GPUs", "CPUs", "hour", "weekday", "GPU use", "memory traffic", "GPU memory"}

// estimator predicts run times by a sum of one function for each feature, which
// can be read one by one: gradient-boosted trees of a single split each. It is a
// function of the jobs that had ended when the last refresh was due, and so the same
// for one that starts anew.
type estimator struct {
	trees    boost.Config
	refresh  time.Duration
	rows     int
	smooth   float64
	prior    time.Duration
	monotone bool
	alike    bool      // names count by groups
	beliefs  *believer // of what jobs use; nil: they tell

	epoch           time.Duration // for which the rest holds, + 1
	model           *boost.Model
	grows           shape                 // that predictions grow with GPUs
	groups, strange map[string]string     // by name: those that were learnt from, and others that were met since
	means           [3]map[string]float64 // by user, tenant, name: log of 1 + seconds
	sizes           map[int]float64       // by GPUs, of jobs of users that are not known
	all             float64
	usual           [features]float64 // the mean job, against which others are explained
}

// at makes the estimator ready for a moment.
func (e *estimator) at(v *sched.View) error {
	epoch := v.Now / e.refresh
	if e.epoch == epoch+1 {
		return nil
	}
	e.epoch = epoch + 1
	var past []sched.Job
	for _, id := range v.Ended() {
		j := v.Job(id)
		if j.Since() >= epoch*e.refresh {
			break // they are in the order in which they left
		}
		if _, ran := j.FirstStart(); ran {
			past = append(past, j)
		}
	}
	return e.learn(past[max(0, len(past)-e.rows):])
}

func took(j sched.Job) float64 { return math.Log1p(j.RunTime().Seconds()) }

// learn takes in the jobs that have ended.
func (e *estimator) learn(past []sched.Job) (err error) {
	e.model, e.grows, e.sizes, e.all, e.usual = nil, shape{}, map[int]float64{}, 0, [features]float64{}
	n := map[int]float64{}
	y := make([]float64, len(past))
	for i, j := range past {
		y[i] = took(j)
		e.all += y[i] / float64(len(past))
		e.sizes[j.GPUs()] += y[i]
		n[j.GPUs()]++
	}
	for g := range e.sizes {
		e.sizes[g] /= n[g]
	}
	if e.alike {
		seen := map[string]int{}
		for _, j := range past {
			seen[predict.Name(j.Spec())]++
		}
		e.groups, e.strange = published.buckets(seen), map[string]string{}
	}
	for k := range e.means {
		e.means[k] = e.group(past, y, k)
	}
	if len(past) < 2*e.trees.Leaf { // too few
		return nil
	}
	rows := make([][features]float64, len(past))
	for i, j := range past {
		rows[i] = e.told(j.Spec())
	}
	e.usual = usual(rows)
	x := make([]float64, 0, len(rows)*features)
	for i := range rows {
		row := known(rows[i], &e.usual)
		x = append(x, row[:]...)
	}
	if e.model, err = boost.Train(e.trees, x, y); err == nil && e.monotone {
		e.grow(n)
	}
	return err
}

// grow makes predictions grow with the number of GPUs, of which n tells how many jobs
// had so many. Since each tree looks at one feature alone, what GPUs contribute is the
// same whatever the others are.
func (e *estimator) grow(n map[int]float64) {
	var levels, values, weights []float64
	for _, g := range slices.Sorted(maps.Keys(n)) {
		x := e.usual
		x[gpus] = float64(g)
		levels, values, weights = append(levels, x[gpus]), append(values, e.model.Predict(x[:])), append(weights, n[g])
	}
	e.grows = rising(levels, values, weights)
}

// predict is the predicted log of 1 + the run time of a row.
func (e *estimator) predict(row *[features]float64) float64 {
	return e.model.Predict(row[:]) + e.grows.at(row[gpus])
}

// word is what a feature that is a word says of a job.
func (e *estimator) word(j *job.Job, k int) string {
	switch k {
	case byUser:
		return j.User
	case byTenant:
		return j.Tenant
	}
	name := predict.Name(j)
	if !e.alike {
		return name
	}
	group, known := e.groups[name]
	if known {
		return group
	}
	if group, known = e.strange[name]; !known {
		group = cmp.Or(nearest(name, e.groups), name)
		e.strange[name] = group
	}
	return group
}

// group is the mean of what the jobs of each user, tenant or name took, drawn to the mean of
// all by so many jobs as smooth says.
func (e *estimator) group(past []sched.Job, took []float64, k int) map[string]float64 {
	type tally struct{ sum, n float64 }
	all := map[string]*tally{}
	for i, j := range past {
		w := e.word(j.Spec(), k)
		t := all[w]
		if t == nil {
			t = new(tally)
			all[w] = t
		}
		t.sum += took[i]
		t.n++
	}
	means := make(map[string]float64, len(all))
	for w, t := range all {
		means[w] = (t.sum + e.smooth*e.all) / (t.n + e.smooth)
	}
	return means
}

// row is what is known of a job; what is not known of how it uses GPUs is as usual.
func (e *estimator) row(j *job.Job) [features]float64 { return known(e.told(j), &e.usual) }

// told is what is known of a job, NaN where that was to be measured and was not.
func (e *estimator) told(j *job.Job) (row [features]float64) {
	for k := range e.means {
		m, known := e.means[k][e.word(j, k)]
		if !known {
			m = e.all
		}
		row[k] = m
	}
	row[gpus], row[cpus] = float64(j.Demand.GPUs()), float64(j.Demand.CPU())/1000
	row[hour], row[weekday] = float64(j.Submit%day/time.Hour), float64(j.Submit/day%7)
	if e.beliefs != nil {
		row[use], row[bandwidth], row[memory] = math.NaN(), math.NaN(), math.NaN()
		if u, n := e.beliefs.book.Own(j); n > 0 {
			row[use], row[bandwidth], row[memory] = u.GPU, u.Bandwidth, float64(u.Memory)/(1<<30)
		}
	} else if h := j.Hints; h != nil {
		row[use], row[bandwidth], row[memory] = h.GPUUse, h.MemoryUse, float64(h.GPUMemory)/(1<<30)
	}
	return row
}

// usual is the mean of rows, of what is known in each.
func usual(rows [][features]float64) (mean [features]float64) {
	for k := range mean {
		n := 0.0
		for i := range rows {
			if !math.IsNaN(rows[i][k]) {
				n++
			}
		}
		for i := range rows {
			if x := rows[i][k]; !math.IsNaN(x) {
				mean[k] += x / n
			}
		}
	}
	return mean
}

// known is a row in which what is not known is as usual.
func known(row [features]float64, usual *[features]float64) [features]float64 {
	for k, x := range row {
		if math.IsNaN(x) {
			row[k] = usual[k]
		}
	}
	return row
}

// measured is how often the use of a job was measured, on which its row depends.
func (e *estimator) measured(j *job.Job) int {
	if e.beliefs == nil {
		return 0
	}
	_, n := e.beliefs.book.Own(j)
	return n
}

// seconds is the predicted run time of a job.
func (e *estimator) seconds(j *job.Job) float64 {
	if len(e.sizes) == 0 {
		return e.prior.Seconds()
	}
	if _, known := e.means[byUser][j.User]; !known || e.model == nil {
		if m, ok := e.sizes[j.Demand.GPUs()]; ok {
			return math.Expm1(m)
		}
		return math.Expm1(e.all)
	}
	row := e.row(j)
	return max(0, math.Expm1(e.predict(&row)))
}

// Part is what one feature contributes to a prediction: a factor on 1 + the run
// time of the usual job.
type Part struct {
	Feature string
	Factor  float64
}

// parts explain a prediction: that of the usual job in seconds, and what each
// feature contributes, the largest first. Their product is the prediction, since
// each tree looks at one feature alone.
func (e *estimator) parts(j *job.Job) (usual float64, parts []Part) {
	if e.model == nil {
		return math.Expm1(e.all), nil
	}
	base := e.predict(&e.usual)
	row := e.row(j)
	for k := range row {
		x := e.usual
		x[k] = row[k]
		if d := e.predict(&x) - base; d != 0 {
			parts = append(parts, Part{featureNames[k], math.Exp(d)})
		}
	}
	slices.SortStableFunc(parts, func(a, b Part) int {
		return cmp.Compare(math.Abs(math.Log(b.Factor)), math.Abs(math.Log(a.Factor)))
	})
	return math.Expm1(base), parts
}

// explain says in words why a job is predicted to run for so long.
func (e *estimator) explain(j *job.Job) string {
	of := func(s float64) time.Duration {
		return time.Duration(min(s, 1e9) * float64(time.Second)).Round(time.Second)
	}
	text := fmt.Sprintf("predicted to run %v", of(e.seconds(j)))
	_, known := e.means[byUser][j.User]
	switch {
	case len(e.sizes) == 0:
		return text + ", since no job has ended yet"
	case !known || e.model == nil:
		return text + ", as jobs with " + unit.Count(j.Demand.GPUs(), "GPU")
	}
	usual, parts := e.parts(j)
	text += fmt.Sprintf(": the usual job %v", of(usual))
	for _, p := range parts[:min(3, len(parts))] {
		text += fmt.Sprintf(", %s x%.2g", p.Feature, p.Factor)
	}
	return text
}
