package synergy

import (
	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/sched"
)

// tally is what the jobs that were chosen take of a floor on which they are not yet
// placed: all nodes taken together.
type tally struct {
	*floor
	sum     int                      // GPUs
	opened  unit.Milli               // what they leave of GPUs of which they need a part
	by      map[cluster.TypeMask]int // GPUs, by the types that will do
	takes   amounts                  // with what those have that stay
	has     amounts                  // when nobody has anything
	average perf.Ration              // of that, for each GPU
	rooms   map[cluster.TypeMask]int // free GPUs of some types, as far as they have been counted
}

func (f *floor) tally() *tally {
	t := &tally{floor: f, by: map[cluster.TypeMask]int{}, rooms: map[cluster.TypeMask]int{}}
	for _, s := range f.servers {
		t.has = t.has.plus(s.left, 1)
	}
	if f.free > 0 {
		t.average = perf.Ration{CPU: unit.Milli(t.has.cpu / float64(f.free)), Memory: unit.Bytes(t.has.memory / float64(f.free))}
	}
	return t
}

// need is what a job cannot do without, of cores and memory: of one whose ration can be
// less than it likes no more than everybody could have.
func (t *tally) need(c *claim) amounts {
	switch {
	case c.fixed || c.grid == nil:
		return t.takes.plus(c.asksIn, 1)
	case t.largest == nil:
		return t.takes
	}
	return t.takes.plus(c.least(t.largest).Least(t.average), c.gpus)
}

// take counts a job in, if there is room for it.
func (t *tally) take(c *claim) bool {
	gpus, part := int(c.milli/unit.One), c.milli%unit.One
	if part > t.loose+t.opened {
		gpus++
	}
	if t.sum+gpus > t.free || c.mask != 0 && t.within(c.mask)+gpus > t.roomFor(c.mask) {
		return false
	}
	need := t.need(c)
	if c.lacks = !need.within(t.has); c.lacks {
		return false
	}
	t.takes, t.opened = need, t.opened-part
	if part > 0 && gpus > int(c.milli/unit.One) {
		t.opened += unit.One
	}
	t.sum += gpus
	t.by[c.mask] += gpus
	return true
}

func (t *tally) roomFor(m cluster.TypeMask) int {
	n, known := t.rooms[m]
	if !known {
		n = t.room(m)
		t.rooms[m] = n
	}
	return n
}

// within is how many GPUs have been taken by jobs for which no other types will do than
// those given.
func (t *tally) within(m cluster.TypeMask) int {
	n := 0
	for by, gpus := range t.by {
		if by != 0 && by&^m == 0 {
			n += gpus
		}
	}
	return n
}

// keep has a running job that is placed as it asks stay where it is, if that leaves GPUs
// enough for those before it.
func (t *tally) keep(c *claim) bool {
	if c.was == nil || !c.fixed || !t.book(c.was) {
		return false
	}
	need := t.takes
	for i := range c.was.Pieces {
		need = need.plus(perf.Ration{CPU: c.was.Pieces[i].CPU, Memory: c.was.Pieces[i].Memory}, 1)
	}
	if t.sum > t.free || !need.within(t.has) {
		t.change(c.was, 1)
		return false
	}
	t.takes = need
	clear(t.rooms)
	return true
}

// choose chooses the jobs for which there is room, in order; those that stay where they
// are come first.
func (s *policy) choose() {
	t := s.floor.tally()
	for _, c := range s.claims {
		if c.rooted {
			c.chosen = true
			t.takes, t.sum = t.need(c), t.sum+c.gpus
		}
	}
	for _, c := range s.claims {
		if !c.chosen {
			c.same = t.keep(c)
			c.chosen = c.same || t.take(c)
		}
	}
}

// placeOthers finds places for those of the chosen jobs that are placed as they
// ask. It tries the room that is free now, then the room when the jobs that
// were not chosen have left and the others have their least rations, then the
// room when those have left, too. Rations are divided among the others around
// them.
func (s *policy) placeOthers(p *sched.Plan) {
	p.Try(func() bool {
		ways := []func(*sched.Plan, *claim){s.squeeze, s.leave}
		for _, c := range s.claims {
			if !c.fixed || !c.chosen || c.same {
				continue
			}
			for c.placed = p.Alloc(c.id) != nil || p.Start(c.id, where); !c.placed && len(ways) > 0; c.placed = p.Start(c.id, where) {
				for _, other := range s.claims {
					if other.was != nil && !other.same && !other.placed && p.Alloc(other.id) != nil {
						ways[0](p, other)
					}
				}
				ways = ways[1:]
			}
			if c.placed {
				c.spot.CopyFrom(p.Alloc(c.id))
			}
		}
		return false
	})
	for _, c := range s.claims {
		if c.placed {
			s.floor.change(&c.spot, -1)
		}
	}
}

// squeeze stops a running job that was not chosen, and leaves another its least ration
// where it is.
func (s *policy) squeeze(p *sched.Plan, c *claim) {
	switch {
	case !c.chosen:
		p.Stop(c.id, outranked)
	case !c.fixed:
		p.Adjust(c.id, func(a *cluster.Alloc) {
			for i := range a.Pieces {
				piece := &a.Pieces[i]
				n := s.floor.at[piece.Node]
				least := part{server: n, each: c.least(n)}
				piece.CPU, piece.Memory = least.amounts(int(piece.Tasks))
			}
		})
	}
}

// leave stops a running job that may be stopped.
func (s *policy) leave(p *sched.Plan, c *claim) {
	if !c.rooted {
		p.Stop(c.id, outranked)
	}
}
