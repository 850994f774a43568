package tune

import (
	"math"

	"gonum.org/v1/gonum/mat"
)

// model foretells a reward in two steps, from settings to what they bring about (Metrics), and from
// these to the reward. It is linear in each, with squares of the knobs that are numbers.
//
// AutoSched finds by tests of independence which setting bears on which metric. Here all may, and a
// penalty on the size of the weights (ridge regression) keeps those small of which nothing is to be seen.
type model struct {
	space   *Space
	metrics []*mat.VecDense // of each metric the weights of the features
	reward  *mat.VecDense   // the weights of the metrics
	mean    []float64       // of metrics, and their spread
	spread  []float64
}

// ridge is the penalty on weights, for features of about one.
const ridge = 0.1

// leastTrials is how many measured trials there must be before anything is foretold.
const leastTrials = 10

// features are a one, of each knob its place and the square of it, or a one for its value.
func (s *Space) features(p Point) []float64 {
	out := []float64{1}
	for i := range s.Knobs {
		if n := len(s.Knobs[i].Values); n > 0 {
			for v := range n {
				x := 0.0
				if int(p[i]) == v {
					x = 1
				}
				out = append(out, x)
			}
			continue
		}
		out = append(out, p[i], p[i]*p[i])
	}
	return out
}

// learn makes the model of what was measured; nil: it is too little, or cannot be solved.
func learn(s *Space, trials []Trial, reference float64) *model {
	var x, metrics [][]float64
	var y []float64
	for i := range trials {
		if t := &trials[i]; t.Measured != nil {
			x = append(x, s.features(t.point))
			metrics = append(metrics, t.Measured.Metrics.values())
			y = append(y, reference/t.Measured.Objective)
		}
	}
	if len(y) < leastTrials {
		return nil
	}
	m := &model{space: s}
	n := len(metrics[0])
	z := make([][]float64, len(y))
	for i := range z {
		z[i] = append(make([]float64, 0, n+1), 1)
	}
	for k := range n {
		var column []float64
		for i := range metrics {
			column = append(column, metrics[i][k])
		}
		mean, spread := moments(column)
		m.mean, m.spread = append(m.mean, mean), append(m.spread, spread)
		for i := range column {
			column[i] = (column[i] - mean) / spread
			z[i] = append(z[i], column[i])
		}
		w := solve(x, column)
		if w == nil {
			return nil
		}
		m.metrics = append(m.metrics, w)
	}
	if m.reward = solve(z, y); m.reward == nil {
		return nil
	}
	return m
}

// foretell is the reward of a point.
func (m *model) foretell(p Point) float64 {
	f := mat.NewVecDense(len(m.space.features(p)), m.space.features(p))
	sum := m.reward.AtVec(0)
	for k, w := range m.metrics {
		sum += m.reward.AtVec(k+1) * mat.Dot(w, f)
	}
	return sum
}

// moments are the mean and the standard deviation, 1 where all are equal.
func moments(x []float64) (mean, spread float64) {
	for _, v := range x {
		mean += v / float64(len(x))
	}
	for _, v := range x {
		spread += (v - mean) * (v - mean) / float64(len(x))
	}
	if spread = math.Sqrt(spread); spread == 0 {
		spread = 1
	}
	return mean, spread
}

// solve finds the weights by ridge regression, with no penalty on the first; nil: there are none.
func solve(rows [][]float64, y []float64) *mat.VecDense {
	n := len(rows[0])
	x := mat.NewDense(len(rows), n, nil)
	for i, row := range rows {
		x.SetRow(i, row)
	}
	var a mat.Dense
	a.Mul(x.T(), x)
	for i := 1; i < n; i++ {
		a.Set(i, i, a.At(i, i)+ridge)
	}
	var b, w mat.VecDense
	b.MulVec(x.T(), mat.NewVecDense(len(y), y))
	if err := w.SolveVec(&a, &b); err != nil {
		return nil
	}
	return &w
}
