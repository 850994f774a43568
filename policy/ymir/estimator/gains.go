package estimator

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
)

// gains are what tasks are believed to give each other. They are foretold from similarities
// by a regression for each backbone over the pairs that were seen, and corrected by what the
// pairs of the same two tasks showed.
type gains struct {
	tasks map[perf.Task]*known
	order map[string][]perf.Task // of each backbone, in the order in which they were seen first
	seen  map[pair]*seen
	pairs map[string][]pair // of each backbone, the same
	lines map[string]line   // of each backbone; none: to be found anew
	made  *perf.Gains       // nil: to be made anew
	prior perf.Transfer     // of pairs of which nothing was seen; nil: nothing is believed

	tables map[perf.Task][]perf.Gain // what each task gains from those of its backbone; none: to be found anew
	alike  map[[2]perf.Task]alike    // similarities of a task to another one, as they were found last
}

// alike is a similarity, with how often each of the two was embedded when it was found.
type alike struct {
	from, to int
	s        float64
}

// known is what was measured of a task.
type known struct {
	embedding Embedding // mean
	times     float64   // of which it is the mean
	embedded  int       // how often it has changed
	curve     Curve
	size      float64 // samples of the data set
	fitted    bool
}

// pair is a task that goes on from another one, or is trained with it.
type pair struct {
	to, from perf.Task
	how      job.Merge
}

// seen is what the pairs of two tasks showed.
type seen struct {
	sum float64
	n   float64
}

// line is the regression of a backbone, with the number of its points. Without two
// different similarities it is their mean.
type line struct {
	Line
	n      int
	middle float64 // mean of the similarities
}

func newGains() gains {
	return gains{tasks: map[perf.Task]*known{}, order: map[string][]perf.Task{}, seen: map[pair]*seen{}, pairs: map[string][]pair{}, lines: map[string]line{}, tables: map[perf.Task][]perf.Gain{}, alike: map[[2]perf.Task]alike{}}
}

// Unseen is the gain that is believed of any pair before pairs have shown theirs. It is so
// large that some are tried. It counts as much as unseenWeight pairs.
const (
	Unseen       = 1.0
	unseenWeight = 2.0
)

func (g *gains) task(t perf.Task) *known {
	k := g.tasks[t]
	if k == nil {
		k = &known{}
		g.tasks[t] = k
		g.order[t.Backbone] = append(g.order[t.Backbone], t)
	}
	return k
}

// embed takes in an embedding of a task.
func (g *gains) embed(t perf.Task, e Embedding) {
	k := g.task(t)
	if len(k.embedding) != len(e) {
		k.embedding, k.times = make(Embedding, len(e)), 0
	}
	k.times++
	k.embedded++
	for i := range e {
		k.embedding[i] += (e[i] - k.embedding[i]) / k.times
	}
	g.changed(t.Backbone)
}

// curve takes in the loss curve of a job of a task, and the size of its data set.
func (g *gains) curve(t perf.Task, c Curve, size float64) {
	if g.tasks[t] == nil {
		g.changed(t.Backbone) // all others may go on from it
	}
	k := g.task(t)
	k.curve, k.size, k.fitted = c, size, true
	delete(g.tables, t)
	g.made = nil
}

// add takes in what a pair showed; n is 0 where it corrects what the same pair showed before.
func (g *gains) add(p pair, gain, n float64) {
	s := g.seen[p]
	if s == nil {
		s = &seen{}
		g.seen[p] = s
		g.pairs[p.to.Backbone] = append(g.pairs[p.to.Backbone], p)
	}
	s.sum, s.n = s.sum+gain, s.n+n
	g.changed(p.to.Backbone)
}

func (g *gains) changed(backbone string) {
	delete(g.lines, backbone)
	for _, t := range g.order[backbone] {
		delete(g.tables, t)
	}
	g.made = nil
}

// similarity is how similar the tasks of a pair are; ok is false where one was not measured.
func (g *gains) similarity(p pair) (s float64, ok bool) {
	from, to := g.tasks[p.from], g.tasks[p.to]
	if from == nil || to == nil || len(from.embedding) == 0 || len(to.embedding) == 0 {
		return 0, false
	}
	s = g.similar(p.from, p.to)
	if p.how == job.Together {
		s = Both(s, g.similar(p.to, p.from))
	}
	return s, true
}

