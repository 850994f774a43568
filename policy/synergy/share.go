package synergy

import (
	"cmp"
	"slices"

	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/perf"
)

// rations are what a job may be dealt of a node.
type rations struct{ want, least perf.Ration }

// want is the ration with which a job is fastest on a node, cut to what the node has;
// a gang that is larger than the node is cut to its proportional share, as in the
// published simulator.
func (c *claim) want(n *server) perf.Ration { return c.of(n).want }

// least is the smallest ration with which a job is as fast on a node as with its
// proportional share.
func (c *claim) least(n *server) perf.Ration { return c.of(n).least }

func (c *claim) of(n *server) *rations {
	if c.on != n.shape {
		c.on, c.most = n.shape, rations{c.findWant(n), c.findLeast(n)}
	}
	return &c.most
}

func (c *claim) findWant(n *server) perf.Ration {
	if c.grid == nil {
		return c.limited(c.asks)
	}
	best, has := c.grid.Best(), n.fair
	if c.gpus <= n.gpus {
		has = perf.Ration{CPU: n.size.CPU / unit.Milli(c.gpus), Memory: n.size.Memory / unit.Bytes(c.gpus)}
	}
	if r := c.limited(best.Least(has)); c.rate(n, r) >= 1 {
		return r
	}
	return c.findLeast(n) // a cut in both may cost more than it is worth
}

func (c *claim) findLeast(n *server) perf.Ration {
	if c.grid == nil {
		return c.limited(c.asks)
	}
	if r := c.grid.Enough(c.grid.Rate(n.believed(n.fair))); r.Within(n.fair) {
		return c.limited(r)
	}
	return c.limited(n.fair)
}

func (c *claim) limited(r perf.Ration) perf.Ration {
	if c.limit != (perf.Ration{}) {
		return r.Least(c.limit)
	}
	return r
}

// proportional is the proportional share, or what a job without a grid asks for beyond
// it.
func (c *claim) proportional(n *server) perf.Ration {
	r := n.fair
	if c.grid == nil {
		r = perf.Ration{CPU: max(r.CPU, c.asks.CPU), Memory: max(r.Memory, c.asks.Memory)}
	}
	if !n.cores {
		r.CPU = 0
	}
	if !n.memory {
		r.Memory = 0
	}
	return c.limited(r)
}

// believed is a ration as the grid counts: what a node does not account for is there as
// where grids were measured.
func (n *server) believed(r perf.Ration) perf.Ration {
	if !n.cores {
		r.CPU = perf.FairShare().CPU
	}
	if !n.memory {
		r.Memory = perf.FairShare().Memory
	}
	return r
}

// rate is how fast a job is with a ration on a node over what it is with its
// proportional share there.
func (c *claim) rate(n *server, r perf.Ration) float64 {
	if c.grid == nil {
		return 1
	}
	normal := c.grid.Rate(n.believed(n.fair))
	if normal <= 0 {
		return 1
	}
	return c.grid.Rate(n.believed(r)) / normal
}

// asked is a ration that a job is to be dealt, by node.
type asked func(*server) perf.Ration

// deal deals GPUs and rations to the claims that were chosen, and then to those of the
// others that find room.
func (s *policy) deal() {
	if s.cfg.Share == Opt {
		s.dealBest()
		return
	}
	s.dealBy(s.byRule)
}

func (s *policy) byRule(c *claim) { s.settle(c, true) }

// dealBy deals to all by a rule. Where one that was chosen finds no room, because a larger
// one or one that ran came before it, all are dealt again, those up to it in order.
func (s *policy) dealBy(settle func(*claim)) {
	for _, c := range s.claims {
		c.early = false
	}
	s.dealAll(settle)
	last := -1
	for i, c := range s.claims {
		if c.chosen && !c.fixed && len(c.parts) == 0 {
			last = i
		}
	}
	if last < 0 || !s.sorted() {
		return
	}
	for _, c := range s.claims[:last+1] {
		c.early = true
	}
	s.clear()
	s.dealAll(settle)
}

// dealAll has each claim settled in turn. Those that keep their devices are dealt their
// least rations ahead of all, which they have, so that none of them takes what another
// one cannot do without.
func (s *policy) dealAll(settle func(*claim)) {
	all := s.inTurn()
	for _, c := range all {
		if c.rooted {
			s.together(c, c.least)
		}
	}
	for _, c := range all {
		if c.rooted {
			s.floor.drop(c)
		}
		settle(c)
	}
	for _, c := range s.claims {
		if len(c.parts) == 0 && !c.fixed && c.gpus <= s.floor.free {
			settle(c)
		}
	}
	if s.cfg.Surplus && s.cfg.Share == Tune {
		for _, c := range s.claims {
			s.topUp(c)
		}
	}
}

