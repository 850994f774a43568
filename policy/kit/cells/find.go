package cells

import (
	"cmp"
	"slices"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/state/dense"
)

// Request is a gang that looks for GPUs.
type Request struct {
	VC       int   // NoVC: as a guest
	Priority int32 // within the virtual cluster
	Tasks    []int // GPUs of each task
	Chains   []int // that it may use, best first; it has GPUs of one

	// Room is how many of its tasks a node has room for, whatever GPUs they are given; nil: for all.
	Room func(n cluster.NodeID) int
}

// GPUs is the number of GPUs of all tasks.
func (r *Request) GPUs() (n int) {
	for _, t := range r.Tasks {
		n += t
	}
	return n
}

// Found is what was found for a request. Its cells are bound to the virtual cluster until Drop.
type Found struct {
	vc       int
	priority int32
	chain    int
	tasks    [][]int32 // positions, by task
	nodes    []int32   // a position on the node, by task
	bound    []Cell
}

// Task is the node of a task, and appends its GPUs.
func (s *Space) Task(f *Found, c *cluster.Cluster, task int, gpus []cluster.DeviceID) (cluster.NodeID, []cluster.DeviceID) {
	h := s.chains[f.chain]
	for _, pos := range f.tasks[task] {
		gpus = append(gpus, h.GPUs[pos])
	}
	return c.NodeOf(h.GPUs[f.nodes[task]]), gpus
}

// GPUsOf are all GPUs that were found, in the order of the tasks.
func (s *Space) GPUsOf(f *Found) (gpus []cluster.DeviceID) {
	for _, task := range f.tasks {
		for _, pos := range task {
			gpus = append(gpus, s.chains[f.chain].GPUs[pos])
		}
	}
	return gpus
}

// Find looks for GPUs. Small tasks are placed first, each in the room with the most guaranteed GPUs
// that still holds it, and then as many as fit there. When no root has room, the smallest cell that is promised
// is bound, where it disturbs the fewest guests. Inside a room a task has GPUs that are as close
// together as can be; idle ones go first. A guest goes to the node with the most other guests, and has
// idle GPUs alone.
//
// On the GPUs that are found there may be guests, who have to leave.
func (s *Space) Find(r *Request, c *cluster.Cluster) (*Found, bool) {
	for _, n := range r.Chains {
		if r.VC == NoVC {
			if w := s.walk(r, n, c); w.beside() {
				w.arrange()
				return w.found, true
			}
			continue
		}
		if p := &s.vcs[r.VC].chains[n]; p.gpus-p.used < r.GPUs() {
			continue
		}
		w := s.walk(r, n, c)
		if w.inside() {
			w.arrange()
			return w.found, true
		}
		s.Drop(w.found)
	}
	return nil, false
}

// Victims are jobs of the same virtual cluster with lower priorities, without whom the request would
// be satisfied, by number.
func (s *Space) Victims(r *Request, c *cluster.Cluster) (victims []job.ID, ok bool) {
	for _, n := range r.Chains {
		lower := 0
		for priority, gpus := range s.vcs[r.VC].chains[n].priorities {
			if priority < r.Priority {
				lower += gpus
			}
		}
		if p := &s.vcs[r.VC].chains[n]; lower == 0 || p.gpus-p.used+lower < r.GPUs() {
			continue
		}
		w := s.walk(r, n, c)
		w.over = true
		ok := w.inside()
		s.Drop(w.found)
		if !ok {
			continue
		}
		for _, task := range w.found.tasks {
			for _, pos := range task {
				if id := w.c.gpus[pos].job; id != job.None {
					victims = append(victims, id)
				}
			}
		}
		slices.Sort(victims)
		return slices.Compact(victims), true
	}
	return nil, false
}

// walk is a search in one chain.
type walk struct {
	s       *Space
	r       *Request
	c       *chain
	cluster *cluster.Cluster
	found   *Found
	order   []int // tasks, the smallest first
	at      int   // in order: the task that is placed next
	over    bool  // GPUs of lower priorities count as open
	on      map[cluster.NodeID]int
}

func (s *Space) walk(r *Request, chain int, c *cluster.Cluster) *walk {
	w := &walk{s: s, r: r, c: s.chains[chain], cluster: c, order: make([]int, len(r.Tasks))}
	w.found = &Found{vc: r.VC, priority: r.Priority, chain: chain, tasks: make([][]int32, len(r.Tasks)), nodes: make([]int32, len(r.Tasks))}
	for i := range w.order {
		w.order[i] = i
	}
	slices.SortStableFunc(w.order, func(a, b int) int { return cmp.Compare(r.Tasks[a], r.Tasks[b]) })
	w.c.mark++
	if r.Room != nil {
		w.on = map[cluster.NodeID]int{}
	}
	return w
}

func (w *walk) done() bool { return w.at == len(w.order) }

