// Package place finds where a gang can run: the strategies that all policies
// share.
//
// Nouns: a Request is a gang and the part of the cluster that it may use, a pool
// or a scope of package cluster. A
// Strategy turns it into an Alloc (Request.Out), or into the reason why there
// is none. A strategy books nothing: what it finds is free at the moment it is
// asked. A Request may be used again and again, and then allocates nothing once
// warm.
//
// A gang keeps to one GPU type while any acceptable type can hold it. Types are
// tried in the gang's order of preference, or in that of the cluster if it has
// none. Only the strategies that take devices anywhere mix types, and only when
// they must. Equal choices are broken by the lowest number. A group that counts
// its devices instead of telling them apart is the last resort of every
// strategy but FirstFit and Random.
//
// A task that asks for a part of a device gets it from the device in partial
// use with the least left that suffices. If there is none, it gets it from a
// whole device, which the strategy chooses. Tasks without devices get the
// lowest numbered nodes with room. Such tasks are not consolidated. A rack is a
// place in which nodes stand directly.
package place

import (
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/policy/param"
)

// Request is a gang that looks for devices.
type Request struct {
	Cluster *cluster.Cluster
	Demand  *job.Demand
	Tasks   int32 // of the first role
	Pool    cluster.PoolID
	Mask    cluster.TypeMask
	Slots   []cluster.Slots // what each task needs of the counted resources, by role; nil: nothing
	Rand    *rand.Rand      // for Random alone

	Out cluster.Alloc // the answer

	order   order
	style   style
	shelves []cluster.ShelfID
	rack    cluster.DomainID // where a general gang must stay; None: anywhere
	parts   []*cluster.Alloc // scratch: booked while a general gang is placed
	used    int
	groups  []cluster.GroupID
	sizes   []int32 // sizes[n]: groups that could hold n tasks if nothing else ran
	racks   []roomy
	spots   []spot
	nodes   []cluster.NodeID
	slots   *cluster.Slots  // of the role that is placed; nil: none
	fewer   []cluster.Slots // scratch of shortSlots
}

// style is how close together a gang must be.
type style uint8

const (
	spread   style = iota // anywhere, in the order of the search
	together              // on as few nodes as can be, or nowhere
	packed                // together, or else spread
	racked                // on one node, or in one rack, or together
)

// Strategy finds devices for gangs.
type Strategy interface {
	// Place writes into r.Out where the gang can run now. When it cannot, ok is
	// false, why says what is missing, and r.Out is empty.
	Place(r *Request) (why job.Reason, ok bool)
	// String is the name under which a user selects it.
	String() string
}

// named is a strategy of this package.
type named uint8

// The strategies.
const (
	// Consolidated uses as few nodes as possible, or waits. A gang that fits one
	// node takes the fullest one that still has room (best fit). A larger one takes
	// wholly free nodes and the best fit for the rest. [Helios, Lucid] How few can
	// be is what the gang would need if nothing else ran and every node worked: of
	// g devices on nodes of G, floor(g/G) wholly free nodes and one for the rest,
	// if any. Where nodes differ in size, the largest wholly free ones are taken
	// first.
	Consolidated named = iota
	// Pack is Consolidated where that is possible, and otherwise takes the nodes
	// with the most free devices first. It never takes more nodes than needed now,
	// and never waits while enough devices are free.
	Pack
	// BestFit takes devices anywhere, from the nodes with the fewest free first.
	BestFit
	// WorstFit takes devices anywhere, from the nodes with the most free first.
	WorstFit
	// FirstFit takes devices anywhere, from the lowest numbered nodes first.
	FirstFit
	// Random takes devices anywhere, from nodes in random order.
	Random
	// Rack takes one node as Consolidated does, or else as few nodes as possible in
	// the rack with the fewest free devices that suffice. If no rack has enough, it
	// acts as Consolidated, over as many racks as needed, or waits.
	Rack
	// RackPack is Rack where that is possible, and Pack otherwise.
	RackPack
)

