package synergy

import (
	"cmp"
	"slices"
)

// server is what is left of one in this round.
type server struct {
	id   int
	left vector
	free []int   // GPUs by number, in order
	jobs []*task // that were placed here, as they were sorted last
}

// clear gives everything back.
func (v *server) clear(m machine) {
	v.left = vector{float64(m.gpus), float64(m.cpus), float64(m.memory), float64(m.disk)}
	v.free, v.jobs = v.free[:0], v.jobs[:0]
	for i := range m.gpus {
		v.free = append(v.free, i)
	}
}

func (v *server) book(d vector) {
	for i := range d {
		v.left[i] -= d[i]
	}
}

// fewest is the order in which servers are tried.
func fewest(a, b *server) int {
	return cmp.Or(cmp.Compare(len(a.free), len(b.free)), cmp.Compare(a.id, b.id))
}

// allocate places a task by the rules of the policy.
func (s *scheduler) allocate(t *task) bool {
	own := s.fair().times(float64(t.gpus))
	switch s.share {
	case fair:
		return s.place(t, own, true)
	case greedy:
		return s.place(t, t.want, false)
	}
	if s.place(t, t.want, false) {
		return true
	}
	d := t.want
	if d.exceeds(own) {
		t.speedup, d = 1, own
		if s.place(t, d, false) {
			return true
		}
	}
	for _, at := range s.targets(t.gpus) {
		need := d.times(float64(at.gpus) / float64(t.gpus))
		for _, peer := range s.peers(at.server, need) {
			s.revert(peer)
		}
	}
	return s.place(t, d, false)
}

// place finds room for a task with a vector: a gang on one server, the one with the
// fewest free GPUs that has room for all of it, otherwise GPU by GPU from the server
// with the fewest free ones.
func (s *scheduler) place(t *task, d vector, fair bool) bool {
	if t.gpus > 1 {
		var best *server
		for _, v := range s.servers {
			if len(v.free) > 0 && !d.exceeds(v.left) && (best == nil || len(v.free) < len(best.free)) {
				best = v
			}
		}
		if best != nil {
			t.parts = append(t.parts[:0], part{best, slices.Clone(best.free[:t.gpus]), d})
			best.free = append(best.free[:0], best.free[t.gpus:]...)
			s.take(t, fair)
			return true
		}
	}
	return s.scatter(t, d, fair)
}

// scatter takes GPU by GPU, each with its part of the vector.
func (s *scheduler) scatter(t *task, d vector, fair bool) bool {
	each := d.times(1) // of one GPU
	for i := range each {
		each[i] = d[i] / d[0]
	}
	s.open = s.open[:0]
	for _, v := range s.servers {
		if len(v.free) > 0 {
			s.open = append(s.open, v)
		}
	}
	slices.SortFunc(s.open, fewest)
	parts, got := t.parts[:0], 0
	for _, v := range s.open {
		p, left, n := part{server: v}, v.left, 0
		for ; got+n < t.gpus && n < len(v.free) && !each.exceeds(left); n++ {
			for i := range each {
				left[i] -= each[i]
				p.has[i] += each[i]
			}
		}
		if n > 0 {
			p.gpus = slices.Clone(v.free[len(v.free)-n:])
			parts = append(parts, p)
		}
		if got += n; got == t.gpus {
			break
		}
	}
	if got < t.gpus {
		return false
	}
	for _, p := range parts {
		p.server.free = p.server.free[:len(p.server.free)-len(p.gpus)]
	}
	t.parts = parts
	s.take(t, fair)
	return true
}

// take books what a task has just been given.
func (s *scheduler) take(t *task, fair bool) {
	for _, p := range t.parts {
		p.server.book(p.has)
		p.server.jobs = append(p.server.jobs, t)
	}
	t.run(fair)
}

// target is a server on which a task is to be placed.
type target struct {
	server *server
	gpus   int
}

// targets are servers whose free GPUs suffice: the first that has enough, for a gang,
// otherwise those with the fewest.
func (s *scheduler) targets(need int) []target {
	if need > 1 {
		for _, v := range s.servers {
			if len(v.free) >= need {
				return []target{{v, need}}
			}
		}
	}
	open := slices.DeleteFunc(slices.Clone(s.servers), func(v *server) bool { return len(v.free) == 0 })
	slices.SortFunc(open, fewest)
	var out []target
	for _, v := range open {
		n := min(need, len(v.free))
		out = append(out, target{v, n})
		if need -= n; need == 0 {
			break
		}
	}
	return out
}

// peers lists the tasks of a server that are to give back what they have beyond
// their share so that a vector fits. The tasks with the most for each GPU come
// first. Tasks that have nothing to give back are among them.
func (s *scheduler) peers(v *server, d vector) []*task {
	need, any := vector{}, false
	for i := range d {
		need[i] = max(0, d[i]-v.left[i])
		any = any || need[i] > 0
	}
	if !any {
		return nil
	}
	slices.SortStableFunc(v.jobs, func(a, b *task) int {
		x, y := a.has(), b.has()
		return cmp.Or(cmp.Compare(len(a.parts), len(b.parts)), cmp.Compare(y[1]/y[0], x[1]/x[0]), cmp.Compare(y[2]/y[0], x[2]/x[0]))
	})
	for n, t := range v.jobs {
		here := float64(t.on(v))
		has, own := t.has().times(here/float64(t.gpus)), s.fair().times(here)
		any = false
		for i := range need {
			need[i] = max(0, need[i]-max(0, has[i]-own[i]))
			any = any || need[i] > 0
		}
		if !any {
			return v.jobs[:n+1]
		}
	}
	return v.jobs
}

// has is all that a task has.
func (t *task) has() vector {
	var sum vector
	for _, p := range t.parts {
		for i := range sum {
			sum[i] += p.has[i]
		}
	}
	return sum
}

// on is how many GPUs of a server a task has.
func (t *task) on(v *server) int {
	n := 0
	for _, p := range t.parts {
		if p.server == v {
			n += len(p.gpus)
		}
	}
	return n
}

// revert leaves a peer its share of what it has beside its GPUs, and counts its round
// anew.
func (s *scheduler) revert(t *task) {
	t.back()
	d, own := t.want, s.fair().times(float64(t.gpus))
	if d.exceeds(own) {
		t.speedup, d[1], d[2], d[3] = 1, own[1], own[2], own[3]
	}
	for i := range t.parts {
		p := &t.parts[i]
		p.server.book(p.has.times(-1))
		p.has = d.times(p.has[0] / float64(t.gpus))
		p.server.book(p.has)
	}
	t.run(true)
}
