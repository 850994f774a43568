// Package place finds where a gang can run: the strategies that all policies
// share.
//
// Nouns: a Request is a gang and the part of the cluster it may use; a Strategy
// turns it into an Alloc (Request.Out) or into the reason why there is none. A
// strategy books nothing: what it finds is free at the moment it is asked. A
// Request may be used again and again, and then allocates nothing once warm.
//
// A gang keeps to one GPU type while any acceptable type can hold it, in the
// order of its preference, or of the cluster where it has none; only the
// strategies that take devices anywhere mix types, and only when they must.
// Equal choices are broken by the lowest number.
package place

import (
	"math/rand/v2"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/param"
	"github.com/norn-scheduler/norn/unit"
)

// Request is a gang that looks for devices.
type Request struct {
	Cluster *cluster.Cluster
	Demand  *job.Demand
	Tasks   int32 // of the first role
	Pool    cluster.PoolID
	Mask    cluster.TypeMask
	Rand    *rand.Rand // for Random alone

	Out cluster.Alloc // the answer

	order   order
	shelves []cluster.ShelfID
	parts   []*cluster.Alloc // scratch: booked while a general gang is placed
	used    int
	nodes   []cluster.NodeID
	groups  []cluster.GroupID
}

// Strategy finds devices for gangs.
type Strategy interface {
	// Place writes into r.Out where the gang can run now. When it cannot, ok is
	// false, why says what is missing, and r.Out is empty.
	Place(r *Request) (why job.Reason, ok bool)
	// String is the name under which a user selects it.
	String() string
}

// The strategies.
var (
	// Consolidated uses as few nodes as can be, or waits: a gang that fits one
	// node takes the fullest one that still has room (best fit), a larger one
	// takes wholly free nodes and the best fit for the rest. [Helios, Lucid]
	Consolidated Strategy = consolidated{}
	// Pack is Consolidated where that is possible, and otherwise takes the nodes
	// with the most free devices first: never more nodes than needed now, and
	// it never waits while enough devices are free.
	Pack Strategy = pack{}
	// BestFit takes devices anywhere, from the nodes with the fewest free first.
	BestFit Strategy = scatter{"best-fit", fewestFirst}
	// WorstFit takes devices anywhere, from the nodes with the most free first.
	WorstFit Strategy = scatter{"worst-fit", mostFirst}
	// FirstFit takes devices anywhere, from the lowest numbered nodes first.
	FirstFit Strategy = scatter{"first-fit", byNumber}
	// Random takes devices anywhere, from nodes in random order.
	Random Strategy = random{}
	// Rack is Consolidated, or all in the rack with the fewest free devices that
	// suffice, or waits.
	Rack Strategy = rack{relax: false}
	// RackPack is Rack where that is possible, and Pack otherwise.
	RackPack Strategy = rack{relax: true}
)

// All are the strategies in the order in which they are shown to users.
func All() []Strategy {
	return []Strategy{Pack, Consolidated, BestFit, WorstFit, FirstFit, Random, Rack, RackPack}
}

// ByName finds a strategy.
func ByName(name string) (Strategy, bool) {
	for _, s := range All() {
		if s.String() == name {
			return s, true
		}
	}
	return nil, false
}

// GPUs is the number of devices the gang needs, parts rounded up together.
func (r *Request) GPUs() int { return int((r.Demand.Milli(r.Tasks) + unit.One - 1) / unit.One) }

// simple tells whether the gang is just a number of whole devices.
func (r *Request) simple() bool {
	role := &r.Demand.Roles[0]
	return role.GPU == unit.One && role.CPU == 0 && role.Memory == 0 && r.Demand.Roles[1].Tasks == 0
}

// gang tries each acceptable type alone and then, when mix is set, all of them
// together. find handles a simple gang; anything else goes the general way, in
// the given order of groups.
func (r *Request) gang(mix bool, ord order, find func(*Request, int) bool) (job.Reason, bool) {
	r.order = ord
	simple := r.simple()
	attempt := func() bool {
		if simple {
			return find(r, int(r.Tasks))
		}
		return r.general()
	}
	if r.GPUs() == 0 && r.general() {
		return job.Reason{}, true
	}
	for _, s := range r.Cluster.Shelves(r.Pool) {
		shelf := cluster.ShelfID(s)
		if !r.Mask.Has(r.Cluster.ShelfType(shelf)) || simple && r.Cluster.ShelfFree(shelf) < int(r.Tasks) {
			continue
		}
		r.shelves = append(r.shelves[:0], shelf)
		if attempt() {
			return job.Reason{}, true
		}
	}
	if mix && (!simple || r.Cluster.FreeGPUs(r.Pool, r.Mask) >= int(r.Tasks)) {
		r.shelves = r.shelves[:0]
		for _, s := range r.Cluster.Shelves(r.Pool) {
			if r.Mask.Has(r.Cluster.ShelfType(cluster.ShelfID(s))) {
				r.shelves = append(r.shelves, cluster.ShelfID(s))
			}
		}
		if len(r.shelves) != 1 && attempt() {
			return job.Reason{}, true
		}
	}
	r.Out.Reset()
	return r.why(simple), false
}

