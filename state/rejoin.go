package state

import (
	"fmt"
	"slices"
	"time"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/job"
)

// Rejoin gives a known job that has not ended the record that it has in a log
// which goes on from an earlier one. It is what Carry does for a job that is
// not known. The old allocation becomes free, and the new one is taken.
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
	defer s.lists.Reckon(id)
	return s.stand(id, past, a, why)
}

// KeepPinnedPlace notes of a carried job that it was frozen when it was
// assigned its devices. Its memory is there, and stays there if the job loses
// them again.
func (s *State) KeepPinnedPlace(id job.ID) error {
	r := s.Record(id)
	if r.Phase != job.Assigned || r.Job.Stop != job.Freeze {
		return fmt.Errorf("job %s: is not frozen, it is %s", r.Job.Key, r.Phase)
	}
	s.pinned[id] = new(cluster.Alloc)
	s.pinned[id].CopyFrom(s.Alloc(id))
	return nil
}

// leave takes away the allocation of a job, whether or not the job had begun
// there.
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
	s.booked = true // the ledger has nothing for it
	s.take(id, r)
	s.booked = booked
}

// CanAllocate says why a job cannot have its allocation in this state, as one that is
// carried over; nil: it can, also on cordoned nodes and broken devices.
func CanAllocate(s *State, a *cluster.Alloc) error {
	if err := s.Cluster.Valid(a); err != nil {
		return err
	}
	defer s.open(a)()
	mark := s.Cluster.Mark()
	defer s.Cluster.Undo(mark)
	return s.Cluster.Allocate(a)
}

// open makes cordoned nodes and broken devices usable for a moment, and takes back
// what others use, so that a job can get back what it had there. The function that
// it returns undoes that.
func (s *State) open(a *cluster.Alloc) (back func()) {
	c := s.Cluster
	var nodes []cluster.NodeID
	var devices []cluster.DeviceID
	var others map[cluster.NodeID]cluster.Foreign
	foreign := func(n cluster.NodeID, f cluster.Foreign) {
		if err := c.SetForeign(n, f); err != nil { // it was so a moment ago
			panic("state: " + err.Error())
		}
	}
	for i := range a.Pieces {
		if f := c.Foreign(a.Pieces[i].Node); !f.None() {
			n := a.Pieces[i].Node
			if others == nil {
				others = map[cluster.NodeID]cluster.Foreign{}
			}
			others[n] = f
			foreign(n, cluster.Foreign{})
		}
		if n := a.Pieces[i].Node; c.Health(n) == cluster.Cordoned {
			nodes = append(nodes, n)
			c.SetHealth(n, cluster.Up)
		}
	}
	for i := range a.Shares {
		if d := a.Shares[i].Device; c.Defect(d) {
			devices = append(devices, d)
			c.SetBroken(d, false)
		}
	}
	return func() {
		for n, f := range others {
			foreign(n, f)
		}
		for _, n := range nodes {
			c.SetHealth(n, cluster.Cordoned)
		}
		for _, d := range devices {
			c.SetBroken(d, true)
		}
	}
}
