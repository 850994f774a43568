package lyra

import (
	"cmp"
	"slices"

	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/policy/kit/resize"
)

// giveBack vacates nodes that lenders want back: first those on which flexible workers alone are,
// then by the rule. Nothing is placed there at this moment.
func (r *decision) giveBack() {
	for _, recall := range r.v.Recalls() {
		var of []int
		for i := range r.nodes {
			if n := &r.nodes[i]; r.v.Cluster().Node(n.id).Lender() == recall.Lender && !n.closed {
				of = append(of, i)
			}
		}
		left := min(recall.Nodes, len(of))
		slices.SortStableFunc(of, func(a, b int) int { return cmp.Compare(len(r.nodes[a].on), len(r.nodes[b].on)) })
		of = slices.DeleteFunc(of, func(i int) bool {
			if n := &r.nodes[i]; left > 0 && n.base == 0 && r.release(n) {
				n.closed = true
				left--
			}
			return r.nodes[i].closed
		})
		slices.Sort(of)
		r.reclaim(of, left)
	}
}

// release has all flexible workers leave a node.
func (r *decision) release(n *node) bool {
	for _, h := range n.on {
		if k := r.flexible(h, n.id); k > 0 && !r.shrink(h, n.id, k) {
			return false
		}
	}
	return true
}

// reclaim vacates so many of some nodes by the rule. Nodes of jobs that must not be stopped
// are left to the world.
func (r *decision) reclaim(of []int, want int) {
	if want == 0 {
		return
	}
	var jobs [][]Part
	var holders []*holder
	fixed := map[int]bool{}
	for _, h := range r.running {
		a := r.p.Alloc(h.j.ID)
		if a == nil {
			continue
		}
		var parts []Part
		for _, piece := range a.Pieces {
			i, there := r.at[piece.Node]
			if !there {
				i = len(r.nodes) + int(piece.Node)
			} else if h.j.Spec().Stop == job.Pinned {
				fixed[i] = true
			}
			parts = append(parts, Part{i, int(piece.Tasks) * h.each})
		}
		jobs, holders = append(jobs, parts), append(holders, h)
	}
	of = slices.DeleteFunc(of, func(i int) bool { return fixed[i] })
	now := uint64(r.v.Now)
	preempted, vacated := Reclaim(jobs, of, min(want, len(of)), r.o.cfg.Reclaim, func(i int) uint64 { return mix(now ^ mix(uint64(i)+1)) })
	for _, k := range preempted {
		id := holders[k].j.ID
		if r.p.Stop(id, job.Reason{Code: job.TakenBack, Need: int32(r.nodes[vacated[0]].id), Job: job.None}) {
			r.off[id] = true
		}
	}
	for _, i := range vacated {
		r.nodes[i].closed = true
	}
}

// mix scatters a number (splitmix64).
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// scale divides what base workers leave among elastic jobs, and carries out the difference:
// first those leave who lose workers.
func (r *decision) scale() {
	var jobs []Elastic
	var holders []*holder
	gpus := make([]int64, sides)
	for i := range r.nodes {
		if n := &r.nodes[i]; !n.closed {
			gpus[n.side] += int64(r.v.Cluster().NodeFreeGPUs(n.id, r.v.Cluster().GPUMask()))
		}
	}
	for _, h := range r.running {
		a := r.p.Alloc(h.j.ID)
		if a == nil || h.most <= h.base {
			continue
		}
		gpus[h.side] += int64((a.Tasks(0) - h.base) * h.each)
		left := 3600.0
		if d, known := h.j.Remaining(); known {
			left = d.Seconds()
		}
		jobs = append(jobs, Elastic{
			Work: left * float64(h.j.Spec().Demand.Roles[0].Tasks), Base: h.base, More: h.most - h.base, Each: h.each, Side: h.side,
		})
		holders = append(holders, h)
	}
	more, err := Scale(jobs, gpus)
	if err != nil {
		return // everybody stays as he is
	}
	for i, h := range holders {
		r.trim(h, r.p.Alloc(h.j.ID).Tasks(0)-h.base-more[i])
	}
	for i, h := range holders {
		a, was := r.p.Alloc(h.j.ID), r.v.Alloc(h.j.ID)
		if was == nil || h.j.Ready() <= r.v.Now && a.Equal(was) { // who has just begun on what he has goes on
			r.grow(h, h.base+more[i]-a.Tasks(0))
		}
	}
}

// trim takes flexible workers of a job away, from its last node on.
func (r *decision) trim(h *holder, workers int) {
	pieces := slices.Clone(r.p.Alloc(h.j.ID).Pieces)
	for i := len(pieces) - 1; i >= 0 && workers > 0; i-- {
		id := pieces[i].Node
		if k := min(workers, r.flexible(h, id)); k > 0 && r.shrink(h, id, k) {
			workers -= k
		}
	}
}

// grow gives a job further workers on its side: on nodes without base workers if it can, and of
// these on the fullest.
func (r *decision) grow(h *holder, workers int) {
	c, scope := r.v.Cluster(), r.v.Scope(h.j)
	type room struct {
		resize.Seat
		base bool
	}
	var rooms []room
	for i := range r.nodes {
		n := &r.nodes[i]
		if workers <= 0 || n.side != h.side || n.closed || !c.In(n.id, scope) {
			continue
		}
		for _, g := range c.NodeGroups(n.id) {
			if k := resize.Room(r.v, h.j, n.id, g); k > 0 {
				rooms = append(rooms, room{resize.Seat{Node: n.id, Group: g, Tasks: k}, r.o.cfg.Separate && n.base > 0})
			}
		}
	}
	slices.SortStableFunc(rooms, func(a, b room) int {
		if a.base != b.base {
			if b.base {
				return -1
			}
			return 1
		}
		return cmp.Compare(a.Tasks, b.Tasks)
	})
	var seats []resize.Seat
	for _, s := range rooms {
		if workers > 0 && !slices.ContainsFunc(seats, func(t resize.Seat) bool { return t.Node == s.Node }) {
			s.Tasks = min(s.Tasks, workers)
			workers -= s.Tasks
			seats = append(seats, s.Seat)
		}
	}
	if len(seats) > 0 {
		resize.Grow(r.v, r.p, h.j, seats)
	}
}
