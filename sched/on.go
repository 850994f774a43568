package sched

import (
	"cmp"
	"slices"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/job"
)

// seats lists the jobs on each device that a plan changes. The lists are kept
// from the first call of Plan.On, so plans without such a call pay nothing.
type seats struct {
	kept    bool
	at      []int32 // device -> place in lists + 1; 0: as the state has it
	devices []cluster.DeviceID
	lists   [][]job.ID
}

// reset forgets all lists and keeps their memory.
func (s *seats) reset() {
	for _, d := range s.devices {
		s.at[d] = 0
	}
	s.kept, s.devices = false, s.devices[:0]
}

// On lists the jobs that have a part of a device as the plan stands. Jobs that
// stay there come first, in order of arrival (View.On). Jobs that this plan
// brings there follow, in the order of the plan. The list is valid until the
// plan changes, and must not be changed.
func (p *Plan) On(d cluster.DeviceID) []job.ID {
	if !p.seats.kept {
		p.seats.kept = true
		for i := range p.ops {
			op := &p.ops[i]
			p.departs(op.Job, op.Was)
			p.arrives(op.Job, op.Now)
		}
	}
	if int(d) < len(p.seats.at) && p.seats.at[d] != 0 {
		return p.seats.lists[p.seats.at[d]-1]
	}
	return p.state.On(d)
}

// list is the list of jobs on a device, to be changed.
func (p *Plan) list(d cluster.DeviceID) *[]job.ID {
	s := &p.seats
	for int(d) >= len(s.at) {
		s.at = append(s.at, make([]int32, max(64, p.state.Cluster.Devices()-len(s.at)))...)
	}
	if s.at[d] == 0 {
		n := len(s.devices)
		if n == len(s.lists) {
			s.lists = append(s.lists, nil)
		}
		s.lists[n] = append(s.lists[n][:0], p.state.On(d)...)
		s.devices = append(s.devices, d)
		s.at[d] = int32(n + 1)
	}
	return &s.lists[s.at[d]-1]
}

// arrives notes that a job is now on the devices of a.
func (p *Plan) arrives(id job.ID, a *cluster.Alloc) {
	if !p.seats.kept || a == nil {
		return
	}
	for i := range a.Shares {
		on := p.list(a.Shares[i].Device)
		at := len(*on)
		for at > 0 && p.arrival((*on)[at-1], id) >= 0 {
			at--
		}
		if at == len(*on) || (*on)[at] != id { // several tasks may share a device
			*on = slices.Insert(*on, at, id)
		}
	}
}

// departs notes that a job is no longer on the devices of a.
func (p *Plan) departs(id job.ID, a *cluster.Alloc) {
	if !p.seats.kept || a == nil {
		return
	}
	for i := range a.Shares {
		on := p.list(a.Shares[i].Device)
		*on = slices.DeleteFunc(*on, func(other job.ID) bool { return other == id })
	}
}

// arrival compares two jobs by the moments at which they came to the devices
// that they have as the plan stands.
func (p *Plan) arrival(a, b job.ID) int {
	return cmp.Or(cmp.Compare(p.turn(a), p.turn(b)), cmp.Compare(p.state.Record(a).Placed, p.state.Record(b).Placed), cmp.Compare(a, b))
}

// turn is the place of a job among those that the plan brings to devices, from
// 1. It is 0 for a job that stays where it is.
func (p *Plan) turn(id job.ID) int32 {
	if i := p.opOf[id]; i != 0 {
		return p.ops[i-1].turn
	}
	return 0
}
