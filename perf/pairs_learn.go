package perf

import (
	"math"
	"slices"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/job"
)

// Learner is a Sharing that is learnt from speeds that were observed. It begins with
// what First says, perhaps wrongly, and corrects the pairs that are seen together:
// beside several, what First says is multiplied by the correction of each pair.
//
// When j runs at factor f of its speed alone beside n others, and p was
// expected, each of the n pairs is multiplied by (f/p)^(Rate/n). With Rate 1
// the next expectation is the last observation. With less it is a mean of the
// observations, in which the latest counts most. Its lessons are a function of
// the observations and their order.
type Learner struct {
	First Sharing // nil: nobody disturbs anybody
	Rate  float64 // above 0, at most 1; 0: LearnRate

	Sort func(*job.Job) string // the name under which a job is learnt; nil: SortOf

	// Learnt is what was learnt of each pair: the speed of the first job beside the
	// second, over its speed alone. It may be shared: a state keeps it.
	Learnt map[Pair]float64
}

// Lesson is a pair of which something was learnt: from now on it is believed to have
// this factor.
type Lesson struct {
	Pair   Pair
	Factor float64
}

// LearnRate is the rate of a Learner that tells none.
const LearnRate = 0.3

// slowest is the least factor that a pair is believed to have, and fine is the
// number of steps from there to 1. After repeated observations the belief no
// longer changes by a step.
const (
	slowest = 0.01
	fine    = 1000
)

// SortOf is what jobs have in common that run alike: their model, or where it is not
// told their name. Jobs that tell neither are all of one sort.
func SortOf(j *job.Job) string {
	if j.Model != "" {
		return j.Model
	}
	return j.Name
}

// Lessons appends the lessons of an observation: the pairs whose factor
// changes. A job was seen to run at a factor of its speed alone, with its part
// of a device of a type beside others with theirs. A factor that is not above 0
// tells nothing. It changes nothing: Learn does.
func (l *Learner) Lessons(out []Lesson, s Sharer, others []Sharer, t cluster.GPUType, factor float64) []Lesson {
	expected := l.Among(s, others, t)
	if len(others) == 0 || !(factor > 0) || math.IsInf(factor, 1) || !(expected > 0) {
		return out
	}
	rate := l.Rate
	if rate == 0 {
		rate = LearnRate
	}
	from := len(out)
	change := math.Pow(min(1, factor)/expected, rate/float64(len(others)))
	for _, o := range others {
		pair := l.pair(s.Job, o.Job, t)
		was := l.of(s.Job, []*job.Job{o.Job}, t)
		now := math.Round(fine*min(1, max(slowest, was*change))) / fine
		_, known := l.Learnt[pair]
		if known && now == was || slices.ContainsFunc(out[from:], func(x Lesson) bool { return x.Pair == pair }) {
			continue
		}
		out = append(out, Lesson{pair, now})
	}
	return out
}

// Learn takes in a lesson.
func (l *Learner) Learn(x Lesson) {
	if l.Learnt == nil {
		l.Learnt = map[Pair]float64{}
	}
	l.Learnt[x.Pair] = x.Factor
}

// Observe takes in that a job was seen to run at a factor of its speed alone, beside
// others on a device of a type.
func (l *Learner) Observe(j *job.Job, others []*job.Job, t cluster.GPUType, factor float64) {
	all := make([]Sharer, len(others))
	for i, o := range others {
		all[i].Job = o
	}
	for _, x := range l.Lessons(nil, Sharer{Job: j}, all, t, factor) {
		l.Learn(x)
	}
}

// Beside implements Sharing.
func (l *Learner) Beside(j *job.Job, others []*job.Job, t cluster.GPUType) float64 {
	if len(others) == 0 {
		return 1
	}
	factor := l.first().Beside(j, others, t)
	for i := range others {
		factor *= l.correction(j, others[i:i+1], t)
	}
	return min(1, max(vanishing, factor))
}

// vanishing keeps a factor above 0 whatever was learnt.
const vanishing = 1e-6

// Among implements Portioned: it is what First says of parts, and each pair is
// corrected for the part of the time in which the other may use the device. Nobody is
// believed to be faster than First says of him alone with his part.
func (l *Learner) Among(s Sharer, others []Sharer, t cluster.GPUType) float64 {
	factor := Among(l.first(), s, others, t)
	for _, o := range others {
		if c := l.correction(s.Job, []*job.Job{o.Job}, t); c != 1 {
			factor *= math.Pow(c, 1-o.Throttled())
		}
	}
	return min(Among(l.first(), s, nil, t), factor)
}

// correction is what was learnt of a job beside one other, over what First says.
func (l *Learner) correction(j *job.Job, other []*job.Job, t cluster.GPUType) float64 {
	if len(l.Learnt) == 0 {
		return 1
	}
	learnt, ok := l.Learnt[l.pair(j, other[0], t)]
	if !ok {
		return 1
	}
	return learnt / l.first().Beside(j, other, t)
}

// of is the factor of a job beside one other.
func (l *Learner) of(j *job.Job, other []*job.Job, t cluster.GPUType) float64 {
	if f, ok := l.Learnt[l.pair(j, other[0], t)]; ok {
		return f
	}
	return l.first().Beside(j, other, t)
}

func (l *Learner) first() Sharing {
	if l.First == nil {
		return Alone{}
	}
	return l.First
}

func (l *Learner) pair(j, other *job.Job, t cluster.GPUType) Pair {
	sort := l.Sort
	if sort == nil {
		sort = SortOf
	}
	return Pair{sort(j), sort(other), t.Name}
}
