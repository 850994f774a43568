package shockwave

import (
	"math"
	"slices"

	"github.com/norn-scheduler/norn/internal/regime"
	"github.com/norn-scheduler/norn/policy/shockwave"
)

// measured is the throughput of a job in a round.
type measured struct {
	round int
	speed float64 // steps per second
	batch int
}

// profile is what the scheduler is told of a job: how long each of its epochs takes.
// It is corrected where measurements are far off.
type profile struct {
	batches   []int     // by epoch
	told      []float64 // seconds by epoch, rounded
	durations []float64 // the same, corrected
	measured  []measured
	samples   int // of an epoch
	submit    float64
	due       shockwave.Due
	done      int // epochs

	mode  []int // by epoch: the place of its batch size among those it has
	count []int // by batch size: epochs
	modes []shockwave.Mode
}

// newProfile makes the profile of a job and how long it takes alone.
func newProfile(model string, batches []int, speed func(batch int) float64) (p *profile, alone float64) {
	p = &profile{batches: batches, samples: regime.Samples(model), told: make([]float64, len(batches)), mode: make([]int, len(batches))}
	at := map[int]int{} // by batch size: its place
	lasts, k := 0.0, 0
	for e, b := range batches {
		if e == 0 || b != batches[e-1] { // batch sizes stay for many epochs
			lasts = float64(regime.Samples(model)) / float64(b) / speed(b)
			known := false
			if k, known = at[b]; !known {
				k = len(at)
				at[b] = k
				p.count = append(p.count, 0)
			}
		}
		alone += lasts
		p.told[e] = max(1, math.RoundToEven(lasts))
		p.mode[e] = k
		p.count[k]++
	}
	p.durations = slices.Clone(p.told)
	p.modes = make([]shockwave.Mode, len(p.count))
	return p, alone
}

// calibrate corrects the durations where measurements are more than 40 % off. Rounds
// in which the job did not run count as if it had run at its next speed; and each
// correction begins where the last one left off, so that it matters how often it is
// asked for.
func (p *profile) calibrate(length float64) {
	if len(p.measured) == 0 {
		return
	}
	did, last := 0.0, 0
	for _, m := range p.measured {
		did += float64(m.batch) * m.speed * length * float64(m.round-last)
		last = m.round
	}
	span := length * float64(last)
	time, should, at := 0.0, 0.0, len(p.told)-1
	for e, d := range p.told {
		if time+d > span {
			at = e
			break
		}
		time += d
		should += float64(p.samples)
	}
	if over := span - time; over > 0 {
		should += float64(p.samples) * over / p.durations[at]
	}
	if did <= 0 || should <= 0 || math.Abs(did-should)/should <= 0.4 {
		return
	}
	for e := range p.durations {
		p.durations[e] = p.told[e] * should / did
	}
}

// left is how many seconds the job is expected to take yet.
func (p *profile) left(length float64) float64 {
	p.calibrate(length)
	clear(p.modes)
	for e, k := range p.mode {
		p.modes[k].Epoch += p.durations[e]
		if e <= p.done {
			p.modes[k].Seen++
		}
	}
	for k := range p.modes {
		p.modes[k].Epoch /= float64(p.count[k])
	}
	f := shockwave.Forecast{Epochs: len(p.batches), Done: p.done, Modes: p.modes}
	return f.Left(false)
}

// spent is how long the epochs that are done took, by the profile.
func (p *profile) spent() (sum float64) {
	for _, d := range p.durations[:p.done] {
		sum += d
	}
	return sum
}

// mean is how long an epoch took so far, the running one among them.
func (p *profile) mean(length float64) float64 {
	p.calibrate(length)
	n := min(p.done+1, len(p.durations))
	sum := 0.0
	for _, d := range p.durations[:n] {
		sum += d
	}
	return sum / float64(n)
}
