package sched

import (
	"slices"

	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/place"
)

// Barred keeps the jobs that fit nowhere, however empty the cluster, out of a
// policy's queues, so that they block nobody. They are reconsidered when nodes
// come or go.
type Barred struct{ ids []job.ID }

// Bars tells whether a waiting job fits nowhere under a strategy. It then notes
// the reason and remembers the job.
func (b *Barred) Bars(p *Plan, id job.ID, where place.Strategy) bool {
	why := p.Never(id, where)
	if why.Code == job.NoReason {
		return false
	}
	p.Hold(id, why)
	if !slices.Contains(b.ids, id) {
		b.ids = append(b.ids, id)
	}
	return true
}

// Has tells whether a job is barred.
func (b *Barred) Has(id job.ID) bool { return slices.Contains(b.ids, id) }

// Remove forgets a job that has left.
func (b *Barred) Remove(id job.ID) {
	if i := slices.Index(b.ids, id); i >= 0 {
		b.ids = slices.Delete(b.ids, i, i+1)
	}
}

// Reconsider returns the barred jobs and forgets them, if nodes came or went.
func (b *Barred) Reconsider(v *View) []job.ID {
	if !v.NodesChanged() || len(b.ids) == 0 {
		return nil
	}
	ids := b.ids
	b.ids = nil
	return ids
}
