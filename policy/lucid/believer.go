package lucid

import (
	"fmt"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/perf/predict/boost"
	"github.com/norn-scheduler/norn/policy/kit/profiles"
)

// Believer makes what the policy believes of how jobs use GPUs, and of how they disturb each
// other, from what is measured of them.
func (c *Config) Believer(prior perf.Prior) perf.Believer {
	return &believer{rule: c.Analyser, book: profiles.Book{Told: prior.Told}, at: map[pair]int{}, next: firstFit}
}

// believer is what is believed of jobs from what was measured of them alone, and of pairs. It
// is a perf.Sharing by two terms: the curve of both uses together, and what trees of two
// features have learnt that pairs differ from it. The scores of jobs follow from that: each job
// that was measured has the score of its mean speed beside all others, and the tree that tells
// these scores tells those of new jobs. While few pairs were seen, the rule of the settings
// tells them.
type believer struct {
	rule Analyser
	book profiles.Book

	observed int          // measurements of jobs alone
	at       map[pair]int // places in seen
	seen     []sight
	next     int          // pairs at which it learns anew
	terms    *boost.Model // of what a pair differs from the curve; nil: nothing is learnt yet
	tree     *Tree
	from     int // pairs from which terms and tree were learnt
	jobs     int // from which the tree was grown
}

// pair is two jobs, by their numbers for life; it is the first that a sight is about.
type pair struct{ job, beside int64 }

// sight is the factor on the speed of a job beside another one that was measured last.
type sight struct {
	pair
	factor float64
}

// When and from how much a believer learns.
const (
	firstFit  = 20   // pairs
	growth    = 1.5  // by which they must have grown before it learns anew
	mostPairs = 4096 // the last to come, from which it learns
	mostJobs  = 128  // from which a tree is grown, evenly from all that were measured
	partners  = 64   // beside which each of them is imagined
	doubt     = 3    // pairs of one job without which what it shows beyond the terms is not believed
)

// pairTrees are those of the terms of pairs: a tree of depth two is a function of two features.
func pairTrees() boost.Config {
	return boost.Config{Trees: 100, Depth: 2, Leaf: 5, Bins: 64, Rate: 0.1}
}

// Observe implements perf.Believer.
func (b *believer) Observe(j *job.Job, m *perf.Reading) {
	if b.book.Observe(j, m) {
		b.observed++
		return
	}
	factor, ok := m.Figure(perf.Factor)
	others := m.Series(perf.Neighbours)
	if !ok || len(others) != 1 || !(factor > 0) {
		return
	}
	p := pair{perf.SerialOf(j), int64(others[0])}
	if i, known := b.at[p]; known {
		b.seen[i].factor = min(1, factor)
		return
	}
	b.at[p] = len(b.seen)
	if b.seen = append(b.seen, sight{p, min(1, factor)}); len(b.seen) >= b.next {
		b.next = int(growth * float64(len(b.seen)))
		b.learn()
	}
}

// learn fits the terms of pairs to what was seen, and grows the tree.
func (b *believer) learn() {
	var x, y []float64
	seen := b.seen[max(0, len(b.seen)-mostPairs):]
	for _, s := range seen {
		if one, two, known := b.uses(s.pair); known {
			x = append(x, pairOf(&one, &two)...)
			y = append(y, s.factor-Curve(one.GPU+two.GPU))
		}
	}
	if len(y) < firstFit {
		return
	}
	terms, err := boost.Train(pairTrees(), x, y)
	if err != nil { // which finite numbers cannot cause
		return
	}
	b.terms, b.from = terms, len(y)
	off, n := map[int64]float64{}, map[int64]float64{} // by job: what it showed beyond the terms
	for _, s := range seen {
		if one, two, known := b.uses(s.pair); known {
			off[s.job] += s.factor - b.beside(&one, &two)
			n[s.job]++
		}
	}
	jobs, uses := b.sample(mostJobs)
	_, others := b.sample(partners)
	scores := make([]Score, len(uses))
	for i, id := range jobs {
		mean := off[id] / (n[id] + doubt)
		for k := range others {
			mean += b.beside(&uses[i], &others[k]) / float64(len(others))
		}
		scores[i] = scoreOf(mean)
	}
	b.tree, b.jobs = GrowTree(uses, scores), len(uses)
}

