package topoaware

import "slices"

// half is some machines, by their numbers.
type half struct {
	order dict
	parts map[int]*part
}

func (h *half) clone() *half {
	out := &half{order: h.order.clone(), parts: map[int]*part{}}
	for id, p := range h.parts {
		out.parts[id] = p.clone()
	}
	return out
}

// free is the number of free GPUs, and the machines that have any.
func (h *half) free() (gpus int, ids []int) {
	for _, id := range h.order.keys() {
		if n := len(h.parts[id].free()); n > 0 {
			gpus += n
			ids = append(ids, id)
		}
	}
	return gpus, ids
}

// without takes machines out.
func (h *half) without(ids []int) *half {
	for _, id := range ids {
		h.order.remove(id)
		delete(h.parts, id)
	}
	return h
}

// found is a set of GPUs of a machine.
type found struct {
	set    []int
	system float64
}

// outside tells whether distances to GPUs of the other half are known, and whether they count.
type outside struct{ known, on bool }

func (o outside) counts() bool { return o.known && o.on }

// pair is a GPU of a machine.
type pair struct{ machine, gpu int }

// mapping is the mapping by dual recursive bi-partitioning of a job with so many GPUs left.
func (s *scheduler) mapping(j *task, gpus int, h *half, o outside) []pair {
	free, ids := h.free()
	if gpus == 0 || free == 0 {
		return nil
	}
	if free == 1 {
		p := h.parts[ids[0]]
		for i := range p.sockets {
			if len(p.freeAt(i)) > 0 { // the last in the list, free or not
				return []pair{{ids[0], p.sockets[i][len(p.sockets[i])-1]}}
			}
		}
	}
	a, b := s.split(h)
	first, second, o := s.divide(j, gpus, a, b, o)
	return append(s.mapping(j, first, a, o), s.mapping(j, second, b, o)...)
}

// split divides machines by their free GPUs, or the GPUs of one machine.
func (s *scheduler) split(h *half) (*half, *half) {
	a, b := h.clone(), h.clone()
	_, ids := h.free()
	if len(ids) == 1 {
		n := len(h.parts[ids[0]].free())
		gone := s.drop(a.parts[ids[0]], n-n/2, nil)
		s.drop(b.parts[ids[0]], n/2, gone)
		return a, b
	}
	var sums [2]int
	var lists [2][]int
	for _, id := range ids {
		n, to := len(h.parts[id].free()), 0
		if sums[0] > sums[1] {
			to = 1
		}
		sums[to] += n
		lists[to] = append(lists[to], id)
	}
	return a.without(lists[1]), b.without(lists[0])
}

// drop takes GPUs out until so many are left, those of the smaller socket first, but for some that are kept. An
// allocated one goes ahead where it is the first of its socket. The sockets of a machine are walked in an order
// that goes by addresses in memory there, and here by their numbers, unless backwards says otherwise.
func (s *scheduler) drop(p *part, most int, keep []int) (gone []int) {
	total := len(p.sockets[0]) + len(p.sockets[1])
	order := []int{0, 1}
	if s.backwards != nil && s.backwards() {
		order = []int{1, 0}
	}
	was := [2]int{len(p.sockets[0]), len(p.sockets[1])}
	pop := func(i int) int {
		g := p.sockets[i][0]
		p.sockets[i] = p.sockets[i][1:]
		return g
	}
	out := func(g int) {
		p.rows[g] = false
		gone = append(gone, g)
		total--
	}
	for _, i := range order {
		if len(p.sockets[i]) == 0 {
			continue
		}
		if g := pop(i); p.allocated[g] {
			out(g)
		} else {
			p.sockets[i] = append(p.sockets[i], g)
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return was[a] - was[b] })
	for _, i := range order {
		for n := len(p.sockets[i]); n > 0 && total > most; n-- {
			if g := pop(i); contains(keep, g) {
				p.sockets[i] = append(p.sockets[i], g)
			} else {
				out(g)
			}
		}
	}
	return gone
}

// divide tells how many GPUs of a job go to each half.
func (s *scheduler) divide(j *task, gpus int, a, b *half, o outside) (first, second int, _ outside) {
	_, in := a.free()
	_, and := b.free()
	switch {
	case len(in) == 0:
		return 0, gpus, outside{known: o.known}
	case len(and) == 0:
		return gpus, 0, outside{known: o.known}
	case len(in) == 1 && len(and) == 1 && in[0] == and[0]:
		pa, pb := a.parts[in[0]], b.parts[in[0]]
		all := append(pa.free(), pb.free()...)
		best := s.best(j, gpus, all, pa, pb, o.counts())
		inFirst := pa.free()
		for _, g := range best.set {
			if contains(inFirst, g) {
				first++
			} else {
				second++
			}
		}
		return first, second, outside{known: o.known, on: true}
	}
	if x, y := s.bestOf(j, gpus, a, in, o.counts()), s.bestOf(j, gpus, b, and, o.counts()); x > -1 && x > y {
		return gpus, 0, outside{known: true}
	}
	return 0, gpus, outside{known: true}
}

// bestOf is what the best set of one machine is worth; -1: none has room.
func (s *scheduler) bestOf(j *task, gpus int, h *half, ids []int, external bool) float64 {
	best := -1.0
	for _, id := range ids {
		if all := h.parts[id].free(); len(all) >= gpus {
			best = max(best, s.best(j, gpus, all, h.parts[id], nil, external).system)
		}
	}
	return best
}

// best is the last of the sets that are worth most.
func (s *scheduler) best(j *task, gpus int, all []int, a, b *part, external bool) (best found) {
	best.system = -1
	combinations(all, gpus, func(set []int) {
		var c costs
		halves := 0
		for _, p := range []*part{a, b} {
			if p == nil || !slices.ContainsFunc(p.free(), func(g int) bool { return contains(set, g) }) {
				continue
			}
			halves++
			c.communication += p.apart(set, all, external)
			c.interference += s.suffers(j, p, set)
			c.fragmentation += p.fragmented(set)
		}
		if halves == 2 {
			c.interference /= 2
			c.fragmentation /= 2
		}
		c.others = -1
		if a.running.used > 0 {
			c.others = s.causes(j, a, set)
		}
		if worth := c.system(gpus); worth >= best.system {
			best = found{slices.Clone(set), worth}
		}
	})
	return best
}

// combinations visits the sets of so many things in the order of Python's itertools.
func combinations(all []int, n int, visit func([]int)) {
	set := make([]int, 0, n)
	var walk func(from int)
	walk = func(from int) {
		if len(set) == n {
			visit(set)
			return
		}
		for i := from; i < len(all); i++ {
			set = append(set, all[i])
			walk(i + 1)
			set = set[:len(set)-1]
		}
	}
	walk(0)
}
