package perf

import (
	"hash/fnv"
	"math"
	"math/rand/v2"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/job"
)

// Mistaken is a wrong belief about a Sharing. For each pair of sorts of jobs,
// in each direction, the slowdown is off by a factor of its own, always the
// same. Beside several the mistakes multiply.
//
// The factor is log-normal with median 1, and its logarithm has the standard
// deviation ln(1 + Size). With 0.4, two thirds of the pairs are believed to run
// within a factor of 1.4 of their true speed, as many too fast as too slow.
// Nobody is believed to run faster than alone.
type Mistaken struct {
	Of   Sharing
	Size float64
	Seed uint64

	Sort func(*job.Job) string // nil: SortOf
}

// Beside implements Sharing.
func (m Mistaken) Beside(j *job.Job, others []*job.Job, t cluster.GPUType) float64 {
	if len(others) == 0 {
		return 1
	}
	factor := m.Of.Beside(j, others, t)
	for _, o := range others {
		factor *= m.mistake(m.sort(j), m.sort(o), t.Name)
	}
	return min(1, max(slowest, factor))
}

// Among implements Portioned.
func (m Mistaken) Among(s Sharer, others []Sharer, t cluster.GPUType) float64 {
	alone := Among(m.Of, s, nil, t)
	if len(others) == 0 {
		return alone
	}
	factor := Among(m.Of, s, others, t)
	for _, o := range others {
		factor *= math.Pow(m.mistake(m.sort(s.Job), m.sort(o.Job), t.Name), 1-o.Throttled())
	}
	return min(alone, max(slowest*alone, factor))
}

func (m Mistaken) sort(j *job.Job) string {
	if m.Sort != nil {
		return m.Sort(j)
	}
	return SortOf(j)
}

// mistake is by what the speed of a sort beside another is multiplied.
func (m Mistaken) mistake(sort, beside, typ string) float64 {
	h := fnv.New64a()
	for _, s := range [...]string{sort, beside, typ} {
		h.Write([]byte(s))
		h.Write([]byte{0})
	}
	return math.Exp(math.Log1p(m.Size) * rand.New(rand.NewPCG(m.Seed, h.Sum64())).NormFloat64())
}
