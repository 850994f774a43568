package state

import (
	"fmt"
	"slices"
	"time"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/job"
)

// Rejoin has a known job that has not ended stand as a log tells which goes on
// from an earlier one: what Carry does for a job that is not known. What it held
// is free again, and what it holds from now on is taken.
func (s *State) Rejoin(id job.ID, past *job.Record, a *cluster.Alloc, estimate time.Duration, why job.Reason) error {
	r := s.Record(id)
	if r.Phase.Over() {
		return fmt.Errorf("job %s: cannot carry it over, it is %s", r.Job.Key, r.Phase)
	}
	if err := mayStand(s, r.Job, past, a); err != nil {
		return err
	}
	s.leave(id, r)
	was := *r
	r.Submit(was.Job, s.Now)
	r.Tenant, r.Pool, r.Class, r.Mask, r.Estimate = was.Tenant, was.Pool, was.Class, was.Mask, estimate
	s.pools[r.Pool].waiting.Add(int(id))
	return s.stand(id, past, a, why)
}

// KeepPinnedPlace says of a carried job that it was frozen when it was assigned its
// devices: its memory is there, and stays there if it loses them again.
func (s *State) KeepPinnedPlace(id job.ID) error {
	r := s.Record(id)
	if r.Phase != job.Assigned || r.Job.Stop != job.Freeze {
		return fmt.Errorf("job %s: is not frozen, it is %s", r.Job.Key, r.Phase)
	}
	s.pinned[id] = new(cluster.Alloc)
	s.pinned[id].CopyFrom(s.Alloc(id))
	return nil
}

// leave takes away what a job holds, whether or not it had arrived there.
func (s *State) leave(id job.ID, r *job.Record) {
	delete(s.pinned, id)
	if !r.Phase.HasDevices() {
		return
	}
	moves := slices.IndexFunc(s.moving, func(m moving) bool { return m.id == id })
	if moves < 0 {
		s.take(id, r)
		return
	}
	s.moving = slices.Delete(s.moving, moves, moves+1)
	booked := s.booked
	s.booked = true // nothing is in the ledger
	s.take(id, r)
	s.booked = booked
}

// open lets a job be given what it held before although nodes are cordoned or
// devices broken by now, which take nothing new. The function that it returns
// puts them back.
func (s *State) open(a *cluster.Alloc) (back func()) {
	c := s.Cluster
	var nodes []cluster.NodeID
	var devices []cluster.DeviceID
	for i := range a.Pieces {
		if n := a.Pieces[i].Node; c.Health(n) == cluster.Cordoned {
			nodes = append(nodes, n)
			c.SetHealth(n, cluster.Up)
		}
	}
	for i := range a.Shares {
		if d := a.Shares[i].Device; c.Broken(d) {
			devices = append(devices, d)
			c.SetBroken(d, false)
		}
	}
	return func() {
		for _, n := range nodes {
			c.SetHealth(n, cluster.Cordoned)
		}
		for _, d := range devices {
			c.SetBroken(d, true)
		}
	}
}
