package cells

import (
	"maps"
	"slices"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/state/dense"
)

// Space is who has which cells. It follows from the forest, the virtual clusters, the jobs with their
// GPUs, and the GPUs that are out of use: two spaces that came to the same in different ways are alike.
type Space struct {
	chains []*chain
	at     []spot // by device
	vcs    []vc
	holds  map[job.ID]*hold
	doubly string // the first name of what is pinned twice
}

// spot is where a GPU is in a forest; chain is -1 where it is in no cell.
type spot struct{ chain, pos int32 }

// gpu is one GPU.
type gpu struct {
	job      job.ID // the guaranteed job that has it, or None
	priority int32  // of that job
	guests   int16  // opportunistic jobs on it
	fixed    int16  // jobs on it that must not be stopped
	unusable bool
}

// tally counts the GPUs of a cell.
type tally struct {
	kept   int32 // those of guaranteed jobs
	guests int32 // those of opportunistic jobs
	idle   int32 // usable ones that nobody has
	open   int32 // usable ones that no guaranteed job has, nor a guest who must not be stopped
}

func (g *gpu) tally() tally {
	switch {
	case g.job != job.None:
		return tally{kept: 1}
	case g.guests > 0 && (g.fixed > 0 || g.unusable):
		return tally{guests: 1}
	case g.guests > 0:
		return tally{guests: 1, open: 1}
	case g.unusable:
		return tally{}
	}
	return tally{idle: 1, open: 1}
}

// chain is who has the cells of a chain.
type chain struct {
	*Chain
	number  int
	gpus    []gpu
	count   [][]tally    // by level and index
	free    []dense.List // by level: free cells, those with the fewest GPUs out of use and then the fewest guests first
	isFree  [][]bool     // by level and index
	root    []int8       // by position: the level of the root in which it lies, or -1
	owner   [][]int32    // by level and index: the virtual cluster of the root, plus 1
	rank    [][]int32    // by level and index: the number of the root among those of its level in its virtual cluster
	pinned  [][]bool     // by level and index
	unbound []int        // by level: cells that are promised and not bound
	nodes   dense.List   // nodes with idle GPUs: those with the most guests and then the fewest guaranteed GPUs first
	marks   []uint32     // scratch of a search: positions that it has chosen
	mark    uint32
}

// vc is a virtual cluster and what is bound to it.
type vc struct {
	name   string
	chains []part // by chain
}

// part is the cells of a virtual cluster in one chain.
type part struct {
	unbound    []int         // by level
	ranks      []dense.Set   // by level: the numbers of roots that are taken
	rooms      dense.List    // of its roots: those with the most guaranteed GPUs, then the smallest first
	gpus, used int           // of all its cells; those of its guaranteed jobs
	priorities map[int32]int // GPUs of guaranteed jobs by priority
}

// hold is what a job has.
type hold struct {
	vc       int // NoVC: it is a guest
	priority int32
	fixed    bool
	chain    int
	at       []int32 // positions in the order of its tasks
	devices  []cluster.DeviceID
	roots    []Root
}

// Root is a root in which GPUs of a job lie: the next so many of them. Rank is its number among those of its
// level in the virtual cluster.
type Root struct{ Level, Rank, GPUs int }

// NoVC is the virtual cluster of a guest.
const NoVC = -1

// NewSpace is a space in which nobody has anything and all GPUs work.
func NewSpace(f *Forest, vcs []VC) *Space {
	s := &Space{holds: map[job.ID]*hold{}}
	for i := range f.Chains {
		s.chains = append(s.chains, newChain(&f.Chains[i], i))
		for pos, d := range f.Chains[i].GPUs {
			for int(d) >= len(s.at) {
				s.at = append(s.at, spot{chain: -1})
			}
			s.at[d] = spot{int32(i), int32(pos)}
		}
	}
	for i := range vcs {
		v := vc{name: vcs[i].Name}
		for _, c := range s.chains {
			v.chains = append(v.chains, part{unbound: make([]int, len(c.Levels)), ranks: make([]dense.Set, len(c.Levels)), priorities: map[int32]int{}})
		}
		for _, q := range vcs[i].Quotas {
			v.chains[q.Chain].unbound[q.Level] += q.Count
			v.chains[q.Chain].gpus += q.Count * s.chains[q.Chain].Levels[q.Level].GPUs
			s.chains[q.Chain].unbound[q.Level] += q.Count
		}
		s.vcs = append(s.vcs, v)
		for _, p := range vcs[i].Pinned {
			s.pin(i, p, f)
		}
	}
	return s
}

