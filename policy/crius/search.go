package crius

import (
	"cmp"
	"slices"

	"github.com/norn-scheduler/norn/cluster"
)

// option is one way to fit a member in: what some members have instead.
type option struct {
	gain float64
	have []change
}

// search looks for room for a member that finds none together.
type search struct {
	*round
	target int
	mark   int // of the log, before anything was changed
	best   *option
}

// fit fits a member in, and is false if there is no way. Where its cell is free together, after moves
// on the nodes if need be, it has that. Else others shrink or change their type, or it does
// so itself, whichever way gains most in all.
func (r *round) fit(i int) bool {
	s := search{round: r, target: i, mark: len(r.log)}
	asks := r.members[i].asks
	if h := r.place(i, asks); h != nil {
		r.set(i, h)
		if r.isTogether(i, h) {
			return true
		}
		s.offer()
		r.undo(s.mark)
	}
	s.step(asks, r.depth)
	if s.best == nil {
		return false
	}
	for _, c := range s.best.have { // all leave before anybody comes
		r.set(c.member, nil)
	}
	for _, c := range s.best.have {
		r.set(c.member, c.hold)
	}
	return true
}

// offer takes what the ledger has for an option, if nobody is where he cannot run.
func (s *search) offer() {
	o := option{}
	for _, c := range s.changed(s.mark) {
		now := s.has(c.member, s.holds[c.member])
		if now == infeasible {
			return
		}
		o.gain += now - s.has(c.member, c.hold)
		o.have = append(o.have, change{c.member, s.holds[c.member]})
	}
	if s.best == nil || o.gain > s.best.gain {
		s.best = &o
	}
}

// step changes one job after the other, and looks whether the target, which wants a cell, finds room
// then; if not, it goes on from there.
func (s *search) step(wants cell, depth int) {
	if depth == 0 {
		return
	}
	for _, t := range s.types {
		if i, less := s.shrinks(t, wants); i >= 0 {
			s.try(i, less, wants, depth)
		}
	}
	for _, t := range s.types {
		if i := s.changes(wants, t); i >= 0 {
			s.try(i, cell{t, s.cellOf(i, wants).tasks}, wants, depth)
		}
	}
}

// try gives a job another cell, and goes on.
func (s *search) try(i int, to cell, wants cell, depth int) {
	mark := len(s.log)
	defer s.undo(mark)
	if i == s.target {
		wants = to
	} else if !s.give(i, to) {
		return
	}
	if h := s.place(s.target, wants); h != nil {
		s.set(s.target, h)
		s.offer()
		return
	}
	s.step(wants, depth-1)
}

// give gives a member another cell: of its own type a part of what it has, of another type what is
// free there.
func (s *search) give(i int, to cell) bool {
	was := s.holds[i]
	if to.typ == was.typ && to.tasks < was.tasks {
		h := &hold{cell: to}
		for left, k := to.tasks, 0; left > 0; k++ {
			n := min(left, was.spots[k].tasks)
			h.spots = append(h.spots, spot{was.spots[k].node, n})
			left -= n
		}
		s.set(i, h)
		return true
	}
	s.set(i, nil)
	h := s.place(i, to)
	if h != nil {
		s.set(i, h)
	}
	return h != nil
}

// cellOf is the cell that a job has or, if it is the target, wants.
func (s *search) cellOf(i int, wants cell) cell {
	if i == s.target {
		return wants
	}
	return s.holds[i].cell
}

// eachOn visits the jobs that have GPUs of a type, and the target if it wants that.
func (s *search) eachOn(t cluster.TypeID, wants cell, visit func(i int, c cell)) {
	for i, h := range s.holds {
		if i == s.target {
			if wants.typ == t {
				visit(i, wants)
			}
		} else if h != nil && h.typ == t {
			visit(i, h.cell)
		}
	}
}

// shrinks is the job that loses least when it has the next smaller size, among those with at
// least half as many GPUs as the largest of a type; -1: there is none.
func (s *search) shrinks(t cluster.TypeID, wants cell) (best int, to cell) {
	largest := 0
	s.eachOn(t, wants, func(i int, c cell) { largest = max(largest, c.tasks*s.each[i]) })
	most := 0.0
	best = -1
	s.eachOn(t, wants, func(i int, c cell) {
		m := &s.members[i]
		k := slices.Index(m.sizes, c.tasks)
		if k <= 0 || 2*c.tasks*s.each[i] < largest {
			return
		}
		less := cell{t, m.sizes[k-1]}
		if gain := s.throughput(i, less, 0) - s.now(i, c); best < 0 || gain > most {
			best, to, most = i, less, gain
		}
	})
	return best, to
}

// now is the throughput of a job in the cell that it has, where it has it, or wants.
func (s *search) now(i int, c cell) float64 {
	if i == s.target {
		return s.throughput(i, c, 0)
	}
	return s.has(i, s.holds[i])
}

// changes is the job that gains most by another type, among those on the type that the target
// wants, if as many GPUs are free there; -1: there is none.
func (s *search) changes(wants cell, t cluster.TypeID) (best int) {
	best = -1
	if !s.cfg.Types || t == wants.typ {
		return best
	}
	most := 0.0
	s.eachOn(wants.typ, wants, func(i int, c cell) {
		if s.kinds[t].free < c.tasks*s.each[i] || !s.accepts(&s.members[i], t) {
			return
		}
		if gain := s.throughput(i, cell{t, c.tasks}, 0) - s.now(i, c); best < 0 || gain > most {
			best, most = i, gain
		}
	})
	return best
}

// mostUpgrades is how many jobs are upgraded in a round.
const mostUpgrades = 10

// upgrade gives jobs that run better cells, one after the other, as long as one gains: of another
// type with as many GPUs, or of its own type with the next larger size.
func (r *round) upgrade() {
	for range mostUpgrades {
		if !r.upgradeOne() {
			return
		}
	}
}

func (r *round) upgradeOne() bool {
	type step struct {
		i    int
		to   cell
		gain float64
	}
	var steps []step
	for i, h := range r.holds {
		if h == nil {
			continue
		}
		m, was := &r.members[i], r.has(i, h)
		add := func(to cell) {
			free := r.kinds[to.typ].free
			if to.typ == h.typ {
				free += h.tasks * r.each[i]
			}
			if gain := r.throughput(i, to, 0) - was; gain > 0 && free >= to.tasks*r.each[i] && r.accepts(m, to.typ) {
				steps = append(steps, step{i, to, gain})
			}
		}
		for _, t := range r.types {
			if r.cfg.Types && t != h.typ {
				add(cell{t, h.tasks})
			}
		}
		if k := slices.Index(m.sizes, h.tasks); k >= 0 && k+1 < len(m.sizes) {
			add(cell{h.typ, m.sizes[k+1]})
		}
	}
	slices.SortStableFunc(steps, func(a, b step) int { return cmp.Compare(b.gain, a.gain) })
	best, gain := change{member: -1}, 0.0
	for _, s := range steps {
		if s.gain <= gain {
			break // apart it gains less than together
		}
		mark, was := len(r.log), r.has(s.i, r.holds[s.i])
		r.set(s.i, nil)
		h := r.place(s.i, s.to)
		switch {
		case h != nil && r.isTogether(s.i, h): // nobody gains more
			r.set(s.i, h)
			return true
		case h != nil && r.has(s.i, h)-was > gain:
			best, gain = change{s.i, h}, r.has(s.i, h)-was
		}
		r.undo(mark)
	}
	if best.member >= 0 {
		r.set(best.member, best.hold)
	}
	return best.member >= 0
}