// All are the strategies in the order in which they are shown to users.
func All() []Strategy {
	return []Strategy{Pack, Consolidated, BestFit, WorstFit, FirstFit, Random, Rack, RackPack}
}

// GPUs is the number of devices the gang needs, parts rounded up together.
func (r *Request) GPUs() int { return int((r.Demand.Milli(r.Tasks) + unit.One - 1) / unit.One) }

// simple tells whether the gang is just a number of whole devices.
func (r *Request) simple() bool {
	role := &r.Demand.Roles[0]
	return role.GPU == unit.One && role.CPU == 0 && role.Memory == 0 && len(r.Slots) == 0 && r.Demand.Roles[1].Tasks == 0
}

// gang tries each acceptable type alone and then, when mix is set, all of them
// together.
func (r *Request) gang(mix bool, ord order, st style) (job.Reason, bool) {
	r.order, r.style, r.rack = ord, st, cluster.None
	simple := r.simple()
	r.shelves = r.shelves[:0]
	if r.GPUs() == 0 && r.general() {
		return job.Reason{}, true
	}
	placed := false
	r.eachShelf(func(shelf cluster.ShelfID) bool {
		if simple && r.Cluster.ShelfFree(shelf) < int(r.Tasks) {
			return true
		}
		r.shelves = append(r.shelves[:0], shelf)
		placed = r.attempt(simple)
		return !placed
	})
	if !placed && mix && (!simple || r.Cluster.FreeGPUs(r.Pool, r.Mask) >= int(r.Tasks)) {
		r.shelves = r.shelves[:0]
		r.eachShelf(func(shelf cluster.ShelfID) bool {
			r.shelves = append(r.shelves, shelf)
			return true
		})
		r.style = spread
		placed = len(r.shelves) != 1 && r.attempt(simple)
	}
	if placed {
		return job.Reason{}, true
	}
	why := r.why(simple)
	if why.Code == job.NeedCPU && len(r.Slots) > 0 {
		if name := r.shortSlots(); name != "" {
			why.Code, why.Text = job.NeedSlots, name
		}
	}
	r.Out.Reset()
	return why, false
}

// shortSlots is the first counted resource without which the gang would fit, or all
// of them where it needs several less; empty when CPU or memory is short as well.
func (r *Request) shortSlots() string {
	needed, names := r.Slots, r.Cluster.SlotNames()
	defer func() { r.Slots = needed }()
	fits := func(but int) bool { // without one, or -1: without any
		r.fewer = append(r.fewer[:0], needed...)
		for role := range r.fewer {
			if r.fewer[role][max(0, but)] = 0; but < 0 {
				r.fewer[role] = cluster.Slots{}
			}
		}
		r.Slots = r.fewer
		return r.general()
	}
	for i, name := range names {
		if slices.ContainsFunc(needed, func(s cluster.Slots) bool { return s[i] > 0 }) && fits(i) {
			return name
		}
	}
	if len(names) == 0 || !fits(-1) {
		return ""
	}
	return strings.Join(names, " or ")
}

// eachShelf calls visit for the shelves with acceptable types, in the order of
// the gang's preference, until it returns false.
func (r *Request) eachShelf(visit func(cluster.ShelfID) bool) {
	shelves := r.Cluster.Shelves(r.Pool)
	if r.Demand.Types == "" {
		for _, s := range shelves {
			if r.Mask.Has(r.Cluster.ShelfType(cluster.ShelfID(s))) && !visit(cluster.ShelfID(s)) {
				return
			}
		}
		return
	}
	r.Demand.EachType(r.Cluster, func(t cluster.TypeID) bool {
		for _, s := range shelves {
			if r.Cluster.ShelfType(cluster.ShelfID(s)) == t && r.Mask.Has(t) && !visit(cluster.ShelfID(s)) {
				return false
			}
		}
		return true
	})
}

