package tune

import (
	"math"
	"math/rand/v2"
	"slices"
)

// sampler proposes points. First it looks around at random. Then it goes on from the best point: numbers
// by a gradient that is estimated from two trials on either side, words by weights that grow with the
// reward (an adversarial bandit). Every fifth proposal is anywhere.
type sampler struct {
	space  *Space
	rand   *rand.Rand
	around int // proposals that are still to be anywhere

	center  Point
	best    float64
	weights [][]float64 // of the values of knobs that are words
	frozen  []bool      // knobs that stay as they are in center

	asked  int
	point  Point
	step   []float64 // from the center to the first trial of a pair; nil: the pair is over
	reward float64   // of that trial
}

// The step to either side of the center, the part of the range that a gradient moves it at most, and how
// fast weights grow.
const (
	sideStep = 0.1
	moveStep = 0.15
	growth   = 0.5
)

func newSampler(s *Space, r *rand.Rand, around int) *sampler {
	m := &sampler{space: s, rand: r, around: around, center: s.Start(), frozen: make([]bool, len(s.Knobs))}
	for i := range s.Knobs {
		w := make([]float64, len(s.Knobs[i].Values))
		for v := range w {
			w[v] = 1
		}
		m.weights = append(m.weights, w)
	}
	return m
}

// next proposes a point.
func (m *sampler) next() Point {
	m.asked++
	if m.asked <= m.around || m.asked%5 == 0 {
		m.point = m.space.Random(m.rand)
		m.keep(m.point)
		return m.point
	}
	p := slices.Clone(m.center)
	sign := -1.0
	if m.step == nil {
		m.step, sign = make([]float64, len(p)), 1
		for i := range m.step {
			m.step[i] = sideStep * float64(1-2*m.rand.IntN(2))
		}
	}
	for i := range p {
		if n := len(m.space.Knobs[i].Values); n > 0 {
			p[i] = float64(m.draw(i))
		} else {
			p[i] = min(1, max(0, p[i]+sign*m.step[i]))
		}
	}
	m.keep(p)
	m.point = p
	return p
}

// keep has frozen knobs stay.
func (m *sampler) keep(p Point) {
	for i := range p {
		if m.frozen[i] {
			p[i] = m.center[i]
		}
	}
}

// draw draws a value of a knob by its weights.
func (m *sampler) draw(i int) int {
	sum := 0.0
	for _, w := range m.weights[i] {
		sum += w
	}
	at := m.rand.Float64() * sum
	for v, w := range m.weights[i] {
		if at -= w; at < 0 {
			return v
		}
	}
	return len(m.weights[i]) - 1
}

// tell takes in the reward of the last proposal, measured or foretold.
func (m *sampler) tell(reward float64, measured bool) {
	for i, w := range m.weights {
		if len(w) > 0 {
			w[int(m.point[i])] *= math.Exp(growth * (reward - 1))
		}
	}
	if measured && reward > m.best {
		m.best, m.center, m.step = reward, slices.Clone(m.point), nil
		return
	}
	if m.asked <= m.around || m.asked%5 == 0 || m.step == nil {
		return
	}
	if m.reward == 0 {
		m.reward = reward
		return
	}
	for i := range m.center {
		if len(m.space.Knobs[i].Values) == 0 && !m.frozen[i] {
			slope := (m.reward - reward) / (2 * m.step[i])
			m.center[i] = min(1, max(0, m.center[i]+max(-moveStep, min(moveStep, sideStep*slope))))
		}
	}
	m.step, m.reward = nil, 0
}

// freeze keeps the knobs that the model expects to bring nothing more, wherever they stand.
func (m *sampler) freeze(of *model) {
	for i := range m.frozen {
		m.frozen[i] = false
		p, most := slices.Clone(m.center), math.Inf(-1)
		steps := 5
		if n := len(m.space.Knobs[i].Values); n > 0 {
			steps = n
		}
		for k := range steps {
			if p[i] = float64(k); len(m.space.Knobs[i].Values) == 0 {
				p[i] /= float64(steps - 1)
			}
			most = max(most, of.foretell(p))
		}
		m.frozen[i] = most < m.best
	}
	if !slices.Contains(m.frozen, false) {
		clear(m.frozen)
	}
}
