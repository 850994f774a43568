package muri

import (
	"encoding/binary"

	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/policy/muri"
	"github.com/norn-scheduler/norn/solve/match"
)

// pairing is how the published code matches groups with each other. It uses the
// blossoms of that code, over the part of the time for which the resources
// would be in use. Sums have the digits that follow from the order of the
// members.
type pairing struct {
	most     int // jobs in a group
	together func(a, b *muri.Group) float64
	kind     []uint16  // by job: those of equal stages are of one kind, from 1
	stages   []float64 // by job: what all take together
	finder   blossoms
	two      [][]float64 // by kinds: what two jobs alone weigh together; 0: not known yet

	// The matching among groups of these kinds. Most pairs stay the same from one
	// decision to the next.
	known map[string][]int
	key   []byte
	busy  []float64
}

func newPairing(most int, jobs []facts) *pairing {
	p := &pairing{most: most, known: map[string][]int{}}
	kinds := map[perf.Stages]uint16{}
	for i := range jobs {
		s := jobs[i].stages
		if kinds[s] == 0 {
			kinds[s] = uint16(len(kinds) + 1)
		}
		p.kind, p.stages = append(p.kind, kinds[s]), append(p.stages, s.Sum())
	}
	p.two = make([][]float64, len(kinds)+1)
	return p
}

// ofTwo is what two jobs weigh together, for both alike.
func (p *pairing) ofTwo(x, y *muri.Group) float64 {
	a, b := p.kind[x.Members[0].Job], p.kind[y.Members[0].Job]
	if p.two[a] == nil {
		p.two[a] = make([]float64, len(p.two))
	}
	if p.two[a][b] == 0 {
		p.two[a][b] = p.plus(p.plus(0, x), y) / (p.together(x, y) * 4)
	}
	return p.two[a][b]
}

// mates is whom each of the groups of a class is matched with.
func (p *pairing) mates(groups []muri.Group) []int {
	p.key = p.key[:0]
	for i := range groups {
		for k := range groups[i].Members {
			p.key = binary.LittleEndian.AppendUint16(p.key, p.kind[groups[i].Members[k].Job])
		}
		p.key = append(p.key, 0, 0)
	}
	if mates, ok := p.known[string(p.key)]; ok {
		return mates
	}
	p.weigh(groups)
	found, mates := p.finder.match(), make([]int, len(groups))
	for u := range mates {
		mates[u] = match.Alone
		if v := found[u+1]; v > 0 && found[v] == u+1 {
			mates[u] = v - 1
		}
	}
	p.known[string(p.key)] = mates
	return mates
}

// weigh sets the edges.
func (p *pairing) weigh(groups []muri.Group) {
	p.finder.begin(len(groups))
	p.busy = p.busy[:0]
	for i := range groups {
		p.busy = append(p.busy, p.plus(0, &groups[i]))
	}
	for v := range groups {
		for u := range v {
			x, y := &groups[u], &groups[v]
			switch n := len(x.Members) + len(y.Members); {
			case n > p.most:
				continue
			case n == 2:
				w := p.ofTwo(x, y)
				p.finder.weigh(u+1, v+1, w)
				p.finder.weigh(v+1, u+1, w)
				continue
			}
			all := p.together(x, y) * 4
			p.finder.weigh(u+1, v+1, p.plus(p.busy[u], y)/all)
			p.finder.weigh(v+1, u+1, p.plus(p.busy[v], x)/all)
		}
	}
}

// plus adds what the members of a group take, one by one.
func (p *pairing) plus(sum float64, group *muri.Group) float64 {
	for k := range group.Members {
		sum += p.stages[group.Members[k].Job]
	}
	return sum
}