// arrange orders tasks that follow each other and are alike by where they are, so that those of one node
// follow each other, too.
func (w *walk) arrange() {
	tasks, nodes := w.found.tasks, w.found.nodes
	for i := 0; i < len(tasks); {
		end := i + 1
		for end < len(tasks) && w.r.Tasks[end] == w.r.Tasks[i] {
			end++
		}
		if w.r.Tasks[i] > 0 {
			slices.SortFunc(tasks[i:end], func(a, b []int32) int { return cmp.Compare(a[0], b[0]) })
		}
		slices.Sort(nodes[i:end])
		i = end
	}
}

// need is the number of GPUs of the next task.
func (w *walk) need() int { return w.r.Tasks[w.order[w.at]] }

// each visits the items of an order that are in [from, to), until the search is done.
func (w *walk) each(l *dense.List, from, to dense.Item, visit func(it dense.Item)) bool {
	for it, ok := l.From(from); ok && it.Before(to) && !w.done(); it, ok = l.From(it) {
		visit(it)
		it.ID++
	}
	return w.done()
}

// inside places the tasks in cells of their virtual cluster: first in rooms where others are, then in
// empty ones, the smallest first, whether they are bound yet or not. So it depends on nobody else
// whether there is room.
func (w *walk) inside() bool {
	p, node := &w.s.vcs[w.r.VC].chains[w.c.number], w.c.Levels[w.c.Node].GPUs
	visit := func(it dense.Item) { w.room(min(int(w.c.root[it.ID]), w.c.Node), int(it.ID)) }
	from := dense.Item{A: int64(w.need() - node)}
	if w.over {
		from.A = -int64(node)
	}
	if w.each(&p.rooms, from, dense.Item{}, visit) {
		return true
	}
	for room := range w.c.Node + 1 {
		size := w.c.Levels[room].GPUs
		if size < w.need() {
			continue
		}
		if w.each(&p.rooms, dense.Item{B: emptyRoom(size)}, dense.Item{B: emptyRoom(size + 1)}, visit) {
			return true
		}
		last := room
		if room == w.c.Node {
			last = len(p.unbound) - 1
		}
		for level := room; level <= last; level++ {
			if w.roots(p, level) {
				return true
			}
		}
	}
	return false
}

// roots binds cells of a level as long as tasks are left.
func (w *walk) roots(p *part, level int) bool {
	for p.unbound[level] > 0 && w.c.Levels[min(level, w.c.Node)].GPUs >= w.need() {
		index, ok := w.bind(level)
		if !ok {
			return false
		}
		if w.root(level, index); w.done() {
			return true
		}
	}
	return false
}

// root places tasks in the rooms of a root that has just been bound.
func (w *walk) root(level, index int) {
	room := min(level, w.c.Node)
	size := w.c.Levels[level].GPUs
	for pos := index * size; pos < (index+1)*size && !w.done(); pos += w.c.Levels[room].GPUs {
		w.room(room, pos)
	}
}

// beside places the tasks of a guest on idle GPUs.
func (w *walk) beside() bool {
	return w.each(&w.c.nodes, dense.Item{A: -int64(w.c.Levels[w.c.Node].GPUs)}, dense.Item{A: 1}, func(it dense.Item) {
		if int(w.c.count[w.c.Node][it.ID].idle) >= w.need() {
			w.room(w.c.Node, int(it.ID)*w.c.Levels[w.c.Node].GPUs)
		}
	})
}

// room places as many tasks as fit into a room, in their order.
func (w *walk) room(level, first int) {
	if !w.over && int(w.c.count[level][first/w.c.Levels[level].GPUs].open) < w.need() {
		return
	}
	n, most := cluster.NodeID(cluster.None), len(w.order)
	if w.r.Room != nil {
		n = w.cluster.NodeOf(w.c.GPUs[first])
		most = w.r.Room(n) - w.on[n]
	}
	for ; most > 0 && !w.done(); most-- {
		gpus, ok := w.pick(level, first)
		if !ok {
			return
		}
		for _, pos := range gpus {
			w.c.marks[pos] = w.c.mark
		}
		task := w.order[w.at]
		w.found.tasks[task], w.found.nodes[task] = gpus, int32(first)
		if w.at++; w.r.Room != nil {
			w.on[n]++
		}
	}
}

// The costs of a GPU to a request, least first.
const (
	nothing  = iota // it is idle
	aGuest          // a guest has to leave
	aJob            // a job of lower priority has to leave
	tooMuch         // it is not to be had
	allCosts = tooMuch
)

// cost is what it costs to have a GPU.
func (w *walk) cost(pos int) int {
	g := &w.c.gpus[pos]
	switch {
	case w.c.marks[pos] == w.c.mark || g.unusable || g.fixed > 0:
		return tooMuch
	case g.job != job.None:
		if w.over && g.priority < w.r.Priority {
			return aJob
		}
		return tooMuch
	case g.guests == 0:
		return nothing
	case w.r.VC == NoVC:
		return tooMuch
	}
	return aGuest
}

