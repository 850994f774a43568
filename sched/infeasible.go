package sched

import (
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/place"
	"github.com/norn-scheduler/norn/state/dense"
)

// Infeasible keeps jobs that fit nowhere, however empty the cluster, out of a
// policy's queues. So they block no other job. Policies reconsider them when nodes
// come or go.
type Infeasible struct {
	set dense.Set
	ids []job.ID // scratch of Reconsider
}

// Rejects tells whether a waiting job fits nowhere under a strategy. It then notes
// the reason and remembers the job.
func (b *Infeasible) Rejects(p *Plan, id job.ID, where place.Strategy) bool {
	why := p.Never(id, where)
	if why.Code == job.NoReason {
		return false
	}
	p.Wait(id, why)
	b.set.Add(int(id))
	return true
}

// Has tells whether a job is remembered as one that fits nowhere.
func (b *Infeasible) Has(id job.ID) bool { return b.set.Has(int(id)) }

// Remove forgets a job that has left.
func (b *Infeasible) Remove(id job.ID) { b.set.Remove(int(id)) }

// Reconsider returns the infeasible jobs, by number, and forgets them, if nodes came
// or went. The slice is valid until the next call.
func (b *Infeasible) Reconsider(v *View) []job.ID {
	if !v.NodesChanged() || b.set.Len() == 0 {
		return nil
	}
	b.ids = b.ids[:0]
	for id := range b.set.All() {
		b.ids = append(b.ids, job.ID(id))
	}
	b.set.Clear()
	return b.ids
}

// Revived tells whether a job was told that it can never run, and can now that nodes have
// changed. A policy that tells jobs of that by itself (Plan.Wait), without an Infeasible, tells
// such a job something else, so that it counts again among those that wait.
func Revived(v *View, p *Plan, j Job, where place.Strategy) bool {
	return v.NodesChanged() && j.Reason().Never() && p.Never(j.ID, where).Code == job.NoReason
}