// uses are those of the jobs of a pair; known is false where one was not measured alone.
func (b *believer) uses(p pair) (one, two profiles.Use, known bool) {
	one, n := b.book.At(p.job)
	two, m := b.book.At(p.beside)
	return one, two, n > 0 && m > 0
}

// scoreOf is the score of a job with a mean speed beside others.
func scoreOf(speed float64) Score {
	switch {
	case speed >= 0.95:
		return Tiny
	case speed >= 0.85:
		return Medium
	}
	return Jumbo
}

// sample is so many of the jobs that were measured, evenly from all of them, and their uses.
func (b *believer) sample(most int) (jobs []int64, uses []profiles.Use) {
	all := b.book.All()
	n := min(most, len(all))
	for i := range n {
		u, _ := b.book.At(all[i*len(all)/n])
		jobs, uses = append(jobs, all[i*len(all)/n]), append(uses, u)
	}
	return jobs, uses
}

// pairOf is the features of a pair.
func pairOf(one, two *profiles.Use) []float64 {
	a, b := traitsOf(one), traitsOf(two)
	return append(append(a[:], b[:]...), one.GPU+two.GPU, one.Bandwidth+two.Bandwidth)
}

// beside is the speed that a job is believed to have beside another one, over that alone.
func (b *believer) beside(one, two *profiles.Use) float64 {
	factor := Curve(one.GPU + two.GPU)
	if b.terms != nil {
		factor += b.terms.Predict(pairOf(one, two))
	}
	return min(1, max(slowest, factor))
}

// slowest is the least speed that a job is believed to have beside others.
const slowest = 0.05

// Beside implements perf.Sharing. A job of which nothing is known counts as always busy, and
// beside several the factors are multiplied.
func (b *believer) Beside(j *job.Job, others []*job.Job, _ cluster.GPUType) float64 {
	factor, one := 1.0, b.use(j)
	for _, o := range others {
		two := b.use(o)
		factor *= b.beside(&one, &two)
	}
	return factor
}

// use is what a job is believed to use.
func (b *believer) use(j *job.Job) profiles.Use {
	u, _, ok := b.book.Of(j)
	if !ok {
		u.GPU = 1
	}
	return u
}

// analyse is what a job is believed to use, and its score; ok is false where nothing, or not its
// memory, is known.
func (b *believer) analyse(j *job.Job) (s Score, u profiles.Use, ok bool) {
	u, _, ok = b.book.Of(j)
	if m := j.Demand.Roles[0].GPUMemory; m > 0 {
		u.Memory = m
	}
	if !ok || u.Memory <= 0 {
		return Jumbo, u, false
	}
	if b.tree != nil {
		return b.tree.Score(&u), u, true
	}
	return b.rule.Score(&u), u, true
}

// Grounds implements perf.Telling.
func (b *believer) Grounds(j *job.Job) []string {
	u, from, known := b.book.Of(j)
	if !known {
		return []string{"nothing was measured of how it uses GPUs, so that it shares none"}
	}
	out := []string{fmt.Sprintf("%v, %v", u, from)}
	score, u, ok := b.analyse(j)
	switch {
	case !ok:
		return append(out, "how much memory it takes was not measured, so that it shares no GPU")
	case b.tree == nil:
		return append(out, fmt.Sprintf("its score is %d (%v) by the rule of the settings, since only %s were seen", score, score, unit.Count(len(b.seen), "pair")))
	}
	return append(out, fmt.Sprintf("its score is %d (%v): %s; from %s that were measured and %s", score, score, b.tree.because(&u), unit.Count(b.jobs, "job"), unit.Count(b.from, "pair")))
}

// GainGrounds implements perf.Telling: jobs learn nothing from each other here.
func (b *believer) GainGrounds(_, _ *job.Job) string { return "" }