// pick chooses the GPUs of the next task in a room: in the smallest cell that has enough of them, and
// of equal ones in that where they cost least.
func (w *walk) pick(level, first int) (gpus []int32, ok bool) {
	need, size := w.need(), w.c.Levels[level].GPUs
	if need == 0 {
		return nil, true
	}
	for l := 0; l <= level; l++ {
		step := w.c.Levels[l].GPUs
		if step < need {
			continue
		}
		best, least := -1, 0
		for pos := first; pos < first+size; pos += step {
			if cost, ok := w.price(pos, step, need); ok && (best < 0 || cost < least) {
				best, least = pos, cost
			}
		}
		if best >= 0 {
			return w.cheapest(best, step, need), true
		}
	}
	return nil, false
}

// price is what so many GPUs of a cell cost: jobs first, then guests.
func (w *walk) price(pos, size, need int) (price int, ok bool) {
	var of [allCosts]int
	for i := pos; i < pos+size; i++ {
		if cost := w.cost(i); cost < tooMuch {
			of[cost]++
		}
	}
	guests := min(max(0, need-of[nothing]), of[aGuest])
	jobs := min(max(0, need-of[nothing]-guests), of[aJob])
	return jobs*(size+1) + guests, of[nothing]+guests+jobs >= need
}

// cheapest is so many GPUs of a cell, those that cost least first.
func (w *walk) cheapest(pos, size, need int) []int32 {
	out := make([]int32, 0, need)
	for cost := nothing; cost < tooMuch; cost++ {
		for i := pos; i < pos+size && len(out) < need; i++ {
			if w.cost(i) == cost {
				out = append(out, int32(i))
			}
		}
	}
	slices.Sort(out)
	return out
}

// bind binds the next cell of a level to the virtual cluster: a free cell of the lowest level that has
// one, with the fewest GPUs out of use and then the fewest guests. If all free cells of that level are
// out of use, a larger one is split, as long as all that is promised stays possible.
func (w *walk) bind(level int) (index int, ok bool) {
	c := w.c
	skipped := false
	for from := level; from < len(c.Levels); from++ {
		if c.free[from].Len() == 0 || skipped && !c.maySplit(from, level) {
			continue
		}
		for it, ok := c.free[from].Min(); ok; it, ok = c.free[from].From(it) {
			if int(c.Levels[from].GPUs)-int(it.A) > 0 && w.serves(from, int(it.ID)) {
				index, ok := w.descend(from, int(it.ID), level)
				if ok {
					c.carve(from, level, index)
					w.s.bound(w.found, c, level, index, 0)
					return index, true
				}
			}
			it.ID++
		}
		skipped = true
	}
	return 0, false
}

// maySplit tells whether all that is promised stays possible when a cell of a level is bound that is
// split off from one of a higher level.
func (c *chain) maySplit(from, level int) bool {
	spare := 0
	for l := len(c.Levels) - 1; l >= 0; l-- {
		if l < len(c.Levels)-1 {
			spare *= c.Levels[l+1].GPUs / c.Levels[l].GPUs
		}
		spare += c.free[l].Len() - c.unbound[l]
		if l == from {
			spare--
		}
		if l >= level && l < from {
			spare += c.Levels[l+1].GPUs/c.Levels[l].GPUs - 1
		}
		if l == level {
			spare++ // the promise that is kept by it
		}
		if spare < 0 {
			return false
		}
	}
	return true
}

// serves tells whether a free cell has a room for the next task.
func (w *walk) serves(level, index int) bool {
	c := w.c
	t := &c.count[level][index]
	if w.r.Room == nil && int(t.open) == c.Levels[level].GPUs {
		return true
	}
	if level > c.Node {
		per := c.Levels[level].GPUs / c.Levels[c.Node].GPUs
		for n := index * per; n < (index+1)*per; n++ {
			if w.serves(c.Node, n) {
				return true
			}
		}
		return false
	}
	if int(t.open) < w.need() {
		return false
	}
	n := w.cluster.NodeOf(c.GPUs[index*c.Levels[level].GPUs])
	return w.r.Room == nil || w.r.Room(n) > w.on[n]
}

// descend is the cell of a lower level inside a free cell that serves best: at each level the one with
// the fewest GPUs out of use and then the fewest guests.
func (w *walk) descend(from, index, level int) (int, bool) {
	for l := from - 1; l >= level; l-- {
		n := w.c.Levels[l+1].GPUs / w.c.Levels[l].GPUs
		best := -1
		for i := index * n; i < (index+1)*n; i++ {
			if w.serves(l, i) && (best < 0 || w.c.freeItem(l, i).Before(w.c.freeItem(l, best))) {
				best = i
			}
		}
		if best < 0 {
			return 0, false
		}
		index = best
	}
	return index, true
}
