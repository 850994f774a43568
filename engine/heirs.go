package engine

import (
	"fmt"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/sched"
)

// inherit lists the jobs that an earlier policy had share devices, of which the present
// one, as it has nobody share, knows nothing.
func (e *Engine) inherit() {
	e.heirs = e.heirs[:0]
	if !e.cfg.Exclusive {
		return
	}
	for id := range job.ID(e.state.Jobs()) {
		if e.heir(id) {
			e.heirs = append(e.heirs, id)
		}
	}
}

// heir tells whether a job has, or may have again, less of a device than it asks for:
// one that is frozen goes on with what it had.
func (e *Engine) heir(id job.ID) bool {
	switch r := e.state.Record(id); {
	case r.Phase.Over():
		return false
	case r.Phase == job.Running:
		return e.shorn(id)
	case r.Phase == job.Stopping:
		return true
	}
	return e.state.Alloc(id) != nil || e.state.Home(id) != nil
}

// wanted is what those who hold a share of a device ask for of it together.
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

// whole is what a job asks for of each of its devices.
func (e *Engine) whole(id job.ID) unit.Milli {
	return min(unit.One, e.state.Record(id).Job.Demand.Roles[0].GPU)
}

// part is what a job gets of a device for which so much is wanted.
func (e *Engine) part(id job.ID, wanted unit.Milli) int32 {
	return int32(e.whole(id) * unit.One / max(unit.One, wanted))
}

// shorn tells whether a running job has another part of a device than is its, or stands
// still in turns.
func (e *Engine) shorn(id job.ID) bool {
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

// handOver divides devices that are shared still among those who do, by what they ask
// for, so that nobody else is put beside them; and gives who is alone all that it asks
// for. It is a plan of its own: before the policy is asked, and behind what that decides.
func (e *Engine) handOver() error {
	if len(e.heirs) == 0 {
		return nil
	}
	e.view = sched.NewView(e.state, nil, false)
	e.plan.Open(&e.view)
	for _, less := range []bool{true, false} {
		for _, id := range e.heirs {
			if e.shorn(id) {
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
	kept := e.heirs[:0]
	for _, id := range e.heirs {
		if e.heir(id) {
			kept = append(kept, id)
		}
	}
	e.heirs = kept
	return nil
}

// divide gives a job its part of each device where that is less than it has, or where it
// is not.
func (e *Engine) divide(id job.ID, a *cluster.Alloc, less bool) {
	for i := range a.Shares {
		s := &a.Shares[i]
		if part := e.part(id, e.wanted(s.Device)); (part < s.Milli) == less {
			s.Milli, s.Throttle = part, 0
		}
	}
}

// LetGo has running jobs have what they ask for that an earlier policy than the present
// one had throttled, told another batch, or kept to a part of it, as far as nobody else is
// there: who does not know of such things would never do it. It leaves alone of whom the
// present policy has already decided. It is for a change of policy, behind Resume.
func (e *Engine) LetGo() { e.Order(e.letGo) }

func (e *Engine) letGo(v *sched.View, p *sched.Plan) {
	for j := range v.Running() {
		held, r := v.Alloc(j.ID), e.state.Record(j.ID)
		if r.Phase != job.Running || r.Merged != job.Apart || p.Holding(j.ID) != held {
			continue
		}
		free := func(a *cluster.Alloc) {
			for i := range a.Shares {
				a.Shares[i].Throttle, a.Shares[i].Batch = 0, 0
			}
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
