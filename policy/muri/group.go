package muri

import (
	"cmp"
	"slices"

	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/solve/match"
)

// Member is a job that may be put into a group.
type Member struct {
	Job       job.ID
	GPUs      int
	Class     int32 // only members of one class go together
	Stages    perf.Stages
	Iteration float64 // alone, seconds
	Key       float64 // who has less goes first
}

// Group is jobs that share devices.
type Group struct {
	Members []Member
	Time    float64 // of an iteration, seconds
	Key     float64 // that of the member that goes first

	kinds kinds
	busy  float64 // sum of the stages of all members
}

// kinds are the numbers of the stages of the members of a group, from 1, in order;
// 0 where there is no member.
type kinds [perf.MaxInterleaved]uint16

// with is the kinds of two groups together.
func (k kinds) with(other kinds) kinds {
	for _, n := range other {
		at := len(k) - 1
		if n == 0 {
			continue
		}
		for ; at > 0 && (k[at-1] == 0 || k[at-1] > n); at-- {
			k[at] = k[at-1]
		}
		k[at] = n
	}
	return k
}

// GPUs is what a group needs.
func (g *Group) GPUs() int { return g.Members[0].GPUs }

// Grouping is how jobs are put into groups.
type Grouping struct {
	Most  int // jobs in a group: 1 to perf.MaxInterleaved
	Model perf.Interleave
	// InOrder merges matched pairs in the order in which they are found, as the
	// published simulator does, which means to sort them and does not; otherwise
	// those that use the resources best are merged first.
	InOrder bool
	// Unmatched puts jobs together in order of priority, without regard to how
	// they fit.
	Unmatched bool

	numbers map[perf.Stages]uint16 // of kinds
	stages  []perf.Stages          // of kinds, by their numbers less 1
	known   map[kinds]float64      // times of groups
	edges   []match.Edge
	rates   []float64
	finder  match.Finder

	// Who was matched with whom among groups of these kinds, which is all that it
	// hangs on: from one decision to the next most classes stay as they are.
	matched map[string][]int
	key     []byte
}

// pair is two groups of a class that were matched, or one that was left alone.
type pair struct {
	a, b   int // places in the class; b < 0: alone
	class  int
	useful float64 // part of the time for which the resources would be in use, in the mean
}

// Groups puts candidates, which are in order of priority, into groups, until all
// of them have room on so many GPUs, and takes those apart again that would be
// slower together than one after the other. The groups come in order of priority.
func (g *Grouping) Groups(candidates []Member, gpus int) []Group {
	if len(g.stages) > mostKinds || len(g.known) > 1<<18 {
		g.numbers, g.known, g.stages, g.matched = nil, nil, nil, nil
	}
	classes := g.single(candidates)
	need := 0
	for i := range candidates {
		need += candidates[i].GPUs
	}
	for range g.Most {
		if need <= gpus {
			break
		}
		if g.Unmatched {
			g.line(classes, &need, gpus)
			break
		}
		before := need
		if g.round(classes, &need, gpus); need == before {
			break
		}
	}
	return g.worthwhile(classes)
}

// single makes a group of each job, by classes in the order in which they appear.
func (g *Grouping) single(candidates []Member) [][]Group {
	var classes [][]Group
	at := map[int32]int{}
	for _, m := range candidates {
		i, ok := at[m.Class]
		if !ok {
			i = len(classes)
			at[m.Class], classes = i, append(classes, nil)
		}
		classes[i] = append(classes[i], g.alone(m))
	}
	return classes
}

func (g *Grouping) alone(m Member) Group {
	return Group{Members: []Member{m}, Time: m.Iteration, Key: m.Key, kinds: kinds{g.kind(m.Stages)}, busy: m.Stages.Sum()}
}

// mostKinds is when kinds are numbered anew.
const mostKinds = 1 << 12

// kind is the number of some stages.
func (g *Grouping) kind(s perf.Stages) uint16 {
	n, ok := g.numbers[s]
	if !ok {
		if g.numbers == nil {
			g.numbers = map[perf.Stages]uint16{}
		}
		g.stages = append(g.stages, s)
		n = uint16(len(g.stages))
		g.numbers[s] = n
	}
	return n
}

// round matches the groups of each class with each other and merges pairs as long
// as GPUs are short.
func (g *Grouping) round(classes [][]Group, need *int, gpus int) {
	var pairs []pair
	for c := range classes {
		pairs = g.match(pairs, c, classes[c])
	}
	if !g.InOrder {
		slices.SortStableFunc(pairs, func(a, b pair) int { return cmp.Compare(b.useful, a.useful) })
	}
	next := make([][]Group, len(classes))
	for _, p := range pairs {
		of := classes[p.class]
		merged := of[p.a]
		switch {
		case p.b >= 0 && *need > gpus:
			merged = g.merge(of[p.a], of[p.b])
			*need -= merged.GPUs()
		case p.b >= 0:
			next[p.class] = append(next[p.class], merged)
			merged = of[p.b]
		}
		next[p.class] = append(next[p.class], merged)
	}
	copy(classes, next)
}

