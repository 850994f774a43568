package muri

import (
	"cmp"
	"encoding/binary"
	"math"
	"slices"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/solve/match"
)

// Member is a job that may be put into a group.
type Member struct {
	Job       job.ID
	GPUs      int
	Class     int32            // only members of one class go together
	Types     cluster.TypeMask // on which they may run, the same for all of a class; 0: all
	Stages    perf.Stages
	Iteration float64 // alone, seconds
	Key       float64 // who has less goes first

	Memory unit.Bytes // that it takes of each of its GPUs, as far as it tells
	Most   unit.Bytes // of the largest GPU that it may have; 0: not known
}

// Group is jobs that share devices.
type Group struct {
	Members []Member
	Time    float64 // of an iteration, seconds
	Key     float64 // that of the member that goes first

	kinds  kinds
	busy   float64    // sum of the stages of all members
	memory unit.Bytes // that they take of each GPU together
}

// fit tells whether a GPU holds two groups of a class, as far as they tell.
func fit(a, b *Group) bool {
	most := a.Members[0].Most
	return most == 0 || a.memory+b.memory <= most
}

// Room is the GPUs for those jobs that may run on nothing but some types.
type Room struct {
	Types cluster.TypeMask // 0: all
	GPUs  int
	need  int // what those jobs need as they are grouped now
}

// holds tells whether whoever may run on some types has no other room.
func (r *Room) holds(types cluster.TypeMask) bool {
	return r.Types == 0 || types != 0 && types&^r.Types == 0
}

// kinds are the numbers of the stages of the members of a group, from 1, in order;
// 0 where there is no member.
type kinds [perf.MaxInterleaved]uint16

// timed is what an iteration of a group of some kinds takes.
type timed struct {
	kinds kinds
	time  float64
}

// hash is a number below 2^recentBits.
func (k kinds) hash() uint64 {
	const odd = 0x9e3779b97f4a7c15 // 2⁶⁴ over the golden ratio: neighbours come to lie far apart
	return (uint64(k[0]) | uint64(k[1])<<16 | uint64(k[2])<<32 | uint64(k[3])<<48) * odd >> (64 - recentBits)
}

const recentBits = 12

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
	// Mates, if there is one, says instead whom each of the groups of a class is matched
	// with, by place, or match.Alone. It may ask Together.
	Mates func(groups []Group) []int

	numbers map[perf.Stages]uint16 // of kinds
	stages  []perf.Stages          // of kinds, by their numbers less 1
	known   map[kinds]float64      // times of groups
	recent  []timed                // the last of them that was asked for, by a hash
	finder  match.Finder

	// Memory of the last call, which the next one uses again.
	classes, next [][]Group // next: those of the round after
	at            map[int32]int
	pool          []Member // members of groups of several
	pairs         []pair
	edges         []match.Edge
	rates         []float64
	out           []Group
	rooms         []Room

	// The matching among groups of these kinds, on which alone it depends. Most
	// classes stay the same from one decision to the next.
	matched map[string][]int
	key     []byte
}

// pair is two groups of a class that were matched, or one that was left alone.
type pair struct {
	a, b   int // places in the class; b < 0: alone
	class  int
	useful float64 // part of the time for which the resources would be in use, in the mean; 0 if nobody asks
}

// Groups puts candidates, which are in order of priority, into groups, until all
// of them have room on so many GPUs, and takes those apart again that would be
// slower together than one after the other. The groups come in order of priority,
// and are valid until the next call; groups of one share memory with the candidates.
func (g *Grouping) Groups(candidates []Member, gpus int) []Group {
	return g.Within(candidates, Room{GPUs: gpus})
}

// Within is Groups where GPUs may be short of some types and not of others: only
// those go together for whom there is not enough room.
func (g *Grouping) Within(candidates []Member, rooms ...Room) []Group {
	if len(g.stages) > mostKinds || len(g.known) > 1<<18 {
		g.numbers, g.known, g.recent, g.stages, g.matched = nil, nil, nil, nil, nil
	}
	g.pool = g.pool[:0]
	g.single(candidates)
	g.rooms = append(g.rooms[:0], rooms...)
	for i := range candidates {
		g.need(candidates[i].Types, candidates[i].GPUs)
	}
	for range g.Most {
		if !slices.ContainsFunc(g.rooms, Room.short) {
			break
		}
		if g.Unmatched {
			g.line()
			break
		}
		if !g.round() {
			break
		}
	}
	return g.worthwhile()
}