// attempt looks for devices on the shelves of the search.
func (r *Request) attempt(simple bool) bool {
	if !simple {
		return r.general()
	}
	need := int(r.Tasks)
	switch r.style {
	case together:
		return r.consolidate(need)
	case packed:
		return r.consolidate(need) || r.anywhere(need)
	case racked:
		return r.inNode(need) || r.inRack(need) || r.consolidate(need)
	}
	return r.anywhere(need)
}

// why says what is missing for a gang that was not placed.
func (r *Request) why(simple bool) job.Reason {
	c := r.Cluster
	need, free := int32(r.GPUs()), int32(c.FreeGPUs(r.Pool, r.Mask))
	reason := job.Reason{Need: need, Have: free, Job: job.None}
	if role := &r.Demand.Roles[0]; role.GPU > 0 && role.GPU < unit.One {
		switch parts := r.partsFree(); {
		case c.FreeMilli(r.Pool, r.Mask) < r.Demand.Milli(r.Tasks), 0 < parts && parts < int(r.Tasks) && free < need:
			reason.Code = job.NeedGPUs
		case parts >= int(r.Tasks):
			reason.Code = job.NeedCPU
		default:
			reason.Code, reason.Need = job.NeedPart, int32(role.GPU)
		}
		return reason
	}
	if free < need {
		reason.Code = job.NeedGPUs
		return reason
	}
	size := int32(c.MaxNodeGPUs(r.Pool, r.Mask))
	best := r.fullestNode()
	nodes, full, whole := r.wholeNodes(need)
	switch {
	case need <= size && best < need:
		reason.Code, reason.Have = job.NeedOneNode, best
	case need > size && whole < full:
		reason.Code, reason.Need, reason.Have = job.NeedWholeNode, nodes, whole
	case simple:
		reason.Code, reason.Have = job.NeedOneNode, best
	default:
		reason.Code = job.NeedCPU
		if each := int(r.Demand.Roles[0].GPU / unit.One); each > 1 {
			if room := r.tasksFree(each); room < int(r.Tasks) && !r.pooled() {
				reason = job.Reason{Code: job.NeedTasks, Need: r.Tasks, Have: int32(room), Job: job.None, Text: unit.Count(each, "GPU")}
			}
		}
	}
	return reason
}

// tasksFree is for how many tasks with several devices each, all of one node, the devices have
// room, if everything else suffices; it counts no more than the gang has.
func (r *Request) tasksFree(each int) (n int) {
	c := r.Cluster
	for _, s := range c.Shelves(r.Pool) {
		shelf := cluster.ShelfID(s)
		if !r.Mask.Has(c.ShelfType(shelf)) {
			continue
		}
		for k := c.ShelfLevels(shelf) - 1; k >= each; k-- {
			for g := c.NextGroup(shelf, k, cluster.None); g != cluster.None && n < int(r.Tasks); g = c.NextGroup(shelf, k, g) {
				n += k / each
			}
		}
	}
	return min(n, int(r.Tasks))
}

// pooled tells whether GPUs of some node are counted and not told apart.
func (r *Request) pooled() bool {
	return slices.ContainsFunc(r.Cluster.PoolNodes(r.Pool), func(n cluster.NodeID) bool { return r.Cluster.Node(n).Pooled })
}

// partsFree is the number of tasks of a gang for which the devices have room,
// if everything else suffices. The gang has one role, whose tasks ask for parts
// of devices.
func (r *Request) partsFree() (n int) {
	role := &r.Demand.Roles[0]
	if r.Demand.Roles[1].Tasks > 0 {
		return 0
	}
	for _, s := range r.Cluster.Shelves(r.Pool) {
		if shelf := cluster.ShelfID(s); r.Mask.Has(r.Cluster.ShelfType(shelf)) {
			n += r.Cluster.PartsFree(shelf, role.GPU, role.GPUMemory, int(r.Tasks)-n)
		}
	}
	return n
}

// fullestNode is the largest number of free devices in one group.
func (r *Request) fullestNode() int32 {
	c := r.Cluster
	best := 0
	for _, s := range c.Shelves(r.Pool) {
		shelf := cluster.ShelfID(s)
		if !r.Mask.Has(c.ShelfType(shelf)) {
			continue
		}
		for k := c.ShelfLevels(shelf) - 1; k > best; k-- {
			if c.NextGroup(shelf, k, cluster.None) != cluster.None {
				best = k
			}
		}
	}
	return int32(best)
}