// match finds the pairs of greatest weight among the groups of a class. Who is
// left alone, or has a mate before it, comes at its own place.
func (g *Grouping) match(out []pair, class int, groups []Group) []pair {
	for v, u := range g.mates(groups) {
		switch {
		case u == match.Alone:
			out = append(out, pair{a: v, b: -1, class: class})
		case u < v:
			out = append(out, pair{a: u, b: v, class: class, useful: g.useful(&groups[u], &groups[v])})
		}
	}
	return out
}

// mostMatched is how many matchings are kept.
const mostMatched = 1 << 12

// mates is whom each of the groups of a class is matched with.
func (g *Grouping) mates(groups []Group) []int {
	g.key = g.key[:0]
	for i := range groups {
		for _, n := range groups[i].kinds {
			g.key = append(g.key, byte(n), byte(n>>8))
		}
	}
	if mates, ok := g.matched[string(g.key)]; ok {
		return mates
	}
	g.edges, g.rates = g.edges[:0], g.rates[:0]
	for v := range groups {
		for u := range v {
			if len(groups[u].Members)+len(groups[v].Members) <= g.Most {
				g.edges = append(g.edges, match.Edge{U: u, V: v})
				g.rates = append(g.rates, g.useful(&groups[u], &groups[v]))
			}
		}
	}
	for i, w := range match.Scale(g.rates) {
		g.edges[i].Weight = w
	}
	found, err := g.finder.Max(len(groups), g.edges)
	if err != nil { // more groups than can be matched: they stay as they are
		found.Mate = slices.Repeat([]int{match.Alone}, len(groups))
	}
	if g.matched == nil || len(g.matched) == mostMatched {
		g.matched = map[string][]int{}
	}
	g.matched[string(g.key)] = found.Mate
	return found.Mate
}

// line puts the jobs of each class together in order of priority.
func (g *Grouping) line(classes [][]Group, need *int, gpus int) {
	for c, groups := range classes {
		var next []Group
		for len(groups) > 0 {
			n := min(g.Most, len(groups))
			first := groups[0]
			var apart []Group
			for _, other := range groups[1:n] {
				if *need > gpus {
					first = g.merge(first, other)
					*need -= first.GPUs()
				} else {
					apart = append(apart, other)
				}
			}
			next = append(append(next, apart...), first)
			groups = groups[n:]
		}
		classes[c] = next
	}
}

// worthwhile takes groups apart that would be slower together than one after the
// other, and sorts what there is.
func (g *Grouping) worthwhile(classes [][]Group) []Group {
	var out []Group
	for _, groups := range classes {
		for _, group := range groups {
			alone := 0.0
			for i := range group.Members {
				alone += group.Members[i].Iteration
			}
			if len(group.Members) == 1 || g.best(&group) <= alone {
				out = append(out, group)
				continue
			}
			for _, m := range group.Members {
				out = append(out, g.alone(m))
			}
		}
	}
	slices.SortStableFunc(out, func(a, b Group) int { return cmp.Compare(a.Key, b.Key) })
	return out
}

// best is how long an iteration of a group takes in its best order, whichever order
// it runs in.
func (g *Grouping) best(group *Group) float64 {
	if g.Model.Order == perf.BestOrder {
		return group.Time
	}
	model := g.Model
	model.Order = perf.BestOrder
	return model.Time(g.stagesOf(group.kinds))
}

func (g *Grouping) merge(a, b Group) Group {
	k := a.kinds.with(b.kinds)
	return Group{Members: slices.Concat(a.Members, b.Members), Time: g.time(k), Key: min(a.Key, b.Key), kinds: k, busy: a.busy + b.busy}
}

// useful is the part of the time for which the four resources would be in use, in
// the mean, if two groups were one: the interleaving efficiency.
func (g *Grouping) useful(a, b *Group) float64 {
	return (a.busy + b.busy) / (4 * g.time(a.kinds.with(b.kinds)))
}

// time is how long an iteration of a group of several takes.
func (g *Grouping) time(k kinds) float64 {
	t, ok := g.known[k]
	if !ok {
		if g.known == nil {
			g.known = map[kinds]float64{}
		}
		t = g.Model.Time(g.stagesOf(k))
		g.known[k] = t
	}
	return t
}

func (g *Grouping) stagesOf(k kinds) (out []perf.Stages) {
	for _, n := range k {
		if n > 0 {
			out = append(out, g.stages[n-1])
		}
	}
	return out
}
