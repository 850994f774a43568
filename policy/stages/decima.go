package stages

import (
	"errors"
	"math"

	"github.com/norn-scheduler/norn/policy/param"
)

// Decima is the settings of Decima: a graph network scores the stages of the frontier, and then the limits of the job
// of the one that is chosen.
type Decima struct{ Weights *Weights }

// Params implements Config.
func (*Decima) Params() param.Set { return nil }

// Policy implements Config.
func (d *Decima) Policy() (Policy, error) {
	if d.Weights == nil {
		return nil, errors.New("decima has no weights")
	}
	return &Agent{Weights: d.Weights}, nil
}

// Agent chooses by a network: the choice with the highest scores, or else as Pick says.
type Agent struct {
	*Weights
	// Pick chooses among the logarithms of probabilities; nil: the highest.
	Pick func(logs []float64) int

	stages  scores
	limits  scores
	options []Choice
	list    []int
	all     []float64 // acts of allOut
	sum     [width]float64
}

// scores are options that a part of the network has scored.
type scores struct {
	in   [][]float64
	acts [][]float64
	logs []float64 // logarithms of probabilities
	n    int
}

// next makes room for one more option.
func (s *scores) next(l *layers) (in, acts []float64) {
	if s.n == len(s.in) {
		s.in = append(s.in, make([]float64, l.sizes[0]))
		s.acts = append(s.acts, make([]float64, l.acts))
	}
	s.n++
	return s.in[s.n-1], s.acts[s.n-1]
}

// normalise makes logarithms of probabilities of the scores.
func (s *scores) normalise() {
	s.logs = s.logs[:0]
	most := math.Inf(-1)
	for _, a := range s.acts[:s.n] {
		s.logs = append(s.logs, a[len(a)-1])
		most = max(most, a[len(a)-1])
	}
	sum := 0.0
	for _, l := range s.logs {
		sum += math.Exp(l - most)
	}
	sum = most + math.Log(sum)
	for i := range s.logs {
		s.logs[i] -= sum
	}
}

// descend is, for each option, the gradient of -(advantage x log probability of the chosen one + bonus x entropy) by its
// score.
func (s *scores) descend(chosen int, advantage, bonus float64) []float64 {
	entropy := 0.0
	for _, l := range s.logs {
		entropy -= math.Exp(l) * l
	}
	out := make([]float64, len(s.logs))
	for i, l := range s.logs {
		p := math.Exp(l)
		out[i] = advantage*p + bonus*p*(l+entropy)
	}
	out[chosen] -= advantage
	return out
}

// Next implements Policy.
func (g *Agent) Next(v *View) (Choice, bool) {
	if !g.score(v) {
		return Choice{}, false
	}
	c := g.options[g.pick(g.stages.logs)]
	least := g.scoreLimits(v, c.Job)
	c.Limit = least + g.pick(g.limits.logs)
	return c, true
}

func (g *Agent) pick(logs []float64) int {
	if g.Pick != nil {
		return g.Pick(logs)
	}
	best := 0
	for i, l := range logs {
		if l > logs[best] {
			best = i
		}
	}
	return best
}

// jobFeatures are the features of a job: executors that it holds, whether the free ones are there, and how many are free.
func jobFeatures(v *View, j *Active) [jobIn]float64 {
	local := -2.0
	if j == v.Source {
		local = 2
	}
	return [jobIn]float64{float64(j.Held) / 20, local, float64(v.Free) / 20}
}

// leastLimit is the least limit that moves an executor to a job.
func leastLimit(v *View, j *Active) int {
	if j == v.Source {
		return j.Held - v.Free + 1
	}
	return j.Held + 1
}

