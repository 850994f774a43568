// Package tenant is who shares the cluster: a tree of tenants (virtual
// clusters, queues, projects) with what each is guaranteed, may hold at most,
// weighs, and has used.
//
// Nouns:
//   - A Guarantee is what a tenant gets back whenever it asks.
//   - A Limit is what it may never exceed.
//   - Cells are a guarantee as places instead of a number.
//   - What lies between the two is borrowed, and may be reclaimed.
//   - The dominant share is the largest fraction of any resource of the cluster
//     that it holds.
//   - Decayed usage is GPU-time used, which loses half its weight every
//     half-life.
//
// Units: devices and cores in thousandths, memory in bytes, usage in
// GPU-seconds.
package tenant

import (
	"fmt"
	"math"
	"time"

	"github.com/norn-scheduler/norn/cluster/unit"
)

// ID is the number of a tenant, dense in order of first appearance. The root of
// the tree is 0, and stands for the whole cluster.
type ID int32

// Root is the tenant above all others.
const Root ID = 0

// Amount is a vector of resources.
type Amount struct {
	GPU    unit.Milli
	CPU    unit.Milli
	Memory unit.Bytes
}

// Unlimited is the limit of a tenant that has none.
const Unlimited unit.Milli = math.MaxInt64 / 4

// Tenant is one node of the tree. The fields up to Weight are its
// configuration, the others follow what its jobs hold.
type Tenant struct {
	Name      string
	Parent    ID
	Guarantee unit.Milli // GPUs it gets back whenever it asks
	Limit     unit.Milli // GPUs it may hold at most; Unlimited: no limit
	Weight    float64    // share of what is not guaranteed; 1 unless set
	Cells     Cells      // places that it is guaranteed; empty: none

	Used     Amount // held now, by its jobs and those of its children
	Children []ID

	usage   float64 // decayed GPU-seconds, as of usageAt
	usageAt time.Duration
}

// Tree is the tenants of a run.
type Tree struct {
	all      []Tenant
	byName   map[string]ID
	halfLife time.Duration
}

// NewTree returns a tree with the root alone. Usage decays with the given
// half-life; zero means that it never does.
func NewTree(halfLife time.Duration) *Tree {
	t := &Tree{byName: map[string]ID{}, halfLife: halfLife}
	t.all = append(t.all, Tenant{Name: "", Parent: -1, Limit: Unlimited, Weight: 1})
	return t
}

// Add makes a tenant known, or changes the configuration of a known one. A
// limit or a weight of zero means none and 1. It fails on an unknown parent or
// a limit below the guarantee.
func (t *Tree) Add(name string, parent ID, guarantee, limit unit.Milli, weight float64) (ID, error) {
	if limit == 0 {
		limit = Unlimited
	}
	if weight == 0 {
		weight = 1
	}
	switch {
	case parent < 0 || int(parent) >= len(t.all):
		return 0, fmt.Errorf("tenant %q: unknown parent", name)
	case guarantee < 0 || limit < guarantee:
		return 0, fmt.Errorf("tenant %q: a limit of %v GPUs is below its guarantee of %v", name, limit, guarantee)
	case weight < 0 || math.IsNaN(weight) || math.IsInf(weight, 0):
		return 0, fmt.Errorf("tenant %q: weight %v", name, weight)
	}
	id, known := t.byName[name]
	if !known {
		id = ID(len(t.all))
		t.all = append(t.all, Tenant{Name: name, Parent: parent})
		t.all[parent].Children = append(t.all[parent].Children, id)
		t.byName[name] = id
	} else if t.all[id].Parent != parent {
		return 0, fmt.Errorf("tenant %q is already below another parent", name)
	}
	e := &t.all[id]
	e.Guarantee, e.Limit, e.Weight = guarantee, limit, weight
	return id, nil
}

// Get is the number of a tenant by name; a name not known yet becomes a tenant
// directly below the root, with no guarantee and no limit.
func (t *Tree) Get(name string) ID {
	if id, ok := t.byName[name]; ok {
		return id
	}
	id, _ := t.Add(name, Root, 0, 0, 0) // cannot fail: the parent exists and nothing is limited
	return id
}

// Lookup finds a tenant by name.
func (t *Tree) Lookup(name string) (ID, bool) {
	id, ok := t.byName[name]
	return id, ok
}

// HalfLife is the time in which usage loses half its weight; 0: it never does.
func (t *Tree) HalfLife() time.Duration { return t.halfLife }

// Len is the number of tenants, the root included.
func (t *Tree) Len() int { return len(t.all) }

// At is a tenant. It must not be changed.
func (t *Tree) At(id ID) *Tenant { return &t.all[id] }

// Hold adds (sign 1) or takes away (sign -1) what a job of a tenant holds, up
// the tree.
func (t *Tree) Hold(id ID, a Amount, sign int, now time.Duration) {
	s := unit.Milli(sign)
	for ; id >= 0; id = t.all[id].Parent {
		e := &t.all[id]
		e.usage = t.decayed(e, now)
		e.usageAt = now
		e.Used.GPU += s * a.GPU
		e.Used.CPU += s * a.CPU
		e.Used.Memory += unit.Bytes(sign) * a.Memory
	}
}

// Usage is the decayed GPU-seconds of a tenant and its children at a moment
// not before the last change.
func (t *Tree) Usage(id ID, now time.Duration) float64 { return t.decayed(&t.all[id], now) }

// SetUsage sets the decayed GPU-seconds of a tenant and its children as they
// were at a moment: what is known from before the run.
func (t *Tree) SetUsage(id ID, used float64, at time.Duration) {
	t.all[id].usage, t.all[id].usageAt = used, at
}

// decayed integrates what was held since usageAt, weighing each second by how
// long ago it lies.
func (t *Tree) decayed(e *Tenant, now time.Duration) float64 {
	if now <= e.usageAt || e.Used.GPU == 0 && t.halfLife <= 0 {
		return e.usage
	}
	dt := (now - e.usageAt).Seconds()
	gpus := float64(e.Used.GPU) / 1000
	if t.halfLife <= 0 {
		return e.usage + gpus*dt
	}
	rate := math.Ln2 / t.halfLife.Seconds()
	left := math.Exp(-rate * dt)
	return e.usage*left + gpus*(1-left)/rate
}

// Dominant is the largest fraction of any resource of the total that an amount
// is; a resource of which there is none does not count.
func (a Amount) Dominant(total Amount) float64 {
	share := 0.0
	if total.GPU > 0 {
		share = max(share, float64(a.GPU)/float64(total.GPU))
	}
	if total.CPU > 0 {
		share = max(share, float64(a.CPU)/float64(total.CPU))
	}
	if total.Memory > 0 {
		share = max(share, float64(a.Memory)/float64(total.Memory))
	}
	return share
}
