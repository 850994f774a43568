package state

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/job"
)

// On lists the jobs that have a part of a device, in order of arrival: by
// job.Record.Placed, ties by number. A log that goes on from this one has that
// moment of each job, so the order stays the same. A job that is assigned the
// device is among them; one that is leaving it is not. The list is valid until
// the state changes, and must not be changed.
func (s *State) On(d cluster.DeviceID) []job.ID {
	if d < 0 || int(d) >= len(s.on) {
		return nil
	}
	return s.on[d]
}

// few is the number of jobs per device for which lists have room from the
// start.
const few = 2

// arrives adds a job to the devices of a. Its record must already have the
// moment of its arrival.
func (s *State) arrives(id job.ID, a *cluster.Alloc) {
	if n := s.Cluster.Devices(); len(a.Shares) > 0 && len(s.on) < n {
		room := make([]job.ID, few*(n-len(s.on)))
		for ; len(s.on) < n; room = room[few:] {
			s.on = append(s.on, room[:0:few])
		}
	}
	for i := range a.Shares {
		d := a.Shares[i].Device
		on := s.on[d]
		at := len(on)
		for at > 0 && arrival(s, on[at-1], id) >= 0 {
			at--
		}
		if at == len(on) || on[at] != id { // several tasks may share a device
			s.on[d] = slices.Insert(on, at, id)
		}
	}
}

// departs takes a job off the devices of a.
func (s *State) departs(id job.ID, a *cluster.Alloc) {
	for i := range a.Shares {
		d := a.Shares[i].Device
		if at := slices.Index(s.on[d], id); at >= 0 {
			s.on[d] = slices.Delete(s.on[d], at, at+1)
		}
	}
}

// arrival compares two jobs by the moments at which they arrived on their
// devices.
func arrival(s *State, a, b job.ID) int {
	return cmp.Or(cmp.Compare(s.Record(a).Placed, s.Record(b).Placed), cmp.Compare(a, b))
}

// checkOn verifies that each device lists exactly the jobs that have a part of
// it.
func checkOn(s *State) error {
	want := make([][]job.ID, s.Cluster.Devices())
	for i := range job.ID(s.Jobs()) {
		if r := s.Record(i); r.Slot >= 0 {
			for _, share := range s.slots[r.Slot].Shares {
				if on := want[share.Device]; !slices.Contains(on, i) {
					want[share.Device] = append(on, i)
				}
			}
		}
	}
	for d, on := range want {
		slices.SortFunc(on, func(a, b job.ID) int { return arrival(s, a, b) })
		if got := s.On(cluster.DeviceID(d)); !slices.Equal(got, on) {
			return fmt.Errorf("%s is held by the jobs %v, and listed are %v", s.Cluster.DeviceName(cluster.DeviceID(d)), on, got)
		}
	}
	return nil
}
