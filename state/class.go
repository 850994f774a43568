package state

import (
	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/tenant"
)

// Class is what all jobs of equal demand and pool have in common that are believed to run
// on the same GPU types (Believe).
type Class struct {
	Demand *job.Demand
	Pool   cluster.PoolID
	Scope  cluster.PoolID   // the nodes of the pool that the jobs may use (cluster.Scope): the pool itself where they may use all
	Mask   cluster.TypeMask // of the acceptable types those on which the jobs run; 0: any
	NoType bool             // the cluster knows no such type
	Still  bool             // it knows acceptable types, and the jobs are believed to stand still on all of them
	GPUs   int32
	Amount tenant.Amount
	Slots  []cluster.Slots // what each task needs of the counted resources, by role; nil: nothing
	Lacks  string          // the counted resource that is needed and that the cluster does not know; NoType is then set
}

// EachType calls visit for the types of the mask that the cluster has, in the order in which
// the jobs prefer them, until it returns false.
func (k *Class) EachType(c *cluster.Cluster, visit func(cluster.TypeID) bool) {
	if k.NoType {
		return
	}
	k.Demand.EachType(c, func(t cluster.TypeID) bool { return !k.Mask.Has(t) || visit(t) })
}

// scope finds the nodes that the jobs may use. The text of a demand was checked with the
// demand; one that cannot be read after all admits no node.
func (k *Class) scope(c *cluster.Cluster) {
	var err error
	if k.Scope, err = c.Scope(k.Demand.Condition(k.Pool)); err != nil {
		k.Scope, _ = c.Scope(cluster.Condition{Pool: k.Pool, Level: "\n"}) // no place has such a level
	}
}

// Restricted tells whether jobs of the class may not use every node of their pool, or not
// any nodes together.
func (k *Class) Restricted() bool {
	return k.Scope != k.Pool || k.Demand.Within != "" && !k.Demand.Prefer
}

// Admits tells whether jobs of the class may be where an allocation is.
func (k *Class) Admits(c *cluster.Cluster, a *cluster.Alloc) bool {
	if !k.Restricted() {
		return true
	}
	for i := range a.Pieces {
		if k.Scope != k.Pool && !c.In(a.Pieces[i].Node, k.Scope) {
			return false
		}
	}
	if k.Demand.Within == "" || k.Demand.Prefer {
		return true
	}
	for i := 1; i < len(a.Pieces); i++ {
		if !c.Together(a.Pieces[0].Node, a.Pieces[i].Node, k.Demand.Within) {
			return false
		}
	}
	return true
}

type classKey struct {
	demand job.Demand
	pool   cluster.PoolID
	still  cluster.TypeMask // the types on which the jobs are believed to stand still
}

// memoKey is a classKey by the address of its demand, which most jobs share.
type memoKey struct {
	demand *job.Demand
	pool   cluster.PoolID
	still  cluster.TypeMask
}

// classes are the classes of a run, by number.
type classes struct {
	list   []Class
	of     map[classKey]int32
	memo   map[memoKey]int32
	speeds perf.Typed // what is believed, see Believe; nil: nothing
}

// rescope finds anew which nodes the jobs of each class may use.
func (k *classes) rescope(c *cluster.Cluster) {
	for i := range k.list {
		k.list[i].scope(c)
	}
}

// sort notes on the record of a job of which class it is, and which types it can have.
func (k *classes) sort(r *job.Record, c *cluster.Cluster) {
	r.Class = k.class(r.Job.Demand, r.Pool, k.still(r.Job, c), c)
	r.Mask = k.list[r.Class].Mask
}

// class is the class of a demand in a pool, without the types on which a job stands still.
func (k *classes) class(d *job.Demand, p cluster.PoolID, still cluster.TypeMask, c *cluster.Cluster) int32 {
	memo := memoKey{d, p, still}
	if n, ok := k.memo[memo]; ok {
		return n
	}
	key := classKey{*d, p, still}
	n, ok := k.of[key]
	if !ok {
		n = int32(len(k.list))
		class := Class{
			Demand: d, Pool: p, GPUs: int32(d.GPUs()),
			Amount: tenant.Amount{GPU: d.Milli(d.Roles[0].Tasks), CPU: d.CPU(), Memory: d.Memory()},
		}
		var known bool
		class.Mask, known = d.TypeMask(c)
		class.scope(c)
		class.NoType = !known
		if known && still != 0 {
			class.Mask = without(d, class.Mask, still, c)
			class.Still = class.Mask == 0
			class.NoType = class.Still
		}
		if class.Slots, class.Lacks = d.Slots(c); class.Lacks != "" {
			class.NoType = true
		}
		k.list = append(k.list, class)
		k.of[key] = n
	}
	k.memo[memo] = n
	return n
}

// Believe tells how fast jobs are believed to run. A type on which a job would stand still,
// whatever its size, is not among those that it can have (Class.Mask). Without it every
// acceptable type will do. Earlier decisions for jobs stay as they are.
func (s *State) Believe(m perf.Typed) {
	s.classes.speeds = m
	for i := range s.Jobs() {
		if r := s.Record(job.ID(i)); r.Job.Demand != nil {
			s.classes.sort(r, s.Cluster)
		}
	}
}

// still is the acceptable GPU types on which a job is believed to stand still.
func (k *classes) still(j *job.Job, c *cluster.Cluster) (m cluster.TypeMask) {
	if k.speeds == nil || j.Demand.Milli(j.Demand.Roles[0].Tasks) == 0 {
		return 0
	}
	j.Demand.EachType(c, func(t cluster.TypeID) bool {
		if !k.moves(j, c, t) {
			m |= 1 << t
		}
		return true
	})
	return m
}

// moves tells whether a job is believed to make progress on GPUs of a type. It looks at the
// size that the job asks for, the least and the most that it may have, and the least doubled
// again and again.
func (k *classes) moves(j *job.Job, c *cluster.Cluster, t cluster.TypeID) bool {
	at := func(tasks int32) bool {
		return k.speeds.On(j, c, t, int(tasks), false) > 0 || k.speeds.On(j, c, t, int(tasks), true) > 0
	}
	least, most := j.Demand.Roles[0].Range()
	if at(j.Demand.Roles[0].Tasks) || at(most) {
		return true
	}
	for n := max(1, int64(least)); n < int64(most); n *= 2 {
		if at(int32(n)) {
			return true
		}
	}
	return false
}

// without is the acceptable types of a demand but for some; 0: none is left.
func without(d *job.Demand, mask, still cluster.TypeMask, c *cluster.Cluster) (m cluster.TypeMask) {
	d.EachType(c, func(t cluster.TypeID) bool {
		if mask.Has(t) && !still.Has(t) {
			m |= 1 << t
		}
		return true
	})
	return m
}
