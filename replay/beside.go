package replay

import (
	"fmt"
	"slices"
	"strings"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/state"
)

// shown is how many of the jobs on a device are named.
const shown = 8

// beside names the jobs that run on the devices of one, as far as it has only a part
// of them; empty when it has them for itself.
func beside(s *state.State, id job.ID) string {
	a := s.Alloc(id)
	if a == nil {
		return ""
	}
	var parts []cluster.DeviceID
	for i := range a.Shares {
		if d := a.Shares[i].Device; s.Cluster.Sharers(d) > 1 {
			parts = append(parts, d)
		}
	}
	if len(parts) == 0 {
		return ""
	}
	var names []string
	more := 0
	for i := range s.Running(s.Record(id).Pool).All() {
		other := job.ID(i)
		if other == id || !slices.ContainsFunc(s.Alloc(other).Shares, func(x cluster.Share) bool { return slices.Contains(parts, x.Device) }) {
			continue
		}
		if len(names) == shown {
			more++
			continue
		}
		names = append(names, s.Record(other).Job.Key)
	}
	if more > 0 {
		names = append(names, fmt.Sprintf("%d more", more))
	}
	if len(names) == 0 {
		return ""
	}
	return ", beside " + strings.Join(names, ", ")
}
