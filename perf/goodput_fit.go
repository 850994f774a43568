package perf

import "math"

// Measurement is what was seen of training with so many replicas, on one node or
// spread over several, and so many examples on each GPU. Times are seconds.
type Measurement struct {
	Replicas int
	Spread   bool
	Local    int
	Pass     float64 // a forward and backward pass
	Step     float64 // a pass and the exchange of gradients
}

// The places of the parameters in a point of the search, and the least value of each
// but the last: the others are searched by their logarithm.
const (
	atGrad = iota
	atGradEach
	atNode
	atNodeEach
	atLocal
	atLocalEach
	atOverlap
	points

	tiny = 1e-8
)

type point [points]float64

// fit is the search for the StepTime that explains measurements best.
type fit struct {
	seen   []Measurement
	logs   [][2]float64 // of Pass and Step
	frozen [points]bool
	round  float64 // by how much the roots are rounded off where they are 0
}

// Fit finds the StepTime that explains measurements best. It minimises the root
// mean square of the errors of logarithms, of passes and of steps. It favours
// little overlap, and exchanges that do not grow with replicas. Unobserved
// terms are taken to be as good as they could be. Without measurements it is
// the zero StepTime.
//
// The search is a projected L-BFGS from a fixed start.
func Fit(seen []Measurement) StepTime {
	if len(seen) == 0 {
		return StepTime{}
	}
	f := fit{seen: seen}
	x := f.begin()
	for _, f.round = range []float64{1e-1, 1e-2, 1e-3, 1e-4} { // a root has a kink where it is 0, in which a search is caught
		x = f.descend(x)
	}
	t := x.time()
	spread := false
	for i := range seen {
		spread = spread || seen[i].Spread
	}
	if !spread { // it will not be faster between nodes than within one
		t.Node, t.NodeEach = max(t.Node, 1.1*t.Local), max(t.NodeEach, 1.1*t.LocalEach)
	}
	return t
}

// begin is where the search starts, and settles what it leaves alone.
func (f *fit) begin() point {
	x := point{atGrad: 0.1, atGradEach: 0.01, atNode: 0.1, atNodeEach: 0.01, atLocal: 0.1, atLocalEach: 0.01, atOverlap: 1.001}
	var spread, local, further, sizes bool
	mean := 0.0
	for i := range f.seen {
		m := &f.seen[i]
		f.logs = append(f.logs, [2]float64{math.Log(max(m.Pass, tiny)), math.Log(max(m.Step, tiny))})
		spread = spread || m.Spread
		local = local || !m.Spread && m.Replicas > 1
		further = further || m.Replicas > 2
		sizes = sizes || m.Local != f.seen[0].Local
		mean += m.Pass / float64(len(f.seen))
	}
	freeze := func(i int, at float64) { x[i], f.frozen[i] = max(tiny, at), true }
	if !sizes {
		freeze(atGrad, mean/2)
	}
	if !spread {
		freeze(atNode, tiny)
	}
	if !local {
		freeze(atLocal, tiny)
	}
	if !spread || !further {
		freeze(atNodeEach, tiny)
	}
	if !local || !further {
		freeze(atLocalEach, tiny)
	}
	for i := range atOverlap {
		x[i] = math.Log(x[i])
	}
	return x
}

func (x *point) time() StepTime {
	e := math.Exp
	return StepTime{e(x[atGrad]), e(x[atGradEach]), e(x[atNode]), e(x[atNodeEach]), e(x[atLocal]), e(x[atLocalEach]), x[atOverlap]}
}

// value is what is to be made least, and its gradient.
func (f *fit) value(x *point) (float64, point) {
	t := x.time()
	var passes, steps, dPasses, dSteps point
	var sumPass, sumStep float64
	for i := range f.seen {
		m := &f.seen[i]
		pass, sync := t.Pass(m.Local), t.Sync(m.Replicas, m.Spread)
		logPass, logSync := math.Log(pass), math.Log(sync)
		step := math.Log(overlapped(pass, sync, t.Overlap))
		weight := math.Exp(t.Overlap * (logPass - step)) // of the pass in the step
		passes = point{atGrad: t.Grad / pass, atGradEach: t.GradEach * float64(m.Local) / pass}
		steps = point{atGrad: weight * passes[atGrad], atGradEach: weight * passes[atGradEach]}
		steps[atOverlap] = (weight*logPass + (1-weight)*logSync - step) / t.Overlap
		further := max(float64(m.Replicas-2), alone)
		switch {
		case m.Spread:
			steps[atNode], steps[atNodeEach] = (1-weight)*t.Node/sync, (1-weight)*t.NodeEach*further/sync
		case m.Replicas > 1:
			steps[atLocal], steps[atLocalEach] = (1-weight)*t.Local/sync, (1-weight)*t.LocalEach*further/sync
		}
		ePass, eStep := logPass-f.logs[i][0], step-f.logs[i][1]
		sumPass, sumStep = sumPass+ePass*ePass, sumStep+eStep*eStep
		for k := range points {
			dPasses[k] += ePass * passes[k]
			dSteps[k] += eStep * steps[k]
		}
	}
	n := float64(len(f.seen))
	sum, slope := 0.0, point{}
	add := func(squares float64, d *point) {
		root := math.Sqrt(squares/n + f.round*f.round)
		sum += root
		for k := range points {
			slope[k] += d[k] / (n * root)
		}
	}
	add(sumPass, &dPasses)
	add(sumStep, &dSteps)
	sum += f.liking(&t, &slope)
	for k := range points {
		if f.frozen[k] {
			slope[k] = 0
		}
	}
	return sum, slope
}

