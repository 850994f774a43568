package state

import (
	"slices"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/tenant"
)

// Homes are the pools to which jobs belong, by tenant.
type Homes struct {
	of     [][]cluster.PoolID
	visits int
}

// pool is the pool to which a job belongs: that of its partition, else that of its
// tenant's name, else the first.
func (h *Homes) pool(s *State, t tenant.ID, j *job.Job) cluster.PoolID {
	home := h.Of(s, t)[0]
	if j.Partition == "" || s.Cluster.Pools() == 1 {
		return home
	}
	p, ok := s.Cluster.PoolByName(j.Partition)
	if !ok {
		return home
	}
	if !slices.Contains(h.of[t], p) {
		h.of[t] = append(h.of[t], p)
		h.visits++
	}
	return p
}

// Of are the pools to which jobs of a tenant belong: first the one of its name, or pool 0
// where there is none, then those that its jobs have named. It must not be changed.
func (h *Homes) Of(s *State, t tenant.ID) []cluster.PoolID {
	for int(t) >= len(h.of) {
		p, _ := s.Cluster.PoolByName(s.Tenants.At(tenant.ID(len(h.of))).Name) // pool 0 when there is none
		h.of = append(h.of, []cluster.PoolID{p})
	}
	return h.of[t]
}

// Visits grows whenever Of any tenant does.
func (h *Homes) Visits() int { return h.visits }
