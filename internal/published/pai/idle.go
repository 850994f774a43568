package pai

import (
	"cmp"
	"math"
	"slices"

	"github.com/norn-scheduler/norn/state/dense"
)

// idle is what is idle on the nodes, beside the ledger of the run, since the
// published code sorts the nodes by it.
type idle struct {
	nodes    []node
	capacity []node
	used     []int32 // of a node, in per cent of GPUs and CPUs, rounded
	total    pair
	matching bool
	balance  bool
	freed    dense.Set // nodes that got something back since the last walk
	order    []int32
	found    []piece
}

func newIdle(m *machine, balance bool) idle {
	s := idle{
		nodes: slices.Clone(m.nodes), capacity: m.nodes, used: make([]int32, len(m.nodes)),
		matching: m.matching, balance: balance, order: make([]int32, len(m.nodes)),
	}
	s.total.gpus, s.total.cpus = m.totals()
	for i := range s.order {
		s.order[i] = int32(i)
	}
	return s
}

// full tells whether there is neither any GPU nor any CPU left.
func (s *idle) full() bool { return s.total.gpus <= 0 && s.total.cpus <= 0 }

// book takes instances of a job to a node (sign 1) or off it (sign -1).
func (s *idle) book(f *facts, at piece, sign int64) {
	n := &s.nodes[at.node]
	gpus, cpus := sign*int64(f.gpus)*int64(at.instances), sign*int64(f.cpus)*int64(at.instances)
	n.gpus, n.cpus = n.gpus-gpus, n.cpus-cpus
	s.total.gpus, s.total.cpus = s.total.gpus-gpus, s.total.cpus-cpus
	if sign < 0 {
		s.freed.Add(int(at.node))
	}
	if s.balance {
		s.used[at.node] = used(*n, s.capacity[at.node])
	}
}

// used is how much of a node is in use, in per cent, as the published code
// rounds it. The conversions keep each step in double precision.
func used(n, capacity node) int32 {
	share := 1 - float64(n.cpus)/float64(capacity.cpus)
	if capacity.gpus > 0 {
		gpus := 1 - float64(n.gpus)/float64(capacity.gpus)
		share = float64(100*float64(gpus+share)) / 2
	} else {
		share = float64(100 * share)
	}
	return int32(math.RoundToEven(share))
}

// find finds nodes for a job: for a single instance the first one in order that
// has room, for a gang as many instances as fit on the first one, then on the
// next, and so on. The answer is in found. vain tells that nothing but what was
// freed since has room for a single instance.
func (s *idle) find(f *facts, vain bool) bool {
	s.found = s.found[:0]
	if f.instances > 1 {
		return s.findMany(f)
	}
	best := int32(-1)
	look := func(i int32) bool {
		if n := &s.nodes[i]; s.suits(f, n) && int64(f.gpus) <= n.gpus && int64(f.cpus) <= n.cpus && (best < 0 || s.before(i, best)) {
			best = i
		}
		return best < 0 || s.balance
	}
	if vain && f.gpus+f.cpus > 0 {
		for i := range s.freed.All() {
			if !look(int32(i)) {
				break
			}
		}
	} else {
		for i := range s.nodes {
			if !look(int32(i)) {
				break
			}
		}
	}
	if best >= 0 {
		s.found = append(s.found, piece{best, 1})
	}
	return best >= 0
}

func (s *idle) findMany(f *facts) bool {
	if s.balance {
		slices.SortFunc(s.order, func(a, b int32) int { return cmp.Or(cmp.Compare(s.used[a], s.used[b]), cmp.Compare(a, b)) })
	}
	gpus, cpus, left := int64(f.gpus), int64(f.cpus), int64(f.instances)
	for _, i := range s.order {
		n := &s.nodes[i]
		if !s.suits(f, n) {
			continue
		}
		fit := left
		if gpus > 0 {
			fit = min(fit, n.gpus/gpus)
		}
		if cpus > 0 {
			fit = min(fit, n.cpus/cpus)
		}
		if fit > 0 {
			s.found = append(s.found, piece{i, int32(fit)})
			left -= fit
		}
		if left == 0 {
			return true
		}
	}
	s.found = s.found[:0]
	return false
}

// before tells whether a node stands before another one in the order.
func (s *idle) before(a, b int32) bool {
	if s.balance && s.used[a] != s.used[b] {
		return s.used[a] < s.used[b]
	}
	return a < b
}

// suits tells whether a job may run on a node: one that wants a V100 on nothing
// else, any other one anywhere.
func (s *idle) suits(f *facts, n *node) bool { return !s.matching || !f.v100 || n.v100 }
