package iadeep

import (
	"maps"
	"math"
	"slices"

	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/perf/predict/boost"
	"github.com/norn-scheduler/norn/sched"
)

// learnt is what is known of crowds: what was given to begin with, and the mean of what
// was measured, which stands on the jobs that came last to each crowd.
type learnt struct {
	given    map[perf.Crowd]float64
	measured map[perf.Crowd]tally
	by       map[job.ID]entry // what each job contributes
	explore  int
	model    *boost.Model // of what is known; nil: it must be learnt anew
	sorts    []string     // its features: for each sort whether it is there, and how often
}

// tally sums up what was measured of a crowd, in thousandths.
type tally struct{ sum, count int64 }

type entry struct {
	crowd perf.Crowd
	milli int64
}

func newLearnt(given map[perf.Crowd]float64, explore int) *learnt {
	return &learnt{given: given, explore: explore, measured: map[perf.Crowd]tally{}, by: map[job.ID]entry{}}
}

// follow begins with what stands on all jobs on the first call.
func (l *learnt) follow(v *sched.View) {
	if !v.First {
		return
	}
	for i := range v.Jobs() {
		if j := v.Job(job.ID(i)); v.Covers(j) {
			n, _ := sched.Recall[note](j)
			l.record(v, j.ID, n)
		}
	}
}

// record takes what a note says of a crowd in place of what the job contributed before.
func (l *learnt) record(v *sched.View, id job.ID, n note) {
	if was, ok := l.by[id]; ok {
		t := l.measured[was.crowd]
		if t.sum, t.count = t.sum-was.milli, t.count-1; t.count == 0 {
			delete(l.measured, was.crowd)
		} else {
			l.measured[was.crowd] = t
		}
		delete(l.by, id)
		l.model = nil
	}
	if len(n.with) == 0 {
		return
	}
	e := entry{perf.NewCrowd(append([]string{kindOf(v.Job(id))}, n.with...)), int64(math.Round(1000 * n.sum))}
	t := l.measured[e.crowd]
	l.measured[e.crowd] = tally{t.sum + e.milli, t.count + 1}
	l.by[id] = e
	l.model = nil
}

// of is what is known of a crowd: what was measured goes before what was given.
func (l *learnt) of(c perf.Crowd) (sum float64, known bool) {
	if t, ok := l.measured[c]; ok {
		return float64(t.sum) / float64(t.count) / 1000, true
	}
	sum, known = l.given[c]
	return sum, known
}

// crowds are all that are known, in order.
func (l *learnt) crowds() []perf.Crowd {
	all := slices.AppendSeq(slices.Collect(maps.Keys(l.measured)), maps.Keys(l.given))
	slices.Sort(all)
	return slices.Compact(all)
}

// forest is how the model is grown.
var forest = boost.Config{Trees: 100, Depth: 4, Leaf: 1, Bins: 16, Rate: 0.1}

// predict is the interference of a crowd: what is known, nothing while few crowds are
// known, and else what trees make of those that are.
func (l *learnt) predict(c perf.Crowd) float64 {
	if sum, known := l.of(c); known {
		return sum
	}
	if l.model == nil {
		l.learn()
	}
	if len(l.sorts) == 0 {
		return 0
	}
	return l.model.Predict(l.features(nil, c))
}

// learn grows the model anew.
func (l *learnt) learn() {
	all := l.crowds()
	l.model, l.sorts = &boost.Model{}, l.sorts[:0]
	if len(all) <= l.explore {
		return
	}
	for _, c := range all {
		l.sorts = append(l.sorts, c.Sorts()...)
	}
	slices.Sort(l.sorts)
	l.sorts = slices.Compact(l.sorts)
	l.sorts = l.sorts[:min(len(l.sorts), boost.MaxFeatures/2)]
	var x, y []float64
	for _, c := range all {
		sum, _ := l.of(c)
		x, y = l.features(x, c), append(y, sum)
	}
	if m, err := boost.Train(forest, x, y); err == nil { // nothing can be wrong with what it is given
		l.model = m
	}
}

// features appends those of a crowd.
func (l *learnt) features(x []float64, c perf.Crowd) []float64 {
	from := len(x)
	x = append(x, make([]float64, 2*len(l.sorts))...)
	for _, s := range c.Sorts() {
		if i, ok := slices.BinarySearch(l.sorts, s); ok {
			x[from+2*i] = 1
			x[from+2*i+1]++
		}
	}
	return x
}
