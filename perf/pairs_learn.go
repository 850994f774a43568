package perf

import (
	"math"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/job"
)

// Learner is a Sharing that is learnt from speeds that were observed. It begins with
// what First says of each pair, perhaps wrongly, and corrects the pairs that are seen
// together; several neighbours multiply, as in Pairs.
//
// When j runs at factor f of its speed alone beside n others, and p was expected, each
// of the n pairs is multiplied by (f/p)^(Rate/n), so that with Rate 1 the next
// expectation is what was seen, and with less a mean of what was seen before, latest
// first. What it has learnt is a function of the observations and their order.
type Learner struct {
	First Sharing // nil: nobody disturbs anybody
	Rate  float64 // above 0, at most 1; 0: 0.3

	Sort func(*job.Job) string // as in Pairs

	pairs map[Pair]float64
}

// slowest is the least factor that a pair is believed to have.
const slowest = 0.01

// Observe takes in that a job was seen to run at a factor of its speed alone, beside
// others on a device of a type. A factor that is not above 0 tells nothing.
func (l *Learner) Observe(j *job.Job, others []*job.Job, t cluster.GPUType, factor float64) {
	if len(others) == 0 || !(factor > 0) || math.IsInf(factor, 1) {
		return
	}
	rate := l.Rate
	if rate == 0 {
		rate = 0.3
	}
	change := math.Pow(min(1, factor)/l.Beside(j, others, t), rate/float64(len(others)))
	if l.pairs == nil {
		l.pairs = map[Pair]float64{}
	}
	news := make([]float64, len(others))
	for i := range others { // all from what was believed before
		news[i] = min(1, max(slowest, l.of(j, others[i:i+1], t)*change))
	}
	for i, o := range others {
		l.pairs[l.pair(j, o, t)] = news[i]
	}
}

// Beside implements Sharing.
func (l *Learner) Beside(j *job.Job, others []*job.Job, t cluster.GPUType) float64 {
	factor := 1.0
	for i := range others {
		factor *= l.of(j, others[i:i+1], t)
	}
	return factor
}

// of is the factor of a job beside one other.
func (l *Learner) of(j *job.Job, other []*job.Job, t cluster.GPUType) float64 {
	if s, ok := l.pairs[l.pair(j, other[0], t)]; ok {
		return s
	}
	if l.First == nil {
		return 1
	}
	return l.First.Beside(j, other, t)
}

func (l *Learner) pair(j, other *job.Job, t cluster.GPUType) Pair {
	p := Pairs{Sort: l.Sort}
	return Pair{p.sort(j), p.sort(other), t.Name}
}