// score scores the frontier. It is false where there is none.
func (g *Agent) score(v *View) bool {
	g.options, g.stages.n, g.sum = g.options[:0], 0, [width]float64{}
	for _, j := range v.Jobs {
		if leastLimit(v, j) > v.Executors {
			continue
		}
		g.list = j.Frontier(g.list[:0])
		for _, s := range g.list {
			g.options = append(g.options, Choice{Job: j, Stage: s})
		}
	}
	if len(g.options) == 0 {
		return false
	}
	for _, j := range v.Jobs {
		e := g.embed(j)
		for q, y := range e.all[len(e.all)-width:] {
			g.sum[q] += y
		}
	}
	if g.all == nil {
		g.all = make([]float64, g.net.allOut.acts)
	}
	z := g.net.allOut.forward(g.Values, g.sum[:], g.all)
	for _, c := range g.options {
		e := g.embed(c.Job)
		d := &e.nodes[e.index[c.Stage]]
		in, acts := g.stages.next(&g.net.stageScore)
		f := jobFeatures(v, c.Job)
		n := copy(in, d.in[:])
		n += copy(in[n:], f[:])
		n += copy(in[n:], d.x[:])
		n += copy(in[n:], e.y())
		copy(in[n:], z)
		g.net.stageScore.forward(g.Values, in, acts)
	}
	g.stages.normalise()
	return true
}

// scoreLimits scores the limits of a job, from the least that is allowed.
func (g *Agent) scoreLimits(v *View, j *Active) (least int) {
	g.limits.n = 0
	least = leastLimit(v, j)
	f := jobFeatures(v, j)
	for p := least; p <= v.Executors; p++ {
		in, acts := g.limits.next(&g.net.limitScore)
		n := copy(in, g.embed(j).y())
		n += copy(in[n:], g.all[len(g.all)-width:])
		n += copy(in[n:], f[:])
		in[n] = float64(p) / float64(v.Executors)
		g.net.limitScore.forward(g.Values, in, acts)
	}
	g.limits.normalise()
	return least
}

// Learner gathers the gradient of the log probabilities of choices that were made.
type Learner struct {
	Agent
	Gradient []float64

	used  map[*Active]*embedding // whose gradients are not sent down yet
	order []*Active              // those of used, as they came
}

// NewLearner is a learner without a gradient yet.
func NewLearner(w *Weights) *Learner {
	return &Learner{Agent: Agent{Weights: w}, Gradient: make([]float64, len(w.Values)), used: map[*Active]*embedding{}}
}

// Learn adds the gradient of -(advantage x log probability of c + bonus x entropy), and returns that log probability. It is
// 0 where c is none of the options.
func (l *Learner) Learn(v *View, c Choice, advantage, bonus float64) float64 {
	if !l.score(v) {
		return 0
	}
	chosen := -1
	for i, o := range l.options {
		if o.Job == c.Job && o.Stage == c.Stage {
			chosen = i
		}
	}
	if chosen < 0 {
		return 0
	}
	for _, j := range v.Jobs {
		e := l.embed(j)
		switch old := l.used[j]; {
		case old == nil:
			l.order = append(l.order, j)
		case old != e:
			old.flush(l.Gradient)
		}
		l.used[j] = e
		e.touched = true
	}
	least := l.scoreLimits(v, c.Job)
	limit := min(max(c.Limit, least), v.Executors) - least
	dz := make([]float64, width)
	for i, d := range l.limits.descend(limit, advantage, bonus) {
		var din [2*width + jobIn + 1]float64
		l.net.limitScore.backward(l.Values, l.Gradient, l.limits.in[i], l.limits.acts[i], []float64{d}, din[:])
		e := l.embed(c.Job)
		add(e.dJob[:], din[:width])
		add(dz, din[width:2*width])
	}
	for i, d := range l.stages.descend(chosen, advantage, bonus) {
		var din [nodeIn + jobIn + 3*width]float64
		l.net.stageScore.backward(l.Values, l.Gradient, l.stages.in[i], l.stages.acts[i], []float64{d}, din[:])
		e := l.embed(l.options[i].Job)
		x := din[nodeIn+jobIn:]
		add(e.nodes[e.index[l.options[i].Stage]].dx[:], x[:width])
		add(e.dJob[:], x[width:2*width])
		add(dz, x[2*width:])
	}
	var dSum [width]float64
	l.net.allOut.backward(l.Values, l.Gradient, l.sum[:], l.all, dz, dSum[:])
	for _, j := range v.Jobs {
		add(l.embed(j).dAll[:], dSum[:])
	}
	return l.stages.logs[chosen] + l.limits.logs[limit]
}

// Finish sends down what was gathered in embeddings.
func (l *Learner) Finish() {
	for _, j := range l.order {
		l.used[j].flush(l.Gradient)
	}
	clear(l.used)
	l.order = l.order[:0]
}

func add(to, from []float64) {
	for i, x := range from {
		to[i] += x
	}
}