func (r Room) short() bool { return r.need > r.GPUs }

// need adds GPUs, perhaps less than none, to the needs of jobs that may run on
// some types.
func (g *Grouping) need(types cluster.TypeMask, gpus int) {
	for i := range g.rooms {
		if r := &g.rooms[i]; r.holds(types) {
			r.need += gpus
		}
	}
}

// short tells whether GPUs are short for jobs like those of a group.
func (g *Grouping) short(group *Group) bool {
	for i := range g.rooms {
		if r := &g.rooms[i]; r.short() && r.holds(group.Members[0].Types) {
			return true
		}
	}
	return false
}

// single makes a group of each job, by classes in the order in which they appear.
func (g *Grouping) single(candidates []Member) {
	if g.at == nil {
		g.at = map[int32]int{}
	}
	clear(g.at)
	g.classes = g.classes[:0]
	for i := range candidates {
		class := candidates[i].Class
		c, ok := g.at[class]
		if !ok {
			c = len(g.classes)
			g.at[class], g.classes = c, emptied(g.classes, c+1)
		}
		g.classes[c] = append(g.classes[c], g.alone(candidates[i:i+1:i+1]))
	}
}

// emptied adds empty lists, in the memory that there is, until there are n.
func emptied(lists [][]Group, n int) [][]Group {
	for len(lists) < n {
		if k := len(lists); k < cap(lists) {
			lists = lists[:k+1]
			lists[k] = lists[k][:0]
		} else {
			lists = append(lists, nil)
		}
	}
	return lists
}