// pin binds a cell for good.
func (s *Space) pin(vc int, p Cell, f *Forest) {
	c := s.chains[p.Chain]
	level := c.freeLevel(p.Index * c.Levels[p.Level].GPUs)
	if level < p.Level {
		for name, cells := range f.Named {
			if slices.Contains(cells, p) && (s.doubly == "" || name < s.doubly) {
				s.doubly = name
			}
		}
		return
	}
	c.carve(level, p.Level, p.Index)
	c.pinned[p.Level][p.Index] = true
	s.vcs[vc].chains[p.Chain].gpus += c.Levels[p.Level].GPUs
	s.own(vc, c, p.Level, p.Index, 0)
}

func newChain(h *Chain, number int) *chain {
	c := &chain{Chain: h, number: number, gpus: make([]gpu, len(h.GPUs)), root: make([]int8, len(h.GPUs)), marks: make([]uint32, len(h.GPUs)), unbound: make([]int, len(h.Levels)), free: make([]dense.List, len(h.Levels))}
	for pos := range c.gpus {
		c.gpus[pos].job, c.root[pos] = job.None, -1
	}
	for l, level := range h.Levels {
		n := int32(level.GPUs)
		c.count = append(c.count, slices.Repeat([]tally{{idle: n, open: n}}, h.Cells(l)))
		c.isFree = append(c.isFree, make([]bool, h.Cells(l)))
		c.owner = append(c.owner, make([]int32, h.Cells(l)))
		c.rank = append(c.rank, make([]int32, h.Cells(l)))
		c.pinned = append(c.pinned, make([]bool, h.Cells(l)))
	}
	top := len(h.Levels) - 1
	for i := range h.Cells(top) {
		c.setFree(top, i, true)
	}
	for n := range h.Cells(h.Node) {
		c.nodes.Insert(c.node(n))
	}
	return c
}

// node is the place of a node in the order of opportunistic jobs.
func (c *chain) node(index int) dense.Item {
	t := &c.count[c.Node][index]
	return dense.Item{A: -int64(t.guests), B: int64(t.kept), ID: int32(index)}
}

// freeItem is the place of a free cell in the order of its level.
func (c *chain) freeItem(level, index int) dense.Item {
	t := &c.count[level][index]
	return dense.Item{A: int64(c.Levels[level].GPUs) - int64(t.open), B: int64(t.guests), ID: int32(index)}
}

// room is the place of a room among those of its virtual cluster, by its first position. Of rooms that are
// alike it goes by the number of the root and the place in it. So it says nothing of where the root is, nor
// who else is there.
func (c *chain) room(pos int) dense.Item {
	root := int(c.root[pos])
	level := min(root, c.Node)
	size := c.Levels[level].GPUs
	index := pos / c.Levels[root].GPUs
	place := pos/size - index*(c.Levels[root].GPUs/size)
	rank := int64(c.rank[root][index])*int64(c.Levels[root].GPUs/size) + int64(place)
	return dense.Item{A: -int64(c.count[level][pos/size].kept), B: emptyRoom(size) + int64(root)<<36 + rank, ID: int32(pos / size * size)}
}

// emptyRoom is where the rooms of a size begin in the order of rooms in which no guaranteed job is.
func emptyRoom(size int) int64 { return int64(size) << 42 }

func (c *chain) setFree(level, index int, free bool) {
	if c.isFree[level][index] = free; free {
		c.free[level].Insert(c.freeItem(level, index))
	} else {
		c.free[level].Remove(c.freeItem(level, index))
	}
}

// freeLevel is the level of the free cell in which a position lies, or -1.
func (c *chain) freeLevel(pos int) int {
	for l := len(c.Levels) - 1; l >= 0 && c.root[pos] < 0; l-- {
		if c.isFree[l][pos/c.Levels[l].GPUs] {
			return l
		}
	}
	return -1
}

