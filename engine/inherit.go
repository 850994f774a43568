package engine

import (
	"fmt"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/sched"
)

// inherit lists the jobs that share devices because an earlier policy placed them so.
// The present policy never shares devices and does not know about them.
func (e *Engine) inherit() {
	e.inherited = e.inherited[:0]
	if !e.cfg.Exclusive {
		return
	}
	for id := range job.ID(e.state.Jobs()) {
		if e.inherits(id) {
			e.inherited = append(e.inherited, id)
		}
	}
}

// inherits tells whether a job has less of a device than it asks for, or may have so
// again. A frozen job goes on with what it had.
func (e *Engine) inherits(id job.ID) bool {
	switch r := e.state.Record(id); {
	case r.Phase.Over():
		return false
	case r.Phase == job.Running:
		return e.trimmed(id)
	case r.Phase == job.Stopping:
		return true
	}
	return e.state.Alloc(id) != nil || e.state.PinnedPlace(id) != nil
}

// wanted is the sum of the demands of the jobs that have a share of a device,
// in thousandths of the device.
func (e *Engine) wanted(d cluster.DeviceID) (sum unit.Milli) {
	for _, id := range e.state.On(d) {
		for _, s := range e.state.Alloc(id).Shares {
			if s.Device == d {
				sum += e.whole(id)
			}
		}
	}
	return sum
}

// whole is the demand of a job on each of its devices, in thousandths.
func (e *Engine) whole(id job.ID) unit.Milli {
	return min(unit.One, e.state.Record(id).Job.Demand.Roles[0].GPU)
}

// part is the share of a job, in thousandths, of a device on which jobs
// together demand wanted.
func (e *Engine) part(id job.ID, wanted unit.Milli) int32 {
	return int32(e.whole(id) * unit.One / max(unit.One, wanted))
}

// trimmed tells whether a running job has less of a device than it asks for, shares it
// with jobs that ask for more than there is, or is throttled.
func (e *Engine) trimmed(id job.ID) bool {
	r, a := e.state.Record(id), e.state.Alloc(id)
	if a == nil || r.Phase != job.Running || r.Profiling || r.Merged != job.Apart {
		return false
	}
	if role := &r.Job.Demand.Roles[0]; role.GPU < unit.One && a.Tasks(0) > 1 {
		return false // several tasks may have one share
	}
	for i := range a.Shares {
		if s := &a.Shares[i]; s.Milli < int32(e.whole(id)) || e.wanted(s.Device) > unit.One || s.Throttle > 0 {
			return true
		}
	}
	return false
}

// handOver divides devices that jobs still share among them, in proportion to
// what they ask for. The devices are then full, so no other job is placed
// there. A job that is alone gets all that it asks for. This is a plan of its
// own: it runs before the policy decides, and again after.
func (e *Engine) handOver() error {
	if len(e.inherited) == 0 {
		return nil
	}
	e.view = sched.NewView(e.state, nil, false)
	e.plan.Open(&e.view)
	for _, less := range []bool{true, false} {
		for _, id := range e.inherited {
			if e.trimmed(id) {
				e.plan.Adjust(id, func(a *cluster.Alloc) { e.divide(id, a, less) })
			}
		}
	}
	if err := e.plan.Commit(); err != nil {
		return fmt.Errorf("the jobs of an earlier policy at %s: %w", unit.Human(e.state.Now), err)
	}
	if err := e.carryOut(); err != nil {
		return err
	}
	kept := e.inherited[:0]
	for _, id := range e.inherited {
		if e.inherits(id) {
			kept = append(kept, id)
		}
	}
	e.inherited = kept
	return nil
}

// divide gives a job its part of each device. With less it only takes away, without less
// it only gives what is free: jobs of which several tasks may have one share keep what they have.
func (e *Engine) divide(id job.ID, a *cluster.Alloc, less bool) {
	for i := range a.Shares {
		s := &a.Shares[i]
		part := e.part(id, e.wanted(s.Device))
		if !less {
			part = min(part, s.Milli+int32(e.state.Cluster.DeviceFree(s.Device)))
		}
		if (part < s.Milli) == less {
			s.Milli, s.Throttle = part, 0
		}
	}
}

// RestoreDemand restores running jobs to their full demand after a policy change. The
// previous policy may have throttled them, changed their batch, told them a beat, or confined them to part
// of a device. The new policy may not know how to undo that. RestoreDemand skips jobs that
// the new policy has already decided about, and devices that other jobs share. Call it
// after Resume.
func (e *Engine) RestoreDemand() { e.Order(e.restoreDemand) }

func (e *Engine) restoreDemand(v *sched.View, p *sched.Plan) {
	for j := range v.Running() {
		alloc, r := v.Alloc(j.ID), e.state.Record(j.ID)
		if r.Phase != job.Running || r.Merged != job.Apart || p.Alloc(j.ID) != alloc {
			continue
		}
		free := func(a *cluster.Alloc) {
			for i := range a.Shares {
				a.Shares[i].Throttle, a.Shares[i].Batch = 0, 0
			}
			a.Beat = cluster.Beat{}
		}
		if !p.Adjust(j.ID, func(a *cluster.Alloc) { free(a); e.fill(j.ID, a) }) {
			p.Adjust(j.ID, free)
		}
	}
}

// fill gives a job all that it asks for of nodes, and of the devices that it has for
// itself.
func (e *Engine) fill(id job.ID, a *cluster.Alloc) {
	role := &e.state.Record(id).Job.Demand.Roles[0]
	for i := range a.Shares {
		if s := &a.Shares[i]; e.state.Cluster.Sharers(s.Device) == 1 {
			s.Milli, s.Memory = max(s.Milli, int32(e.whole(id))), max(s.Memory, role.GPUMemory)
		}
	}
	for i := range a.Pieces {
		piece := &a.Pieces[i]
		piece.CPU = max(piece.CPU, role.CPU*unit.Milli(piece.Tasks))
		piece.Memory = max(piece.Memory, role.Memory*unit.Bytes(piece.Tasks))
	}
}