// wholeNodes is the least number of groups that a gang of single devices takes,
// how many of these it fills, and how many groups are wholly free that are at
// least as large as the smallest of those.
func (r *Request) wholeNodes(need int32) (nodes, full, whole int32) {
	c := r.Cluster
	levels := 0
	for _, s := range c.Shelves(r.Pool) {
		levels = max(levels, c.ShelfLevels(cluster.ShelfID(s)))
	}
	free := int32(0)
	for size := int32(levels) - 1; size > 0 && need > 0; size-- {
		all := int32(0)
		for _, s := range c.Shelves(r.Pool) {
			if shelf := cluster.ShelfID(s); r.Mask.Has(c.ShelfType(shelf)) {
				all += int32(c.Sized(shelf, int(size)))
				free += int32(c.WhollyFree(shelf, int(size)))
			}
		}
		if n := min(all, need/size); n > 0 {
			full, whole = full+n, free
		}
		n := min(all, (need+size-1)/size)
		nodes += n
		need -= n * size
	}
	return nodes, full, whole
}

// String implements Strategy.
func (s named) String() string {
	return [...]string{"consolidated", "pack", "best-fit", "worst-fit", "first-fit", "random", "rack", "rack-pack"}[s]
}

// Place implements Strategy.
func (s named) Place(r *Request) (job.Reason, bool) {
	switch s {
	case Consolidated:
		return r.gang(false, fewestFirst, together)
	case BestFit:
		return r.gang(true, fewestFirst, spread)
	case WorstFit:
		return r.gang(true, mostFirst, spread)
	case FirstFit:
		return r.gang(true, byNumber, spread)
	case Random:
		return r.gang(true, shuffled, spread)
	case Rack, RackPack:
		return r.racked(s == RackPack)
	}
	return r.gang(true, mostFirst, packed)
}

// racked places a gang in one rack, and otherwise as Pack does, where it may.
func (r *Request) racked(relax bool) (job.Reason, bool) {
	why, ok := r.gang(false, mostFirst, racked)
	switch {
	case ok || r.Cluster.FreeGPUs(r.Pool, r.Mask) < r.GPUs():
		return why, ok
	case relax:
		return Pack.Place(r)
	}
	best := 0
	for d := range cluster.DomainID(r.Cluster.Domains()) {
		if len(r.Cluster.DomainNodes(d)) > 0 {
			best = max(best, r.Cluster.DomainOwnFree(d, r.Pool, r.Mask))
		}
	}
	return job.Reason{Code: job.NeedRack, Need: int32(r.GPUs()), Have: int32(best), Job: job.None}, false
}

// Param is the setting by which users choose a strategy.
func Param(v *Strategy) param.Param {
	options := make([]param.Option[Strategy], 0, len(All()))
	for _, s := range All() {
		options = append(options, param.Option[Strategy]{Name: s.String(), Value: s})
	}
	return param.Choice("place", v, options, "where gangs run; see norn policies --placements")
}

// About says in one line what a strategy does.
func About(s Strategy) string {
	switch s {
	case Pack:
		return "as few nodes as can be had now; never waits while enough GPUs are free"
	case Consolidated:
		return "as few nodes as possible, or wait: best fit in one node, or whole nodes and best fit for the rest"
	case BestFit:
		return "GPUs anywhere, from the nodes with the fewest free first"
	case WorstFit:
		return "GPUs anywhere, from the nodes with the most free first"
	case FirstFit:
		return "GPUs anywhere, from the lowest numbered nodes first"
	case Random:
		return "GPUs anywhere, from nodes in random order"
	case Rack:
		return "one node, or few nodes of one rack, or as few nodes as possible where no rack has enough, or wait"
	case RackPack:
		return "as rack, but never waits while enough GPUs are free"
	}
	return ""
}
