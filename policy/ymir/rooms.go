package ymir

import (
	"cmp"
	"slices"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/sched"
	"github.com/norn-scheduler/norn/state/dense"
)

// want is what jobs have in common that look for devices: the runtime that they use, and the
// types and nodes on which they can run.
type want struct {
	backbone string
	types    cluster.TypeMask
	scope    cluster.PoolID // the nodes that they may use
}

// rooms is an index of the nodes of a pool, for jobs that want the same.
type rooms struct {
	want
	room []room        // by node
	by   [][]dense.Set // the nodes with so many free devices, so many of them warm
	full []bool        // whether any node has so many GPUs
}

// room is how many wholly free devices a node has that will do, and on how many of those the
// runtime is loaded.
type room struct{ free, warm int }

// wanted is what a job wants.
func wanted(v *sched.View, j sched.Job) want {
	w := want{backbone: j.Spec().Backbone, scope: v.Scope(j)}
	for t := range cluster.TypeID(v.Cluster().Types()) {
		if v.TypeSpeed(j, t, 1, false) > 0 {
			w.types |= 1 << t
		}
	}
	return w
}

// rooms is the index for a job, made when it is asked for first.
func (pl *placer) rooms(j sched.Job) *rooms {
	w := wanted(pl.v, j)
	for _, r := range pl.index {
		if r.want == w {
			return r
		}
	}
	c := pl.v.Cluster()
	r := &rooms{want: w, room: make([]room, c.Nodes())}
	most := 0
	for _, id := range c.PoolNodes(pl.pool) {
		_, n := c.DeviceRange(id)
		most = max(most, n)
	}
	r.full = make([]bool, most+1)
	for range most + 1 {
		r.by = append(r.by, make([]dense.Set, most+1))
	}
	for _, id := range c.PoolNodes(pl.pool) {
		if n := c.NodeGPUs(id); n <= most {
			r.full[n] = true
		}
		r.look(pl.v, id)
	}
	pl.index = append(pl.index, r)
	return r
}

// look counts the devices of a node again.
func (r *rooms) look(v *sched.View, id cluster.NodeID) {
	now := &r.room[id]
	if now.free > 0 {
		r.by[now.free][now.warm].Remove(int(id))
	}
	*now = room{}
	if !v.Cluster().Usable(id) || !v.Cluster().In(id, r.scope) {
		return
	}
	for d := range r.devices(v, id) {
		if now.free++; v.Runtime(d) == r.backbone {
			now.warm++
		}
	}
	if now.free > 0 {
		r.by[now.free][now.warm].Add(int(id))
	}
}

// devices yields the wholly free devices of a node on which the jobs can run.
func (w want) devices(v *sched.View, id cluster.NodeID) func(func(cluster.DeviceID) bool) {
	c := v.Cluster()
	return func(yield func(cluster.DeviceID) bool) {
		first, n := c.DeviceRange(id)
		for d := first; d < first+cluster.DeviceID(n); d++ {
			t := c.TypeOf(d)
			if c.DeviceFree(d) != unit.One || c.Broken(d) || c.Sharers(d) > 0 || w.types&(1<<t) == 0 {
				continue
			}
			if c.Type(t).Host || !yield(d) {
				return
			}
		}
	}
}

// own lists the nodes that a job was on, the preferred first.
func (r *rooms) own(v *sched.View, j sched.Job, n int) []cluster.NodeID {
	var out []cluster.NodeID
	if a := v.Alloc(j.ID); a != nil {
		for _, piece := range a.Pieces {
			if r.room[piece.Node].free > 0 {
				out = append(out, piece.Node)
			}
		}
	}
	slices.SortFunc(out, func(a, b cluster.NodeID) int {
		x, y := r.room[a], r.room[b]
		return cmp.Or(cmp.Compare(min(y.warm, n), min(x.warm, n)), cmp.Compare(x.free, y.free), cmp.Compare(a, b))
	})
	return slices.Compact(out)
}

// single is the node for n devices: one that the job was on, or else the one with the most
// warm devices, as far as n of them count, then the fullest, then the first.
func (r *rooms) single(v *sched.View, j sched.Job, n int) (cluster.NodeID, bool) {
	for _, id := range r.own(v, j, n) {
		if r.room[id].free >= n {
			return id, true
		}
	}
	for warm := n; warm >= 0; warm-- {
		for free := n; free < len(r.by); free++ {
			most := warm
			if warm == n {
				most = free // more are as good
			}
			best := -1
			for w := warm; w <= most; w++ {
				if id := r.by[free][w].Min(); id >= 0 && (best < 0 || id < best) {
					best = id
				}
			}
			if best >= 0 {
				return cluster.NodeID(best), true
			}
		}
	}
	return cluster.None, false
}

// several yields the nodes all of whose GPUs are free, those that the job was on first, then
// those with the most warm devices, then the smallest, then the first.
func (r *rooms) several(v *sched.View, j sched.Job, n int) func(func(cluster.NodeID) bool) {
	c := v.Cluster()
	return func(yield func(cluster.NodeID) bool) {
		own := r.own(v, j, n)
		for _, id := range own {
			if r.room[id].free >= c.NodeGPUs(id) && !yield(id) {
				return
			}
		}
		for warm := len(r.by) - 1; warm >= 0; warm-- {
			for free := max(1, warm); free < len(r.by); free++ {
				if !slices.Contains(r.full[:free+1], true) {
					continue // no node has so few GPUs
				}
				for id := range r.by[free][warm].All() {
					if id := cluster.NodeID(id); free >= c.NodeGPUs(id) && !slices.Contains(own, id) && !yield(id) {
						return
					}
				}
			}
		}
	}
}
