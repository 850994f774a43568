package engine

import (
	"fmt"

	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/sched"
)

// Copying is a world that can copy data between places. In other worlds data stays where it is.
type Copying interface {
	// Copy carries out an order. The world tells when the nodes of the place have the data, or have it
	// no more (eventlog.NodeLabels).
	Copy(order sched.CopyOrder)
}

// move asks which data is to be copied, and has it copied. It follows a decision of the policy.
func (e *Engine) move() error {
	if e.cfg.Mover == nil || e.can.copies == nil {
		return nil
	}
	v := e.beside()
	e.copies = e.cfg.Mover.Move(&v, e.copies[:0])
	for _, o := range e.copies {
		if o.To <= 0 || int(o.To) >= e.state.Cluster.Domains() || o.Size < 0 || o.Data == "" {
			return fmt.Errorf("data %q of %v cannot be copied to place number %d", o.Data, o.Size, o.To)
		}
		e.can.copies.Copy(o)
	}
	next := e.cfg.Mover.NextWake(&v)
	if next <= e.state.Now {
		return fmt.Errorf("the choice of data to be copied is to be made again at %s, which is not later", unit.Human(next))
	}
	e.rouse = min(e.rouse, next)
	return nil
}

// beside is the view of those who decide something beside the policy.
func (e *Engine) beside() sched.View {
	v := sched.NewView(e.state, nil, false)
	v.Rand, v.Costs, v.Speeds = e.rand, e.cfg.Costs, e.cfg.Speeds
	return v
}
