package simtest

import (
	"slices"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/eventlog"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/state"
)

// Crowd notes the largest number of jobs that were on one device at a time.
type Crowd struct{ Most int }

// Event implements engine.Sink.
func (c *Crowd) Event(_ *eventlog.Event, s *state.State) {
	count := make([]int, s.Cluster.Devices())
	for p := range s.Cluster.Pools() {
		for id := range s.Running(cluster.PoolID(p)).All() {
			for _, share := range s.Alloc(job.ID(id)).Shares {
				count[share.Device]++
			}
		}
	}
	c.Most = max(c.Most, slices.Max(count))
}
