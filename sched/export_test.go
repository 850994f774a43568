package sched

import (
	"fmt"
	"strings"
)

// All is everything that a plan remembers, except scratch memory, the answers
// for the empty cluster, and the depth of nested Tries.
func (p *Plan) All() string {
	var out strings.Builder
	for _, op := range p.ops {
		fmt.Fprintf(&out, "%d %v -> %v %v %v\n", op.Job, op.Was, op.Now, op.Why, op.Profile)
	}
	for id, at := range p.opOf {
		if at != 0 {
			fmt.Fprintf(&out, "op of %d at %d\n", id, at)
		}
	}
	fmt.Fprintf(&out, "holds %v, notes %v, merges %v, undo %d\n", p.waits, p.notes, p.merges, len(p.undo))
	fmt.Fprintf(&out, "%d allocs in use, %d frozen, homed %v, why %+v, err %v\n", p.used, p.frozen, p.homed, p.why, p.err)
	return out.String()
}