// carve splits a free cell of a level until one of a lower level is a cell by itself, and takes that
// one out of the free cells.
func (c *chain) carve(from, level, index int) {
	first := index * c.Levels[level].GPUs
	c.setFree(from, first/c.Levels[from].GPUs, false)
	for l := from - 1; l >= level; l-- {
		size, above := c.Levels[l].GPUs, c.Levels[l+1].GPUs
		for i := first / above * above / size; i < (first/above+1)*above/size; i++ {
			if i != first/size {
				c.setFree(l, i, true)
			}
		}
	}
}

// merge makes a cell free, and with its buddies the cell around it as far as all are free.
func (c *chain) merge(level, index int) {
	for ; level < len(c.Levels)-1; level++ {
		buddies := c.Levels[level+1].GPUs / c.Levels[level].GPUs
		first := index / buddies * buddies
		for i := first; i < first+buddies; i++ {
			if i != index && !c.isFree[level][i] {
				c.setFree(level, index, true)
				return
			}
		}
		for i := first; i < first+buddies; i++ {
			if i != index {
				c.setFree(level, i, false)
			}
		}
		index /= buddies
	}
	c.setFree(level, index, true)
}

// short is the highest level at which more cells are promised than there are, and how many more.
func (c *chain) short() (level, more int) {
	spare := 0
	for l := len(c.Levels) - 1; l >= 0; l-- {
		if l < len(c.Levels)-1 {
			spare *= c.Levels[l+1].GPUs / c.Levels[l].GPUs
		}
		if spare += c.free[l].Len() - c.unbound[l]; spare < 0 {
			return l, -spare
		}
	}
	return 0, 0
}

// canPromise tells whether one more cell of a level can be promised.
func (c *chain) canPromise(level int) bool {
	c.unbound[level]++
	_, more := c.short()
	c.unbound[level]--
	return more == 0
}

// own binds a cell, which is in no free cell any more, to a virtual cluster. Its number is the first from
// rank on that is not taken.
func (s *Space) own(vc int, c *chain, level, index, rank int) {
	size := c.Levels[level].GPUs
	ranks := &s.vcs[vc].chains[c.number].ranks[level]
	for !ranks.Add(rank) {
		rank++
	}
	c.rank[level][index] = int32(rank)
	c.owner[level][index] = int32(vc) + 1
	for pos := index * size; pos < (index+1)*size; pos++ {
		c.root[pos] = int8(level)
	}
	rooms := &s.vcs[vc].chains[c.number].rooms
	step := c.Levels[min(level, c.Node)].GPUs
	for pos := index * size; pos < (index+1)*size; pos += step {
		rooms.Insert(c.room(pos))
	}
}

// release gives a cell back, if no guaranteed job has any of it and it is not pinned.
func (s *Space) release(c *chain, level, index int) {
	if c.pinned[level][index] || c.count[level][index].kept > 0 {
		return
	}
	size := c.Levels[level].GPUs
	p := &s.vcs[c.owner[level][index]-1].chains[c.number]
	step := c.Levels[min(level, c.Node)].GPUs
	for pos := index * size; pos < (index+1)*size; pos += step {
		p.rooms.Remove(c.room(pos))
	}
	for pos := index * size; pos < (index+1)*size; pos++ {
		c.root[pos] = -1
	}
	c.owner[level][index] = 0
	p.ranks[level].Remove(int(c.rank[level][index]))
	p.unbound[level]++
	c.unbound[level]++
	c.merge(level, index)
}

// change changes GPUs and all that is counted of them. Positions of one room or free cell should be
// next to each other: each of these is put into its new place once.
func (s *Space) change(c *chain, all []int32, f func(*gpu)) {
	for i := 0; i < len(all); {
		pos := int(all[i])
		level := int(c.root[pos])
		free := -1
		if level < 0 {
			free = c.freeLevel(pos)
			level = free
		}
		size := c.Levels[min(level, c.Node)].GPUs
		s.lift(c, pos, free)
		for ; i < len(all) && int(all[i])/size == pos/size; i++ {
			g := &c.gpus[all[i]]
			was := g.tally()
			f(g)
			now := g.tally()
			for l := range c.Levels {
				t := &c.count[l][int(all[i])/c.Levels[l].GPUs]
				t.kept += now.kept - was.kept
				t.guests += now.guests - was.guests
				t.idle += now.idle - was.idle
				t.open += now.open - was.open
			}
		}
		s.put(c, pos, free)
	}
}

