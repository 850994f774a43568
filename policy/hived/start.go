package hived

import (
	"slices"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/place"
	"github.com/norn-scheduler/norn/policy/kit/cells"
	"github.com/norn-scheduler/norn/sched"
)

// attempt is one try to start a job.
type attempt struct {
	policy *policy
	v      *sched.View
	p      *sched.Plan
	site   *site
	j      sched.Job

	spread bool  // tasks of one GPU are placed each by itself
	pods   []pod // what is placed, in the order of ranks
	alloc  cluster.Alloc
}

// pod is tasks of a role that are placed on one node.
type pod struct{ role, tasks, gpus int }

// start starts the job if it can be, and notes why it waits otherwise.
func (a *attempt) start() bool {
	if a.site.need(a.j) == 0 || a.v.PinnedPlace(a.j.ID) != nil {
		return a.pack()
	}
	vc, priority := a.site.standing(a.v, a.j)
	if vc == cells.NoVC {
		return a.guest() || a.pack()
	}
	if a.guaranteed(vc, priority) {
		return true
	}
	if _, used := a.site.gpus(vc); used == 0 { // these cells will never do better
		if a.spread = true; a.policy.cfg.Together && a.guaranteed(vc, priority) {
			return true
		}
		if a.policy.cfg.Beyond {
			return a.guest() || a.pack()
		}
	}
	a.p.Wait(a.j.ID, a.site.why(a.v, a.j))
	return false
}

// pack starts the job on idle GPUs, as no cells are needed for that.
func (a *attempt) pack() bool {
	if !a.p.Start(a.j.ID, place.Pack) {
		return false
	}
	a.isGuest()
	return true
}

// isGuest takes in that the job is a guest from now on.
func (a *attempt) isGuest() {
	on := a.p.Alloc(a.j.ID)
	devices := make([]cluster.DeviceID, len(on.Shares))
	for i := range on.Shares {
		devices[i] = on.Shares[i].Device
	}
	if _, noted := sched.Recall[note](a.j); noted {
		a.p.Forget(a.j.ID)
	}
	a.site.space.Guest(a.j.ID, devices, a.j.Spec().Stop == job.Pinned)
}

// guest starts the job beside other guests. Parts of GPUs are packed: several fit one.
func (a *attempt) guest() bool {
	for i := range a.j.Spec().Demand.Roles {
		if g := a.j.Spec().Demand.Roles[i].GPU; g > 0 && g < unit.One {
			return false
		}
	}
	return a.each(func(r *cells.Request) bool {
		f, ok := a.site.space.Find(r, a.v.Cluster())
		if !ok || !a.p.Try(func() bool { return a.startOn(f) }) {
			return false
		}
		a.isGuest()
		return true
	}, cells.NoVC, 0)
}

// guaranteed starts the job in cells of its virtual cluster. Guests there are stopped, and jobs of lower
// priority of the same virtual cluster lose their cells if need be.
func (a *attempt) guaranteed(vc int, priority int32) bool {
	return a.each(func(r *cells.Request) bool {
		space := a.site.space
		var f *cells.Found
		ok := false
		if a.site.affords(vc, r.GPUs()) {
			f, ok = space.Find(r, a.v.Cluster())
		}
		if ok {
			return a.take(f, vc, nil)
		}
		victims, ok := space.Victims(r, a.v.Cluster())
		if !ok || a.site.quota != nil {
			return false
		}
		var back []func()
		for _, id := range victims {
			back = append(back, space.Demote(id, a.policy.cfg.Lazy))
		}
		if f, ok = space.Find(r, a.v.Cluster()); ok && a.take(f, vc, victims) {
			return true
		}
		for _, undo := range slices.Backward(back) {
			undo()
		}
		return false
	}, a.site.asSpace(vc), priority)
}

// take gives the job what was found for it. Victims have lost their cells.
func (a *attempt) take(f *cells.Found, vc int, victims []job.ID) bool {
	space := a.site.space
	var gone []job.ID
	stop := func(id job.ID, why job.ReasonCode) {
		a.p.Stop(id, job.Reason{Code: why, Job: a.j.ID})
		gone = append(gone, id)
	}
	if !a.p.Try(func() bool {
		for _, id := range victims {
			if a.policy.cfg.Lazy {
				a.p.Forget(id)
			} else {
				stop(id, job.MakesRoom)
			}
		}
		for _, d := range space.GPUsOf(f) {
			for _, id := range slices.Clone(a.p.On(d)) {
				stop(id, job.Reclaimed)
			}
		}
		return a.startOn(f)
	}) {
		space.Drop(f)
		return false
	}
	for _, id := range gone {
		a.site.release(id)
		if a.v.Alloc(id) == nil {
			a.policy.again = append(a.policy.again, id)
		}
	}
	space.Take(a.j.ID, f, a.j.Spec().Stop == job.Pinned)
	a.site.took(a.j.ID, vc)
	sched.Remember(a.p, a.j.ID, note{space.Roots(a.j.ID)})
	if len(gone)+len(victims) > 0 {
		a.policy.freed()
	}
	return true
}

// each calls try with what the job asks for, once for each chain that it may use, until try returns true.
func (a *attempt) each(try func(r *cells.Request) bool, vc int, priority int32) (done bool) {
	class, c := a.v.Class(a.j.Class()), a.v.Cluster()
	class.EachType(c, func(t cluster.TypeID) bool {
		for i := range a.site.forest.Chains {
			h := &a.site.forest.Chains[i]
			if h.Type != t {
				continue
			}
			r := &cells.Request{VC: vc, Priority: priority, Chains: []int{i}}
			a.divide(class.Demand, h.Levels[h.Node].GPUs)
			for _, p := range a.pods {
				r.Tasks = append(r.Tasks, p.gpus)
			}
			if done = a.within(r, try); done {
				return false
			}
		}
		return true
	})
	return done
}