// alone is the group of one job.
func (g *Grouping) alone(one []Member) Group {
	m := &one[0]
	return Group{Members: one, Time: m.Iteration, Key: m.Key, kinds: kinds{g.kind(m.Stages)}, busy: m.Stages.Sum(), memory: m.Memory}
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
// as GPUs are short. It tells whether any were.
func (g *Grouping) round() (merged bool) {
	g.pairs = g.pairs[:0]
	for c := range g.classes {
		g.match(c)
	}
	if !g.InOrder {
		slices.SortStableFunc(g.pairs, func(a, b pair) int { return cmp.Compare(b.useful, a.useful) })
	}
	g.next = emptied(g.next[:0], len(g.classes))
	for _, p := range g.pairs {
		of, next := g.classes[p.class], &g.next[p.class]
		switch {
		case p.b < 0:
			*next = append(*next, of[p.a])
		case g.short(&of[p.a]):
			*next = append(*next, g.merge(&of[p.a], &of[p.b]))
			merged = true
		default:
			*next = append(*next, of[p.a], of[p.b])
		}
	}
	g.classes, g.next = g.next, g.classes
	return merged
}

// match finds the pairs of greatest weight among the groups of a class. A job
// that is left alone, or has a mate before it, comes at its own place.
func (g *Grouping) match(class int) {
	groups, mates := g.classes[class], g.Mates
	if mates == nil {
		mates = g.mates
	}
	for v, u := range mates(groups) {
		switch {
		case u == match.Alone:
			g.pairs = append(g.pairs, pair{a: v, b: -1, class: class})
		case u < v:
			p := pair{a: u, b: v, class: class}
			if !g.InOrder {
				p.useful = g.useful(&groups[u], &groups[v])
			}
			g.pairs = append(g.pairs, p)
		}
	}
}

// mostMatched is how many matchings are kept.
const mostMatched = 1 << 12

// mostExact is the number of groups of a class up to which all of them are matched at once.
// The time for that grows with its third power, so that of more the blocks are smaller: all
// blocks together take no longer, as long as each has as many as leastBlock.
const (
	mostExact  = 128
	leastBlock = 32
)

// block is how many of so many groups of a class are matched with each other at once.
func block(groups int) int {
	if groups <= mostExact {
		return max(1, groups)
	}
	return max(leastBlock, int(math.Sqrt(mostExact*mostExact*mostExact/float64(groups))))
}

// mates is whom each of the groups of a class is matched with. Of very many those are
// matched with each other that are next to each other in the order of priority.
func (g *Grouping) mates(groups []Group) []int {
	if block(len(groups)) == len(groups) {
		return g.matching(groups)
	}
	var mates []int
	for some := range slices.Chunk(groups, block(len(groups))) {
		first := len(mates)
		for _, u := range g.matching(some) {
			if u != match.Alone {
				u += first
			}
			mates = append(mates, u)
		}
	}
	return mates
}

// matching is whom each of some groups is matched with, by place among them: the pairs of
// greatest weight.
func (g *Grouping) matching(groups []Group) []int {
	g.key = g.key[:0]
	for i := range groups {
		for _, n := range groups[i].kinds {
			g.key = append(g.key, byte(n), byte(n>>8))
		}
		if m := &groups[i].Members[0]; m.Most > 0 {
			g.key = binary.LittleEndian.AppendUint64(g.key, uint64(groups[i].memory))
			g.key = binary.LittleEndian.AppendUint64(g.key, uint64(m.Most))
		}
	}
	if mates, ok := g.matched[string(g.key)]; ok {
		return mates
	}
	g.edges, g.rates = g.edges[:0], g.rates[:0]
	for v := range groups {
		for u := range v {
			if len(groups[u].Members)+len(groups[v].Members) <= g.Most && fit(&groups[u], &groups[v]) {
				g.edges = append(g.edges, match.Edge{U: u, V: v})
				g.rates = append(g.rates, g.useful(&groups[u], &groups[v]))
			}
		}
	}
	match.Scale(g.edges, g.rates)
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
func (g *Grouping) line() {
	g.next = emptied(g.next[:0], len(g.classes))
	for c, groups := range g.classes {
		for len(groups) > 0 {
			n := min(g.Most, len(groups))
			first := groups[0]
			for i := range groups[1:n] {
				if other := &groups[1+i]; g.short(&first) && fit(&first, other) {
					first = g.merge(&first, other)
				} else {
					g.next[c] = append(g.next[c], *other)
				}
			}
			g.next[c] = append(g.next[c], first)
			groups = groups[n:]
		}
	}
	g.classes, g.next = g.next, g.classes
}

// worthwhile takes groups apart that would be slower together than one after the
// other, and sorts what there is.
func (g *Grouping) worthwhile() []Group {
	g.out = g.out[:0]
	for _, groups := range g.classes {
		for i := range groups {
			group := &groups[i]
			alone := 0.0
			for i := range group.Members {
				alone += group.Members[i].Iteration
			}
			if len(group.Members) == 1 || g.best(group) <= alone {
				g.out = append(g.out, *group)
				continue
			}
			for i := range group.Members {
				g.out = append(g.out, g.alone(group.Members[i:i+1:i+1]))
			}
		}
	}
	slices.SortStableFunc(g.out, func(a, b Group) int { return cmp.Compare(a.Key, b.Key) })
	return g.out
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

// merge is two groups as one, which need the GPUs of one.
func (g *Grouping) merge(a, b *Group) Group {
	g.need(a.Members[0].Types, -a.GPUs())
	k, at := a.kinds.with(b.kinds), len(g.pool)
	g.pool = append(append(g.pool, a.Members...), b.Members...)
	return Group{
		Members: g.pool[at:len(g.pool):len(g.pool)], Time: g.time(k), Key: min(a.Key, b.Key), kinds: k, busy: a.busy + b.busy, memory: a.memory + b.memory,
	}
}

// useful is the part of the time for which the four resources would be in use, in
// the mean, if two groups were one: the interleaving efficiency.
func (g *Grouping) useful(a, b *Group) float64 {
	return (a.busy + b.busy) / (4 * g.Together(a, b))
}

// Together is how long an iteration takes when two groups are one.
func (g *Grouping) Together(a, b *Group) float64 { return g.time(a.kinds.with(b.kinds)) }

// time is how long an iteration of a group of several takes.
func (g *Grouping) time(k kinds) float64 {
	if g.recent == nil {
		g.recent = make([]timed, 1<<recentBits)
	}
	at := &g.recent[k.hash()]
	if at.kinds != k {
		*at = timed{k, g.timeOf(k)}
	}
	return at.time
}

func (g *Grouping) timeOf(k kinds) float64 {
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
