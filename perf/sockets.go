package perf

import (
	"slices"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/fabric"
	"github.com/norn-scheduler/norn/job"
)

// Sized is a sort of jobs on a node: what is trained, with which batch, on how many GPUs.
type Sized struct {
	Model string
	Batch int
	GPUs  int
}

// SizedOf is the sort of a job on so many GPUs of a node.
func SizedOf(j *job.Job, gpus int) Sized { return Sized{j.Model, j.Batch, gpus} }

// Sockets is what was measured of jobs of one node: their run times alone, and beside another job that uses
// one of the same CPU sockets. Those who use one share its processors, its memory and the way to them, so that
// they may slow each other down although no two use one GPU. The zero Sockets has measured nothing.
//
// Times are seconds for as much work as is done in any of them. Source: the profiles that were published with
// Amaral et al., "Topology-Aware GPU Scheduling for Learning Workloads in Cloud Environments", SC 2017.
type Sockets struct {
	alone  map[Sized][2]float64 // on one socket, on several; 0: not measured
	beside map[[2]Sized]float64 // of the first in the presence of the second
}

// Alone stores the run times of a sort of jobs alone on one socket, and on several; 0: not measured.
func (s *Sockets) Alone(k Sized, within, across float64) {
	if s.alone == nil {
		s.alone = map[Sized][2]float64{}
	}
	s.alone[k] = [2]float64{within, across}
}

// Beside stores the run time of a sort of jobs beside another one; 0: not measured.
func (s *Sockets) Beside(k, other Sized, seconds float64) {
	if s.beside == nil {
		s.beside = map[[2]Sized]float64{}
	}
	if seconds > 0 {
		s.beside[[2]Sized{k, other}] = seconds
	}
}

// Knows tells whether a sort of jobs was measured alone.
func (s *Sockets) Knows(k Sized) bool { return s != nil && s.alone[k][0] > 0 }

// Len is the number of sorts that were measured alone.
func (s *Sockets) Len() int { return len(s.alone) }

// Solo is the run time of a sort of jobs alone, on one socket or on several, in seconds; that on one where the
// other was not measured, and 0 where neither was.
func (s *Sockets) Solo(k Sized, across bool) float64 {
	if s == nil {
		return 0
	}
	if t := s.alone[k]; across && t[1] > 0 {
		return t[1]
	}
	return s.alone[k][0]
}

// With is the run time of a sort of jobs beside another one, in seconds; 0 where it was not measured.
func (s *Sockets) With(k, other Sized) float64 {
	if s == nil {
		return 0
	}
	return s.beside[[2]Sized{k, other}]
}

// occupant is a job on a node.
type occupant struct {
	id   job.ID
	sort Sized
	on   uint64 // the sockets that it uses, a bit each
}

// occupants keeps who uses which sockets, of jobs that hold GPUs of one node whose links are known.
type occupants struct {
	sockets *Sockets
	of      fabric.ByLinks[[]int] // the sockets of devices
	nodes   map[cluster.NodeID][]occupant
	where   map[job.ID]cluster.NodeID
	stale   []job.ID // whose neighbours have changed
}

func newOccupants(s *Sockets) *occupants {
	return &occupants{sockets: s, nodes: map[cluster.NodeID][]occupant{}, where: map[job.ID]cluster.NodeID{}}
}

// uses is the sockets that an allocation uses, a bit each; ok is false where they are not known.
func (o *occupants) uses(c *cluster.Cluster, a *cluster.Alloc) (on uint64, ok bool) {
	if len(a.Pieces) != 1 || len(a.Shares) == 0 {
		return 0, false
	}
	node := a.Pieces[0].Node
	l := c.Node(node).Links
	if l == nil {
		return 0, false
	}
	of := o.of.Of(l, (*cluster.Links).Sockets)
	first, _ := c.DeviceRange(node)
	for _, s := range a.Shares {
		if i := int(s.Device - first); i < len(of) {
			on |= 1 << min(63, of[i])
		}
	}
	return on, on != 0
}

func (o *occupants) enter(j *job.Job, c *cluster.Cluster, a *cluster.Alloc) {
	o.leave(j.ID)
	on, ok := o.uses(c, a)
	if !ok {
		return
	}
	node := a.Pieces[0].Node
	o.touch(node, on)
	o.where[j.ID] = node
	o.nodes[node] = append(o.nodes[node], occupant{j.ID, SizedOf(j, len(a.Shares)), on})
}

func (o *occupants) leave(id job.ID) {
	node, ok := o.where[id]
	if !ok {
		return
	}
	delete(o.where, id)
	here := o.nodes[node]
	i := slices.IndexFunc(here, func(x occupant) bool { return x.id == id })
	on := here[i].on
	if here = slices.Delete(here, i, i+1); len(here) == 0 {
		delete(o.nodes, node)
		return
	}
	o.nodes[node] = here
	o.touch(node, on)
}

// touch notes that something changes on sockets of a node.
func (o *occupants) touch(node cluster.NodeID, on uint64) {
	for _, x := range o.nodes[node] {
		if x.on&on != 0 {
			o.stale = append(o.stale, x.id)
		}
	}
}

// factor is by what the speed of a job is multiplied: its run time alone on one socket, over that alone where
// it is or over the longest beside a neighbour, whichever is longer.
func (o *occupants) factor(j *job.Job, c *cluster.Cluster, a *cluster.Alloc) float64 {
	k := SizedOf(j, len(a.Shares))
	best := o.sockets.Solo(k, false)
	if best == 0 {
		return 1
	}
	on, ok := o.uses(c, a)
	if !ok {
		return 1
	}
	takes := o.sockets.Solo(k, on&(on-1) != 0)
	for _, x := range o.nodes[a.Pieces[0].Node] {
		if x.id != j.ID && x.on&on != 0 {
			takes = max(takes, o.sockets.With(k, x.sort))
		}
	}
	return min(1, best/takes)
}