// topUp gives a job what is left on its nodes towards what it wants, where that makes it
// faster.
func (s *policy) topUp(c *claim) {
	if c.grid == nil || len(c.parts) != 1 {
		return
	}
	p := &c.parts[0]
	n, want := p.server, c.want(p.server)
	each := perf.Ration{
		CPU:    max(p.each.CPU, min(want.CPU, p.each.CPU+n.left.CPU/unit.Milli(p.gpus))),
		Memory: max(p.each.Memory, min(want.Memory, p.each.Memory+n.left.Memory/unit.Bytes(p.gpus))),
	}
	if speed := c.rate(n, each); speed > c.speed {
		n.left.CPU -= (each.CPU - p.each.CPU) * unit.Milli(p.gpus)
		n.left.Memory -= (each.Memory - p.each.Memory) * unit.Bytes(p.gpus)
		p.each, c.speed = each, speed
	}
}

// sorted tells whether jobs are dealt in another order than that in which they are chosen.
func (s *policy) sorted() bool { return s.cfg.Share == Tune || s.cfg.Share == Opt }

// inTurn are the claims that were chosen, in the order in which they are dealt: under tune
// the largest gangs first, of equals those that ran.
func (s *policy) inTurn() []*claim {
	var out []*claim
	for _, c := range s.claims {
		if c.chosen && !c.fixed {
			out = append(out, c)
		}
	}
	slices.SortStableFunc(out, func(a, b *claim) int {
		if a.rooted != b.rooted || a.early != b.early {
			return cmp.Or(first(a.rooted)-first(b.rooted), first(a.early)-first(b.early))
		}
		if !s.sorted() || a.early {
			return 0
		}
		return cmp.Or(cmp.Compare(b.gpus, a.gpus), first(a.was != nil)-first(b.was != nil))
	})
	return out
}

func first(yes bool) int {
	if yes {
		return -1
	}
	return 1
}

// settle deals a job a place and a ration by the rules of the policy; revert tells
// whether peers may be left less for it.
func (s *policy) settle(c *claim, revert bool) {
	if c.rooted { // its least ration it can always have, where it is
		_ = s.cfg.Share == Proportional && s.together(c, c.proportional) || s.cfg.Share != Proportional && s.together(c, c.want) ||
			s.together(c, c.least) || s.reclaim(c, true)
		return
	}
	switch s.cfg.Share {
	case Proportional:
		_ = s.together(c, c.proportional) || s.apart(c, c.proportional)
	case Greedy:
		_ = s.together(c, c.want) || s.apart(c, c.want)
	default:
		s.tune(c, revert)
	}
}

// tune deals a job what it wants, else its proportional share as far as it needs that,
// else the same after peers have given back what they have beyond theirs. A job that is
// slower on several nodes goes there only when it must, or when what it wants there makes
// up for it.
func (s *policy) tune(c *claim, revert bool) {
	if s.together(c, c.want) {
		return
	}
	if c.fast*c.apart >= 1 && s.apart(c, c.want) {
		return
	}
	if s.together(c, c.least) || c.apart >= 1 && s.apart(c, c.least) {
		return
	}
	_ = revert && s.reclaim(c, true) || s.apart(c, c.least) || revert && s.reclaim(c, false)
}

// together deals a job GPUs of one node: of that which it was on, otherwise of the one
// with the fewest free GPUs that has room for all.
func (s *policy) together(c *claim, ration asked) bool {
	if c.was != nil && (c.rooted || c.apart >= 1 || c.was.Nodes() == 1) && s.back(c, ration) {
		return true
	}
	if c.rooted {
		return false
	}
	var best *server
	for _, n := range s.floor.servers {
		if n.free >= c.gpus && (best == nil || n.free < best.free) && n.fits(c, ration(n), c.gpus) == c.gpus {
			best = n
		}
	}
	if best == nil {
		return false
	}
	each := ration(best)
	s.floor.take(c, best, c.gpus, each)
	c.speed = c.rate(best, each)
	return true
}

// back deals a job the devices that it had before the round.
func (s *policy) back(c *claim, ration asked) bool {
	if c.was.Tasks(0) != c.gpus {
		return false
	}
	for i := range c.was.Pieces {
		p := &c.was.Pieces[i]
		n := s.floor.at[p.Node]
		if n == nil || n.fits(c, ration(n), int(p.Tasks)) < int(p.Tasks) {
			return false
		}
	}
	for i := range c.was.Shares {
		share := &c.was.Shares[i]
		node := s.floor.nodeOf(share.Device)
		if node == nil || node.device(share.Device).free < unit.Milli(share.Milli) {
			return false
		}
	}
	for i := range c.was.Pieces {
		p := &c.was.Pieces[i]
		n := s.floor.at[p.Node]
		each := ration(n)
		s.floor.take(c, n, int(p.Tasks), each)
		if r := c.rate(n, each); i == 0 || r < c.speed {
			c.speed = r
		}
	}
	if len(c.parts) > 1 {
		c.speed *= c.apart
	}
	return true
}

