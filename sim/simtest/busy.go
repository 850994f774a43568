package simtest

import (
	"fmt"
	"math/rand/v2"

	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/place"
	"github.com/norn-scheduler/norn/state"
)

// fits checks that a job that waits finds no room among the GPUs that are idle. It looks for
// as few nodes as can be, with GPUs of one type: any strategy would take those.
func fits(s *state.State, id job.ID) error {
	r := s.Record(id)
	class := s.Class(r.Class)
	if class.NoType || s.PinnedPlace(id) != nil || r.Job.Demand.Milli(r.Job.Demand.Roles[0].Tasks) == 0 {
		return nil
	}
	req := place.Request{
		Cluster: s.Cluster, Demand: r.Job.Demand, Tasks: r.Job.Demand.Roles[0].Tasks, Pool: class.Scope, Mask: r.Mask, Rand: rand.New(rand.NewPCG(0, 0)),
	}
	if _, ok := place.Gang(&req, place.Consolidated); ok {
		return fmt.Errorf("job %s waits (%v) beside idle GPUs on which it fits: %s", r.Job.Key, r.Reason.Code, On(s, &req.Out))
	}
	return nil
}