// divide makes pods of the tasks, for nodes of so many GPUs.
func (a *attempt) divide(d *job.Demand, node int) {
	a.pods = a.pods[:0]
	for i := range d.Roles {
		role := &d.Roles[i]
		size := 1
		if role.GPU == unit.One && a.policy.cfg.Together && !a.spread {
			size = node
		}
		for left := int(role.Tasks); left > 0; left -= size {
			n := min(size, left)
			a.pods = append(a.pods, pod{i, n, n * taskGPUs(role)})
		}
	}
}

// within calls try once for each place of the topology of which the job must be in one, until try returns
// true.
func (a *attempt) within(r *cells.Request, try func(r *cells.Request) bool) bool {
	c, d := a.v.Cluster(), a.v.Class(a.j.Class()).Demand
	room := a.room()
	r.Room = room
	if d.Within == "" {
		return try(r)
	}
	for first := range a.places(d.Within) {
		r.Room = func(n cluster.NodeID) int {
			if n != first && !c.Together(n, first, d.Within) {
				return 0
			}
			if room == nil {
				return len(r.Tasks)
			}
			return room(n)
		}
		if try(r) {
			return true
		}
	}
	r.Room = room
	return d.Prefer && try(r)
}

// places yields a node of each place of a level.
func (a *attempt) places(level string) func(yield func(cluster.NodeID) bool) {
	c := a.v.Cluster()
	return func(yield func(cluster.NodeID) bool) {
		var firsts []cluster.NodeID
		for _, n := range c.PoolNodes(a.j.Pool()) {
			if level != cluster.EachNode && slices.ContainsFunc(firsts, func(m cluster.NodeID) bool { return c.Together(n, m, level) }) {
				continue
			}
			if firsts = append(firsts, n); !yield(n) {
				return
			}
		}
	}
}

// room is how many pods of the job a node may hold beside what others have there of cores, memory and
// counted resources, all pods taken for as large as the largest; nil: any number.
func (a *attempt) room() func(n cluster.NodeID) int {
	class, c := a.v.Class(a.j.Class()), a.v.Cluster()
	var cpu unit.Milli
	var memory unit.Bytes
	for _, p := range a.pods {
		role := &class.Demand.Roles[p.role]
		cpu, memory = max(cpu, role.CPU*unit.Milli(p.tasks)), max(memory, role.Memory*unit.Bytes(p.tasks))
	}
	if class.Scope == class.Pool && class.Slots == nil && cpu == 0 && memory == 0 {
		return nil
	}
	return func(n cluster.NodeID) int {
		if !c.In(n, class.Scope) || !c.Usable(n) { // where pods without GPUs could not be
			return 0
		}
		most := c.TasksBeside(n, cpu, memory, len(a.pods))
		if class.Slots != nil {
			free := c.SlotsFree(n)
			for _, p := range a.pods {
				most = min(most, free.Tasks(&class.Slots[p.role], most*p.tasks)/p.tasks)
			}
		}
		return most
	}
}

// startOn starts the job on what was found for it.
func (a *attempt) startOn(f *cells.Found) bool {
	c, d := a.v.Cluster(), a.j.Spec().Demand
	a.alloc.Reset()
	var gpus []cluster.DeviceID
	for i, p := range a.pods {
		role := &d.Roles[p.role]
		milli := int32(min(role.GPU, unit.One))
		var n cluster.NodeID
		if n, gpus = a.site.space.Task(f, c, i, gpus[:0]); !c.Usable(n) {
			return false
		}
		a.piece(n, p, role)
		for _, g := range gpus {
			if c.DeviceFree(g) < unit.Milli(milli) {
				return false
			}
			a.alloc.Shares = append(a.alloc.Shares, cluster.Share{Device: g, Milli: milli, Memory: role.GPUMemory})
		}
	}
	return a.beside() && a.p.StartOn(a.j.ID, &a.alloc)
}

// piece adds a pod to what the job will have.
func (a *attempt) piece(n cluster.NodeID, p pod, r *job.Role) {
	if at := len(a.alloc.Pieces); at == 0 || a.alloc.Pieces[at-1].Node != n || int(a.alloc.Pieces[at-1].Role) != p.role {
		a.alloc.Pieces = append(a.alloc.Pieces, cluster.Piece{Node: n, Role: uint8(p.role)})
	}
	piece := &a.alloc.Pieces[len(a.alloc.Pieces)-1]
	piece.Tasks += int32(p.tasks)
	piece.Shares += int32(p.gpus)
	piece.CPU += r.CPU * unit.Milli(p.tasks)
	piece.Memory += r.Memory * unit.Bytes(p.tasks)
}

// beside tells whether nodes have cores and memory enough for what the job will have there.
func (a *attempt) beside() bool {
	c := a.v.Cluster()
	cpu, memory := map[cluster.NodeID]unit.Milli{}, map[cluster.NodeID]unit.Bytes{}
	for i := range a.alloc.Pieces {
		p := &a.alloc.Pieces[i]
		cpu[p.Node] += p.CPU
		memory[p.Node] += p.Memory
	}
	for _, p := range a.alloc.Pieces {
		if free, told := c.CPUFree(p.Node); told && free < cpu[p.Node] {
			return false
		}
		if free, told := c.MemoryFree(p.Node); told && free < memory[p.Node] {
			return false
		}
	}
	return true
}