// liking is the price of overlap and of exchanges that grow with replicas.
func (f *fit) liking(t *StepTime, slope *point) float64 {
	between, local := t.NodeEach/t.Node, t.LocalEach/t.Local
	slope[atOverlap] += 2e-3 * (t.Overlap - 1)
	slope[atNodeEach] += 2e-2 * between * between
	slope[atNode] -= 2e-2 * between * between
	slope[atLocalEach] += 2e-2 * local * local
	slope[atLocal] -= 2e-2 * local * local
	return 1e-3*(t.Overlap-1)*(t.Overlap-1) + 1e-2*(between*between+local*local)
}

// bounds keeps a point where it may be.
func (x *point) bounds() {
	for i := range atOverlap {
		x[i] = min(50, max(math.Log(tiny), x[i]))
	}
	x[atOverlap] = min(10, max(1, x[atOverlap]))
}

// descend goes downhill until nothing is gained any more.
func (f *fit) descend(x point) point {
	const (
		memory = 8
		most   = 200
	)
	var moves, turns []point // of the last steps: change of place, and of the gradient
	at, slope := f.value(&x)
	for range most {
		d := direction(moves, turns, slope)
		if d.dot(&slope) >= 0 {
			moves, turns = nil, nil
			d = slope.times(-1)
		}
		y, value, next, ok := f.search(&x, at, &slope, &d)
		if !ok {
			if len(moves) == 0 {
				break
			}
			moves, turns = nil, nil
			continue
		}
		gained := at - value
		move, turn := y.less(&x), next.less(&slope)
		x, at, slope = y, value, next
		if move.dot(&turn) > 1e-14 {
			moves, turns = append(moves, move), append(turns, turn)
			if len(moves) > memory {
				moves, turns = moves[1:], turns[1:]
			}
		}
		if gained <= 1e-9*max(math.Abs(at), 1) {
			break
		}
	}
	return x
}

// search takes the first step along d, halved again and again, that gains enough.
func (f *fit) search(x *point, at float64, slope, d *point) (y point, value float64, next point, ok bool) {
	length := 1.0
	if longest := math.Sqrt(d.dot(d)); longest > 2 { // logarithms: no more than a factor of 7
		length = 2 / longest
	}
	for range 40 {
		y = *x
		for k := range points {
			if !f.frozen[k] {
				y[k] += length * d[k]
			}
		}
		y.bounds()
		moved := y.less(x)
		if value, next = f.value(&y); value <= at+1e-4*moved.dot(slope) && value < at {
			return y, value, next, true
		}
		length /= 2
	}
	return *x, at, *slope, false
}

// direction is the way down as the last steps tell it (two loops of L-BFGS).
func direction(moves, turns []point, slope point) point {
	q := slope
	alphas := make([]float64, len(moves))
	for i := len(moves) - 1; i >= 0; i-- {
		alphas[i] = moves[i].dot(&q) / moves[i].dot(&turns[i])
		q.add(&turns[i], -alphas[i])
	}
	if n := len(moves) - 1; n >= 0 {
		q = q.times(moves[n].dot(&turns[n]) / turns[n].dot(&turns[n]))
	}
	for i := range moves {
		beta := turns[i].dot(&q) / moves[i].dot(&turns[i])
		q.add(&moves[i], alphas[i]-beta)
	}
	return q.times(-1)
}

func (x *point) dot(y *point) (sum float64) {
	for k := range points {
		sum += x[k] * y[k]
	}
	return sum
}

func (x *point) add(y *point, times float64) {
	for k := range points {
		x[k] += times * y[k]
	}
}

func (x *point) times(by float64) (out point) {
	out.add(x, by)
	return out
}

func (x point) less(y *point) point {
	x.add(y, -1)
	return x
}