// similar is the similarity of two tasks that were embedded.
func (g *gains) similar(from, to perf.Task) float64 {
	a, b := g.tasks[from], g.tasks[to]
	key := [2]perf.Task{from, to}
	if was, ok := g.alike[key]; ok && was.from == a.embedded && was.to == b.embedded {
		return was.s
	}
	s := Similarity(a.embedding, b.embedding)
	g.alike[key] = alike{a.embedded, b.embedded, s}
	return s
}

// line is the regression of a backbone, over the pairs of different tasks.
func (g *gains) line(backbone string) line {
	if l, made := g.lines[backbone]; made {
		return l
	}
	var similar, shown []float64
	sum := 0.0
	for _, p := range g.pairs[backbone] {
		if s, ok := g.similarity(p); ok && p.from != p.to {
			similar, shown = append(similar, s), append(shown, g.seen[p].sum/g.seen[p].n)
			sum += shown[len(shown)-1]
		}
	}
	l := line{n: len(shown)}
	for _, x := range similar {
		l.middle += x
	}
	l.middle /= max(1, float64(l.n))
	if fit, err := FitLine(similar, shown); err == nil && l.n > 2 {
		l.Line = fit
	} else if l.n > 0 {
		l.W0 = sum / float64(l.n)
	}
	g.lines[backbone] = l
	return l
}

// gain is what a pair is believed to gain, learnt from so many pairs of its tasks.
func (g *gains) gain(p pair) (gain, times float64) {
	l := g.line(p.to.Backbone)
	n := float64(l.n)
	s, similar := g.similarity(p)
	if !similar || p.from == p.to {
		s = l.middle
	}
	foretold := (n*l.Gain(s) + unseenWeight*Unseen) / (n + unseenWeight)
	gain = foretold
	if of := g.seen[p]; of != nil {
		gain, times = (of.sum+foretold)/(of.n+1), of.n
	}
	return max(-0.9, gain), times
}

// grounds says what a pair is believed to gain, and from what that was learnt.
func (g *gains) grounds(p pair) string {
	gain, times := g.gain(p)
	return fmt.Sprintf("a gain of %.2g, from %.0f pairs of these tasks and %d others of %s", gain, times, g.line(p.to.Backbone).n, p.to.Backbone)
}

// table is all gains as factors on speeds, through the curves of tasks.
func (g *gains) table() *perf.Gains {
	if g.made != nil {
		return g.made
	}
	samples := map[perf.Task]float64{}
	var all []perf.Gain
	for _, backbone := range g.backbones() {
		for _, t := range g.order[backbone] {
			k := g.tasks[t]
			if !k.fitted {
				continue
			}
			samples[t] = k.size
			if _, made := g.tables[t]; !made {
				g.tables[t] = g.of(t, k.curve)
			}
			all = append(all, g.tables[t]...)
		}
	}
	g.made = perf.NewGains(samples, all)
	return g.made
}

// of is what a task gains, by its curve, from those of its backbone.
func (g *gains) of(to perf.Task, c Curve) []perf.Gain {
	all := make([]perf.Gain, 0, len(g.order[to.Backbone]))
	alone := float64(c.Iterations(0))
	for _, from := range g.order[to.Backbone] {
		after, _ := g.gain(pair{to, from, job.After})
		both, _ := g.gain(pair{to, from, job.Together})
		gain := perf.Gain{From: from, To: to, After: alone / float64(c.Iterations(after)), Together: alone / float64(c.Iterations(both))}
		if g.prior != nil && g.seen[pair{to, from, job.After}] == nil {
			gain.After = g.prior.After(&job.Job{Backbone: to.Backbone, Dataset: to.Dataset}, &job.Job{Backbone: from.Backbone, Dataset: from.Dataset})
		}
		all = append(all, gain)
	}
	return all
}

// text says from what the gains of a backbone are foretold.
func (g *gains) text(backbone string) string {
	l := g.line(backbone)
	pairs := 0.0
	for _, p := range g.pairs[backbone] {
		pairs += g.seen[p].n
	}
	if l.n == 0 {
		return fmt.Sprintf("no pair of %s has shown what it gains: a gain of %g is tried", backbone, Unseen)
	}
	return fmt.Sprintf("gains of %s are foretold from similarities S as %.2g %+.2g S, learnt from %.0f pairs of %d sorts", backbone, l.W0, l.W1, pairs, l.n)
}

// backbones are those of which a task was seen, in order.
func (g *gains) backbones() []string {
	var out []string
	for name := range g.order {
		out = append(out, name)
	}
	slices.SortFunc(out, cmp.Compare[string])
	return out
}