// why says what is missing for a gang that was not placed.
func (r *Request) why(simple bool) job.Reason {
	c := r.Cluster
	need, free := int32(r.GPUs()), int32(c.FreeGPUs(r.Pool, r.Mask))
	reason := job.Reason{Need: need, Have: free, Job: job.None}
	if role := &r.Demand.Roles[0]; role.GPU > 0 && role.GPU < unit.One {
		if c.FreeMilli(r.Pool, r.Mask) >= r.Demand.Milli(r.Tasks) {
			reason.Code, reason.Need = job.NeedPart, int32(role.GPU)
		} else {
			reason.Code = job.NeedGPUs
		}
		return reason
	}
	if free < need {
		reason.Code = job.NeedGPUs
		return reason
	}
	size := int32(c.MaxNodeGPUs(r.Pool, r.Mask))
	best, whole := r.fullestNodes(int(size))
	switch {
	case need <= size && best < need:
		reason.Code, reason.Have = job.NeedOneNode, best
	case need > size && size > 0 && whole < need/size:
		reason.Code, reason.Need, reason.Have = job.NeedWholeNode, (need+size-1)/size, whole
	case simple:
		reason.Code, reason.Have = job.NeedOneNode, best
	default:
		reason.Code = job.NeedCPU
	}
	return reason
}

// fullestNodes is the largest number of free devices in one group, and the
// number of groups with all of size free.
func (r *Request) fullestNodes(size int) (best, whole int32) {
	c := r.Cluster
	for _, s := range c.Shelves(r.Pool) {
		shelf := cluster.ShelfID(s)
		if !r.Mask.Has(c.ShelfType(shelf)) {
			continue
		}
		for k := c.ShelfLevels(shelf) - 1; k > 0; k-- {
			if c.NextGroup(shelf, k, cluster.None) != cluster.None {
				best = max(best, int32(k))
				break
			}
		}
		whole += int32(c.LevelLen(shelf, size))
	}
	return best, whole
}

type consolidated struct{}

func (consolidated) String() string { return "consolidated" }

func (consolidated) Place(r *Request) (job.Reason, bool) {
	return r.gang(false, fewestFirst, (*Request).consolidate)
}

type pack struct{}

func (pack) String() string { return "pack" }

func (pack) Place(r *Request) (job.Reason, bool) {
	return r.gang(true, mostFirst, func(r *Request, need int) bool {
		return r.consolidate(need) || r.anywhere(need)
	})
}

type scatter struct {
	name  string
	order order
}

func (s scatter) String() string { return s.name }

func (s scatter) Place(r *Request) (job.Reason, bool) {
	return r.gang(true, s.order, (*Request).anywhere)
}

type random struct{}

func (random) String() string { return "random" }

func (random) Place(r *Request) (job.Reason, bool) {
	return r.gang(true, shuffled, (*Request).anywhere)
}

type rack struct{ relax bool }

func (s rack) String() string {
	if s.relax {
		return "rack-pack"
	}
	return "rack"
}

func (s rack) Place(r *Request) (job.Reason, bool) {
	why, ok := r.gang(false, fewestFirst, func(r *Request, need int) bool {
		return r.consolidate(need) || r.inRack(need)
	})
	switch {
	case ok || r.Cluster.FreeGPUs(r.Pool, r.Mask) < r.GPUs():
		return why, ok
	case s.relax:
		return Pack.Place(r)
	}
	best := 0
	for d := range cluster.DomainID(r.Cluster.Domains()) {
		if len(r.Cluster.DomainNodes(d)) > 0 {
			best = max(best, r.Cluster.DomainFree(d, r.Pool, r.Mask))
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
		return "consolidated, or all in one rack, or wait"
	case RackPack:
		return "as rack, but never waits while enough GPUs are free"
	}
	return ""
}
