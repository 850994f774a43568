package cassini

import (
	"math/rand/v2"
	"slices"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
)

// sites are the nodes that may take the place of those that a job was given, which it has left.
type sites struct {
	c      *cluster.Cluster
	own    *cluster.Alloc
	pieces []piece
	groups [][]int // the pieces in each innermost place of the topology
}

// piece is a part of the job in a node, and where else it may be.
type piece struct {
	like  kind
	nodes map[cluster.DomainID][]cluster.NodeID // by innermost place
}

// kind is what nodes must have in common that are alike to the host.
type kind struct {
	typ         cluster.TypeID
	gpus, free  int // of the node: all, and those that are free
	takes       int
	milli       unit.Milli
	memory      unit.Bytes
	deviceBytes unit.Bytes
}

// newSites finds them, once the job has left its devices.
func newSites(c *cluster.Cluster, scope cluster.PoolID, own *cluster.Alloc) *sites {
	s := &sites{c: c, own: own}
	known := map[kind]map[cluster.DomainID][]cluster.NodeID{}
	at := map[cluster.DomainID]int{}
	share := 0
	for i, p := range own.Pieces {
		shares := own.Shares[share : share+int(p.Shares)]
		share += int(p.Shares)
		k := kind{typ: c.TypeOf(shares[0].Device), gpus: c.NodeGPUs(p.Node), takes: len(shares), milli: p.CPU, memory: p.Memory, deviceBytes: shares[0].Memory}
		k.free = freeOf(c, p.Node, k.typ)
		if known[k] == nil {
			known[k] = k.nodes(c, scope)
		}
		s.pieces = append(s.pieces, piece{k, known[k]})
		d := c.Node(p.Node).Domain
		if _, there := at[d]; !there {
			at[d] = len(s.groups)
			s.groups = append(s.groups, nil)
		}
		s.groups[at[d]] = append(s.groups[at[d]], i)
	}
	return s
}

// freeOf is the number of free GPUs of a type in a node.
func freeOf(c *cluster.Cluster, n cluster.NodeID, t cluster.TypeID) int {
	free := 0
	for _, g := range c.NodeGroups(n) {
		if c.GroupType(g) == t {
			free += c.GroupFree(g)
		}
	}
	return free
}

// nodes are those of a kind, by innermost place.
func (k kind) nodes(c *cluster.Cluster, scope cluster.PoolID) map[cluster.DomainID][]cluster.NodeID {
	out := map[cluster.DomainID][]cluster.NodeID{}
	for n := range cluster.NodeID(c.Nodes()) {
		if !c.Usable(n) || !c.In(n, scope) || c.NodeGPUs(n) != k.gpus || freeOf(c, n, k.typ) != k.free {
			continue
		}
		if free, accounts := c.CPUFree(n); accounts && free < k.milli {
			continue
		}
		if free, accounts := c.MemoryFree(n); accounts && free < k.memory {
			continue
		}
		out[c.Node(n).Domain] = append(out[c.Node(n).Domain], n)
	}
	return out
}

// spansOf is over how many places of each level the nodes of an allocation are.
func spansOf(c *cluster.Cluster, a *cluster.Alloc) map[string]int {
	seen, spans := map[cluster.DomainID]bool{}, map[string]int{}
	for _, p := range a.Pieces {
		for d := c.Node(p.Node).Domain; d > 0 && !seen[d]; {
			level, _, parent := c.Domain(d)
			seen[d] = true
			spans[level]++
			d = parent
		}
	}
	return spans
}

// draw is a place at random; nil where the draw came to nothing.
func (s *sites) draw(random *rand.Rand) *cluster.Alloc {
	chosen := make([]cluster.NodeID, len(s.pieces))
	var taken []cluster.NodeID
	var used []cluster.DomainID
	for _, g := range s.groups {
		var domains []cluster.DomainID
		for d := range s.pieces[g[0]].nodes {
			if !slices.Contains(used, d) {
				domains = append(domains, d)
			}
		}
		if len(domains) == 0 {
			return nil
		}
		slices.Sort(domains)
		d := domains[random.IntN(len(domains))]
		used = append(used, d)
		for _, i := range g {
			free := slices.DeleteFunc(slices.Clone(s.pieces[i].nodes[d]), func(n cluster.NodeID) bool { return slices.Contains(taken, n) })
			if len(free) == 0 {
				return nil
			}
			chosen[i] = free[random.IntN(len(free))]
			taken = append(taken, chosen[i])
		}
	}
	a := s.on(chosen)
	if !within(s.c, a, s.own) {
		return nil
	}
	return a
}

// on is the allocation on such nodes.
func (s *sites) on(nodes []cluster.NodeID) *cluster.Alloc {
	a := &cluster.Alloc{Pieces: slices.Clone(s.own.Pieces)}
	for i := range a.Pieces {
		a.Pieces[i].Node = nodes[i]
		k := s.pieces[i].like
		left := k.takes
		for _, g := range s.c.NodeGroups(nodes[i]) {
			if n := min(left, s.c.GroupFree(g)); n > 0 && s.c.GroupType(g) == k.typ {
				a.Shares = s.c.AppendWhole(a.Shares, g, n, k.deviceBytes)
				left -= n
			}
		}
	}
	return a
}

// swapped is two allocations of which piece i of the first and piece k of the second exchange their nodes; nil where
// these pieces are not alike, or a node would have two pieces of one job.
func swapped(c *cluster.Cluster, a, b *cluster.Alloc, i, k int) (x, y *cluster.Alloc) {
	p, q := a.Pieces[i], b.Pieces[k]
	from, to := sharesOf(a, i), sharesOf(b, k)
	if p.Node == q.Node || p.Shares != q.Shares || p.Tasks != q.Tasks || p.CPU != q.CPU || p.Memory != q.Memory || from[0].Memory != to[0].Memory ||
		c.TypeOf(from[0].Device) != c.TypeOf(to[0].Device) ||
		slices.ContainsFunc(a.Pieces, func(o cluster.Piece) bool { return o.Node == q.Node }) || slices.ContainsFunc(b.Pieces, func(o cluster.Piece) bool { return o.Node == p.Node }) {
		return nil, nil
	}
	x, y = &cluster.Alloc{}, &cluster.Alloc{}
	x.CopyFrom(a)
	y.CopyFrom(b)
	x.Pieces[i].Node, y.Pieces[k].Node = q.Node, p.Node
	copy(sharesOf(x, i), to)
	copy(sharesOf(y, k), from)
	x.Beat, y.Beat = cluster.Beat{}, cluster.Beat{}
	return x, y
}

// sharesOf is those of a piece.
func sharesOf(a *cluster.Alloc, i int) []cluster.Share {
	at := 0
	for _, p := range a.Pieces[:i] {
		at += int(p.Shares)
	}
	return a.Shares[at : at+int(a.Pieces[i].Shares)]
}

// within tells whether an allocation is spread over no more places of any level than another one.
func within(c *cluster.Cluster, a, own *cluster.Alloc) bool {
	most := spansOf(c, own)
	for level, n := range spansOf(c, a) {
		if n > most[level] {
			return false
		}
	}
	return true
}