// lift takes the node, and the room or free cell of a position, out of all orders.
func (s *Space) lift(c *chain, pos, free int) {
	if n := pos / c.Levels[c.Node].GPUs; c.count[c.Node][n].idle > 0 {
		c.nodes.Remove(c.node(n))
	}
	if free >= 0 {
		c.free[free].Remove(c.freeItem(free, pos/c.Levels[free].GPUs))
	} else {
		s.rooms(c, pos).Remove(c.room(pos))
	}
}

// put puts them back, into their new places.
func (s *Space) put(c *chain, pos, free int) {
	if n := pos / c.Levels[c.Node].GPUs; c.count[c.Node][n].idle > 0 {
		c.nodes.Insert(c.node(n))
	}
	if free >= 0 {
		c.free[free].Insert(c.freeItem(free, pos/c.Levels[free].GPUs))
	} else {
		s.rooms(c, pos).Insert(c.room(pos))
	}
}

// rooms are those of the virtual cluster in a root of which a position lies.
func (s *Space) rooms(c *chain, pos int) *dense.List {
	level := int(c.root[pos])
	return &s.vcs[c.owner[level][pos/c.Levels[level].GPUs]-1].chains[c.number].rooms
}

// SetUsable says whether a GPU may be given to jobs.
func (s *Space) SetUsable(d cluster.DeviceID, usable bool) {
	if int(d) >= len(s.at) || s.at[d].chain < 0 {
		return
	}
	c, pos := s.chains[s.at[d].chain], s.at[d].pos
	if c.gpus[pos].unusable == usable {
		s.change(c, []int32{pos}, func(g *gpu) { g.unusable = !usable })
	}
}

// Guest notes that an opportunistic job has some GPUs. One that is fixed must not be stopped. GPUs in
// no cell, and those of guaranteed jobs, are left out.
func (s *Space) Guest(id job.ID, devices []cluster.DeviceID, fixed bool) {
	h := &hold{vc: NoVC, fixed: fixed, devices: devices}
	s.holds[id] = h
	s.eachGuest(h, func(g *gpu) {
		g.guests++
		g.fixed += one(fixed)
	})
}

// one is how many jobs it makes that must not be stopped.
func one(fixed bool) int16 {
	if fixed {
		return 1
	}
	return 0
}

// eachGuest changes the GPUs of a guest.
func (s *Space) eachGuest(h *hold, f func(*gpu)) {
	for _, d := range h.devices {
		if int(d) < len(s.at) && s.at[d].chain >= 0 {
			s.change(s.chains[s.at[d].chain], []int32{s.at[d].pos}, f)
		}
	}
}

// Release notes that a job has nothing any more.
func (s *Space) Release(id job.ID) {
	h := s.holds[id]
	if h == nil {
		return
	}
	delete(s.holds, id)
	if h.vc == NoVC {
		s.eachGuest(h, func(g *gpu) {
			g.guests--
			g.fixed -= one(h.fixed)
		})
		return
	}
	c, p := s.chains[h.chain], &s.vcs[h.vc].chains[h.chain]
	s.change(c, h.at, func(g *gpu) { g.job, g.fixed = job.None, 0 })
	p.used -= len(h.at)
	if p.priorities[h.priority] -= len(h.at); p.priorities[h.priority] == 0 {
		delete(p.priorities, h.priority)
	}
	for _, pos := range h.at {
		if level := int(c.root[pos]); level >= 0 {
			s.release(c, level, int(pos)/c.Levels[level].GPUs)
		}
	}
}

// Has tells whether a job has GPUs, and whether it is guaranteed them.
func (s *Space) Has(id job.ID) (has, guaranteed bool) {
	h := s.holds[id]
	return h != nil, h != nil && h.vc != NoVC
}

// Devices are the GPUs of a job, in the order of its tasks. The slice must not be changed.
func (s *Space) Devices(id job.ID) []cluster.DeviceID {
	if h := s.holds[id]; h != nil {
		return h.devices
	}
	return nil
}

// Demote takes the cells of a guaranteed job away, and returns how they are given back. A job that stays
// is a guest from then on, where it is; any other one has nothing any more.
func (s *Space) Demote(id job.ID, stays bool) (back func()) {
	h := s.holds[id]
	s.Release(id)
	if stays {
		s.Guest(id, h.devices, h.fixed)
	}
	return func() {
		s.Release(id)
		s.Restore(id, h.vc, h.priority, h.fixed, h.devices, h.roots)
	}
}