// apart deals a job GPU by GPU, from the node with the fewest free ones that has room
// for each.
func (s *policy) apart(c *claim, ration asked) bool {
	if c.rooted || c.gpus == 1 || s.floor.free < c.gpus {
		return false
	}
	left := c.gpus
	for _, n := range s.floor.servers {
		if left -= n.fits(c, ration(n), left); left == 0 {
			break
		}
	}
	if left > 0 {
		return false
	}
	left = c.gpus
	for _, n := range s.floor.fewest(c.mask) {
		each := ration(n)
		k := n.fits(c, each, left)
		if k == 0 {
			continue
		}
		s.floor.take(c, n, k, each)
		if r := c.rate(n, each) * c.apart; left == c.gpus || r < c.speed {
			c.speed = r
		}
		if left -= k; left == 0 {
			break
		}
	}
	return true
}

// reclaim deals a job its least ration on nodes whose peers make room for it:
// on one node, or on several. Peers do not get back what they have given back.
func (s *policy) reclaim(c *claim, one bool) bool {
	if c.rooted {
		for i := range c.was.Pieces {
			p := &c.was.Pieces[i]
			if n := s.floor.at[p.Node]; n == nil || !s.makeRoom(n, c.least(n), int(p.Tasks)) {
				return false
			}
		}
		return s.back(c, c.least)
	}
	left := c.gpus
	for _, n := range s.candidates(c, one) {
		k := min(left, n.room(c.mask))
		if one && k < left {
			continue
		}
		for k > 0 && !s.makeRoom(n, c.least(n), k) {
			if k--; one {
				k = 0
			}
		}
		if k == 0 {
			continue
		}
		s.floor.take(c, n, k, c.least(n))
		c.speed = 1
		if left -= k; left == 0 {
			if len(c.parts) > 1 {
				c.speed = c.apart
			}
			return true
		}
	}
	s.floor.drop(c)
	return false
}

// candidates are the nodes on which room may be made: for a gang on one node the first
// that has GPUs enough, otherwise those with the fewest first.
func (s *policy) candidates(c *claim, one bool) []*server {
	if one && c.gpus > 1 {
		return s.floor.servers
	}
	return s.floor.fewest(c.mask)
}

// makeRoom has peers on a node give back what they have beyond what makes them as
// fast as their share, until so many GPUs with a ration have room: those on the fewest
// nodes first, then those with the most. It changes nothing when that is not enough.
func (s *policy) makeRoom(n *server, each perf.Ration, gpus int) bool {
	cpu, memory := each.CPU*unit.Milli(gpus)-n.left.CPU, each.Memory*unit.Bytes(gpus)-n.left.Memory
	if cpu <= 0 && memory <= 0 {
		return true
	}
	slices.SortStableFunc(n.jobs, func(a, b *claim) int {
		x, y := a.part(n.id).each, b.part(n.id).each
		return cmp.Or(cmp.Compare(len(a.parts), len(b.parts)), cmp.Compare(y.CPU, x.CPU), cmp.Compare(y.Memory, x.Memory), cmp.Compare(a.id, b.id))
	})
	var peers []*claim
	for _, c := range n.jobs {
		p := c.part(n.id)
		back, can := c.excess(p)
		if !can || (cpu <= 0 || back.CPU <= 0) && (memory <= 0 || back.Memory <= 0) {
			continue
		}
		peers = append(peers, c)
		cpu, memory = cpu-back.CPU, memory-back.Memory
		if cpu <= 0 && memory <= 0 {
			for _, peer := range peers {
				peer.revert()
			}
			return true
		}
	}
	return false
}

// excess is what a job has of a part beyond its least ration, for all its GPUs there;
// can is false where a part of it has less than that of something.
func (c *claim) excess(of *part) (back perf.Ration, can bool) {
	for i := range c.parts {
		if p := &c.parts[i]; !c.least(p.server).Within(p.each) {
			return back, false
		}
	}
	least := c.least(of.server)
	return perf.Ration{CPU: (of.each.CPU - least.CPU) * unit.Milli(of.gpus), Memory: (of.each.Memory - least.Memory) * unit.Bytes(of.gpus)}, true
}

// revert leaves a job its least ration.
func (c *claim) revert() {
	for i := range c.parts {
		p := &c.parts[i]
		least := c.least(p.server)
		p.server.left.CPU += (p.each.CPU - least.CPU) * unit.Milli(p.gpus)
		p.server.left.Memory += (p.each.Memory - least.Memory) * unit.Bytes(p.gpus)
		p.each = least
	}
	c.speed = 1
	if len(c.parts) > 1 {
		c.speed = c.apart
	}
}