// Restore gives a guaranteed job the GPUs that it had, in the roots that these lay in. It
// changes nothing, and the result is false, when they are not there for this virtual cluster any more.
func (s *Space) Restore(id job.ID, vc int, priority int32, fixed bool, devices []cluster.DeviceID, roots []Root) bool {
	f := &Found{vc: vc, priority: priority}
	left := Root{Level: -1}
	for i, d := range devices {
		if int(d) >= len(s.at) || s.at[d].chain < 0 || vc < 0 || vc >= len(s.vcs) {
			s.Drop(f)
			return false
		}
		c, pos := s.chains[s.at[d].chain], int(s.at[d].pos)
		for ; left.GPUs == 0 && len(roots) > 0; roots = roots[1:] {
			left = roots[0]
		}
		if i == 0 {
			f.chain = c.number
		}
		if left.GPUs == 0 || f.chain != c.number || c.gpus[pos].job != job.None || c.gpus[pos].guests > 0 || !s.bindAt(f, c, left, pos) {
			s.Drop(f)
			return false
		}
		left.GPUs--
		f.tasks = append(f.tasks, []int32{int32(pos)})
	}
	s.Take(id, f, fixed)
	return true
}

// bindAt makes a position lie in a root of a level of the virtual cluster.
func (s *Space) bindAt(f *Found, c *chain, root Root, pos int) bool {
	level := root.Level
	if root.Rank < 0 || root.Rank >= len(c.gpus) || level < 0 || level >= len(c.Levels) {
		return false
	}
	index := pos / c.Levels[level].GPUs
	p := &s.vcs[f.vc].chains[c.number]
	from := c.freeLevel(pos)
	switch {
	case c.owner[level][index] == int32(f.vc)+1:
		return true
	case from < level || p.unbound[level] == 0:
		return false
	}
	c.carve(from, level, index)
	s.bound(f, c, level, index, root.Rank)
	return true
}

// bound notes that a virtual cluster has one of its cells from now on.
func (s *Space) bound(f *Found, c *chain, level, index, rank int) {
	s.vcs[f.vc].chains[c.number].unbound[level]--
	c.unbound[level]--
	s.own(f.vc, c, level, index, rank)
	f.bound = append(f.bound, Cell{c.number, level, index})
}

// Take gives a job what was found for it. Guests must have been released before.
func (s *Space) Take(id job.ID, f *Found, fixed bool) {
	c := s.chains[f.chain]
	h := &hold{vc: f.vc, priority: f.priority, fixed: fixed, chain: f.chain}
	for _, task := range f.tasks {
		h.at = append(h.at, task...)
	}
	for _, pos := range h.at {
		h.devices = append(h.devices, c.GPUs[pos])
		level := int(c.root[pos])
		rank := int(c.rank[level][int(pos)/c.Levels[level].GPUs])
		if n := len(h.roots); n > 0 && h.roots[n-1].Level == level && h.roots[n-1].Rank == rank {
			h.roots[n-1].GPUs++
		} else {
			h.roots = append(h.roots, Root{level, rank, 1})
		}
	}
	s.change(c, h.at, func(g *gpu) { g.job, g.priority, g.fixed = id, f.priority, one(fixed) })
	p := &s.vcs[f.vc].chains[f.chain]
	p.used += len(h.at)
	p.priorities[f.priority] += len(h.at)
	s.holds[id] = h
	for _, b := range f.bound { // those of which no task has a GPU are given back
		s.release(c, b.Level, b.Index)
	}
}

// Roots are the roots in which the GPUs of a guaranteed job lie, in the order of its tasks.
func (s *Space) Roots(id job.ID) []Root { return s.holds[id].roots }

// Drop gives up what was found.
func (s *Space) Drop(f *Found) {
	for _, b := range f.bound {
		s.release(s.chains[b.Chain], b.Level, b.Index)
	}
	f.bound = nil
}

// GPUs is the number of GPUs of all cells of a virtual cluster, and of those that its guaranteed jobs
// have.
func (s *Space) GPUs(vc int) (all, used int) {
	for i := range s.vcs[vc].chains {
		all += s.vcs[vc].chains[i].gpus
		used += s.vcs[vc].chains[i].used
	}
	return all, used
}

func sorted(names map[string]bool) []string { return slices.Sorted(maps.Keys(names)) }
